package toolsvc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
)

const (
	// stateWithin bounds how long status waits for what it can do without.
	stateWithin = 2 * time.Second
	// inboxPatience is how long a message may wait in the inbox before doctor
	// watches whether anything moves there, and inboxWatch how long it watches.
	inboxPatience = 30 * time.Second
	inboxWatch    = 3 * time.Second
	// debtPatience is how long a session may wait for condensing.
	debtPatience = 10 * time.Minute
)

// Status reports health, lag, debt and sizes.
func (s *Service) Status(ctx context.Context, in api.StatusIn) (*api.SystemStatus, error) {
	if err := s.await(ctx, &in.Scope); err != nil {
		return nil, err
	}
	st, err := s.d.Reads.Status(ctx)
	if err != nil {
		return nil, err
	}
	out := &api.SystemStatus{StatusReply: *shared(ctx, st), Models: s.models(ctx)}
	if c, _ := api.CallerOf(ctx); c.Operator && s.d.State != nil {
		sctx, cancel := context.WithTimeout(ctx, stateWithin)
		defer cancel()
		out.Log, _ = s.d.State(sctx) // what cannot be read is left out
	}
	return out, nil
}

// shared is what a caller is told of the state: sizes are of every tenant, so the
// operator's alone.
func shared(ctx context.Context, st *api.StatusReply) *api.StatusReply {
	if c, _ := api.CallerOf(ctx); c.Operator {
		return st
	}
	return &api.StatusReply{
		Epoch: st.Epoch, Partitions: st.Partitions, LogSeq: st.LogSeq,
		Applied: st.Applied, Indexed: st.Indexed, Lag: st.Lag, IndexLag: st.IndexLag,
	}
}

// models tells about the models, and about spending what concerns the caller.
func (s *Service) models(ctx context.Context) []api.ModelProcess {
	if s.d.Models == nil {
		return []api.ModelProcess{}
	}
	sctx, cancel := context.WithTimeout(ctx, stateWithin)
	defer cancel()
	out := s.d.Models(sctx)
	if c, ok := api.CallerOf(ctx); !ok || !c.Operator {
		for i, p := range out {
			if p.Spending == nil {
				continue
			}
			own := *p.Spending
			own.Tenants = slices.DeleteFunc(slices.Clone(own.Tenants), func(t api.TenantSpending) bool { return t.Tenant != c.Tenant })
			own.TokensLastHour = 0
			for _, t := range own.Tenants {
				own.TokensLastHour += t.TokensLastHour
			}
			out[i].Spending = &own
		}
	}
	return out
}

// Doctor runs the invariant checks, and whether what was acknowledged and what
// is due gets done. Rows that cannot be read are what it is there for: they do
// not keep it from starting.
func (s *Service) Doctor(ctx context.Context, in api.DoctorIn) (*api.DoctorReply, error) {
	if err := s.await(ctx, &in.Scope); err != nil && !problem.IsCode(err, problem.Damaged) {
		return nil, err
	}
	r, err := s.d.Reads.Doctor(ctx, api.DoctorRequest{Deep: in.Deep, Repair: in.Repair})
	if err != nil {
		return nil, err
	}
	r.Checks = append(r.Checks, s.checkStreams(), s.checkInbox(ctx), s.checkDebt(ctx), s.checkDead(ctx))
	for _, c := range r.Checks {
		r.OK = r.OK && c.OK
	}
	return r, nil
}

// checkStreams: what is appended can be stored.
func (s *Service) checkStreams() api.Check {
	c := api.Check{Name: "streams", OK: true, Detail: "they take what is appended"}
	if s.d.Streams == nil {
		c.Detail = "not looked at"
	} else if why := s.d.Streams(); why != "" {
		c.OK, c.Detail = false, "they take nothing until their disk can be written again: "+why
	}
	return c
}

// checkInbox: what waits there is taken.
func (s *Service) checkInbox(ctx context.Context) api.Check {
	c := api.Check{Name: "inbox", OK: true, Detail: "nothing waits"}
	if s.d.State == nil {
		c.Detail = "not looked at"
		return c
	}
	var first uint64
	for end := time.Now().Add(inboxWatch); ; {
		st, err := s.d.State(ctx)
		if err != nil {
			c.OK, c.Detail = false, err.Error()
			return c
		}
		if st.InboxWaiting == 0 || st.InboxOldest == nil {
			return c
		}
		age := time.Since(*st.InboxOldest).Round(time.Second)
		c.Detail = fmt.Sprintf("%d messages wait, the oldest for %s", st.InboxWaiting, age)
		if age < inboxPatience || first != 0 && st.InboxFirst != first {
			return c
		}
		if first = st.InboxFirst; time.Now().After(end) {
			c.OK = false
			c.Detail += fmt.Sprintf(", and it stands still at position %d: is an ingestor running, and what does it log?", first)
			return c
		}
		_ = await.Sleep(ctx, inboxWatch/10) // the loop looks at ctx
	}
}

// checkDebt: sessions that are due get condensed, and no model refuses us.
func (s *Service) checkDebt(ctx context.Context) api.Check {
	c := api.Check{Name: "condensing", OK: true}
	st, err := s.d.Reads.Status(ctx)
	if err != nil {
		c.OK, c.Detail = false, err.Error()
		return c
	}
	c.Detail = fmt.Sprintf("%d sessions over their threshold", st.Due)
	if st.OldestDue != nil {
		age := time.Since(*st.OldestDue).Round(time.Second)
		c.Detail += fmt.Sprintf(", the first waits for %s", age)
		if age > debtPatience {
			c.OK = false
			c.Detail += ": is a condenser running, and what does it log?"
		}
	}
	for _, p := range s.models(ctx) {
		for _, m := range p.Models {
			if m.Breaker != "" {
				c.Detail += fmt.Sprintf("; %s is not called (%s): %s", m.Model, m.Breaker, m.LastError)
			}
			c.OK = c.OK && m.Breaker != "refused" // key, model or URL: it does not pass by itself
		}
		if p.Spending == nil {
			continue
		}
		var spent []string
		for _, t := range p.Spending.Tenants {
			if t.Spent {
				spent = append(spent, t.Tenant)
			}
		}
		if spent != nil {
			c.Detail += "; spent for this hour: " + strings.Join(spent, ", ")
		}
	}
	return c
}

// checkDead: refused input is kept and listable, worth a look, no damage.
func (s *Service) checkDead(ctx context.Context) api.Check {
	c := api.Check{Name: "dead letters", OK: true, Detail: "none"}
	letters, err := s.d.Dead.Dead(ctx, nil, 0, 1)
	switch {
	case err != nil:
		c.OK, c.Detail = false, err.Error()
	case len(letters) > 0:
		c.Detail = "there are some: `lcm dead list`"
	}
	return c
}
