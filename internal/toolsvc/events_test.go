package toolsvc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lcm/events"
	"lcm/internal/api"
)

// pages counts what was read for a follower.
type pages struct {
	Reads
	turns, asked int
}

func (p *pages) Sessions(context.Context, api.SessionsRequest) (*api.SessionsReply, error) {
	return &api.SessionsReply{Sessions: []api.SessionRow{{Session: "s", Entries: uint64(p.turns)}}}, nil
}

func (p *pages) Turns(_ context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	p.asked++
	r := &api.TurnsReply{}
	for n := q.Ranges[0].First; n <= q.Ranges[0].Last && len(r.Turns) < q.Limit; n++ {
		t := api.StoredTurn{Payload: []byte(`{"id":"t","role":"user","text":"x"}`)}
		t.Entry.N, t.Entry.Seq = n, n
		r.Turns = append(r.Turns, t)
	}
	return r, nil
}

// grown is a log with so many events.
type grown struct {
	fakeLog
	last uint64
}

func (g grown) LastOf(context.Context, string) (uint64, error) { return g.last, nil }

// taking is a client that takes so many writes.
type taking struct {
	said strings.Builder
	left int
}

func (w *taking) String() string { return w.said.String() }

func (w *taking) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("gone")
	}
	return w.said.Write(b)
}

func following(r Reads, l Log, w *taking) *follower {
	s := &Service{c: DefaultConfig(), d: Deps{Reads: r, Log: l}}
	return &follower{s: s, ref: events.Ref{Tenant: "t", Session: "s"}, w: &eventWriter{w: w, limit: func(time.Time) {}}}
}

// A silent stream shows that it is alive.
func TestEventsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*eventBeat+time.Second)
		defer cancel()
		w := &taking{left: 100}
		err := following(&pages{}, grown{}, w).run(ctx, nil)
		if beats := strings.Count(w.String(), ": beat\n\n"); !errors.Is(err, context.DeadlineExceeded) || beats != 4 {
			t.Errorf("%d beats, %v: %q", beats, err, w.String())
		}
	})
}

// Who stops reading is let go, and nothing was read ahead for it but a page.
func TestEventsHoldNothingForWhoStalls(t *testing.T) {
	p := &pages{turns: 100_000}
	w := &taking{left: 2 + eventPage + eventPage/2} // the head, and a page and a half
	err := following(p, grown{last: 100_000}, w).run(t.Context(), nil)
	if err == nil || p.asked != 2 || strings.Count(w.String(), "event: turn\n") != eventPage+eventPage/2 {
		t.Errorf("%d pages read for %d events: %v", p.asked, strings.Count(w.String(), "event: turn\n"), err)
	}
}
