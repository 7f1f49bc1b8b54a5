package toolsvc

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/tokens"
)

// Describe says what an id names, and what reading it would cost.
func (s *Service) Describe(ctx context.Context, in api.IDIn) (*api.DescribeOut, error) {
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
	query := "describe " + in.ID + " " + in.At
	from, err := openCursor(in.Cursor, ref, query)
	if err != nil {
		return nil, err
	}
	at, err := s.resolve(ctx, ref, in.At, token)
	if err != nil {
		return nil, err
	}
	out := &api.DescribeOut{
		Session: ref.Session, ID: in.ID, Kind: t.kind, OnPath: true, Token: token.String(),
		Tiers: []api.TierOut{}, Children: []api.ChildOut{}, Parents: []string{}, Files: []api.FileOut{},
	}
	switch t.kind {
	case "node":
		err = s.describeNode(ctx, ref, t.n, at, token, out)
	case "entry":
		err = s.describeEntry(ctx, ref, t.n, at, token, out)
	case "file":
		err = s.describeFile(ctx, ref, t.file, at, token, out)
	default:
		err = s.describeSession(ctx, ref, at, token, out)
	}
	if in.MaxTokens > 0 {
		out.Compactions = nil
	}
	if err != nil {
		return nil, err
	}
	if in.MaxTokens < 0 {
		return nil, problem.New(problem.Invalid, "max_tokens cannot be negative")
	}
	if in.MaxTokens > 0 {
		if next := boundDescription(out, from, in.MaxTokens); next != (place{}) {
			out.Cursor = newCursor(next, ref, query)
		}
	}
	return out, nil
}

func (s *Service) describeNode(ctx context.Context, ref events.Ref, n, at uint64, token events.Position, out *api.DescribeOut) error {
	d, err := s.nodeAt(ctx, ref, n, at, token)
	if err != nil {
		return err
	}
	out.ID, out.Depth, out.Span = nodeID(n), d.Node.Depth, span(d.Node.First, d.Node.Last)
	out.Text, out.Price, out.OnPath = d.Node.Primary.Text, price(d.Node), d.OnPath
	out.Model, out.Prompt = d.Node.Model, d.Node.PromptVersion
	out.Time, out.Until, out.SupersededBy = d.Node.FirstTime, d.Node.LastTime, nodeID(d.SupersededBy)
	if d.Node.Rich != nil {
		out.Text = d.Node.Rich.Text
		out.Tiers = append(out.Tiers, api.TierOut{Name: "rich", Tokens: d.Node.Rich.Tokens, Level: d.Node.Rich.Level})
	}
	out.Tiers = append(out.Tiers, api.TierOut{Name: "primary", Tokens: d.Node.Primary.Tokens, Level: d.Node.Primary.Level})
	if err := s.describeKin(ctx, ref, d, at, token, out); err != nil {
		return err
	}
	for _, id := range d.Node.Files {
		f, err := s.d.Reads.File(ctx, api.FileRequest{Ref: ref, ID: id, At: at, Token: token})
		if err != nil {
			return err
		}
		out.Files = append(out.Files, fileOut(f, false))
	}
	return nil
}

// describeKin adds children with their prices, and the lineage upwards.
func (s *Service) describeKin(ctx context.Context, ref events.Ref, d *api.StoredNode, at uint64, token events.Position, out *api.DescribeOut) error {
	if len(d.Node.ChildNodes) > 0 {
		r, err := s.d.Reads.Node(ctx, api.NodeRequest{Ref: ref, Numbers: d.Node.ChildNodes, At: at, Token: token})
		if err != nil {
			return err
		}
		for _, c := range r.Nodes {
			out.Children = append(out.Children, api.ChildOut{
				ID: nodeID(c.Node.N), Span: span(c.Node.First, c.Node.Last),
				Line: firstLine(c.Node.Primary.Text), Price: price(c.Node),
			})
		}
	}
	for up := d.Parents; len(up) > 0; {
		n := up[len(up)-1]
		out.Parents = append(out.Parents, nodeID(n))
		p, err := s.nodeAt(ctx, ref, n, at, token)
		if err != nil {
			return err
		}
		up = p.Parents
	}
	return nil
}

// nodeAt is a node and its place in the DAG as it was at a position, 0 = now.
func (s *Service) nodeAt(ctx context.Context, ref events.Ref, n, at uint64, token events.Position) (*api.StoredNode, error) {
	r, err := s.d.Reads.Node(ctx, api.NodeRequest{Ref: ref, Numbers: []uint64{n}, At: at, Token: token})
	if err != nil {
		return nil, err
	}
	if len(r.Nodes) != 1 {
		return nil, problem.New(problem.NotFound, "session %s has no node #%d", ref.Session, n)
	}
	return &r.Nodes[0], nil
}

func (s *Service) describeEntry(ctx context.Context, ref events.Ref, n, at uint64, token events.Position, out *api.DescribeOut) error {
	q := api.TurnsRequest{Ref: ref, Ranges: []events.Range{{First: n, Last: n}}, At: at, Token: token}
	r, err := s.d.Reads.Turns(ctx, q)
	if err != nil {
		return err
	}
	if len(r.Turns) != 1 {
		return problem.New(problem.NotFound, "session %s has no entry e%d", ref.Session, n)
	}
	t, err := turnOut(r.Turns[0], false)
	if err != nil {
		return err
	}
	out.ID, out.Span, out.Text, out.Time, out.Until = t.Entry, t.Entry, t.Text, t.Time, t.Time
	out.Price, out.OnPath, out.LargeInline = api.Price{Source: t.Tokens, Entries: 1}, !t.Removed, t.LargeInline
	for _, f := range t.Files {
		out.Files = append(out.Files, api.FileOut{ID: "file:" + f.ID, Path: f.Path, Kind: f.Kind, Bytes: f.Bytes, Summary: f.Summary, Entry: t.Entry})
	}
	return nil
}

func (s *Service) describeFile(ctx context.Context, ref events.Ref, id string, at uint64, token events.Position, out *api.DescribeOut) error {
	f, err := s.d.Reads.File(ctx, api.FileRequest{Ref: ref, ID: id, At: at, Token: token})
	if err != nil {
		return err
	}
	out.ID, out.Span, out.Text = "file:"+f.File.ID, entryID(f.Entry), f.File.Summary+"\n\n"+f.File.Head
	out.Price = api.Price{Summary: tokens.Count(f.File.Summary), Source: tokens.Count(f.Body), Entries: 1}
	out.Files = append(out.Files, fileOut(f, true))
	return nil
}

func (s *Service) describeSession(ctx context.Context, ref events.Ref, at uint64, token events.Position, out *api.DescribeOut) error {
	row, err := s.sessionRowAt(ctx, ref, at, token)
	if err != nil {
		return err
	}
	v, err := s.d.Reads.View(ctx, api.ViewRequest{Ref: ref, At: at, Token: token, Compactions: true})
	if err != nil {
		return err
	}
	for _, c := range v.Compactions {
		c.Text = firstLine(c.Text)
		out.Compactions = append(out.Compactions, compactionOut(c))
	}
	out.ID, out.Row, out.Span = ref.Session, row, span(min(1, row.Entries), row.Entries)
	if out.Time, out.Until, err = s.said(ctx, ref, row, at, token); err != nil {
		return err
	}
	out.Price = api.Price{Source: row.Tokens, Nodes: int(row.Nodes), Entries: int(row.Entries)}
	for _, d := range v.View.Frontier {
		out.Price.Summary += d.SummaryTokens
		out.Children = append(out.Children, api.ChildOut{
			ID: nodeID(d.N), Span: span(d.First, d.Last), Line: firstLine(d.Primary.Text), Price: price(d),
		})
	}
	ids := newestFiles(v.View)
	out.FilesMore = max(0, len(ids)-mostSessionFiles)
	for _, id := range ids[:len(ids)-out.FilesMore] {
		f, err := s.d.Reads.File(ctx, api.FileRequest{Ref: ref, ID: id, At: at, Token: token})
		if err != nil {
			return err
		}
		out.Files = append(out.Files, fileOut(f, false))
	}
	return nil
}

// mostSessionFiles of a session are described; each is read from its turn.
const mostSessionFiles = 50

// newestFiles are the ids of the files that a session's path mentions, the
// newest mention first: in turns not condensed, then in what summaries cover.
func newestFiles(v *session.View) []string {
	var all []string
	for _, e := range v.Pinned {
		all = append(all, e.Files...)
	}
	for _, d := range v.Frontier {
		all = append(all, d.Files...)
	}
	if v.Kept != nil {
		all = append(all, v.Kept.Files...)
	}
	for _, e := range v.Tail {
		all = append(all, e.Files...)
	}
	slices.Reverse(all)
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// said is when the first and the newest turn of a session were said, by their
// authors; without turns, when it was written to.
func (s *Service) said(ctx context.Context, ref events.Ref, row *api.SessionRow, at uint64, token events.Position) (from, to time.Time, err error) {
	from, to = row.Started, row.Updated
	for n, t := range map[uint64]*time.Time{min(1, row.Entries): &from, row.Entries: &to} {
		if n == 0 {
			continue
		}
		r, err := s.d.Reads.Turns(ctx, api.TurnsRequest{Ref: ref, Ranges: []events.Range{{First: n, Last: n}}, At: at, Token: token})
		if err != nil {
			return from, to, err
		}
		for _, turn := range r.Turns {
			*t = turn.Entry.When()
		}
	}
	return from, to, nil
}

// sessionRow finds a session's row in the list.
func (s *Service) sessionRow(ctx context.Context, ref events.Ref, token events.Position) (*api.SessionRow, error) {
	return s.sessionRowAt(ctx, ref, 0, token)
}

// sessionRowAt is the row as it was at a position, 0 = now.
func (s *Service) sessionRowAt(ctx context.Context, ref events.Ref, at uint64, token events.Position) (*api.SessionRow, error) {
	q := api.SessionsRequest{Tenant: ref.Tenant, Prefix: ref.Session, Limit: 1, Token: token}
	if at != 0 {
		q.At = "@" + strconv.FormatUint(at, 10)
	}
	r, err := s.d.Reads.Sessions(ctx, q)
	if err != nil {
		return nil, err
	}
	if len(r.Sessions) == 0 || r.Sessions[0].Session != ref.Session {
		return nil, problem.New(problem.NotFound, "there is no session %q", ref.Session).WithHint("`lcm sessions` lists them")
	}
	return &r.Sessions[0], nil
}

func price(d session.Node) api.Price {
	return api.Price{Summary: d.SummaryTokens, Source: d.SourceTokens, Nodes: d.Below + 1, Entries: session.Count(d.Covered)}
}

func fileOut(f *api.FileReply, head bool) api.FileOut {
	out := api.FileOut{
		ID: "file:" + f.File.ID, Path: f.File.Path, Kind: f.File.Kind, Bytes: f.File.Bytes,
		Summary: f.File.Summary, Entry: entryID(f.Entry),
	}
	if head {
		out.Head = f.File.Head
	}
	return out
}

// firstLine is the first line that says something: not a heading mark alone.
func firstLine(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			return tokens.Head(line, 60)
		}
	}
	return ""
}
