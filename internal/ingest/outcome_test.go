package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/natsembed"
	"lcm/natslog"
)

// faulty is a publisher whose next answers are errors, given before or after
// the effect.
type faulty struct {
	next natslog.Publisher

	mu    sync.Mutex
	err   error
	after bool // stored all the same
	left  int  // how many answers
	hits  int
}

func (f *faulty) set(err error, after bool, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.after, f.left, f.hits = err, after, times, 0
}

func (f *faulty) answer(store func() (uint64, error)) (uint64, error) {
	f.mu.Lock()
	broken := f.left > 0
	if broken {
		f.left--
		f.hits++
	}
	err, after := f.err, f.after
	f.mu.Unlock()
	if !broken {
		return store()
	}
	if after {
		if _, serr := store(); serr != nil {
			return 0, fmt.Errorf("the effect failed: %w", serr)
		}
	}
	return 0, err
}

func (f *faulty) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	return f.answer(func() (uint64, error) { return f.next.Publish(ctx, m) })
}

func (f *faulty) PublishBatch(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	return f.answer(func() (uint64, error) { return f.next.PublishBatch(ctx, msgs) })
}

func code(c jetstream.ErrorCode) error {
	return &jetstream.APIError{Code: 400, ErrorCode: c, Description: "injected"}
}

// Answers of a server of either topology, each before and after the effect:
// an append ends as stored at a position, as known at one, as a conflict with
// other content, or as failed and safe to send again.
func TestOutcomes(t *testing.T) {
	srv, err := natsembed.Start(natsembed.Options{Dir: t.TempDir(), Unsynced: true, MaxPayload: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Conn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	f := &faulty{}
	n := startOn(t, nc, natslog.Options{Create: true, Wrap: func(p natslog.Publisher) natslog.Publisher { f.next = p; return f }},
		Config{Backoff: time.Millisecond, Tries: 4}, false)
	answers := []struct {
		name string
		err  error
	}{
		{"10071 wrong last sequence", code(10071)},
		{"10164 wrong last sequence, R3", code(10164)},
		{"10201 duplicate id in a batch", code(10201)},
		{"10210 too many batches in flight", code(10210)},
		{"10077 store failed", code(10077)},
		{"timeout", context.DeadlineExceeded},
		{"connection closed", nats.ErrConnectionClosed},
	}
	for _, a := range answers {
		for _, after := range []bool{false, true} {
			for _, how := range []struct {
				name string
				size int // turns
				text string
			}{
				{"1 turn", 1, "x"},
				{"20 turns", 20, "x"}, // a batch
				{"1 large turn", 1, strings.Repeat("x", events.InlineBytes+1)},
			} {
				t.Run(fmt.Sprintf("%s/after %v/%s", a.name, after, how.name), func(t *testing.T) {
					size := how.size
					f.set(nil, false, 0)
					ctx := testContext(t)
					r := ref(t.Name())
					send := func(from, to int, text string) ([]api.Written, error) {
						q := api.AppendRequest{Ref: r}
						for i := from; i < to; i++ {
							q.Writes = append(q.Writes, said(fmt.Sprint(i), text))
						}
						out, err := n.svc.Append(ctx, q)
						if err != nil {
							return nil, err
						}
						return out.Written, nil
					}
					if _, err := send(0, 1, "x"); err != nil {
						t.Fatal(err)
					}
					f.set(a.err, after, 1)
					first, err := send(1, 1+size, how.text)
					if err != nil || f.hits != 1 {
						t.Fatalf("%d faults, %v", f.hits, err)
					}
					for i, w := range first {
						// A refusal that came after the effect makes the retry find its own turns.
						if w.Error != "" || w.Entry != uint64(i+2) || w.Token.Seq == 0 || w.Duplicate && !after {
							t.Errorf("turn %d: %+v", i, w)
						}
					}
					known, err := send(1, 1+size, how.text)
					if err != nil {
						t.Fatal(err)
					}
					for i, w := range known {
						if !w.Duplicate || w.Token != first[i].Token || w.Entry != first[i].Entry {
							t.Errorf("again: %+v, first %+v", w, first[i])
						}
					}
					other, err := send(1, 2, "other content")
					if err != nil || other[0].Code != string(problem.Conflict) {
						t.Errorf("other content: %+v, %v", other, err)
					}
					// A fault that stays: an error that says so, and nothing doubled.
					f.set(a.err, after, 1000)
					if _, err := send(1+size, 1+2*size, how.text); err != nil && !problem.IsCode(err, problem.Unavailable) {
						t.Errorf("a fault that stays: %v", err)
					}
					f.set(nil, false, 0)
					if _, err := send(1+size, 1+2*size, how.text); err != nil {
						t.Fatal(err)
					}
					n.oneOfEach(t, r, uint64(1+2*size))
				})
			}
		}
	}
}

// oneOfEach checks that a session has so many entries in the log, none twice,
// and that the fold accepts everything.
func (n *node) oneOfEach(t *testing.T, r events.Ref, entries uint64) {
	t.Helper()
	ctx := testContext(t)
	last, err := n.log.LastOf(ctx, events.Subject(events.LaneTimeline, r, n.log.Partitions()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.svc.d.Lookup(ctx, api.LookupRequest{Ref: r, Token: events.Position{Seq: last}}); err != nil {
		t.Fatal(err)
	}
	reply, err := n.proj.lookup(ctx, api.LookupRequest{Ref: r, Token: events.Position{Seq: last}})
	if err != nil || reply.Head.Entries != entries || reply.Head.Timeline.Version != entries+1 { // and the settings
		t.Errorf("%d entries, version %d, want %d (%v)", reply.Head.Entries, reply.Head.Timeline.Version, entries, err)
	}
	if len(n.proj.rejected) > 0 {
		t.Error(errors.New("rejected"), n.proj.rejected)
	}
}
