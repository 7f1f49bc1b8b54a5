package mapper

import (
	"context"
	"sync"
	"time"
)

const (
	// gateMin is the first pause of an outage; it doubles up to gateMax.
	gateMin = time.Second
	gateMax = time.Minute
)

// gate keeps calls back while the provider is down. After a pause one call
// tries; it opens the gate for all, or the next pause is longer.
type gate struct {
	paused  func(reason string)
	resumed func()

	mu      sync.Mutex
	shutted bool
	until   time.Time
	trying  bool
	backoff time.Duration
	good    uint64
	changed chan struct{} // closed when the gate moves
}

func newGate(paused func(string), resumed func()) *gate {
	return &gate{paused: paused, resumed: resumed, backoff: gateMin, changed: make(chan struct{})}
}

// wait until a call may go out. Who returns without an error must call opened,
// shut or leave.
func (g *gate) wait(ctx context.Context, closed <-chan struct{}) error {
	for {
		g.mu.Lock()
		if !g.shutted {
			g.mu.Unlock()
			return nil
		}
		left := time.Until(g.until)
		if left <= 0 && !g.trying {
			g.trying = true
			g.mu.Unlock()
			return nil
		}
		changed := g.changed
		g.mu.Unlock()
		var due <-chan time.Time // nil: somebody tries, and what comes of it moves the gate
		if left > 0 {
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-closed:
			return errStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// opened: a call succeeded.
func (g *gate) opened() {
	g.mu.Lock()
	was := g.shutted
	g.good++
	g.shutted, g.trying, g.backoff = false, false, gateMin
	if was {
		g.move()
	}
	g.mu.Unlock()
	if was {
		g.resumed()
	}
}

// shut: a call met an outage.
func (g *gate) shut(cause error) {
	g.mu.Lock()
	was := g.shutted
	if !was || g.trying {
		g.until = time.Now().Add(g.backoff)
		g.backoff = min(2*g.backoff, gateMax)
	}
	g.shutted, g.trying = true, false
	g.move()
	g.mu.Unlock()
	if !was {
		g.paused(cause.Error())
	}
}

// leave: the call brought no verdict.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.trying {
		g.trying = false
		g.move()
	}
}

func (g *gate) move() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// successes so far.
func (g *gate) successes() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.good
}
