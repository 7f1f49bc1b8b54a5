package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/natsembed"
	"lcm/natslog"
	"lcm/natsmicro"
)

// overWire is what forwarding makes of a request: what is not JSON is gone.
func overWire(t testing.TB, q api.AppendRequest) api.AppendRequest {
	t.Helper()
	data, err := json.Marshal(q)
	var out api.AppendRequest
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pair is an ingestor that forwards to another one over one log.
func pair(t *testing.T, forward func(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error)) (holder *world, other *Service, asked *atomic.Int64) {
	t.Helper()
	holder, asked = start(t), new(atomic.Int64)
	other, err := New(Config{ForwardTimeout: 50 * time.Millisecond, Backoff: time.Microsecond}, Deps{
		Log: holder.log, Lookup: newProjection("E", holder.log.all).lookup, Measures: quickMeasures, Name: "other",
		Clock: func() time.Time { return time.Unix(1, 0) },
		Forward: func(ctx context.Context, name string, q []api.AppendRequest) ([]api.Forwarded, error) {
			asked.Add(1)
			if name != "holder" || len(q) != 1 {
				t.Errorf("%d requests forwarded to %q", len(q), name)
			}
			reply, err := forward(ctx, holder.svc, overWire(t, q[0]))
			return []api.Forwarded{{Reply: reply}}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = other.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	other.SetCommitter("holder")
	return holder, other, asked
}

func appendForwarded(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error) {
	out, err := to.AppendForwarded(ctx, []api.AppendRequest{q})
	if err == nil && out[0].Error != "" {
		err = errors.New(out[0].Error)
	}
	return out[0].Reply, err
}

func TestForward(t *testing.T) {
	direct := func(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error) {
		return appendForwarded(ctx, to, q)
	}
	tests := []struct {
		name    string
		forward func(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error)
		asked   int64 // of two appends
	}{
		{"the holder commits", direct, 2},
		{"it answers too late, and has stored it", func(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error) {
			_, _ = appendForwarded(ctx, to, q)
			<-ctx.Done()
			return nil, ctx.Err()
		}, 1},
		{"it never got it", func(ctx context.Context, _ *Service, _ api.AppendRequest) (*api.AppendReply, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 1},
		{"it is gone", func(context.Context, *Service, api.AppendRequest) (*api.AppendReply, error) {
			return nil, fmt.Errorf("nobody: %w", api.ErrLogUnavailable)
		}, 1},
		{"it answers nonsense", func(context.Context, *Service, api.AppendRequest) (*api.AppendReply, error) {
			return &api.AppendReply{}, nil
		}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			holder, other, asked := pair(t, tt.forward)
			holder.append(t, "s", said("first", "x")) // a lane of the holder's
			for i := range 2 {
				bad := said(strings.Repeat("i", 600), "an id that is too long")
				r, err := other.Append(context.Background(), api.AppendRequest{Ref: ref("s"), Writes: []api.Write{said(fmt.Sprint("a", i), "y"), bad, said(fmt.Sprint("b", i), "z")}})
				if err != nil {
					t.Fatal(err)
				}
				w := r.Written
				if w[0].Entry != uint64(2+2*i) || w[2].Entry != uint64(3+2*i) || w[0].Duplicate || w[2].Duplicate || w[1].Code != "invalid" || r.Token.Seq < w[2].Token.Seq {
					t.Errorf("append %d: %+v", i, r)
				}
			}
			again, err := other.Append(context.Background(), api.AppendRequest{Ref: ref("s"), Writes: []api.Write{said("a0", "y")}})
			if err != nil || !again.Written[0].Duplicate && tt.asked == 2 && tt.name == "the holder commits" || again.Written[0].Entry != 2 {
				t.Errorf("again: %+v, %v", again, err)
			}
			if n := asked.Load(); n < tt.asked || tt.asked == 1 && n > 1 {
				t.Errorf("the holder was asked %d times", n)
			}
			holder.append(t, "s", said("last", "x")) // its lane is behind the other's events
			if h := holder.head(t, "s"); h.Entries != 6 {
				t.Errorf("%d entries", h.Entries)
			}
		})
	}
}

// A turn is a file by its session's limit, not by the forwarder's default.
func TestForwardPreparesForTheSession(t *testing.T) {
	holder, other, _ := pair(t, func(ctx context.Context, to *Service, q api.AppendRequest) (*api.AppendReply, error) {
		if !q.Writes[0].Turn.Prepared {
			t.Error("forwarded unprepared")
		}
		return appendForwarded(ctx, to, q)
	})
	if _, err := holder.svc.Configure(context.Background(), api.ConfigureRequest{Ref: ref("s"), Set: map[string]any{"large_file_chars": 2000}}); err != nil {
		t.Fatal(err)
	}
	call := api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: "call", Role: events.RoleAssistant, Blocks: []events.Block{{Type: events.BlockToolUse, CallID: "c", Name: "read", Input: `{"path":"a.txt"}`}}}}}
	result := api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: "result", Role: events.RoleTool, Blocks: []events.Block{{Type: events.BlockToolResult, CallID: "c", Text: strings.Repeat("line\n", 1000)}}}}}
	if _, err := other.Append(context.Background(), api.AppendRequest{Ref: ref("s"), Writes: []api.Write{call, result}}); err != nil {
		t.Fatal(err)
	}
	recs := holder.log.all()
	turn, err := events.DecodeTurn(recs[len(recs)-1].Data)
	if err != nil || len(turn.Files) != 1 || turn.Files[0].Path != "a.txt" {
		t.Errorf("files %+v, %v", turn.Files, err)
	}
}

func (s *Service) committerName() string {
	s.forwarding.mu.Lock()
	defer s.forwarding.mu.Unlock()
	return s.forwarding.holder
}

// replica is an ingestor as a process of its own would be: its connection, its
// lease, its endpoint.
type replica struct {
	svc  *Service
	kill func()
}

func openReplica(t *testing.T, s *natsembed.Server, name string, p *projection, f *follower) *replica {
	t.Helper()
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	l, err := natslog.Open(context.Background(), nc, natslog.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	svc, err := New(Config{ForwardTimeout: 200 * time.Millisecond}, Deps{
		Log: l, Measures: quickMeasures, Name: name,
		Lookup: func(ctx context.Context, r api.LookupRequest) (*api.LookupReply, error) {
			if err := f.wait(ctx, r.Token.Seq); err != nil {
				return nil, err
			}
			return p.lookup(ctx, r)
		},
		Forward: func(ctx context.Context, to string, q []api.AppendRequest) ([]api.Forwarded, error) {
			return natsmicro.Forward(ctx, nc, to, q)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsmicro.ServeCommits(nc, name, svc.AppendForwarded, natsmicro.Options{Name: "ingestor", Version: "0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error { _ = svc.Run(ctx); return nil })
	g.Go(func() error { _ = l.Lease(ctx, name, svc.SetCommitter); return nil })
	r := &replica{svc: svc}
	killed := false
	r.kill = func() { // nothing is given back, nobody is answered
		if killed {
			return
		}
		killed = true
		nc.Close()
		cancel()
		_ = g.Wait()
		stopped, end := context.WithCancel(context.Background())
		end()
		_ = srv.Stop(stopped)
	}
	t.Cleanup(r.kill)
	return r
}

// Two ingestors, sessions at random, the holder of the lease killed under
// load: every acknowledged turn is there once, and the chains are whole.
func TestLeaseHolderKilled(t *testing.T) {
	s, err := natsembed.Start(natsembed.Options{Dir: t.TempDir(), Unsynced: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	l, err := natslog.Open(context.Background(), nc, natslog.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{arrived: make(chan struct{})}
	fctx, stop := context.WithCancel(context.Background())
	followed := make(chan struct{})
	go func() { defer close(followed); _ = l.Follow(fctx, 0, f.handle) }()
	t.Cleanup(func() { stop(); <-followed })
	p := newProjection(l.Epoch(), f.all)

	a := openReplica(t, s, "A", p, f)
	for a.svc.committerName() != "A" {
		time.Sleep(time.Millisecond)
	}
	b := openReplica(t, s, "B", p, f)
	for b.svc.committerName() != "A" {
		time.Sleep(time.Millisecond)
	}
	const sessions, turns = 8, 40
	var acked [sessions]map[string]api.Written
	var g errgroup.Group
	for i := range sessions {
		acked[i] = map[string]api.Written{}
		g.Go(func() error {
			for n := range turns {
				if i == 0 && n == turns/2 {
					a.kill()
				}
				// Every turn over both replicas, as a client that times out would.
				for _, r := range []*replica{a, b} {
					ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
					out, err := r.svc.Append(ctx, api.AppendRequest{Ref: ref(fmt.Sprint("s", i)), Writes: []api.Write{said(fmt.Sprint("m", n), "x")}})
					cancel()
					if r == a && err != nil {
						continue // dead, or dying
					}
					if err != nil {
						return err
					}
					w := out.Written[0]
					if have, ok := acked[i][w.ID]; w.Error != "" || ok && (have.Entry != w.Entry || have.Token != w.Token) {
						return fmt.Errorf("session %d: %+v, before %+v", i, w, have)
					}
					acked[i][w.ID] = w
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	last, err := l.LastSeq(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := f.wait(wctx, last); err != nil {
		t.Fatal(err)
	}
	for i := range sessions {
		reply, err := p.lookup(context.Background(), api.LookupRequest{Ref: ref(fmt.Sprint("s", i))})
		if err != nil || reply.Head.Entries != turns || len(acked[i]) != turns {
			t.Errorf("session %d has %d entries, %d acknowledged, %v", i, reply.Head.Entries, len(acked[i]), err)
		}
	}
	if len(p.rejected) > 0 {
		t.Errorf("rejected: %v", p.rejected)
	}
	deadline := time.Now().Add(10 * time.Second) // the lease ends by itself
	for b.svc.committerName() != "B" {
		if time.Now().After(deadline) {
			t.Fatal(errors.New("the lease of a dead holder has not passed on"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Requests that come while messages are under way share the next one, and each
// gets its own answer.
func TestForwardsShareMessages(t *testing.T) {
	f := newForwards()
	release := make(chan struct{})
	var messages, under atomic.Int64
	message := func(_ context.Context, holder string, batch []*forwarded) {
		messages.Add(1)
		under.Add(int64(len(batch)))
		<-release
		for _, one := range batch {
			one.answer <- forwardAnswer{reply: &api.AppendReply{Written: []api.Written{{ID: holder + one.q.Ref.Session}}}}
		}
	}
	const n = 200
	var g errgroup.Group
	for i := range n {
		g.Go(func() error {
			name := fmt.Sprint(i)
			r, err := f.send(context.Background(), "h", api.AppendRequest{Ref: ref(name)}, message)
			if err != nil || r.Written[0].ID != "h"+name {
				return fmt.Errorf("request %s: %+v, %w", name, r, err)
			}
			return nil
		})
	}
	for all := 0; all < n; time.Sleep(time.Millisecond) { // those under way, and those who wait
		f.mu.Lock()
		all = int(under.Load()) + len(f.queue)
		f.mu.Unlock()
	}
	close(release)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if m := messages.Load(); m > 6 {
		t.Errorf("%d messages", m)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.send(cancelled, "h", api.AppendRequest{}, func(context.Context, string, []*forwarded) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
}
