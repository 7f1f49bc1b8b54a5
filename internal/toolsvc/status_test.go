package toolsvc

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lcm/internal/api"
)

// sound is Reads without a fault; since when a session waits is its own.
type sound struct {
	Reads
	due *time.Time
}

func (s sound) Status(context.Context) (*api.StatusReply, error) {
	return &api.StatusReply{Due: 1, OldestDue: s.due}, nil
}

func (sound) Doctor(context.Context, api.DoctorRequest) (*api.DoctorReply, error) {
	return &api.DoctorReply{OK: true}, nil
}

// Structure that is sound is not enough: doctor is red while the inbox or the
// condensers stand still, and green while they work off what there is.
func TestDoctorSeesStandstill(t *testing.T) {
	minutes := func(n int) *time.Time { at := time.Now().Add(-time.Duration(n) * time.Minute); return &at }
	for _, tt := range []struct {
		name    string
		waiting uint64
		oldest  int // minutes
		moves   bool
		due     int
		breaker string
		fault   string // the check that fails
	}{
		{name: "nothing to do"},
		{name: "messages just came", waiting: 5},
		{name: "inbox stands still", waiting: 5, oldest: 3, fault: "inbox"},
		{name: "a long queue that moves", waiting: 5000, oldest: 30, moves: true},
		{name: "waits for a summary", due: 2},
		{name: "nobody condenses", due: 20, fault: "condensing"},
		{name: "model down", breaker: "outage"},
		{name: "key refused", breaker: "refused", fault: "condensing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := uint64(7)
				s, err := New(DefaultConfig(), Deps{
					Log: fakeLog{}, Dead: noDead{}, Reads: sound{due: minutes(tt.due)},
					State: func(context.Context) (*api.LogState, error) {
						if tt.moves {
							first++
						}
						return &api.LogState{InboxWaiting: tt.waiting, InboxFirst: first, InboxOldest: minutes(tt.oldest)}, nil
					},
					Models: func(context.Context) []api.ModelProcess {
						return []api.ModelProcess{{Process: "p", Models: []api.ModelState{{Model: "m", Breaker: tt.breaker}}}}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Doctor(api.WithCaller(t.Context(), api.Operator()), api.DoctorIn{})
				if err != nil {
					t.Fatal(err)
				}
				var faults []string
				for _, c := range r.Checks {
					if !c.OK {
						faults = append(faults, c.Name)
					}
				}
				if got := strings.Join(faults, " "); got != tt.fault || r.OK != (tt.fault == "") {
					t.Errorf("faults %q, want %q: %+v", got, tt.fault, r)
				}
			})
		})
	}
}

// What other tenants spend is none of a caller's business.
func TestSpendingOfOthersIsNotShown(t *testing.T) {
	s, err := New(DefaultConfig(), Deps{Models: func(context.Context) []api.ModelProcess {
		return []api.ModelProcess{{Process: "p", Spending: &api.Spending{TokensLastHour: 30, Tenants: []api.TenantSpending{{Tenant: "a", TokensLastHour: 20}, {Tenant: "b", TokensLastHour: 10}}}}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	all := s.models(api.WithCaller(t.Context(), api.Operator()))[0].Spending
	own := s.models(api.WithCaller(t.Context(), api.Caller{Tenant: "b"}))[0].Spending
	if len(all.Tenants) != 2 || all.TokensLastHour != 30 || len(own.Tenants) != 1 || own.TokensLastHour != 10 {
		t.Errorf("%+v %+v", all, own)
	}
}
