package projector

import (
	"context"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

func sortSeqs(s []uint64) { slices.Sort(s) }

// Limits of one page. A message of the read endpoint holds 512 KiB.
const (
	defaultTurns  = 256
	maxTurns      = 2_000
	defaultBytes  = 400 << 10
	maxPageBytes  = 64 << 20
	entryOverhead = 512 // about what an entry takes without its payload
)

// readEntry reads an entry and, where the rows have it, its payload.
func readEntry(r session.Reader, ref events.Ref, n uint64) (source, error) {
	t, err := storedTurn(r, n)
	return source{row: api.FeedRow{Ref: ref, Kind: session.RowEntry, Seq: t.Entry.Seq, N: n}, entry: t.Entry, body: t.Payload}, err
}

func storedTurn(r session.Reader, n uint64) (t api.StoredTurn, err error) {
	if t.Entry, err = r.Entry(n); err != nil || t.Entry.Big {
		return t, err
	}
	body, err := r.Body(n)
	if err == nil && body == nil {
		err = session.ErrNoRow
	}
	t.Payload = slices.Clone(body)
	return t, err
}

// Turns answers turns with their payloads, in entry order.
func (s *Service) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	out := &api.TurnsReply{Turns: []api.StoredTurn{}}
	token, err := s.reach(ctx, q.Token, q.At)
	if err != nil {
		return out, err
	}
	p := page{
		ranges: normalised(q.Ranges), after: q.After,
		limit: limitOf(q.Limit, defaultTurns, maxTurns), bytes: limitOf(q.MaxBytes, defaultBytes, maxPageBytes),
	}
	var path session.Path
	err = s.read(ctx, token, func(tx api.StoreTx, at events.Position) error {
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		st, err := state(r, q.At)
		if err != nil {
			return err
		}
		out.Watermark, path = at, st.Path
		return p.collect(r, st.Entries)
	})
	if err != nil {
		return out, err
	}
	err = s.fillTurns(ctx, q.Ref, out, p, path)
	return out, err
}

// fillTurns fetches what only the log has and cuts the page where it is full.
func (s *Service) fillTurns(ctx context.Context, ref events.Ref, out *api.TurnsReply, p page, path session.Path) error {
	size := 0
	for i := range p.found {
		t := &p.found[i]
		if t.Payload == nil {
			body, err := s.bodyFromLog(ctx, ref, t.Entry)
			if err != nil {
				return err
			}
			t.Payload = body
		}
		if size += len(t.Payload) + entryOverhead; i > 0 && size > p.bytes {
			p.found, p.more = p.found[:i], true
			break
		}
		t.Removed = !path.Contains(t.Entry.N)
	}
	if out.Turns = p.found; p.more && len(out.Turns) > 0 {
		out.Next = out.Turns[len(out.Turns)-1].Entry.N
	}
	return nil
}

// normalised sorts ranges and leaves out what an earlier one holds; nil = all.
func normalised(in []events.Range) []events.Range {
	if in == nil {
		return []events.Range{{First: 1, Last: ^uint64(0)}}
	}
	sorted := slices.Clone(in)
	slices.SortFunc(sorted, func(a, b events.Range) int {
		if a.First < b.First {
			return -1
		}
		return 1
	})
	var out []events.Range
	var done uint64
	for _, r := range sorted {
		if r.First = max(r.First, done+1, 1); r.First <= r.Last {
			out = append(out, r)
			done = r.Last
		}
		if done == ^uint64(0) {
			break
		}
	}
	return out
}

// page collects entries until one of its limits is reached.
type page struct {
	ranges []events.Range
	after  uint64
	limit  int
	bytes  int

	found []api.StoredTurn // without a payload where only the log has it
	more  bool
}

func (p *page) collect(r session.Reader, entries uint64) error {
	size := 0
	p.found = make([]api.StoredTurn, 0, p.most(entries))
	for _, rg := range p.ranges {
		for n := max(rg.First, p.after+1); n <= min(rg.Last, entries); n++ {
			if len(p.found) == p.limit || size > p.bytes {
				p.more = true
				return nil
			}
			t, err := storedTurn(r, n)
			if err != nil {
				return err
			}
			if t.Entry.Big {
				size += session.MaxBodyBytes // at least
			}
			size += len(t.Payload) + entryOverhead
			p.found = append(p.found, t)
		}
	}
	return nil
}

// most is how many turns the page can hold.
func (p *page) most(entries uint64) int {
	n := uint64(0)
	for _, rg := range p.ranges {
		if first, last := max(rg.First, p.after+1), min(rg.Last, entries); first <= last {
			n += last - first + 1
		}
	}
	return int(min(n, uint64(p.limit), uint64(p.bytes/entryOverhead+1)))
}

// Node answers nodes with their place in the DAG.
func (s *Service) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	out := &api.NodeReply{Nodes: []api.StoredNode{}}
	token, err := s.reach(ctx, q.Token, q.At)
	if err != nil {
		return out, err
	}
	err = s.read(ctx, token, func(tx api.StoreTx, at events.Position) error {
		out.Watermark = at
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		st, err := state(r, q.At)
		if err != nil {
			return err
		}
		numbers, err := nodeNumbers(r, q)
		if err != nil {
			return err
		}
		for _, n := range numbers {
			node, err := storedNode(r, n, st)
			if err != nil {
				return err
			}
			if node.Node.Seq <= st.Seq {
				out.Nodes = append(out.Nodes, node)
			} else if !q.All {
				return problem.New(problem.NotFound, "node #%d of %s did not exist at position %d", n, q.Ref, st.Seq)
			}
		}
		return nil
	})
	return out, err
}

// nodeNumbers resolves what is asked for; a node that is not there is not found.
func nodeNumbers(r session.Reader, q api.NodeRequest) ([]uint64, error) {
	h, err := r.Head()
	if err != nil {
		return nil, err
	}
	if q.All {
		all := make([]uint64, h.Nodes)
		for i := range all {
			all[i] = uint64(i) + 1
		}
		return all, nil
	}
	var out []uint64
	for _, n := range q.Numbers {
		if n == 0 || n > h.Nodes {
			return nil, problem.New(problem.NotFound, "session %s has no node #%d: it has %d", q.Ref, n, h.Nodes)
		}
		out = append(out, n)
	}
	for _, key := range q.Keys {
		n, err := r.NodeOf(key)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, problem.New(problem.NotFound, "session %s has no node with key %q", q.Ref, key)
		}
		out = append(out, n)
	}
	return out, nil
}

func storedNode(r session.Reader, n uint64, st session.State) (api.StoredNode, error) {
	node, err := r.Node(n)
	if err != nil {
		return api.StoredNode{}, err
	}
	out := api.StoredNode{Node: node, OnPath: st.Path.Covers(node.Covered)}
	existed := func(n uint64) (bool, error) {
		d, err := r.Node(n)
		return d.Seq <= st.Seq, err
	}
	parents, err := r.Parents(n)
	if err != nil {
		return out, err
	}
	for _, p := range parents {
		ok, err := existed(p)
		if err != nil {
			return out, err
		}
		if ok {
			out.Parents = append(out.Parents, p)
		}
	}
	by, err := r.SupersededBy(n)
	if err != nil || by == 0 {
		return out, err
	}
	ok, err := existed(by)
	if ok {
		out.SupersededBy = by
	}
	return out, err
}

// fileEntry is the entry with the newest body of a file, 0 where there is none.
// The rows know the newest of all; an older one is looked for, which is rare.
func fileEntry(r session.Reader, q api.FileRequest) (uint64, error) {
	n, err := r.FileEntry(q.ID)
	if err != nil || n == 0 || q.At == 0 {
		return n, err
	}
	st, err := r.At(q.At)
	if err != nil || n <= st.Entries {
		return n, err
	}
	for n = st.Entries; n > 0; n-- {
		e, err := r.Entry(n)
		if err != nil || slices.Contains(e.Files, q.ID) {
			return n, err
		}
	}
	return 0, nil
}

// File answers the newest body of a file.
func (s *Service) File(ctx context.Context, q api.FileRequest) (*api.FileReply, error) {
	out := &api.FileReply{}
	token, err := s.reach(ctx, q.Token, q.At)
	if err != nil {
		return out, err
	}
	var src source
	err = s.read(ctx, token, func(tx api.StoreTx, _ events.Position) error {
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		if out.Entry, err = fileEntry(r, q); err != nil {
			return err
		}
		if out.Entry == 0 {
			return problem.New(problem.NotFound, "session %s has no file %q", q.Ref, q.ID)
		}
		src, err = readEntry(r, q.Ref, out.Entry)
		return err
	})
	if err != nil {
		return out, err
	}
	t, err := s.turnOf(ctx, q.Ref, src.entry, src.body)
	if err != nil {
		return out, err
	}
	for _, f := range t.Files {
		if f.ID == q.ID {
			out.File = f
			out.Body, err = fileBody(t, f)
			return out, err
		}
	}
	return out, problem.New(problem.Damaged, "e%d of %s does not hold file %q any more", out.Entry, q.Ref, q.ID)
}
