package projector

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// candidate is a row to look into; kind and part name one document of it,
// kind "" all of them.
type candidate struct {
	row       api.FeedRow // of what the index found, its position alone
	kind      string
	part      int
	unindexed bool // every search looks into it, until it is indexed
}

// evaluate looks into candidates in parallel and takes what matches, in order.
func (g *grep) evaluate(ctx context.Context, in []candidate) error {
	results := make([][]found, len(in))
	if err := g.inParts(ctx, len(in), func(ctx context.Context, start, end int) error {
		return g.evaluateSome(ctx, in[start:end], results[start:end])
	}); err != nil {
		return err
	}
	g.takeAll(results)
	return nil
}

func (g *grep) takeAll(results [][]found) {
	for _, fs := range results {
		for _, f := range fs {
			g.take(f)
		}
	}
}

// partSize: fewer texts than this are not worth another goroutine.
const partSize = 64

// inParts shares n pieces of work out among the workers that are free.
func (g *grep) inParts(ctx context.Context, n int, do func(ctx context.Context, start, end int) error) error {
	more := g.s.seats.spare(min(g.s.cfg.Workers, n/partSize) - 1)
	if more == 0 {
		return do(ctx, 0, n)
	}
	defer func() {
		for range more {
			g.s.seats.leave()
		}
	}()
	size := (n + more) / (more + 1)
	eg, ectx := errgroup.WithContext(ctx)
	for start := 0; start < n; start += size {
		eg.Go(func() error { return do(ectx, start, min(start+size, n)) })
	}
	return eg.Wait()
}

// material is a candidate that passed the filters, with its rows.
type material struct {
	source
	removed bool
	known   *keptRow // nil = not kept
}

func (g *grep) evaluateSome(ctx context.Context, in []candidate, results [][]found) error {
	sources := make([]*material, len(in))
	st := &strainer{sieve: g.q.sieve}
	err := g.s.view(func(tx api.StoreTx) (err error) {
		for i, c := range in {
			if sources[i], err = g.read(tx, c, st); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, m := range sources {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if m == nil {
			continue
		}
		if results[i], err = g.matches(ctx, in[i], m); err != nil {
			return err
		}
	}
	return nil
}

// read the rows of a candidate, nil where it is ruled out.
func (g *grep) read(tx api.StoreTx, c candidate, st *strainer) (*material, error) {
	known := g.s.kept.get(c.row.Seq)
	switch {
	case known != nil:
		c.row = known.row
	case c.row.Kind == 0:
		row, err := tx.FeedAt(c.row.Seq)
		if err != nil || row == nil {
			return nil, err
		}
		c.row = *row
	}
	removed, ok, err := g.scopes.admits(tx, c.row)
	if err != nil || !ok {
		return nil, err
	}
	if known != nil {
		return &material{known.source, removed, known}, nil
	}
	if c.row.Kind == session.RowEntry && len(st.needs) > 0 {
		rows, err := tx.Rows(c.row.Ref)
		if err != nil {
			return nil, err
		}
		r := session.NewReader(rows)
		body, err := r.Body(c.row.N)
		if err != nil || body != nil && st.rulesOut(body) {
			return nil, err
		}
		if body != nil {
			e, err := r.Entry(c.row.N)
			return &material{source{row: c.row, entry: e, body: slices.Clone(body)}, removed, nil}, err
		}
	}
	src, err := readSource(tx, c.row)
	return &material{src, removed, nil}, err
}

// texts of the wanted documents of a row, greatest key first.
func (g *grep) texts(ctx context.Context, c candidate, m *material) ([]*text, error) {
	if m.known != nil {
		return g.wanted(c, m, m.known.texts), nil
	}
	files := c.unindexed || g.q.passes(m.source, api.KindFile)
	if !c.unindexed && !files && !g.q.passes(m.source, api.KindTurn) && m.row.Kind == session.RowEntry {
		return nil, nil
	}
	all, whole, err := g.s.textsOf(ctx, m.source, files)
	if err == nil && whole && (c.unindexed || !g.q.exact()) { // a regex reads on and on
		r := &keptRow{source: m.source, texts: all}
		r.body = nil
		g.s.kept.put(r)
	}
	return g.wanted(c, m, all), err
}

// textsOf a row's documents; files are worth their bytes only where they are
// wanted. whole: these are all of them.
func (s *Service) textsOf(ctx context.Context, src source, files bool) (out []*text, whole bool, err error) {
	if src.row.Kind == session.RowNode {
		return []*text{{kind: api.KindSummary, text: nodeText(src.node)}}, true, nil
	}
	t, err := s.turnOf(ctx, src.row.Ref, src.entry, src.body)
	if err != nil {
		return nil, false, err
	}
	out = []*text{{kind: api.KindTurn, text: t.DerivedText()}}
	if files {
		for i, f := range slices.Backward(t.Files) {
			out = append(out, &text{kind: api.KindFile, part: i, text: fileText(t, f)})
		}
	}
	return out, files || len(t.Files) == 0, nil
}

// matches of one row.
func (g *grep) matches(ctx context.Context, c candidate, m *material) (out []found, err error) {
	texts, err := g.texts(ctx, c, m)
	for _, t := range texts {
		key := api.DocID(m.row.Seq, t.kind, t.part)
		if g.q.after != "" && key >= g.q.after {
			continue // on an earlier page
		}
		if spans := g.q.match(t); spans != nil {
			out = append(out, found{
				key: key, kind: t.kind, ref: m.row.Ref, n: m.row.N, node: t.kind == api.KindSummary,
				material: m, text: t.text, spans: spans,
			})
		}
	}
	return out, err
}

// describe makes the hit of what was found.
func (f *found) describe() {
	m := f.material
	f.hit = api.Hit{Session: f.ref.Session, Kind: f.kind, Removed: m.removed, Seq: m.row.Seq, Depth: api.NoDepth}
	f.hit.Snippet, f.hit.Matches = snippet(f.text, f.spans)
	if f.node {
		f.hit.Node, f.hit.Depth, f.hit.Time = nodeName(f.n), m.node.Depth, m.node.Time
	} else {
		f.hit.Entry, f.hit.Role, f.hit.Time = fmt.Sprintf("e%d", f.n), string(m.entry.Role), m.entry.When()
	}
}

// rowCandidates are all documents of feed rows.
func rowCandidates(rows []api.FeedRow) []candidate {
	out := make([]candidate, len(rows))
	for i, row := range rows {
		out[i] = candidate{row: row}
	}
	return out
}

// scanRows: sessions of so few turns and nodes are read rather than looked up.
const scanRows = 2_000

// scans: the texts themselves are read. In short sessions that is quickest; it
// is needed where the index cannot narrow the search down, or lags.
func (g *grep) scans() bool {
	if !g.q.exact() {
		return false
	}
	narrows, few := false, false
	err := g.s.use(func(store api.Store, index api.Index) error {
		narrows = index.Narrows(g.q.literals)
		return store.View(func(tx api.StoreTx) (err error) {
			few, err = g.few(tx)
			return err
		})
	})
	lags := g.s.indexed.Seq()+tailRows < g.bound
	return err != nil || few || !narrows || lags
}

// few: the named sessions hold few rows.
func (g *grep) few(tx api.StoreTx) (bool, error) {
	n := uint64(0)
	for _, name := range g.q.Sessions {
		rows, err := tx.Rows(events.Ref{Tenant: g.q.Tenant, Session: name})
		if err != nil {
			return false, err
		}
		h, err := session.NewReader(rows).Head()
		if err != nil {
			return false, err
		}
		n += h.Entries + h.Nodes
	}
	return len(g.q.Sessions) > 0 && n <= scanRows, nil
}

// scan is a search without an index: it looks into every text, newest first.
func (g *grep) scan(ctx context.Context) error {
	next, err := g.scanSource()
	if err != nil {
		return err
	}
	wave := 256 * g.s.cfg.Workers
	var reached uint64
	for first := true; ; first = false {
		var rows []api.FeedRow
		err := g.s.view(func(tx api.StoreTx) (err error) {
			rows, err = next(tx, wave)
			return err
		})
		if err != nil || rows == nil || g.full && g.counted() {
			return err
		}
		if !first {
			err = g.giveWay(ctx)
		}
		if err == nil {
			err = g.evaluate(ctx, rowCandidates(rows))
		}
		switch {
		case err != nil && ctx.Err() != nil:
			g.ranOut(reached)
			return nil
		case err != nil:
			return err
		case len(rows) > 0:
			reached = rows[len(rows)-1].Seq
		}
	}
}

// ranOut says how far a scan came, and lets the caller go on from there: from
// where this page began if nothing of it was finished.
func (g *grep) ranOut(reached uint64) {
	if reached == 0 {
		reached = g.bound + 1
	}
	key := api.DocID(reached, api.KindFile, 0) // the least key there
	if g.q.after != "" && g.q.after < key {
		key = g.q.after
	}
	g.notSearched("time ran out: what is older than position %d was not searched; narrow the search, or go on with the cursor", reached)
	if !g.full {
		g.full, g.partial, g.last = true, true, key
	}
}

// rowSource lists the next rows to look into, newest first; nil is the end. An
// empty page means only that none of those looked at were wanted.
type rowSource func(tx api.StoreTx, n int) ([]api.FeedRow, error)

// scanSource goes through the feed, or, where sessions are named, through
// their own rows.
func (g *grep) scanSource() (rowSource, error) {
	from := g.bound + 1
	if g.q.after != "" {
		seq, _, _, err := api.ParseDocID(g.q.after)
		if err != nil {
			return nil, err
		}
		from = min(from, seq+1)
	}
	if len(g.q.Sessions) == 0 {
		return g.feedSource(from, 0), nil
	}
	var refs []events.Ref
	names := slices.Clone(g.q.Sessions)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		refs = append(refs, events.Ref{Tenant: g.q.Tenant, Session: name})
	}
	return sessionSource(refs, from), nil
}

// feedSource lists feed rows below before and above floor.
func (g *grep) feedSource(before, floor uint64) rowSource {
	return func(tx api.StoreTx, n int) ([]api.FeedRow, error) {
		rows, err := tx.FeedBefore(before, n)
		if err != nil || len(rows) == 0 || rows[0].Seq <= floor {
			return nil, err
		}
		before = rows[len(rows)-1].Seq
		rows = slices.DeleteFunc(rows, func(r api.FeedRow) bool { return r.Seq <= floor || !g.scopes.wants(r.Ref) })
		return append([]api.FeedRow{}, rows...), nil
	}
}

// sessionSource merges the entries and nodes of sessions by position.
func sessionSource(refs []events.Ref, before uint64) rowSource {
	var walks []*walk
	return func(tx api.StoreTx, n int) ([]api.FeedRow, error) {
		if walks == nil {
			for _, ref := range refs {
				walks = append(walks, &walk{ref: ref, kind: session.RowEntry}, &walk{ref: ref, kind: session.RowNode})
			}
			for _, w := range walks {
				if err := w.start(tx, before); err != nil {
					return nil, err
				}
			}
		}
		var out []api.FeedRow
		for len(out) < n {
			var top *walk
			for _, w := range walks {
				if w.n > 0 && (top == nil || w.seq > top.seq) {
					top = w
				}
			}
			if top == nil {
				break
			}
			out = append(out, api.FeedRow{Seq: top.seq, Ref: top.ref, Kind: top.kind, N: top.n})
			top.n--
			if err := top.load(tx); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// walk goes down the entries or the nodes of one session.
type walk struct {
	ref  events.Ref
	kind session.RowKind
	n    uint64 // 0 = done
	seq  uint64
}

// start finds the newest one below a position.
func (w *walk) start(tx api.StoreTx, before uint64) error {
	rows, err := tx.Rows(w.ref)
	if err != nil {
		return err
	}
	h, err := session.NewReader(rows).Head()
	if err != nil {
		return err
	}
	last := h.Entries
	if w.kind == session.RowNode {
		last = h.Nodes
	}
	lo, hi := uint64(0), last
	for lo < hi {
		w.n = (lo + hi + 1) / 2
		if err := w.load(tx); err != nil {
			return err
		}
		if w.seq < before {
			lo = w.n
		} else {
			hi = w.n - 1
		}
	}
	w.n = lo
	return w.load(tx)
}

func (w *walk) load(tx api.StoreTx) error {
	if w.n == 0 {
		return nil
	}
	rows, err := tx.Rows(w.ref)
	if err != nil {
		return err
	}
	r := session.NewReader(rows)
	if w.kind == session.RowNode {
		d, err := r.Node(w.n)
		w.seq = d.Seq
		return err
	}
	e, err := r.Entry(w.n)
	w.seq = e.Seq
	return err
}
