package projector

import (
	"context"
	"sync"

	"lcm/internal/await"
)

// watermark is a position that others wait for, some of them urgently.
type watermark struct {
	*await.Mark

	mu     sync.Mutex
	asked  map[uint64]int // positions that somebody cannot go on without, and how many do
	urgent chan struct{}  // holds one: somebody has asked
}

func newWatermark(seq uint64) *watermark {
	return &watermark{Mark: await.At(seq), asked: map[uint64]int{}, urgent: make(chan struct{}, 1)}
}

// demand is Wait, and asks whoever moves the position not to dawdle.
func (w *watermark) demand(ctx context.Context, seq uint64) error {
	if seq <= w.Seq() {
		return nil
	}
	w.mu.Lock()
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
	return w.Wait(ctx, seq)
}

// demanded: going on to upto would serve somebody who waits.
func (w *watermark) demanded(upto uint64) bool {
	now := w.Seq()
	w.mu.Lock()
	defer w.mu.Unlock()
	for seq := range w.asked {
		if now < seq && seq <= upto {
			return true
		}
	}
	return false
}
