// Package toolsvc is the stateless service behind every tool: it reads
// projections, renders contexts, and passes writes on. HTTP, NATS micro and
// the command line all call the same table of tools.
//
// It works over the small ports below and must never import an engine or an
// adapter.
package toolsvc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Reads is the projector's read endpoint, in process or over NATS. Each call
// waits for its token up to the context's deadline.
type Reads interface {
	View(context.Context, api.ViewRequest) (*api.ViewReply, error)
	Turns(context.Context, api.TurnsRequest) (*api.TurnsReply, error)
	Node(context.Context, api.NodeRequest) (*api.NodeReply, error)
	File(context.Context, api.FileRequest) (*api.FileReply, error)
	Sessions(context.Context, api.SessionsRequest) (*api.SessionsReply, error)
	Resolve(context.Context, api.ResolveRequest) (*api.ResolveReply, error)
	Grep(context.Context, api.GrepRequest) (*api.GrepReply, error)
	Lookup(context.Context, api.LookupRequest) (*api.LookupReply, error)
	Admin
}

// Admin is the part of the read endpoint that operators use.
type Admin interface {
	Status(context.Context) (*api.StatusReply, error)
	Doctor(context.Context, api.DoctorRequest) (*api.DoctorReply, error)
	Rebuild(context.Context, api.RebuildRequest) (*api.RebuildReply, error)
}

// Writes is the ingestor, in process or over NATS. Answers are durable.
type Writes interface {
	Append(context.Context, api.AppendRequest) (*api.AppendReply, error)
	Configure(context.Context, api.ConfigureRequest) (*api.ConfigureReply, error)
}

// Condenser condenses one session now, in process or over NATS.
type Condenser interface {
	Condense(ctx context.Context, ref events.Ref, token events.Position) (*api.CondenseOut, error)
}

// Log is what toolsvc asks of the event log itself.
type Log interface {
	Epoch() string
	Partitions() int
	LastSeq(context.Context) (uint64, error)
	// LastOf is the position of a subject's last event, 0 = none.
	LastOf(ctx context.Context, subject string) (uint64, error)
	// Watch tells, now and then without cause, that a session's subjects moved.
	Watch(ctx context.Context, ref events.Ref) (woken <-chan struct{}, stop func(), err error)
	PublishTask(context.Context, events.Urgency, events.Ref, events.Position) error
}

// DeadLetters keeps what was refused.
type DeadLetters interface {
	// Dead lists letters of a session, of a tenant where ref names no session, of
	// all where it is nil.
	Dead(ctx context.Context, ref *events.Ref, after uint64, limit int) ([]api.DeadLetter, error)
	DeadLetter(ctx context.Context, id string) (api.DeadLetter, error)
	Unbury(ctx context.Context, id string) error
}

// Observer is told what the tools do. It is called by many at once and must not
// block.
type Observer interface {
	// Called: a tool has answered.
	Called(tool string, err error, took time.Duration)
	// Context: a context was given.
	Context(out *api.ContextOut, took time.Duration)
}

// Deps are the parts a Service works with.
type Deps struct {
	Reads     Reads
	Writes    Writes
	Condenser Condenser
	Log       Log
	Dead      DeadLetters
	// Maps keeps map jobs, nil = they are not served here; MapUpload keeps an
	// input for one.
	Maps      Maps
	MapUpload func(ctx context.Context, tenant string, r io.Reader) (*api.MapUploadOut, error)
	// Import reads a whole transcript into sessions.
	Import func(ctx context.Context, r io.Reader, in api.ImportIn, progress func(api.ImportProgress)) ([]api.ImportReport, error)
	// Verify reads the whole log and checks it; Export writes everything the
	// log holds, as package backup reads it.
	Verify func(ctx context.Context, in api.VerifyIn, progress func(api.VerifyProgress)) (*api.VerifyReply, error)
	Export func(ctx context.Context, in api.ExportIn, w io.Writer) error
	// Grants opens the grants that calls name, and charges them; nil = none are
	// honoured here.
	Grants Grants
	// Reader answers questions with a model; nil = there is none.
	Reader Reader
	// Parse turns a request body into writes, in order; a record that is no
	// turn carries its refusal.
	Parse func(body []byte, format string) ([]api.Write, error)
	// State of the log's streams, and of the models that are asked, process by
	// process; nil = unknown.
	State  func(context.Context) (*api.LogState, error)
	Models func(context.Context) []api.ModelProcess
	// Streams says why the streams take nothing, as when their disk is full; ""
	// = they do, nil = nobody knows here.
	Streams func() string
	// Observer; nil = nobody.
	Observer Observer
	// Logger of tools that panic; nil = none.
	Logger *slog.Logger
}

// Config bounds a Service.
type Config struct {
	// DefaultTenant of callers that name none.
	DefaultTenant string
	// ReadDeadline bounds a read's wait for its token. Default 30 s, the time
	// a person waits for a command.
	ReadDeadline time.Duration
	// BlockingDeadline bounds how long a context call waits for condensation
	// when the session is over its budget. Default 30 s (a
	// compaction takes about 25 s with a large model).
	BlockingDeadline time.Duration
	// ReadyLag is how many events a projection may be behind while /readyz says
	// yes. Default 10,000.
	ReadyLag uint64
	// MaxBodyBytes of an append, by default what the largest turn may take;
	// imports are streamed and not bounded.
	MaxBodyBytes int64
}

// DefaultConfig is what `lcm serve` starts from.
func DefaultConfig() Config {
	return Config{
		DefaultTenant: "default", ReadDeadline: 30 * time.Second,
		BlockingDeadline: 30 * time.Second, MaxBodyBytes: events.MaxSourceBytes, ReadyLag: 10_000,
	}
}

// Validate rejects a Config that cannot work.
func (c Config) Validate() error {
	if c.DefaultTenant == "" || c.ReadDeadline <= 0 || c.BlockingDeadline <= 0 || c.MaxBodyBytes <= 0 {
		return fmt.Errorf("toolsvc: tenant, deadlines and body limit must be set: %+v", c)
	}
	return nil
}

// Service implements the tools.
type Service struct {
	c Config
	d Deps
	// readers are the tools of a reader.
	readers []AgentTool
}

// New makes a Service over its ports.
func New(c Config, d Deps) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Service{c: c, d: d}
	var err error
	s.readers, err = s.readerTools()
	return s, err
}

// scope resolves who and where a call is about, and what it must see. The
// tenant is the caller's; only the operator may name one.
func (s *Service) scope(ctx context.Context, in *api.Scope) (events.Ref, events.Position, error) {
	if err := s.setTenant(ctx, in); err != nil {
		return events.Ref{}, events.Position{}, err
	}
	ref := events.Ref{Tenant: in.Tenant, Session: in.Session}
	token, err := events.ParsePosition(in.Token)
	if err != nil {
		return ref, token, problem.New(problem.Invalid, "%w", err)
	}
	if err := (events.Ref{Tenant: ref.Tenant, Session: "x"}).Validate(); err != nil {
		return ref, token, problem.New(problem.Invalid, "%w", err)
	}
	if in.Fresh && (token.Epoch == "" || token.Epoch == s.d.Log.Epoch()) {
		last, err := s.d.Log.LastSeq(ctx)
		if err != nil && !away(ctx, err) {
			return ref, token, err
		}
		if last > token.Seq && last > 0 {
			token = events.Position{Epoch: s.d.Log.Epoch(), Seq: last}
		}
	}
	return ref, token, nil
}

// session is scope for tools that need a session's name. A caller without a
// token sees at least what the session's timeline holds now: what was just
// appended is there.
func (s *Service) session(ctx context.Context, in *api.Scope) (events.Ref, events.Position, error) {
	if in.Session == "" {
		return events.Ref{}, events.Position{}, problem.New(problem.Invalid, "no session is named").WithHint("`lcm sessions` lists them")
	}
	ref, token, err := s.scope(ctx, in)
	if err != nil {
		return ref, token, err
	}
	if err := ref.Validate(); err != nil {
		return ref, token, problem.New(problem.Invalid, "%w", err)
	}
	if err := inGrant(ctx, ref.Session); err != nil {
		return ref, token, err
	}
	if token == (events.Position{}) {
		token, err = s.ownEnd(ctx, ref)
	}
	return ref, token, err
}

// ownEnd is the position of the session's newest timeline event. It costs one
// read of the log, and nobody waits for other sessions' events.
func (s *Service) ownEnd(ctx context.Context, ref events.Ref) (events.Position, error) {
	last, err := s.d.Log.LastOf(ctx, events.Subject(events.LaneTimeline, ref, s.d.Log.Partitions()))
	if away(ctx, err) {
		return events.Position{}, nil
	}
	if err != nil || last == 0 {
		return events.Position{}, err
	}
	return events.Position{Epoch: s.d.Log.Epoch(), Seq: last}, nil
}

// away: the log does not answer, as when its disk is full. Reads go on with what
// has been projected; their answer says up to where.
func away(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && !problem.IsCode(err, problem.Damaged)
}

// resolve turns a position people write into a stream sequence; "" is now.
func (s *Service) resolve(ctx context.Context, ref events.Ref, at string, token events.Position) (uint64, error) {
	if at == "" {
		return 0, nil
	}
	r, err := s.d.Reads.Resolve(ctx, api.ResolveRequest{Ref: ref, At: at, Token: token})
	if err != nil {
		return 0, err
	}
	return r.Seq, nil
}

// turns reads every page of some entries.
func (s *Service) turns(ctx context.Context, q api.TurnsRequest, each func(api.StoredTurn) error) error {
	for {
		page, err := s.d.Reads.Turns(ctx, q)
		if err != nil {
			return err
		}
		for _, t := range page.Turns {
			if err := each(t); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return nil
		}
		q.After = page.Next
	}
}
