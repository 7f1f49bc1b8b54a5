package projector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Sessions as they were, by position and by time: each row is what the list
// said then, also when the rows were made anew.
func TestSessionsAt(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log).start()
	list := func(at string) []api.SessionRow {
		t.Helper()
		r, err := f.Sessions(within(t), api.SessionsRequest{Tenant: "acme", At: at, Token: f.end()})
		must(t, err)
		return r.Sessions
	}
	type moment struct {
		seq  uint64
		when time.Time
		rows []api.SessionRow
	}
	var past []moment
	keep := func() {
		past = append(past, moment{f.end().Seq, log.now, list("")})
	}
	log.configure(ref("a"), nil)
	keep()
	log.say(ref("a"), events.RoleUser, "one")
	log.say(ref("b"), events.RoleUser, "elsewhere")
	keep()
	library(log)
	keep()
	log.event(ref("library"), &events.LeafMoved{Entry: 13})
	log.configure(ref("a"), func(s *events.Settings) { s.Window = 64_000 })
	log.event(ref("a"), &events.LeafMoved{Entry: 9}) // rejected
	keep()
	log.say(ref("library"), events.RoleUser, "and then?")
	same := func(when string) {
		t.Helper()
		for i, m := range past {
			for _, at := range []string{fmt.Sprintf("@%d", m.seq), m.when.Format(time.RFC3339Nano)} {
				got := list(at)
				for k := range got { // moves and settings leave no trace of their time
					got[k].Updated = time.Time{}
				}
				want := append([]api.SessionRow(nil), m.rows...)
				for k := range want {
					want[k].Updated = time.Time{}
				}
				if at[0] != '@' { // rejected events leave no trace of theirs
					for k := range got {
						got[k].Rejected, want[k].Rejected = 0, 0
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, moment %d at %s: %s", when, i, at, diff)
				}
			}
		}
	}
	same("later")
	_, err := f.Rebuild(within(t), api.RebuildRequest{Store: true})
	must(t, err)
	same("after a rebuild")
	for _, at := range []string{"e1", "yesterday", "@0", "@9999"} {
		if _, err := f.Sessions(within(t), api.SessionsRequest{Tenant: "acme", At: at}); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A file as it was: before its turn there is none.
func TestFileAt(t *testing.T) {
	log := newLog("E1")
	rf, cut := library(log)
	f := setup(t, log).start()
	r, err := f.Turns(within(t), api.TurnsRequest{Ref: rf, Ranges: []events.Range{{First: 10, Last: 10}}, Token: f.end()})
	must(t, err)
	id, seq := r.Turns[0].Entry.Files[0], r.Turns[0].Entry.Seq
	if got, err := f.File(within(t), api.FileRequest{Ref: rf, ID: id, At: cut.Seq}); err != nil || got.Entry != 10 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := f.File(within(t), api.FileRequest{Ref: rf, ID: id, At: seq - 1}); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("before its turn: %v", err)
	}
}
