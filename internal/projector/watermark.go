package projector

import (
	"context"
	"sync"
)

// watermark is a position that others wait for.
type watermark struct {
	mu    sync.Mutex
	seq   uint64
	moved chan struct{} // closed and replaced when seq changes

	asked  map[uint64]int // positions that somebody cannot go on without, and how many do
	urgent chan struct{}  // holds one: somebody has asked
}

func newWatermark(seq uint64) *watermark {
	return &watermark{seq: seq, moved: make(chan struct{}), asked: map[uint64]int{}, urgent: make(chan struct{}, 1)}
}

// demand is wait, and asks whoever moves the position not to dawdle.
func (w *watermark) demand(ctx context.Context, seq uint64) error {
	w.mu.Lock()
	if seq <= w.seq {
		w.mu.Unlock()
		return nil
	}
	w.asked[seq]++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked[seq]--; w.asked[seq] == 0 {
			delete(w.asked, seq)
		}
	}()
	select {
	case w.urgent <- struct{}{}:
	default:
	}
	return w.wait(ctx, seq)
}

// demanded: going on to upto would serve somebody who waits.
func (w *watermark) demanded(upto uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := range w.asked {
		if w.seq < seq && seq <= upto {
			return true
		}
	}
	return false
}

func (w *watermark) set(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seq == w.seq {
		return
	}
	w.seq = seq
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *watermark) get() uint64 {
	seq, _ := w.state()
	return seq
}

// state is the position and a channel that closes when it changes.
func (w *watermark) state() (uint64, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seq, w.moved
}

// wait returns when the position has reached seq, or with the context's error.
func (w *watermark) wait(ctx context.Context, seq uint64) error {
	for {
		now, moved := w.state()
		if now >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
