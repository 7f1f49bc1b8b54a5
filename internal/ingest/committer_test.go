package ingest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
)

// heldLog lets a test see commits under way, and answer them.
type heldLog struct {
	*fakeLog
	begun chan heldCommit
}

type heldCommit struct {
	batch  []api.Append
	answer chan error // nil: it is stored
}

func (l heldLog) Commit(ctx context.Context, batch []api.Append) ([]uint64, error) {
	c := heldCommit{batch, make(chan error)}
	l.begun <- c
	if err := <-c.answer; err != nil {
		return nil, err
	}
	return l.fakeLog.Commit(ctx, batch)
}

func subjects(batch []api.Append) map[string]bool {
	out := map[string]bool{}
	for _, a := range batch {
		out[a.Message.Subject] = true
	}
	return out
}

// queued waits until so many jobs wait for the committer.
func (s *Service) queued(t *testing.T, jobs int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); s.queue.waiting() != jobs; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d jobs wait, not %d", s.queue.waiting(), jobs)
		}
	}
}

// Two commits are under way, of different sessions; the outcome of one is
// nothing to the other, and a session's turns keep their order.
func TestTwoCommitsUnderWay(t *testing.T) {
	log := heldLog{newFakeLog(), make(chan heldCommit)}
	proj := newProjection("E", log.all)
	svc, err := New(Config{Backoff: time.Microsecond}, Deps{Log: log, Lookup: proj.lookup, Measures: quickMeasures})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var run, appends errgroup.Group
	run.Go(func() error { return svc.Run(ctx) })
	defer func() { cancel(); _ = run.Wait() }()
	say := func(session, id string) {
		appends.Go(func() error {
			r, err := svc.Append(ctx, api.AppendRequest{Ref: ref(session), Writes: []api.Write{said(id, id)}})
			if err != nil || r.Written[0].Error != "" || r.Written[0].Duplicate {
				return fmt.Errorf("%s of %s: %+v, %w", id, session, r, err)
			}
			return nil
		})
	}
	say("lone", "a")
	lone := <-log.begun
	const n = 2 * splitJobs
	for i := range n {
		say(fmt.Sprint("s", i), "a")
	}
	svc.queued(t, n)
	lone.answer <- nil
	one, two := <-log.begun, <-log.begun
	busy := subjects(one.batch)
	left := n - len(busy) - len(subjects(two.batch))
	for i := range n {
		say(fmt.Sprint("s", i), "b") // waits for a, whatever else goes
	}
	svc.queued(t, left+n)
	select {
	case three := <-log.begun:
		t.Errorf("a third commit of %d events", len(three.batch))
	case <-time.After(20 * time.Millisecond):
	}
	two.answer <- nil
	three := <-log.begun
	for subject := range subjects(three.batch) {
		if busy[subject] {
			t.Errorf("%s is in two commits at once", subject)
		}
	}
	one.answer <- api.ErrUnknownOutcome // its turns are judged anew
	three.answer <- nil
	go func() {
		for {
			select {
			case c := <-log.begun:
				c.answer <- nil
			case <-ctx.Done():
				return
			}
		}
	}()
	if err := appends.Wait(); err != nil {
		t.Fatal(err)
	}
	w := &world{log: log.fakeLog, proj: proj}
	for i := range n {
		if h := w.head(t, fmt.Sprint("s", i)); h.Entries != 2 {
			t.Errorf("session %d has %d entries", i, h.Entries)
		}
	}
}

// A lane that knows all ids of its session judges by itself, until another
// writer's are among them.
func TestAWholeLaneIsNotAskedAbout(t *testing.T) {
	log := newFakeLog()
	proj := newProjection("E", log.all)
	asked, now := 0, time.Unix(1, 0)
	proj.fail = func() error { asked++; return nil }
	open := func() *world {
		svc, err := New(Config{Backoff: time.Microsecond}, Deps{Log: log, Lookup: proj.lookup, Measures: quickMeasures, Clock: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); _ = svc.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-done })
		return &world{log: log, proj: proj, svc: svc}
	}
	ours, other := open(), open()
	ours.append(t, "s", said("a", "a"))
	before := asked
	got := ours.append(t, "s", said("b", "b"), said("a", "a"), said("a", "other"))
	if asked != before {
		t.Errorf("asked %d times", asked-before)
	}
	if got[0].Entry != 2 || !got[1].Duplicate || got[2].Code != "conflict" {
		t.Errorf("%+v", got)
	}
	// A conflict shows another writer's turn.
	other.append(t, "s", said("c", "c"))
	if got := ours.append(t, "s", said("c", "c")); !got[0].Duplicate || got[0].Entry != 3 {
		t.Errorf("%+v", got)
	}
	// So does the look that comes now and then.
	ours.append(t, "u", said("a", "a"))
	other.append(t, "u", said("b", "b"))
	now = now.Add(headEvery)
	ours.append(t, "u", said("d", "d"))
	if got := ours.append(t, "u", said("b", "b")); !got[0].Duplicate || got[0].Entry != 2 {
		t.Errorf("%+v", got)
	}
	if n := len(log.last); n != 2 || log.last[events.Subject(events.LaneTimeline, ref("u"), events.DefaultPartitions)] == 0 {
		t.Errorf("%d subjects", n)
	}
}
