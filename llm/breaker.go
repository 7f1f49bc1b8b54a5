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
	total    uint64    // openings ever
	cause    cause     // of the last opening; "" = closed
	err      error     // the answer that opened it
	until    time.Time // when a probe may go out
	probing  bool
	paused   time.Time // overload: no call before this
}

// admission of one call. It is settled or released, once.
type admission struct {
	probe bool
	// opened is how often the breaker had opened before: the verdict of a call
	// that went out before the last opening says nothing about what is now.
	opened uint64
}

// maxDoublings bounds the cool-down to about ten times its first length.
const maxDoublings = 3

// admit says whether a call may go out: now, after a pause, or not at all
// because of the error that opened the breaker. A call that is admitted with
// no pause must be settled or released.
func (b *breaker) admit(now time.Time) (a admission, pause time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != "" && (b.probing || now.Before(b.until)) {
		return a, 0, b.err
	}
	if d := b.paused.Sub(now); d > 0 {
		return a, d, nil
	}
	b.probing = b.cause != ""
	return admission{probe: b.probing, opened: b.total}, 0, nil
}

// release gives back an admission whose call brought no verdict: the caller's
// context ended.
func (b *breaker) release(a admission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endProbe(a)
}

// endProbe lets the next call probe, if this one was the probe.
func (b *breaker) endProbe(a admission) {
	if a.probe && a.opened == b.total {
		b.probing = false
	}
}

// settle takes the verdict of a call, nil = success.
func (b *breaker) settle(a admission, f *fault, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f != nil && f.cause == causeOverload {
		if at := now.Add(f.after); f.after > 0 && at.After(b.paused) {
			b.paused = at
		}
	}
	if a.opened != b.total {
		return
	}
	b.endProbe(a)
	switch {
	case f == nil || f.cause == causeRequest:
		b.outages, b.openings, b.cause, b.err = 0, 0, "", nil
	case f.cause == causeOverload:
		b.outages = 0
	case f.cause == causeOutage:
		if b.outages++; b.outages >= b.limit || a.probe {
			b.open(f, now)
		}
	default:
		b.open(f, now)
	}
}

// open starts a cool-down.
func (b *breaker) open(f *fault, now time.Time) {
	d := b.cooldown << min(b.openings, maxDoublings)
	b.openings++
	b.total++
	b.outages, b.cause, b.err, b.until = 0, f.cause, f.err, now.Add(max(d, f.after))
}

// state names the cause the breaker is open for, "" = closed, and when a probe
// may go out.
func (b *breaker) state() (cause, time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause, b.until
}
