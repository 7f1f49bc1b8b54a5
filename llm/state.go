package llm

import (
	"sync"
	"time"

	"lcm/internal/api"
)

// tally counts what a client has done since it was made.
type tally struct {
	mu            sync.Mutex
	calls, failed uint64
	input, output uint64
	err           error // of the last call that failed
	errAt         time.Time
}

func (t *tally) call(c Call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls++
	t.input += uint64(max(c.InputTokens, 0))
	t.output += uint64(max(c.OutputTokens, 0))
}

func (t *tally) verdict(f *fault, now time.Time) {
	if f == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed++
	t.err, t.errAt = f.err, now
}

// State tells how the provider does, for operators.
func (c *Client) State() api.ModelState {
	out := api.ModelState{Provider: c.where, Model: c.cfg.Model}
	open, until := c.breaker.state()
	if open != "" {
		out.Breaker, out.Retry = string(open), &until
	}
	t := &c.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Calls, out.Failed, out.InputTokens, out.OutputTokens = t.calls, t.failed, t.input, t.output
	if t.err != nil {
		at := t.errAt
		out.LastError, out.LastErrorAt = t.err.Error(), &at
	}
	return out
}
