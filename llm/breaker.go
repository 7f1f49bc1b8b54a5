package llm

import (
	"sync"
	"time"
)

// breaker keeps calls away from a provider that cannot serve them. What opens
// it, and for how long, follows from the cause:
//
//	refused, quota  one answer is proof: open for the cool-down
//	outage          several in a row: open for the cool-down
//	overload        never open: callers wait as long as the provider asked
//	request         closes it: a provider that judges requests is well
//
// After a cool-down one call probes; while probes fail the cool-down doubles.
type breaker struct {
	limit    int           // outages in a row that open it
	cooldown time.Duration // of the first opening

	mu       sync.Mutex
	outages  int       // in a row
	openings int       // in a row
	cause    cause     // of the last opening; "" = closed
	err      error     // the answer that opened it
	until    time.Time // when a probe may go out
	probing  bool
	paused   time.Time // overload: no call before this
}

// maxDoublings bounds the cool-down to about ten times its first length.
const maxDoublings = 3

// admit says whether a call may go out: now, after a pause, or not at all
// because of the error that opened the breaker. A call that is admitted with
// no pause must be settled or released.
func (b *breaker) admit(now time.Time) (pause time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != "" && (b.probing || now.Before(b.until)) {
		return 0, b.err
	}
	if d := b.paused.Sub(now); d > 0 {
		return d, nil
	}
	b.probing = b.cause != ""
	return 0, nil
}

// release gives back an admission whose call brought no verdict: the caller's
// context ended.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
}

// settle takes the verdict of a call, nil = success.
func (b *breaker) settle(f *fault, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f == nil || f.cause == causeRequest {
		b.outages, b.openings, b.cause, b.err, b.probing = 0, 0, "", nil, false
		return
	}
	switch f.cause {
	case causeOverload:
		b.probing, b.outages = false, 0
		if at := now.Add(f.after); f.after > 0 && at.After(b.paused) {
			b.paused = at
		}
	case causeOutage:
		if b.outages++; b.outages >= b.limit || b.probing {
			b.open(f, now)
		}
	default:
		b.open(f, now)
	}
}

// open starts a cool-down. Verdicts of calls that went out before the last
// opening do not prolong it.
func (b *breaker) open(f *fault, now time.Time) {
	probe := b.probing
	b.probing = false
	if b.cause != "" && !probe {
		return
	}
	d := b.cooldown << min(b.openings, maxDoublings)
	b.openings++
	b.outages, b.cause, b.err, b.until = 0, f.cause, f.err, now.Add(max(d, f.after))
}

// state names the cause the breaker is open for, "" = closed.
func (b *breaker) state() cause {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}
