package condenser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
)

// cpu is the processor time this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const sentence = "They changed the parser, ran the tests, and found that case 17 of the grammar still fails on nested lists. "

// With a summariser that answers at once, 10,000 turns of 600 bytes condense to
// a 128k window in at most 2 s of processor time. The rows in memory and their
// fold are counted in.
func TestInstantSummariser(t *testing.T) {
	if testing.Short() {
		t.Skip("measures processor time")
	}
	w := newWorld(t, func(s *events.Settings) { s.Window = 128_000 })
	for i := range 10_000 {
		text := fmt.Sprintf("turn %d: %s", i, strings.Repeat(sentence, 6))[:600]
		w.say(events.RoleUser, text)
	}
	s := w.service(model(good))
	before := cpu(t)
	out, err := s.Condense(t.Context(), w.ref, w.token())
	took := cpu(t) - before
	if err != nil || out.TokensAfter > out.TokensBefore/4 {
		t.Fatal(out, err)
	}
	w.check()
	t.Logf("%d to %d tokens, %d nodes: %s of processor time", out.TokensBefore, out.TokensAfter, out.Nodes, took.Round(time.Millisecond))
	if took > 2*time.Second {
		t.Errorf("%s of processor time, at most 2 s wanted", took)
	}
}

func (w *world) say(role events.Role, text string) {
	w.t.Helper()
	t := &events.TurnAppended{Role: role, Entry: w.fold.Head().Entries + 1, Text: text}
	t.ID = fmt.Sprintf("id%d", t.Entry)
	measure(t)
	w.emit(t)
}

// slow answers after a second of the test's clock, and counts calls by depth.
type slow struct {
	mu    sync.Mutex
	calls map[int]int
}

func (s *slow) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	s.mu.Lock()
	s.calls[r.Depth]++
	s.mu.Unlock()
	time.Sleep(time.Second)
	return good(ctx, r)
}

// A summariser of one second and sixteen at once: the wall time is at most 1.3
// times what the depth of the DAG makes inevitable.
func TestWallTimeFollowsTheCriticalPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *events.Settings) { s.Window = 32_000 })
		w.talk(3_000, 120)
		m := &slow{calls: map[int]int{}}
		s := w.service(m, func(c *Config) { c.Concurrency = 16 })
		start := time.Now()
		out, err := s.Condense(t.Context(), w.ref, w.token())
		took := time.Since(start)
		if err != nil || len(m.calls) < 2 {
			t.Fatal(out, err, m.calls)
		}
		ideal := time.Duration(0)
		for _, n := range m.calls {
			ideal += time.Duration((n+15)/16) * time.Second
		}
		t.Logf("calls by depth %v: %s, ideal %s, ratio %.2f", m.calls, took, ideal, float64(took)/float64(ideal))
		if took > ideal*13/10 {
			t.Errorf("took %s, the critical path is %s", took, ideal)
		}
	})
}

// many are several sessions behind one pair of ports.
type many map[events.Ref]*world

func (m many) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	return m[q.Ref].View(ctx, q)
}

func (m many) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	return m[q.Ref].Turns(ctx, q)
}

func (m many) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	return m[q.Ref].Node(ctx, q)
}

func (m many) Commit(ctx context.Context, batch []api.Append) ([]uint64, error) {
	_, _, ref, err := events.ParseSubject(batch[0].Message.Subject)
	if err != nil {
		return nil, err
	}
	return m[ref].Commit(ctx, batch)
}

// condenseAll has so many condensers work off eight sessions, each one session
// at a time, and returns how long it took on the test's clock.
func condenseAll(t *testing.T, condensers int) time.Duration {
	sessions := many{}
	tasks := make(chan *world, 8)
	for i := range 8 {
		w := newWorldOf(t, events.Ref{Tenant: "t", Session: fmt.Sprintf("s%d", i)})
		w.talk(100+10*i, 220)
		sessions[w.ref] = w
		tasks <- w
	}
	close(tasks)
	start := time.Now()
	var wg sync.WaitGroup
	for range condensers {
		s, err := New(Config{CommitTimeout: 2 * time.Second}, Deps{Reads: sessions, Log: sessions, Summarizer: &slow{calls: map[int]int{}}})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for w := range tasks {
				if out, err := s.Condense(t.Context(), w.ref, w.token()); err != nil || !out.Compacted {
					t.Error(out, err)
				}
			}
		})
	}
	wg.Wait()
	for _, w := range sessions {
		w.check()
	}
	return time.Since(start)
}

func TestTwoCondensersAreTwiceAsFast(t *testing.T) {
	var one, two time.Duration
	synctest.Test(t, func(t *testing.T) { one = condenseAll(t, 1) })
	synctest.Test(t, func(t *testing.T) { two = condenseAll(t, 2) })
	t.Logf("one condenser %s, two %s: %.2f times as fast", one, two, float64(one)/float64(two))
	if one < two*18/10 {
		t.Errorf("one condenser %s, two %s", one, two)
	}
}
