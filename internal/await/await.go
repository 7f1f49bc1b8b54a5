// Package await holds the two waits that services and adapters share: for a
// while, and for a position. Both end with their context. It imports nothing of
// this module.
package await

import (
	"context"
	"sync"
	"time"
)

// Sleep returns after d, or with the context's error when that ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Mark is a position that others wait for. Safe for concurrent use.
type Mark struct {
	mu    sync.Mutex
	seq   uint64
	moved chan struct{} // closed and replaced when seq changes
}

// At makes a Mark that stands at seq.
func At(seq uint64) *Mark { return &Mark{seq: seq, moved: make(chan struct{})} }

// Set moves the position, forward or back.
func (m *Mark) Set(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seq == m.seq {
		return
	}
	m.seq = seq
	close(m.moved)
	m.moved = make(chan struct{})
}

// Seq is the position.
func (m *Mark) Seq() uint64 {
	seq, _ := m.State()
	return seq
}

// State is the position and a channel that closes when it changes.
func (m *Mark) State() (uint64, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seq, m.moved
}

// Wait returns when the position has reached seq, or with the context's error.
func (m *Mark) Wait(ctx context.Context, seq uint64) error {
	for {
		now, moved := m.State()
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
