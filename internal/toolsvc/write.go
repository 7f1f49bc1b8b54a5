package toolsvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Append writes a body of turns to a session.
func (s *Service) Append(ctx context.Context, in api.AppendIn, body []byte) (*api.AppendOut, error) {
	ref, _, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	return s.appendBody(ctx, ref, in.Format, body, func(int) string { return "" })
}

// appendBody appends what a body holds; id names the i-th write's turn where
// its source does not, "" = a new id.
func (s *Service) appendBody(ctx context.Context, ref events.Ref, format string, body []byte, id func(i int) string) (*api.AppendOut, error) {
	parsed, err := s.d.Parse(body, format)
	if err != nil {
		return nil, problem.New(problem.Invalid, "append to %s: %w", ref.Session, err)
	}
	var writes []api.Write
	for _, w := range parsed {
		if w.Refused != "" {
			continue
		}
		if w.Turn != nil && w.Turn.Turn.ID == "" {
			w.Turn.Turn.ID = id(len(writes))
		}
		writes = append(writes, w)
	}
	reply := &api.AppendReply{}
	if len(writes) > 0 {
		if reply, err = s.d.Writes.Append(ctx, api.AppendRequest{Ref: ref, Writes: writes}); err != nil {
			return nil, err
		}
	}
	return appendOut(parsed, reply), nil
}

// appendOut answers record for record, in the order of the body.
func appendOut(parsed []api.Write, reply *api.AppendReply) *api.AppendOut {
	out := &api.AppendOut{Turns: []api.AppendedTurn{}, Token: reply.Token.String()}
	next := 0
	for _, p := range parsed {
		if p.Refused != "" {
			out.Turns = append(out.Turns, api.AppendedTurn{Error: p.Refused, Code: string(problem.Invalid)})
			continue
		}
		w := reply.Written[next]
		next++
		out.Turns = append(out.Turns, api.AppendedTurn{
			ID: w.ID, Entry: entryID(w.Entry), Duplicate: w.Duplicate, Token: w.Token.String(), Error: w.Error, Code: w.Code,
		})
	}
	return out
}

// Move makes another turn the leaf of a session. Nothing is lost: moving back
// brings the turns back.
func (s *Service) Move(ctx context.Context, in api.MoveIn) (*api.MoveOut, error) {
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	to := in.To
	if t, ok := parseLocal(in.To); ok && t.kind == "entry" {
		r, err := s.d.Reads.Turns(ctx, api.TurnsRequest{Ref: ref, Ranges: []events.Range{{First: t.n, Last: t.n}}, Token: token})
		if err != nil {
			return nil, err
		}
		if len(r.Turns) != 1 {
			return nil, problem.New(problem.NotFound, "session %s has no entry %s", ref.Session, in.To)
		}
		to = r.Turns[0].Entry.ID
	}
	if to == "" {
		return nil, problem.New(problem.Invalid, "no turn is named").WithHint("name it as an entry, e12, or by its id")
	}
	r, err := s.d.Writes.Append(ctx, api.AppendRequest{Ref: ref, Writes: []api.Write{{MoveTo: to}}})
	if err != nil {
		return nil, err
	}
	if w := r.Written[0]; w.Error != "" {
		return nil, problem.New(problem.Code(w.Code), "%s", w.Error)
	}
	return &api.MoveOut{Session: ref.Session, Leaf: entryID(r.Written[0].Entry), Token: r.Written[0].Token.String()}, nil
}

// Import reads a transcript into sessions.
func (s *Service) Import(ctx context.Context, in api.ImportIn, body io.Reader, progress func(api.ImportProgress)) ([]api.ImportReport, error) {
	if _, _, err := s.scope(ctx, &in.Scope); err != nil {
		return nil, err
	}
	return s.d.Import(ctx, body, in, progress)
}

// Configure changes and answers the settings of a session; with nothing to
// set it only answers.
func (s *Service) Configure(ctx context.Context, in api.ConfigureIn) (*api.ConfigureOut, error) {
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	out := &api.ConfigureOut{Session: ref.Session}
	if len(in.Set) == 0 && in.Usage == nil {
		r, err := s.d.Reads.View(ctx, api.ViewRequest{Ref: ref, Token: token})
		if err != nil {
			return nil, err
		}
		out.Settings, out.Token = r.View.Settings, r.Watermark.String()
	} else {
		r, err := s.d.Writes.Configure(ctx, api.ConfigureRequest{Ref: ref, Set: in.Set, Usage: in.Usage})
		if err != nil {
			return nil, err
		}
		out.Settings, out.Token = r.Settings, r.Token.String()
	}
	out.Budget = out.Settings.Budget()
	return out, nil
}

// Condense runs a condenser on a session now and waits for it.
func (s *Service) Condense(ctx context.Context, in api.CondenseIn) (*api.CondenseOut, error) {
	if in.Window < 0 {
		return nil, problem.New(problem.Invalid, "the window cannot be negative")
	}
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	r, err := s.d.Reads.View(ctx, api.ViewRequest{Ref: ref, Token: token}) // not_found before anything is written
	if err != nil {
		return nil, err
	}
	token = r.Watermark
	if in.Window > 0 {
		c, err := s.d.Writes.Configure(ctx, api.ConfigureRequest{Ref: ref, Set: map[string]any{"window": in.Window}})
		if err != nil {
			return nil, err
		}
		if c.Token.Seq > token.Seq { // zero where nothing had to change
			token = c.Token
		}
	}
	return s.d.Condenser.Condense(ctx, ref, token)
}

// Dead lists dead letters, or shows one.
func (s *Service) Dead(ctx context.Context, in api.DeadIn) (*api.DeadOut, error) {
	if _, _, err := s.scope(ctx, &in.Scope); err != nil {
		return nil, err
	}
	if in.ID != "" {
		d, err := s.d.Dead.DeadLetter(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if d.Ref.Tenant != in.Tenant {
			return nil, problem.New(problem.NotFound, "there is no dead letter %s", in.ID)
		}
		return &api.DeadOut{Letters: []api.DeadLetter{d}}, nil
	}
	return s.deadPage(ctx, in)
}

// deadPage is one page of a tenant's letters, or of a session's. Its cursor is
// worth nothing to another tenant, and what others have shows in none of it.
func (s *Service) deadPage(ctx context.Context, in api.DeadIn) (*api.DeadOut, error) {
	ref := events.Ref{Tenant: in.Tenant, Session: in.Session}
	after, err := openCursor(in.After, ref, "dead")
	if err != nil {
		return nil, err
	}
	limit := in.Limit
	if limit <= 0 || limit > 1000 {
		limit = 1000
	}
	letters, err := s.d.Dead.Dead(ctx, &ref, uint64(after[0]), limit)
	if err != nil {
		return nil, err
	}
	out := &api.DeadOut{Letters: append([]api.DeadLetter{}, letters...)}
	if len(letters) == limit {
		last, err := strconv.Atoi(letters[limit-1].ID)
		if err != nil {
			return nil, problem.New(problem.Internal, "dead letter %q has no number: %w", letters[limit-1].ID, err)
		}
		out.Next = newCursor(place{last}, ref, "dead")
	}
	return out, nil
}

// RetryDead drives dead letters through the append path again. What is
// accepted now leaves the dead letters; the rest stays.
func (s *Service) RetryDead(ctx context.Context, in api.DeadIn) (*api.RetryOut, error) {
	out := &api.RetryOut{Problems: []string{}}
	for {
		page, err := s.Dead(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Letters {
			if err := s.retryOne(ctx, d); err != nil {
				out.Still++
				out.Problems = append(out.Problems, fmt.Sprintf("%s (%s): %v", d.ID, d.Origin, err))
				continue
			}
			out.Retried++
		}
		if page.Next == "" {
			return out, nil
		}
		in.After = page.Next
	}
}

func (s *Service) retryOne(ctx context.Context, d api.DeadLetter) error {
	if len(d.Body) == 0 {
		return errors.New("its original was too large to keep here: import the source again")
	}
	r, err := s.appendBody(ctx, d.Ref, d.Format, d.Body, func(i int) string {
		if i == 0 && d.TurnID != "" {
			return d.TurnID
		}
		return fmt.Sprintf("dead:%s:%d", d.Hash, i) // the same on every retry
	})
	if err != nil {
		return err
	}
	for _, w := range r.Turns {
		if w.Error != "" {
			return errors.New(w.Error)
		}
	}
	return s.d.Dead.Unbury(ctx, d.ID)
}
