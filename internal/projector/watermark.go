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

	asked  uint64        // greatest position that somebody cannot go on without
	urgent chan struct{} // holds one: asked has grown
}

func newWatermark(seq uint64) *watermark {
	return &watermark{seq: seq, moved: make(chan struct{}), urgent: make(chan struct{}, 1)}
}

// demand is wait, and asks whoever moves the position not to dawdle.
func (w *watermark) demand(ctx context.Context, seq uint64) error {
	w.mu.Lock()
	if seq > w.seq && seq > w.asked {
		w.asked = seq
		select {
		case w.urgent <- struct{}{}:
		default:
		}
	}
	w.mu.Unlock()
	return w.wait(ctx, seq)
}

// demanded: somebody waits for a position that is not reached.
func (w *watermark) demanded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked > w.seq
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
