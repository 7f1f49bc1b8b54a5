package toolsvc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/transcript"
	"lcm/window"
)

// Context answers with the active context. It never appends; over budget it
// asks for condensation, waits up to its deadline, and then renders the
// emergency view.
func (s *Service) Context(ctx context.Context, in api.ContextIn) (*api.ContextOut, error) {
	start := time.Now()
	out, err := s.context(ctx, in)
	if err == nil && s.d.Observer != nil {
		s.d.Observer.Context(out, time.Since(start))
	}
	return out, err
}

func (s *Service) context(ctx context.Context, in api.ContextIn) (*api.ContextOut, error) {
	format := cmp.Or(transcript.Format(in.Format), transcript.OpenAI)
	c, err := s.Assemble(ctx, in)
	if err != nil {
		return nil, err
	}
	out, err := contextOut(format, c)
	if err != nil {
		return nil, err
	}
	if out.PrefixChange, err = s.prefixChange(ctx, c, in.PrefixHash); err != nil {
		return nil, err
	}
	if in.MaxTokens == 0 {
		return out, nil
	}
	return boundContext(out, c.Ref, in)
}

// Assembled is a context before it is written in a provider's format.
type Assembled struct {
	*window.Context
	Ref   events.Ref
	Reply *api.ViewReply // the view it was rendered from
	Soft  int            // the threshold it was judged by
	at    uint64         // the position asked for, 0 = now
}

// Assemble reads and renders what Context answers with.
func (s *Service) Assemble(ctx context.Context, in api.ContextIn) (*Assembled, error) {
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	if err := wholeInGrant(ctx, ref.Session); err != nil {
		return nil, err
	}
	at, err := s.resolve(ctx, ref, in.At, token)
	if err != nil {
		return nil, err
	}
	q := api.ViewRequest{Ref: ref, At: at, Token: token}
	reply, err := s.d.Reads.View(ctx, q)
	if err != nil {
		return nil, err
	}
	if reply.View.Settings.Window == 0 {
		return nil, problem.New(problem.NotFound, "session %s did not exist at %s", ref.Session, in.At)
	}
	asked, err := validWindow(in, reply.View.Settings)
	if err != nil {
		return nil, err
	}
	if at == 0 && in.Window == 0 && in.Overhead == 0 {
		if reply, err = s.settle(ctx, q, reply, in.WaitSeconds); err != nil {
			return nil, err
		}
	}
	c, err := s.render(ctx, reply, at, window.Options{Window: in.Window, Overhead: in.Overhead, Emergency: true})
	if err != nil {
		return nil, err
	}
	return &Assembled{c, ref, reply, asked.Soft(), at}, nil
}

// boundContext cuts an answer to the size that was asked for. A cursor holds
// as long as the prefix it walks through: behind it a context only grows.
func boundContext(out *api.ContextOut, ref events.Ref, in api.ContextIn) (*api.ContextOut, error) {
	query := fmt.Sprintf("context %s %s %d %d %s", out.PrefixHash, out.Format, in.Window, in.Overhead, in.At)
	at, err := openCursor(in.Cursor, ref, query)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the cursor belongs to another question, or the context of %s was cut since", ref.Session).WithHint("ask again without it")
	}
	if next := boundMessages(out, at, in.MaxTokens); next != (place{}) {
		out.Cursor = newCursor(next, ref, query)
	}
	return out, nil
}

// validWindow gives the settings a call is rendered under.
func validWindow(in api.ContextIn, s events.Settings) (events.Settings, error) {
	if in.Window < 0 || in.Overhead < 0 || in.WaitSeconds < 0 || in.MaxTokens < 0 {
		return s, problem.New(problem.Invalid, "window, overhead, wait_seconds and max_tokens cannot be negative")
	}
	if in.Window > 0 {
		s.Window = in.Window
	}
	if in.Overhead > 0 {
		s.Overhead = in.Overhead
	}
	if b := s.Budget(); b < events.MinBudget {
		return s, problem.New(problem.Invalid, "window %d with overhead %d leaves a budget of %d tokens, at least %d are needed",
			s.Window, s.Overhead, b, events.MinBudget)
	}
	return s, nil
}

// renderMargin is what a context call keeps of its deadline for rendering.
const renderMargin = 2 * time.Second

// settle waits while the session is over its budget and something can be done
// about it: it dispatches an urgent task and looks again until the context
// fits or the deadline passes. Then the caller renders the emergency view.
func (s *Service) settle(ctx context.Context, q api.ViewRequest, r *api.ViewReply, seconds int) (*api.ViewReply, error) {
	wait := func(v *session.View) bool {
		return window.ContextTokens(v) > v.Settings.Budget() && condense.Plan(v).Due()
	}
	if !wait(r.View) {
		return r, nil
	}
	limit := s.c.BlockingDeadline
	if seconds > 0 {
		limit = time.Duration(seconds) * time.Second
	}
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)-renderMargin)
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	if err := s.d.Log.PublishTask(ctx, events.Urgent, q.Ref, r.Watermark); err != nil {
		return r, nil // the emergency view needs nobody
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return r, nil
		case <-poll.C:
			next, err := s.d.Reads.View(ctx, q)
			if err != nil {
				return nil, err
			}
			if r = next; !wait(r.View) {
				return r, nil
			}
		}
	}
}

// render fetches the bodies a view shows, and nothing else, and renders it.
func (s *Service) render(ctx context.Context, r *api.ViewReply, at uint64, o window.Options) (*window.Context, error) {
	v := r.View
	bodies, err := s.bodies(ctx, v, at, r.Watermark)
	if err != nil {
		return nil, err
	}
	c, err := window.Render(v, bodies, o)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", v.Ref, err)
	}
	return c, nil
}

// A context's turns come in one page where they can.
const (
	bodiesPage  = 2_000
	bodiesBytes = 8 << 20
)

// bodies reads the payloads of a view; seen is the view's own watermark, so
// that a replica that lags behind it waits.
func (s *Service) bodies(ctx context.Context, v *session.View, at uint64, seen events.Position) (session.Bodies, error) {
	var ranges []events.Range
	add := func(e session.Entry) { ranges = session.Joined(ranges, []events.Range{{First: e.N, Last: e.N}}) }
	for _, e := range v.Pinned {
		add(e)
	}
	if v.Kept != nil {
		add(*v.Kept)
	}
	for _, e := range v.Tail {
		add(e)
	}
	turns := make(map[uint64]*events.TurnAppended, len(v.Tail)+len(v.Pinned)+1)
	if len(ranges) > 0 {
		err := s.turns(ctx, api.TurnsRequest{
			Ref: v.Ref, Ranges: ranges, At: at, Token: seen, Limit: bodiesPage, MaxBytes: bodiesBytes,
		}, func(t api.StoredTurn) error {
			p, err := events.DecodeTurn(t.Payload)
			turns[t.Entry.N] = p
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return func(n uint64) (*events.TurnAppended, error) {
		if t := turns[n]; t != nil {
			return t, nil
		}
		return nil, problem.New(problem.Internal, "entry e%d of %s is not among the turns of its view", n, v.Ref)
	}, nil
}

func contextOut(f transcript.Format, c *Assembled) (*api.ContextOut, error) {
	enc, err := c.Encode(f)
	if err != nil {
		return nil, problem.New(problem.Invalid, "context as %q: %w", f, err).WithHint("formats are openai, anthropic, plain")
	}
	out := &api.ContextOut{
		Session: c.Ref.Session, Tokens: c.Tokens, Budget: c.Budget, Soft: c.Soft,
		Regime: string(c.Regime), Degraded: c.Degraded, Hypothetical: c.Hypothetical,
		PrefixHash: c.PrefixHash, Cut: c.Cut, Leaf: entryID(c.Reply.View.Leaf), EndsWith: string(c.EndsWith),
		BlockTokens: c.BlockTokens, Format: string(f), System: enc.System, Messages: enc.Messages,
		Pointers: []api.Pointer{}, Token: c.Reply.Watermark.String(),
	}
	if out.Messages == nil {
		out.Messages = []json.RawMessage{}
	}
	for _, p := range c.Pointers {
		out.Pointers = append(out.Pointers, api.Pointer{
			ID: p.ID, Tier: string(p.Tier), Tokens: p.Tokens, Depth: p.Depth,
			First: entryID(p.First), Last: entryID(p.Last),
		})
	}
	return out, nil
}

// changesBack is how many changes are looked behind for a caller's prefix: it is
// the one before the newest, as a rule.
const changesBack = 24

// prefixChange says why a caller's prefix no longer holds, "" where it does: by
// the newest change behind which contexts began with it.
func (s *Service) prefixChange(ctx context.Context, c *Assembled, hash string) (string, error) {
	at := c.at
	switch {
	case hash == "" || hash == c.PrefixHash:
		return "", nil
	case c.Degraded:
		return "degraded: over budget before a condenser answered", nil
	case c.Hypothetical:
		return "hypothetical: another window or overhead than the session's", nil
	case at == 0:
		at = c.Reply.Watermark.Seq
	}
	q := api.ViewRequest{Ref: c.Ref, At: at, Token: c.Reply.Watermark, Changed: true}
	r, err := s.d.Reads.View(ctx, q)
	for range changesBack {
		if err != nil {
			return "", err
		}
		change := r.Changed
		if change.Seq <= 1 {
			break
		}
		q.At = change.Seq - 1
		if r, err = s.d.Reads.View(ctx, q); err != nil {
			return "", err
		}
		if r.View.Settings.Window == 0 {
			break // the session did not exist yet
		}
		r.View.Tail = nil // only the beginning matters
		before, err := s.render(ctx, r, q.At, window.Options{})
		if err != nil {
			return "", err
		}
		if before.PrefixHash == hash {
			return changeText(change), nil
		}
	}
	return api.PrefixUnknown, nil
}

func changeText(c session.Change) string {
	switch {
	case c.Cut != 0:
		return fmt.Sprintf("cut %d (%s)", c.Cut, c.Kind)
	case c.Settings:
		return api.PrefixSettings
	default:
		return api.PrefixMoved
	}
}
