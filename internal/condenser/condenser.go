// Package condenser carries out what the planner asks for: it has summaries
// made, and commits them and the cuts that show them. It keeps no state that
// matters: dying at any step loses nothing but time, and doing a session twice,
// or two condensers doing it at once, changes nothing.
//
// It is a service: it may import the pure packages and internal/api and
// internal/problem; never an adapter or an engine.
package condenser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Config of a condenser. Zero fields take the default that is named.
type Config struct {
	// Partitions of the log; part of every subject. Default 16.
	Partitions int
	// Concurrency is how many summaries of one session are made at once.
	// Default 4. Sessions at once are the task queue's matter; the provider's
	// rate limit bounds them all.
	Concurrency int
	// CallTimeout of one summariser call, its retries included. Default 5 min.
	CallTimeout time.Duration
	// CommitTimeout of one append, and the longest wait for the projection
	// after somebody else's. Default 10 s. An append goes on when the caller's
	// context ends: its answer is paid for.
	CommitTimeout time.Duration
	// MaxPasses bounds the plans carried out for one task. Default 64; a pass
	// over a session far behind takes about 15.
	MaxPasses int
	// MaxRepairs bounds the level-3 nodes redone for one task. Default 4.
	MaxRepairs int
	// RetryMin doubles per failure of a session up to RetryMax. Defaults 1 s
	// and 1 min.
	RetryMin, RetryMax time.Duration
}

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	c.Partitions = cmp.Or(c.Partitions, events.DefaultPartitions)
	c.Concurrency = cmp.Or(c.Concurrency, 4)
	c.CallTimeout = cmp.Or(c.CallTimeout, 5*time.Minute)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 10*time.Second)
	c.MaxPasses = cmp.Or(c.MaxPasses, 64)
	c.MaxRepairs = cmp.Or(c.MaxRepairs, 4)
	c.RetryMin = cmp.Or(c.RetryMin, time.Second)
	c.RetryMax = cmp.Or(c.RetryMax, max(time.Minute, c.RetryMin))
	return c
}

// Validate rejects contradictions, after the defaults are filled in.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if c.Partitions < 1 || c.Concurrency < 1 || c.MaxPasses < 1 || c.MaxRepairs < 0 {
		return fmt.Errorf("condenser: partitions %d, concurrency %d, max passes %d and max repairs %d must be positive",
			c.Partitions, c.Concurrency, c.MaxPasses, c.MaxRepairs)
	}
	if c.CallTimeout < 0 || c.CommitTimeout < 0 || c.RetryMin < 0 || c.RetryMax < c.RetryMin {
		return fmt.Errorf("condenser: time-outs must be positive, and retry min %s at most max %s", c.RetryMin, c.RetryMax)
	}
	return nil
}

// Reads is the projector's read endpoint. Each read waits for its token.
type Reads interface {
	View(context.Context, api.ViewRequest) (*api.ViewReply, error)
	Turns(context.Context, api.TurnsRequest) (*api.TurnsReply, error)
	Node(context.Context, api.NodeRequest) (*api.NodeReply, error)
}

// Log is where derived events are appended. Commit returns the sequence of
// each event once it is durable, or *api.ConflictError, api.ErrUnknownOutcome,
// api.ErrLogUnavailable. It does not retry.
type Log interface {
	Commit(context.Context, []api.Append) ([]uint64, error)
}

// Deps are the parts a Service works with.
type Deps struct {
	Reads      Reads
	Log        Log
	Summarizer condense.Summarizer
	Clock      func() time.Time // default time.Now
	Logger     *slog.Logger     // default: none
	// Derived is told of every event this service has stored. default: nobody
	Derived func(events.Payload)
}

// Reasons to stop, beside the planner's.
const (
	StopPassLimit  = "pass-limit"    // there is more to do: the next task goes on
	StopNoProgress = "no-progress"   // a cut was made and the context is no smaller
	StopRejected   = "node-rejected" // the fold did not accept what was committed
)

// Service condenses sessions. It is safe for concurrent use.
type Service struct {
	c      Config
	d      Deps
	ladder condense.Ladder

	mu       sync.Mutex
	failures map[events.Ref]int   // in a row
	hopeless map[string]time.Time // superseded key → when a repair was no better
}

// maxRemembered bounds each of the service's memories; they only save work.
const maxRemembered = 10_000

// New makes a service.
func New(c Config, d Deps) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if d.Reads == nil || d.Log == nil || d.Summarizer == nil {
		return nil, errors.New("condenser: reads, log and summarizer are needed")
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Derived == nil {
		d.Derived = func(events.Payload) {}
	}
	c = c.WithDefaults()
	return &Service{
		c: c, d: d, ladder: condense.Ladder{Summarizer: bounded{d.Summarizer, c.CallTimeout}},
		failures: map[events.Ref]int{}, hopeless: map[string]time.Time{},
	}, nil
}

// Handle does one task. It asks for a retry where the session is still due and
// somebody else must act first; a pass that made progress is never punished.
func (s *Service) Handle(ctx context.Context, t api.Task) api.TaskResult {
	out, err := s.condense(ctx, t.Ref, t.Position, s.c.MaxRepairs)
	switch {
	case err == nil && out.Stop != StopRejected && out.Stop != StopNoProgress:
		s.recovered(t.Ref)
		return api.TaskResult{}
	case err == nil:
		err = errors.New(out.Stop)
	case problem.IsCode(err, problem.NotFound): // nobody will miss it
		return api.TaskResult{}
	case ctx.Err() != nil:
		return api.TaskResult{Retry: s.c.RetryMin}
	case out.Nodes > 0:
		s.recovered(t.Ref)
	}
	return api.TaskResult{Retry: s.failed(t.Ref, err)}
}

// failed counts a failure and returns the pause before the next try.
func (s *Service) failed(ref events.Ref, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) >= maxRemembered {
		clear(s.failures)
	}
	n := s.failures[ref]
	s.failures[ref] = n + 1
	if n == 0 {
		s.d.Logger.Warn("condensing is held up", "session", ref.String(), "error", err)
	}
	if errors.Is(err, condense.ErrRefused) {
		return s.c.RetryMax
	}
	return min(s.c.RetryMin<<min(n, 20), s.c.RetryMax)
}

func (s *Service) recovered(ref events.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures[ref] > 0 {
		s.d.Logger.Info("condensing goes on", "session", ref.String())
		delete(s.failures, ref)
	}
}

// Condense works on a session, at or after token, until nothing is due and what
// an outage left truncated is redone. The report is never nil; with an error it
// says what was done before. Committed nodes stay when ctx ends. A second
// condenser on the session is no error.
func (s *Service) Condense(ctx context.Context, ref events.Ref, token events.Position) (*api.CondenseOut, error) {
	return s.condense(ctx, ref, token, 0)
}

func (s *Service) condense(ctx context.Context, ref events.Ref, token events.Position, repairs int) (*api.CondenseOut, error) {
	r := &run{s: s, ref: ref, most: repairs, committed: map[string]bool{}, out: &api.CondenseOut{Session: ref.Session}}
	if err := r.load(ctx, token); err != nil {
		return r.out, s.explain(ref, err)
	}
	was := r.cut()
	err := r.passes(ctx)
	r.out.Cut = r.cut()
	r.out.Compacted = r.out.Cut != was
	return r.out, s.explain(ref, err)
}

// explain gives an error its code, and an operator a hint.
func (s *Service) explain(ref events.Ref, err error) error {
	var coded *problem.Error
	switch {
	case err == nil || errors.As(err, &coded):
		return err
	case errors.Is(err, condense.ErrRefused):
		return problem.New(problem.Unavailable, "condense %s: %w", ref, err).
			WithHint("check the summariser's key, model and URL; nothing was stored")
	case errors.Is(err, condense.ErrUnavailable):
		return problem.New(problem.Unavailable, "condense %s: %w", ref, err).
			WithHint("the session goes on raw; condensing resumes when the provider is back")
	case errors.Is(err, api.ErrLogUnavailable), errors.Is(err, api.ErrUnknownOutcome):
		return problem.New(problem.Unavailable, "condense %s: %w", ref, err)
	}
	return fmt.Errorf("condense %s: %w", ref, err)
}

// bounded gives each call a deadline. A call that outlives it is an outage of
// the provider, not the end of the caller's patience.
type bounded struct {
	condense.Summarizer
	limit time.Duration
}

func (b bounded) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	call, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	out, err := b.Summarizer.Summarize(call, r)
	if err != nil && call.Err() != nil && ctx.Err() == nil {
		return condense.Response{}, fmt.Errorf("%w: no answer within %s", condense.ErrUnavailable, b.limit)
	}
	return out, err
}
