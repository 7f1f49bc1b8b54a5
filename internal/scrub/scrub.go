// Package scrub reads the whole log again and again, slowly, and remembers what
// it found: bits that rot on a disk are noticed while the last backup still has
// them. It checks as `lcm verify` does, at a rate that nobody feels.
//
// It works over a function and must never import an engine or an adapter.
package scrub

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/verify"
	"lcm/internal/wholefile"
)

const (
	// startAfter: a process that lives shorter, such as a command, reads nothing.
	startAfter = time.Minute
	// retryAfter a walk that could not be finished.
	retryAfter = 10 * time.Minute
	// keptFaults of a walk; all are counted.
	keptFaults = 20
)

// Config of a scrubber.
type Config struct {
	// EventsPerSecond read at most; 0 = off.
	EventsPerSecond int
	// Every is the time between the starts of two walks.
	Every time.Duration
	// File remembers the last walk over restarts; "" = nothing does.
	File string
}

// Deps are what it works through.
type Deps struct {
	// Verify walks the log.
	Verify func(context.Context, verify.Options) (*api.VerifyReply, error)
	Logger *slog.Logger // nil = silent
}

// Service is a scrubber. Status may be called from any goroutine.
type Service struct {
	c Config
	d Deps

	mu sync.Mutex
	st api.ScrubStatus
}

// New makes a scrubber that goes on where the last one stopped waiting.
func New(c Config, d Deps) *Service {
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{c: c, d: d}
	if b, err := os.ReadFile(c.File); err == nil && c.File != "" {
		var st api.ScrubStatus
		if json.Unmarshal(b, &st) == nil { // else it begins anew
			st.Running = false
			s.st = st
		}
	}
	return s
}

// Status of the walk that runs, and the findings of the last one that ended.
func (s *Service) Status() *api.ScrubStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.st
	return &st
}

// Run walks the log until ctx ends, which is no error. What it cannot read it
// reads later; it stops nobody.
func (s *Service) Run(ctx context.Context) error {
	if s.c.EventsPerSecond <= 0 {
		<-ctx.Done()
		return nil
	}
	wait := max(startAfter, time.Until(s.Status().Started.Add(s.c.Every)))
	for await.Sleep(ctx, wait) == nil {
		start := time.Now()
		err := s.walk(ctx)
		wait = max(0, time.Until(start.Add(s.c.Every)))
		if err != nil && ctx.Err() == nil {
			s.d.Logger.Warn("the log was not read to its end", "error", err)
			wait = retryAfter
		}
	}
	return nil
}

func (s *Service) walk(ctx context.Context) error {
	start := time.Now().UTC()
	s.set(func(st *api.ScrubStatus) { st.Running, st.Position, st.Last = true, 0, 0 })
	defer s.set(func(st *api.ScrubStatus) { st.Running = false })
	r, err := s.d.Verify(ctx, verify.Options{
		Limit: keptFaults, EventsPerSecond: s.c.EventsPerSecond,
		Progress: func(p api.VerifyProgress) {
			s.set(func(st *api.ScrubStatus) { st.Position, st.Last = p.Seq, p.Last })
		},
	})
	if err != nil {
		return err
	}
	s.set(func(st *api.ScrubStatus) {
		*st = api.ScrubStatus{
			Started: start, Ended: time.Now().UTC(), Epoch: r.Epoch, Position: r.Last, Last: r.Last,
			Missing: r.Missing, Broken: r.Broken, Lost: r.Lost, Faults: r.Faults,
		}
	})
	if !r.OK {
		s.d.Logger.Error("the log has faults: see `lcm doctor`", "missing", r.Missing, "broken", r.Broken)
	}
	return s.save()
}

func (s *Service) set(change func(*api.ScrubStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.st)
}

func (s *Service) save() error {
	if s.c.File == "" {
		return nil
	}
	b, err := json.Marshal(s.Status())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.c.File), 0o755); err != nil {
		return err
	}
	return wholefile.Write(s.c.File, append(b, '\n'), 0o600)
}
