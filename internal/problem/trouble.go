package problem

import (
	"log/slog"
	"sync"
)

// Trouble says once that something does not work, and once that it works again,
// however often it is tried meanwhile. The zero value is ready; it may be used
// from any goroutine.
type Trouble struct {
	mu  sync.Mutex
	bad map[string]bool // parts that do not work
}

// Met notes that a part does not work. Only the first of them is logged.
func (t *Trouble) Met(log *slog.Logger, part, what string, err error) {
	t.mu.Lock()
	first := len(t.bad) == 0
	if t.bad == nil {
		t.bad = map[string]bool{}
	}
	t.bad[part] = true
	t.mu.Unlock()
	if first {
		log.Warn(what, "part", part, "error", err)
	}
}

// Over notes that a part works. Only the last of them is logged.
func (t *Trouble) Over(log *slog.Logger, part, what string) {
	t.mu.Lock()
	was := t.bad[part]
	delete(t.bad, part)
	over := was && len(t.bad) == 0
	t.mu.Unlock()
	if over {
		log.Info(what)
	}
}
