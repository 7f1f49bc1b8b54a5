package toolsvc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

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
	return s.page(ctx, q, in.Cursor, "show "+in.Range+" "+in.At, in.Raw)
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
	return s.page(ctx, q, in.Cursor, "expand "+in.ID+" "+in.At, true)
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

// page reads one page of turns; query ties the cursor to the question.
func (s *Service) page(ctx context.Context, q api.TurnsRequest, cursor, query string, raw bool) (*api.TurnsOut, error) {
	var err error
	if q.After, err = openCursor(cursor, q.Ref, query); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > pageTurns {
		q.Limit = pageTurns
	}
	r, err := s.d.Reads.Turns(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &api.TurnsOut{Session: q.Ref.Session, Turns: []api.TurnOut{}, Token: r.Watermark.String()}
	for _, t := range r.Turns {
		turn, err := turnOut(t, raw)
		if err != nil {
			return nil, fmt.Errorf("turn e%d of %s: %w", t.Entry.N, q.Ref, err)
		}
		out.Turns = append(out.Turns, turn)
	}
	if len(out.Turns) == 0 && len(q.Ranges) > 0 && cursor == "" {
		return nil, problem.New(problem.NotFound, "session %s has no entry %s", q.Ref.Session, entryID(q.Ranges[0].First))
	}
	if r.Next != 0 {
		out.Cursor = newCursor(r.Next, q.Ref, query)
	}
	return out, nil
}

func turnOut(t api.StoredTurn, raw bool) (api.TurnOut, error) {
	var p events.TurnAppended
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		return api.TurnOut{}, err
	}
	out := api.TurnOut{
		Entry: entryID(t.Entry.N), ID: p.ID, Role: string(p.Role), Sender: p.Sender, Text: p.DerivedText(),
		Blocks: p.AllBlocks(), Tokens: p.Tokens, Time: t.Entry.When(), Removed: t.Removed, Files: p.Files,
		Lost: p.Format == events.FormatLost,
	}
	if out.Blocks == nil {
		out.Blocks = []events.Block{}
	}
	if out.Files == nil {
		out.Files = []events.File{}
	}
	if raw {
		src, err := transcript.Source(&p)
		if err != nil {
			return out, err
		}
		out.Raw = string(src)
	}
	return out, nil
}

// A cursor is opaque: where to go on, and what was asked.
func newCursor(after uint64, ref events.Ref, query string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(
		strconv.FormatUint(after, 10) + " " + cursorHash(ref, query)))
}

func openCursor(c string, ref events.Ref, query string) (uint64, error) {
	if c == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(c)
	after, hash, ok := strings.Cut(string(b), " ")
	n, perr := strconv.ParseUint(after, 10, 64)
	if err != nil || perr != nil || !ok || hash != cursorHash(ref, query) {
		return 0, problem.New(problem.Invalid, "the cursor belongs to another question").WithHint("ask again without it")
	}
	return n, nil
}

func cursorHash(ref events.Ref, query string) string {
	return events.HashBytes([]byte(ref.String() + "\x00" + query))
}
