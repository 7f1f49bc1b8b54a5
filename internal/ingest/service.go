package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Appender is the append path as its users see it, in one process or over a
// connection.
type Appender interface {
	// Append answers write for write once everything is durable. A refused
	// write fails alone, in its Written. An error means that any of the writes
	// may be stored or not: sending them again with the same ids is safe.
	Append(ctx context.Context, r api.AppendRequest) (*api.AppendReply, error)
}

// Service is the append path. Its methods may be called concurrently; they
// need Run to be running.
type Service struct {
	c          Config
	d          Deps
	epoch      string
	partitions int
	queue      *queue
	lanes      *lanes
	calls      *calls
	forwarding forwarding
	forwards   *forwards
}

// New checks the configuration and makes a service.
func New(c Config, d Deps) (*Service, error) {
	if d.Log == nil || d.Lookup == nil {
		return nil, errors.New("ingest: Deps.Log and Deps.Lookup are required")
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("ingest: %w", err)
	}
	c = c.withDefaults()
	return &Service{
		c: c, d: d.withDefaults(), epoch: d.Log.Epoch(), partitions: d.Log.Partitions(),
		queue: newQueue(), lanes: newLanes(c.MaxLanes), calls: newCalls(c.KnownCalls), forwards: newForwards(),
	}, nil
}

// Append implements Appender. A turn without an id gets one: sending it again
// stores it again.
func (s *Service) Append(ctx context.Context, r api.AppendRequest) (*api.AppendReply, error) {
	start := s.d.Clock()
	reply, err := s.append(ctx, r, true)
	s.d.Answered(r, reply, err, s.d.Clock().Sub(start))
	return reply, err
}

func (s *Service) append(ctx context.Context, r api.AppendRequest, mayForward bool) (*api.AppendReply, error) {
	if err := s.checkRequest(r); err != nil {
		return nil, err
	}
	j := &job{ref: r.Ref, settings: r.Settings, refused: map[int]error{}, writes: slices.Clone(r.Writes), preparedFor: r.PreparedFor}
	if j.settings == nil {
		j.settings = &s.c.Defaults
	}
	for i := range j.writes {
		if err := s.checkWrite(&j.writes[i]); err != nil {
			j.refused[i] = problem.New(problem.Invalid, "%w", err)
		}
	}
	if holder := s.committer(); mayForward && holder != "" {
		if written, ok := s.forward(ctx, holder, j); ok {
			return replyOf(written), nil
		}
	}
	written, err := s.attempt(ctx, j)
	if err != nil {
		return nil, err
	}
	return replyOf(written), nil
}

// Configure changes settings of a session; fields that Set does not name stay.
// A change that changes nothing writes nothing.
func (s *Service) Configure(ctx context.Context, r api.ConfigureRequest) (*api.ConfigureReply, error) {
	if err := r.Ref.Validate(); err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	j := &job{ref: r.Ref, settings: &s.c.Defaults, set: maps.Clone(r.Set), usage: r.Usage, models: s.c.Models}
	if j.set == nil {
		j.set = map[string]any{}
	}
	written, err := s.attempt(ctx, j)
	if err != nil {
		return nil, err
	}
	if err := j.results[0].err; err != nil {
		return nil, err
	}
	return &api.ConfigureReply{Settings: j.now, Token: written[0].Token}, nil
}

func (s *Service) checkRequest(r api.AppendRequest) error {
	if err := r.Ref.Validate(); err != nil {
		return problem.New(problem.Invalid, "%w", err)
	}
	if len(r.Writes) == 0 {
		return problem.New(problem.Invalid, "an append to %s without anything to write", r.Ref)
	}
	if len(r.Writes) > s.c.MaxWrites {
		return problem.New(problem.TooLarge, "%d writes in one request, at most %d are taken", len(r.Writes), s.c.MaxWrites).
			WithHint("send them in several requests")
	}
	if r.Settings != nil {
		if err := r.Settings.ValidateNew(); err != nil {
			return problem.New(problem.Invalid, "settings of %s: %w", r.Ref, err)
		}
	}
	return nil
}

// checkWrite says what is wrong with a write, and gives ids where they are
// missing. It copies what it changes.
func (s *Service) checkWrite(w *api.Write) error {
	n := 0
	for _, set := range []bool{w.Turn != nil, w.MoveTo != "", w.Compaction != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		return errors.New("a write is one of a turn, a move of the leaf, or a compaction")
	}
	switch {
	case w.Turn != nil:
		t := *w.Turn
		w.Turn = &t
		if t.Turn.ID == "" {
			t.Turn.ID = s.d.NewID()
		}
		if !t.Turn.Role.Valid() {
			return fmt.Errorf("turn %q has role %q; known are system, developer, user, assistant, tool", t.Turn.ID, t.Turn.Role)
		}
		return events.ValidateTurnID(t.Turn.ID)
	case w.Compaction != nil:
		c := *w.Compaction
		w.Compaction = &c
		if c.ID == "" {
			c.ID = "c:" + events.HashBytes([]byte(c.Original+"\x00"+c.Text))
		}
		return events.ValidateTurnID(c.ID)
	}
	return nil
}
