package projector_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/projector"
)

// While nobody waits, events are gathered; whoever waits is served at once.
func TestGatheringNeverKeepsAReadWaiting(t *testing.T) {
	f := setup(t, newLog("PACE"))
	f.cfg.CommitEvery = time.Hour
	f.start()
	for range 3 {
		_, err := f.Wait(within(t), f.log.say(ref("a"), events.RoleUser, "hello"))
		must(t, err)
	}
	before := f.end()
	f.log.say(ref("a"), events.RoleUser, "nobody waits for this")
	early, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := f.Wait(early, events.Position{Seq: before.Seq + 100}) // nor does this wait end earlier for it
	if err == nil {
		t.Fatal("a position that the log does not have was reached")
	}
	st, err := f.Status(within(t))
	must(t, err)
	if st.Applied != before.Seq {
		t.Errorf("applied %d, want %d: a transaction for nobody", st.Applied, before.Seq)
	}
	_, err = f.Wait(within(t), f.end())
	must(t, err)
}

// The index goes on while events never stop coming, at its share of the time,
// and whoever waits for it gets it sooner.
func TestIndexIsNeverStarved(t *testing.T) {
	f := setup(t, newLog("PACE"))
	f.cfg.IndexDocs, f.cfg.BusyEvents, f.cfg.IndexShare = 20, 1, 10
	f.start()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := f.Wait(ctx, f.log.say(ref("a"), events.RoleUser, "and again")); err != nil {
				return
			}
		}
	}()
	defer func() { stop(); <-done }()
	limit := within(t)
	for last := uint64(0); last < 200; runtime.Gosched() {
		st, err := f.Status(limit)
		must(t, err)
		last = st.Indexed
	}
}

func TestIndexShareIsAPercentage(t *testing.T) {
	if err := (projector.Config{IndexShare: 101}).Validate(); err == nil {
		t.Error("101 % accepted")
	}
}
