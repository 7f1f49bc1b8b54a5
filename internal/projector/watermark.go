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
}

func newWatermark(seq uint64) *watermark {
	return &watermark{seq: seq, moved: make(chan struct{})}
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
