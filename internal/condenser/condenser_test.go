package condenser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/window"
)

func TestCondense(t *testing.T) {
	w := newWorld(t)
	w.talk(60, 220) // 15,000 tokens of budget: async
	w.pageSize = 3
	s := w.service(model(good))
	out, err := s.Condense(t.Context(), w.ref, w.token())
	if err != nil {
		t.Fatal(err)
	}
	v := w.check()
	if !out.Compacted || out.Nodes == 0 || out.Cut != 1 || out.Session != "s" || out.TokensAfter >= out.TokensBefore {
		t.Errorf("%+v", out)
	}
	if n := window.ContextTokens(v); n != out.TokensAfter || n > v.Settings.Share(0.45) {
		t.Errorf("the context has %d tokens, the report says %d", n, out.TokensAfter)
	}
	again, err := s.Condense(t.Context(), w.ref, w.token())
	if err != nil || again.Compacted || again.Nodes != 0 || again.Stop == "" {
		t.Errorf("%+v, %v: want nothing done, with a reason", again, err)
	}
}

func TestPassiveSessionCallsNobody(t *testing.T) {
	w := newWorld(t)
	w.talk(10, 100)
	s := w.service(model(func(context.Context, condense.Request) (condense.Response, error) {
		t.Error("a model was called")
		return condense.Response{}, errBoom
	}))
	out, err := s.Condense(t.Context(), w.ref, w.token())
	if err != nil || out.Stop != condense.StopPassive || out.Compacted || w.commits != 0 {
		t.Errorf("%+v, %v, %d commits", out, err, w.commits)
	}
}

func TestLongSessionGrowsADAG(t *testing.T) {
	w := newWorld(t)
	s := w.service(model(good))
	for range 30 {
		w.talk(25, 220)
		if res := s.Handle(t.Context(), api.Task{Ref: w.ref, Position: w.token()}); res.Retry != 0 {
			t.Fatalf("retry after %s", res.Retry)
		}
	}
	v := w.check()
	deepest := 0
	for _, d := range v.Frontier {
		deepest = max(deepest, d.Depth)
	}
	if deepest < 1 || window.ContextTokens(v) > v.Settings.Budget() {
		t.Errorf("depth %d, %d tokens", deepest, window.ContextTokens(v))
	}
}

func TestTwoCondensersMakeOneNodePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(60, 220)
		var calls atomic.Int32
		slow := model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			time.Sleep(time.Duration(1+calls.Add(1)%3) * time.Second)
			return good(ctx, r)
		})
		var wg sync.WaitGroup
		compacted := [3]bool{}
		for i := range 3 {
			s := w.service(slow)
			wg.Go(func() {
				out, err := s.Condense(t.Context(), w.ref, w.token())
				if err != nil {
					t.Error(err)
				}
				compacted[i] = out.Compacted
			})
		}
		wg.Wait()
		w.check() // nothing was rejected: no duplicate was even published
		if k := w.kinds(); k[events.TypeCutCommitted] != 1 {
			t.Errorf("%d cuts", k[events.TypeCutCommitted])
		}
	})
}

func TestLeavesRunAtOnceAndCommitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(60, 220)
		var calls, busy, most atomic.Int32
		s := w.service(model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			most.Store(max(most.Load(), busy.Add(1)))
			defer busy.Add(-1)
			time.Sleep(time.Duration(20-calls.Add(1)) * time.Second) // later ones answer first
			return good(ctx, r)
		}), func(c *Config) { c.Concurrency = 3 })
		start := time.Now()
		out, err := s.Condense(t.Context(), w.ref, w.token())
		if err != nil || out.Nodes < 4 {
			t.Fatal(out, err)
		}
		if most.Load() != 3 {
			t.Errorf("%d at once, want 3", most.Load())
		}
		if d := time.Since(start); d > time.Duration(out.Nodes)*10*time.Second {
			t.Errorf("%d nodes took %s", out.Nodes, d)
		}
		w.check()
		first := uint64(0)
		for n := uint64(1); n <= uint64(out.Nodes); n++ {
			d, err := w.reader().Node(n)
			if err != nil || d.First <= first {
				t.Errorf("#%d starts at e%d, the one before at e%d (%v)", n, d.First, first, err)
			}
			first = d.First
		}
	})
}

// TestDiesAtEveryStep fails the n-th commit before and after its effect, for
// every n, and lets another condenser go on. All ways end in the same leaves,
// but for the last ones: with short summaries at hand fewer may be needed.
func TestDiesAtEveryStep(t *testing.T) {
	run := func(t *testing.T, at int, store bool, fault error) (*world, int) {
		w := newWorld(t)
		w.talk(60, 220)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.fault = func(n int) (bool, error) {
			if n == at {
				cancel()
				return store, fault
			}
			return true, nil
		}
		_, _ = w.service(model(good)).Condense(ctx, w.ref, w.token())
		w.fault = nil
		if _, err := w.service(model(good)).Condense(t.Context(), w.ref, w.token()); err != nil {
			t.Errorf("second condenser: %v", err)
		}
		w.check()
		return w, w.commits
	}
	ideal, commits := run(t, 0, true, nil)
	spans := func(w *world) map[string]bool {
		out := map[string]bool{}
		for n := uint64(1); n <= w.fold.Head().Nodes; n++ {
			d, err := w.reader().Node(n)
			if err != nil {
				t.Fatal(err)
			}
			out[fmt.Sprintf("e%d..e%d", d.First, d.Last)] = true
		}
		return out
	}
	want := spans(ideal)
	for at := 1; at <= commits; at++ {
		for _, tt := range []struct {
			name  string
			store bool
			err   error
		}{
			{"before", false, fmt.Errorf("%w: no", api.ErrLogUnavailable)},
			{"unknown, not stored", false, fmt.Errorf("%w: time-out", api.ErrUnknownOutcome)},
			{"unknown, stored", true, fmt.Errorf("%w: time-out", api.ErrUnknownOutcome)},
			{"killed after", true, errBoom},
		} {
			t.Run(fmt.Sprintf("commit %d %s", at, tt.name), func(t *testing.T) {
				w, _ := run(t, at, tt.store, tt.err)
				if n := w.kinds()[events.TypeCutCommitted]; n != 1 {
					t.Errorf("%d cuts", n)
				}
				for span := range spans(w) {
					if !want[span] {
						t.Errorf("a node covers %s; undisturbed there are %v", span, want)
					}
				}
			})
		}
	}
}

func TestCancelKeepsWhatIsPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(60, 220)
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int32
		s := w.service(model(func(c context.Context, r condense.Request) (condense.Response, error) {
			if calls.Add(1) > 2 {
				<-c.Done()
				return condense.Response{}, c.Err()
			}
			return good(c, r)
		}), func(c *Config) { c.Concurrency = 2 })
		go func() { time.Sleep(time.Second); cancel() }()
		out, err := s.Condense(ctx, w.ref, w.token())
		if !errors.Is(err, context.Canceled) || out.Nodes != 2 || out.Compacted {
			t.Errorf("%+v, %v", out, err)
		}
		before := calls.Load()
		out, err = w.service(model(func(c context.Context, r condense.Request) (condense.Response, error) {
			calls.Add(1)
			return good(c, r)
		})).Condense(t.Context(), w.ref, w.token())
		if err != nil || !out.Compacted {
			t.Errorf("%+v, %v", out, err)
		}
		if made := int(calls.Load() - before); made != out.Nodes {
			t.Errorf("%d calls for %d missing nodes", made, out.Nodes)
		}
		w.check()
	})
}

// TestBadSummarisers: whatever a model says, the pass ends, and no node is
// above its cap or made of an error.
func TestBadSummarisers(t *testing.T) {
	answer := func(f func(r condense.Request) string) model {
		return func(_ context.Context, r condense.Request) (condense.Response, error) { return says(f(r)) }
	}
	input := func(r condense.Request) string {
		var b strings.Builder
		for _, l := range r.Lines {
			b.WriteString(l.Text + "\n")
		}
		return b.String()
	}
	for name, m := range map[string]model{
		"echo":     answer(input),
		"grow":     answer(func(r condense.Request) string { return input(r) + input(r) }),
		"empty":    answer(func(condense.Request) string { return " \n" }),
		"thinking": answer(func(condense.Request) string { return "<think>hm, what to say" }),
		"garbage":  answer(func(condense.Request) string { return "\x00\xff\xfe" + strings.Repeat("🏳️‍🌈", 50) }),
		"error":    answer(func(condense.Request) string { return `{"error":{"message":"overloaded","code":529}}` }),
		"cut off": func(context.Context, condense.Request) (condense.Response, error) {
			return condense.Response{Text: "It was about", Stop: condense.StopLength}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.talk(60, 220)
			out, err := w.service(m).Condense(t.Context(), w.ref, w.token())
			if err != nil || !out.Compacted {
				t.Fatalf("%+v, %v", out, err)
			}
			v := w.check()
			if n := window.ContextTokens(v); n > v.Settings.Soft() {
				t.Errorf("%d tokens", n)
			}
			for _, d := range v.Frontier {
				if strings.Contains(d.Primary.Text, "overloaded") || d.Primary.Tokens > d.Bounds.HardCap {
					t.Errorf("#%d: %d tokens: %.80q", d.N, d.Primary.Tokens, d.Primary.Text)
				}
			}
		})
	}
}

func TestOutage(t *testing.T) {
	t.Run("async waits, with back-off", func(t *testing.T) {
		w := newWorld(t)
		w.talk(56, 220)
		s := w.service(model(down))
		task := api.Task{Ref: w.ref, Position: w.token()}
		var got []time.Duration
		for range 8 {
			got = append(got, s.Handle(t.Context(), task).Retry)
		}
		if fmt.Sprint(got) != "[1s 2s 4s 8s 16s 32s 1m0s 1m0s]" {
			t.Errorf("retries %v", got)
		}
		if _, err := s.Condense(t.Context(), w.ref, w.token()); !problem.IsCode(err, problem.Unavailable) || !errors.Is(err, condense.ErrUnavailable) {
			t.Error(err)
		}
		if w.commits != 0 {
			t.Errorf("%d commits", w.commits)
		}
	})
	t.Run("blocking converges, repaired later", func(t *testing.T) {
		w := newWorld(t)
		w.talk(90, 220)
		up := false
		s := w.service(model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			if !up {
				return down(ctx, r)
			}
			return good(ctx, r)
		}), func(c *Config) { c.MaxRepairs = 100 })
		out, err := s.Condense(t.Context(), w.ref, w.token())
		if err != nil || !out.Compacted || out.TokensAfter > 15_000 {
			t.Fatalf("%+v, %v", out, err)
		}
		for _, d := range w.check().Frontier {
			if d.Primary.Level != 3 || d.Model != condense.TruncateModel {
				t.Errorf("#%d of level %d by %s during the outage", d.N, d.Primary.Level, d.Model)
			}
		}
		up = true
		w.talk(50, 220)
		if out, err = s.Condense(t.Context(), w.ref, w.token()); err != nil || out.Nodes == 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		v := w.check()
		for _, d := range v.Frontier {
			if by, ok := v.Replaced[d.N]; d.Primary.Level == 3 && (!ok || by.Primary.Level == 3) {
				t.Errorf("#%d was not repaired", d.N)
			}
		}
		if out, err := s.Condense(t.Context(), w.ref, w.token()); err != nil || out.Nodes != 0 {
			t.Errorf("%d more repairs, %v", out.Nodes, err)
		}
	})
	for name, outage := range map[string]model{
		"hidden under condensed nodes, repaired by another process": down,
		"hidden under nodes that a model made of them": func(ctx context.Context, r condense.Request) (condense.Response, error) {
			if r.Depth > 0 {
				return good(ctx, r)
			}
			return down(ctx, r)
		},
	} {
		t.Run(name, func(t *testing.T) { repairsHidden(t, outage) })
	}
	t.Run("a hopeless repair is paid for once", func(t *testing.T) {
		w := newWorld(t)
		w.talk(90, 220)
		if _, err := w.service(model(down)).Condense(t.Context(), w.ref, w.token()); err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int32
		s := w.service(model(func(context.Context, condense.Request) (condense.Response, error) {
			calls.Add(1)
			return says("")
		}))
		for range 3 {
			if out, err := s.Condense(t.Context(), w.ref, w.token()); err != nil || out.Nodes != 0 {
				t.Errorf("%d repairs, %v", out.Nodes, err)
			}
		}
		if nodes := int32(w.fold.Head().Nodes); calls.Load() > 2*nodes {
			t.Errorf("%d calls for %d nodes", calls.Load(), nodes)
		}
	})
	t.Run("refused: nothing is stored, not even when blocking", func(t *testing.T) {
		w := newWorld(t)
		w.talk(90, 220)
		s := w.service(model(func(context.Context, condense.Request) (condense.Response, error) {
			return condense.Response{}, fmt.Errorf("%w: 401", condense.ErrRefused)
		}))
		if res := s.Handle(t.Context(), api.Task{Ref: w.ref, Position: w.token()}); res.Retry != time.Minute || w.commits != 0 {
			t.Errorf("retry %s, %d commits", res.Retry, w.commits)
		}
	})
	t.Run("no answer at all is an outage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.talk(56, 220)
			s := w.service(model(func(ctx context.Context, _ condense.Request) (condense.Response, error) {
				<-ctx.Done()
				return condense.Response{}, ctx.Err()
			}))
			if _, err := s.Condense(t.Context(), w.ref, w.token()); !errors.Is(err, condense.ErrUnavailable) {
				t.Error(err)
			}
		})
	})
	t.Run("one leaf fails: the others are kept", func(t *testing.T) {
		w := newWorld(t)
		w.talk(56, 220)
		s := w.service(model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			if r.Lines[0].Ref == "e1" {
				return down(ctx, r)
			}
			return good(ctx, r)
		}))
		out, err := s.Condense(t.Context(), w.ref, w.token())
		if !errors.Is(err, condense.ErrUnavailable) || out.Nodes == 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if out, err = w.service(model(good)).Condense(t.Context(), w.ref, w.token()); err != nil || !out.Compacted {
			t.Fatalf("%+v, %v", out, err)
		}
		w.check()
	})
}

// TestAPaidAnswerIsNotThrownAway: another derived event that has nothing to do
// with the node comes first, and the projection shows it only later.
func TestAPaidAnswerIsNotThrownAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(56, 220)
		var once sync.Once
		var calls atomic.Int32
		s := w.service(model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			calls.Add(1)
			once.Do(func() {
				w.hold(true)
				w.emit(&events.PassStalled{Reason: "somebody-elses"})
				go func() { time.Sleep(time.Second); w.hold(false) }()
			})
			return good(ctx, r)
		}))
		out, err := s.Condense(t.Context(), w.ref, events.Position{})
		if err != nil || !out.Compacted || int(calls.Load()) != out.Nodes {
			t.Errorf("%+v, %v after %d calls", out, err, calls.Load())
		}
		w.check()
	})
}

func TestConflictThatIsNeverShownIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(56, 220)
		token := w.token()
		w.hold(true)
		w.emit(&events.PassStalled{Reason: "somebody-elses"})
		s := w.service(model(good))
		if _, err := s.Condense(t.Context(), w.ref, token); !problem.IsCode(err, problem.Stale) {
			t.Error(err)
		}
		w.hold(false)
		if res := s.Handle(t.Context(), api.Task{Ref: w.ref, Position: w.token()}); res.Retry != 0 {
			t.Errorf("retry %s", res.Retry)
		}
		w.check()
	})
}

func TestTailOverTargetIsReportedOnce(t *testing.T) {
	w := newWorld(t, func(s *events.Settings) { s.FreshTailMax = 0 })
	w.talk(32, 400) // the tail alone: nothing can be condensed
	s := w.service(model(good))
	for range 4 {
		out, err := s.Condense(t.Context(), w.ref, w.token())
		if err != nil || out.Compacted || out.Stop != condense.StopTail {
			t.Errorf("%+v, %v", out, err)
		}
	}
	w.check()
	if k := w.kinds(); k[events.TypePassStalled] != 1 {
		t.Errorf("%d stalls", k[events.TypePassStalled])
	}
}

// lying shows a log whose nodes the fold rejects: keys are asked for again.
type lying struct{ *world }

func (l lying) Commit(ctx context.Context, b []api.Append) ([]uint64, error) {
	seqs, err := l.world.Commit(ctx, b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows = session.NewMemory()
	l.fold, _ = session.NewFold(l.ref, l.rows)
	kept := l.log[:0:0]
	for _, r := range l.log {
		if r.Header[events.HeaderType] == string(events.TypeNodeCommitted) {
			r.Data = []byte("{}") // breaks the chain: rejected
		}
		kept = append(kept, r)
	}
	l.log, l.applied, l.outcomes = kept, 0, nil
	l.project()
	return seqs, err
}

func TestRejectedNodesStopThePass(t *testing.T) {
	w := newWorld(t)
	w.talk(60, 220)
	var calls atomic.Int32
	svc, err := New(Config{}, Deps{Reads: w, Log: lying{w}, Summarizer: model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
		calls.Add(1)
		return good(ctx, r)
	})})
	if err != nil {
		t.Fatal(err)
	}
	out, err := svc.Condense(t.Context(), w.ref, w.token())
	if err != nil || out.Stop != StopRejected || int(calls.Load()) != out.Nodes {
		t.Errorf("%+v, %v after %d calls", out, err, calls.Load())
	}
	if res := svc.Handle(t.Context(), api.Task{Ref: w.ref}); res.Retry == 0 {
		t.Error("a session whose nodes are rejected is tried again at once")
	}
}

func TestPassLimit(t *testing.T) {
	w := newWorld(t)
	w.talk(60, 220)
	s := w.service(model(good), func(c *Config) { c.MaxPasses = 1 })
	out, err := s.Condense(t.Context(), w.ref, w.token())
	if err != nil || out.Stop != StopPassLimit || out.Nodes == 0 || out.Compacted {
		t.Errorf("%+v, %v", out, err)
	}
	if res := s.Handle(t.Context(), api.Task{Ref: w.ref, Position: w.token()}); res.Retry != 0 {
		t.Errorf("progress was punished by %s", res.Retry)
	}
}

func TestUnknownSession(t *testing.T) {
	w := newWorld(t)
	s := w.service(model(good))
	ref := events.Ref{Tenant: "t", Session: "nobody"}
	if out, err := s.Condense(t.Context(), ref, events.Position{}); !problem.IsCode(err, problem.NotFound) || out == nil {
		t.Error(out, err)
	}
	if res := s.Handle(t.Context(), api.Task{Ref: ref}); res.Retry != 0 {
		t.Errorf("retry %s", res.Retry)
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{{Concurrency: -1}, {MaxPasses: -1}, {RetryMin: time.Hour, RetryMax: time.Second}, {CallTimeout: -1}} {
		if _, err := New(c, Deps{Reads: &world{}, Log: &world{}, Summarizer: model(good)}); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("no dependencies were accepted")
	}
}

// repairsHidden: what an outage left under condensed nodes is redone by a process
// that knows nothing of it, and what was made of it too.
func repairsHidden(t *testing.T, outage model) {
	w := newWorld(t)
	for range 12 {
		w.talk(90, 220)
		if _, err := w.service(outage).Condense(t.Context(), w.ref, w.token()); err != nil {
			t.Fatal(err)
		}
	}
	hidden := 0
	for _, d := range w.check().Frontier {
		hidden = max(hidden, d.Truncated)
	}
	if hidden < 2 {
		t.Fatal("nothing truncated is hidden: the test tests nothing")
	}
	nodes := w.fold.Head().Nodes
	if out, err := w.service(outage).Condense(t.Context(), w.ref, w.token()); err != nil || w.fold.Head().Nodes != nodes {
		t.Errorf("a session at rest, the provider still down: %+v, %v", out, err)
	}
	if _, err := w.service(model(good)).Condense(t.Context(), w.ref, w.token()); err != nil {
		t.Fatal(err)
	}
	v := w.check()
	for _, d := range v.Frontier {
		if by := v.Replaced[d.N]; by.Truncated != 0 || by.Primary.Level != 1 {
			t.Errorf("#%d of depth %d: %d of %d nodes are still truncated", d.N, d.Depth, by.Truncated, d.Below+1)
		}
	}
}

// One of several leaves fails: those in hand are finished and committed.
func TestAFailureKeepsWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.talk(56, 220)
		var calls atomic.Int32
		s := w.service(model(func(ctx context.Context, r condense.Request) (condense.Response, error) {
			if calls.Add(1) == 1 {
				time.Sleep(time.Second)
				return down(ctx, r)
			}
			select {
			case <-time.After(2 * time.Second):
				return good(ctx, r)
			case <-ctx.Done():
				return condense.Response{}, ctx.Err()
			}
		}))
		out, err := s.Condense(t.Context(), w.ref, w.token())
		if begun := int(calls.Load()); !errors.Is(err, condense.ErrUnavailable) || out.Nodes != begun-1 || begun < 4 {
			t.Errorf("%d nodes committed of %d begun: %v", out.Nodes, begun, err)
		}
	})
}
