package toolsvc

import (
	"context"
	"fmt"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/transcript"
)

// pageTurns is how many turns one answer of show or expand holds by default.
const pageTurns = 500

// Show answers with turns, verbatim.
func (s *Service) Show(ctx context.Context, in api.ShowIn) (*api.TurnsOut, error) {
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	ranges, err := parseRange(in.Range)
	if err != nil {
		return nil, err
	}
	if err := s.rangesInGrant(ctx, ref, ranges, token); err != nil {
		return nil, err
	}
	at, err := s.resolve(ctx, ref, in.At, token)
	if err != nil {
		return nil, err
	}
	q := api.TurnsRequest{Ref: ref, Ranges: ranges, At: at, Token: token, Limit: in.Limit}
	out, err := s.page(ctx, q, pageIn{in.Cursor, "show " + in.Range + " " + in.At, in.Raw, in.MaxTokens})
	if err != nil || in.MaxTokens > 0 || wholeInGrant(ctx, ref.Session) != nil {
		return out, err
	}
	return out, s.addCompactions(ctx, api.ViewRequest{Ref: ref, At: at, Token: token, Compactions: true}, out.Turns)
}

// addCompactions puts the foreign compactions of a session beside the turns they
// follow.
func (s *Service) addCompactions(ctx context.Context, q api.ViewRequest, turns []api.TurnOut) error {
	v, err := s.d.Reads.View(ctx, q)
	if err != nil {
		return err
	}
	beside := map[string][]api.CompactionOut{}
	for _, c := range v.Compactions {
		at := entryID(max(c.After, 1))
		beside[at] = append(beside[at], compactionOut(c))
	}
	for i := range turns {
		turns[i].Compactions = beside[turns[i].Entry]
	}
	return nil
}

func compactionOut(c events.HistoryCompacted) api.CompactionOut {
	out := api.CompactionOut{Format: c.Format, Text: c.Text}
	if c.After > 0 {
		out.After = entryID(c.After)
	}
	if c.AuthorTime != nil {
		out.Time = *c.AuthorTime
	}
	return out
}

// Expand answers with the turns a node covers, exactly.
func (s *Service) Expand(ctx context.Context, in api.IDIn) (*api.TurnsOut, error) {
	t, err := parseID(&in.Scope, in.ID)
	if err != nil {
		return nil, err
	}
	ref, token, err := s.session(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	if err := s.thingInGrant(ctx, ref, t, token); err != nil {
		return nil, err
	}
	at, err := s.resolve(ctx, ref, in.At, token)
	if err != nil {
		return nil, err
	}
	q := api.TurnsRequest{Ref: ref, At: at, Token: token}
	switch t.kind {
	case "entry":
		q.Ranges = []events.Range{{First: t.n, Last: t.n}}
	case "node":
		d, err := s.node(ctx, ref, t.n, token)
		if err != nil {
			return nil, err
		}
		if at != 0 && d.Node.Seq > at {
			return nil, problem.New(problem.NotFound, "node #%d of %s did not exist yet then", t.n, ref.Session)
		}
		q.Ranges = d.Node.Covered
	case "file":
		f, err := s.d.Reads.File(ctx, api.FileRequest{Ref: ref, ID: t.file, Token: token})
		if err != nil {
			return nil, err
		}
		q.Ranges = []events.Range{{First: f.Entry, Last: f.Entry}}
	default:
		return nil, problem.New(problem.Invalid, "a session is not expanded").WithHint("`lcm show %s` lists its turns", ref.Session)
	}
	return s.page(ctx, q, pageIn{in.Cursor, "expand " + in.ID + " " + in.At, true, in.MaxTokens})
}

func (s *Service) node(ctx context.Context, ref events.Ref, n uint64, token events.Position) (*api.StoredNode, error) {
	r, err := s.d.Reads.Node(ctx, api.NodeRequest{Ref: ref, Numbers: []uint64{n}, Token: token})
	if err != nil {
		return nil, err
	}
	if len(r.Nodes) != 1 {
		return nil, problem.New(problem.NotFound, "session %s has no node #%d", ref.Session, n)
	}
	return &r.Nodes[0], nil
}

// pageIn says how turns are paged.
type pageIn struct {
	cursor, query string // query ties the cursor to the question
	raw           bool
	maxTokens     int
}

// boundedTurns is how many turns are read for an answer of bounded size.
const boundedTurns = 32

// page reads one page of turns.
func (s *Service) page(ctx context.Context, q api.TurnsRequest, in pageIn) (*api.TurnsOut, error) {
	at, err := openCursor(in.cursor, q.Ref, in.query)
	if err != nil {
		return nil, err
	}
	if in.maxTokens < 0 {
		return nil, problem.New(problem.Invalid, "max_tokens cannot be negative")
	}
	q.After = uint64(at[0])
	if q.Limit <= 0 || q.Limit > pageTurns {
		q.Limit = pageTurns
	}
	if in.maxTokens > 0 {
		q.Limit, in.raw = min(q.Limit, boundedTurns), false
	}
	r, err := s.d.Reads.Turns(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &api.TurnsOut{Session: q.Ref.Session, Turns: []api.TurnOut{}, Token: r.Watermark.String()}
	for _, t := range r.Turns {
		turn, err := turnOut(t, in.raw)
		if err != nil {
			return nil, fmt.Errorf("turn e%d of %s: %w", t.Entry.N, q.Ref, err)
		}
		out.Turns = append(out.Turns, turn)
	}
	if len(out.Turns) == 0 && len(q.Ranges) > 0 && in.cursor == "" {
		return nil, problem.New(problem.NotFound, "session %s has no entry %s", q.Ref.Session, entryID(q.Ranges[0].First))
	}
	next := place{int(r.Next)}
	if in.maxTokens > 0 {
		next = boundTurns(out, r, at, in.maxTokens)
	}
	if next != (place{}) {
		out.Cursor = newCursor(next, q.Ref, in.query)
	}
	return out, nil
}

func turnOut(t api.StoredTurn, raw bool) (api.TurnOut, error) {
	p, err := events.DecodeTurn(t.Payload)
	if err != nil {
		return api.TurnOut{}, err
	}
	out := api.TurnOut{
		Entry: entryID(t.Entry.N), ID: p.ID, Role: string(p.Role), Sender: p.Sender, Text: p.DerivedText(),
		Blocks: p.AllBlocks(), Tokens: p.Tokens, Time: t.Entry.When(), Removed: t.Removed, Files: p.Files,
		Lost: p.Format == events.FormatLost, LargeInline: p.LargeInline,
	}
	if out.Blocks == nil {
		out.Blocks = []events.Block{}
	}
	if out.Files == nil {
		out.Files = []events.File{}
	}
	if raw {
		src, err := transcript.Source(p)
		if err != nil {
			return out, err
		}
		out.Raw = string(src)
	}
	return out, nil
}
