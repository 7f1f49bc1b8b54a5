package natslog

import (
	"context"
	"errors"
	"slices"
	"testing"

	"lcm/events"
	"lcm/internal/problem"
)

// collect follows until it has seen position until, and returns the positions.
func collect(t *testing.T, l *Log, after, until uint64, live func()) []uint64 {
	t.Helper()
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	var got []uint64
	err := l.Follow(c, after, func(_ context.Context, recs []events.Record) error {
		if live != nil {
			live()
			live = nil
		}
		for _, r := range recs {
			got = append(got, r.Seq)
		}
		if len(got) > 0 && got[len(got)-1] >= until {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("Follow: %v", err)
	}
	return got
}

func TestFollow(t *testing.T) {
	l := open(t)
	fill(t, l, "a", 2500)
	for _, after := range []uint64{0, 1, 1300, 2499} {
		got := collect(t, l, after, 2500, nil)
		if uint64(len(got)) != 2500-after || got[0] != after+1 || !slices.IsSorted(got) {
			t.Errorf("after %d: %d events from %d", after, len(got), got[0])
		}
	}
	if got := collect(t, l, 0, 2510, func() { must(t, l, run("b", 10)) }); len(got) != 2510 {
		t.Errorf("live: %d events", len(got))
	}
}

func TestFollowFromTheEnd(t *testing.T) {
	for _, n := range []int{0, 3} {
		l := open(t)
		if n > 0 {
			fill(t, l, "a", n)
		}
		seen := make(chan uint64, 100)
		c, cancel := context.WithCancel(ctx(t))
		done := make(chan error, 1)
		go func() {
			done <- l.Follow(c, uint64(n), func(_ context.Context, recs []events.Record) error {
				for _, r := range recs {
					seen <- r.Seq
				}
				return nil
			})
		}()
		for i := range 3 {
			must(t, l, run([]string{"x", "y", "z"}[i], 1))
			if got := <-seen; got != uint64(n+i+1) {
				t.Errorf("saw %d", got)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestFollowRefuses(t *testing.T) {
	none := func(context.Context, []events.Record) error { return nil }
	t.Run("beyond the end", func(t *testing.T) {
		l := open(t)
		fill(t, l, "a", 3)
		if err := l.Follow(ctx(t), 4, none); !problem.IsCode(err, problem.Damaged) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("a gap", func(t *testing.T) {
		l := open(t)
		drop(t, l, StreamLog)
		c := logConfig(l.epoch, l.o)
		c.DenyDelete = false
		s, err := l.js.CreateStream(ctx(t), c)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, l, "a", 20)
		if err := s.DeleteMsg(ctx(t), 7); err != nil {
			t.Fatal(err)
		}
		var last uint64
		err = l.Follow(ctx(t), 0, func(_ context.Context, recs []events.Record) error {
			last = recs[len(recs)-1].Seq
			return nil
		})
		if !problem.IsCode(err, problem.Damaged) || last != 6 {
			t.Errorf("err = %v after %d", err, last)
		}
	})
	t.Run("another log in its place", func(t *testing.T) {
		l := open(t)
		drop(t, l, StreamLog)
		if _, err := l.js.CreateStream(ctx(t), logConfig("other", l.o)); err != nil {
			t.Fatal(err)
		}
		if err := l.Follow(ctx(t), 0, none); !problem.IsCode(err, problem.Damaged) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the handler fails", func(t *testing.T) {
		l := open(t)
		fill(t, l, "a", 3)
		mine := errors.New("mine")
		if err := l.Follow(ctx(t), 0, func(context.Context, []events.Record) error { return mine }); !errors.Is(err, mine) {
			t.Errorf("err = %v", err)
		}
	})
}

// A follower whose consumer the server has dropped goes on where it was.
func TestFollowSurvivesItsConsumer(t *testing.T) {
	l := open(t)
	fill(t, l, "a", 10)
	got := collect(t, l, 0, 20, func() {
		for name := range l.log.ConsumerNames(ctx(t)).Name() {
			if err := l.log.DeleteConsumer(ctx(t), name); err != nil {
				t.Error(err)
			}
		}
		must(t, l, run("b", 10))
	})
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("saw %v", got)
		}
	}
}

// What fails in the middle of a batch is handed over again: a follower's
// position does not move past it.
func TestFollowGoesOnAtAFailure(t *testing.T) {
	l := open(t)
	fill(t, l, "a", 300)
	broken, at := errors.New("broken"), uint64(0)
	var seen []uint64
	handle := func(_ context.Context, recs []events.Record) error {
		for _, r := range recs {
			if r.Seq == 123 && at < 123 && len(seen) < 200 {
				return broken // its position, and that of the batch, are not kept
			}
		}
		for _, r := range recs {
			seen = append(seen, r.Seq)
		}
		at = recs[len(recs)-1].Seq
		if at == 300 {
			return errors.New("done")
		}
		return nil
	}
	if err := l.Follow(ctx(t), at, handle); !errors.Is(err, broken) {
		t.Fatalf("err = %v", err)
	}
	if at >= 123 {
		t.Fatalf("the position is %d", at)
	}
	got := append(seen, collect(t, l, at, 300, nil)...)
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("event %d is position %d", i+1, seq)
		}
	}
	if len(got) != 300 {
		t.Errorf("%d events", len(got))
	}
}
