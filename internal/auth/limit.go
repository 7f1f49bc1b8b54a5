package auth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"lcm/internal/api"
)

// Limits of one caller; 0 = none. An operator has none.
type Limits struct {
	PerSecond  float64 // requests; bursts of twice as many
	Concurrent int     // requests in hand
	BodyBytes  int64   // of one request
}

// maxCallers is how many callers are remembered before idle ones are forgotten.
const maxCallers = 10_000

type limiter struct {
	l       Limits
	mu      sync.Mutex
	callers map[string]*usage
}

type usage struct {
	rate   *rate.Limiter
	inHand int
	seen   time.Time
}

func newLimiter(l Limits) *limiter { return &limiter{l: l, callers: map[string]*usage{}} }

// take counts a request in; wait > 0 = it may not pass before. done counts it
// out.
func (l *limiter) take(c api.Caller, now time.Time) (done func(), wait time.Duration) {
	if c.Operator {
		return func() {}, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(c.Tenant+"\x00"+c.Name, now)
	if l.l.Concurrent > 0 && u.inHand >= l.l.Concurrent {
		return nil, time.Second
	}
	if u.rate != nil {
		r := u.rate.ReserveN(now, 1)
		if d := r.DelayFrom(now); d > 0 {
			r.CancelAt(now)
			return nil, d
		}
	}
	u.inHand++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.inHand--
	}, 0
}

func (l *limiter) of(name string, now time.Time) *usage {
	u := l.callers[name]
	if u == nil {
		if len(l.callers) >= maxCallers {
			l.forget(now)
		}
		u = &usage{}
		if l.l.PerSecond > 0 {
			u.rate = rate.NewLimiter(rate.Limit(l.l.PerSecond), max(1, int(2*l.l.PerSecond)))
		}
		l.callers[name] = u
	}
	u.seen = now
	return u
}

// forget drops who has been idle long enough for its bucket to be full.
func (l *limiter) forget(now time.Time) {
	for name, u := range l.callers {
		if u.inHand == 0 && now.Sub(u.seen) > 10*time.Second {
			delete(l.callers, name)
		}
	}
}
