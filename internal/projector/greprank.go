package projector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/rank"
	"lcm/session"
)

const (
	// rankDocs documents with the best scores of their own are ranked by all
	// rules; what follows keeps the order of those scores.
	rankDocs = 400
	// readDocs of them, the best by then, have their texts read: where words
	// stand together, and what states a wish.
	readDocs = 150
	// awaitWait bounds how long a ranked search waits for the index: hits that
	// have no score cannot be ranked.
	awaitWait = time.Second
)

// contender is a document on its way to a rank.
type contender struct {
	candidate
	role string
	rank.Candidate
}

// ranking is a search whose order is made of ranks.
type ranking struct {
	*grep
	rules  rank.Rules
	scorer rank.Scorer
	groups map[events.Ref]int
}

// rank searches by relevance.
func (g *grep) rank(ctx context.Context) error {
	k := &ranking{grep: g, rules: rank.Default(), groups: map[events.Ref]int{}}
	hits, err := k.ask(ctx)
	if err != nil {
		return g.timeOr(ctx, err)
	}
	list, err := k.order(ctx, hits)
	if err == nil {
		err = k.evaluateUntilFull(ctx, list)
	}
	if err == nil && g.full {
		rest := int(hits.Total) - len(hits.Hits)
		g.out.Total, g.out.TotalEstimated = len(list)+rest, rest > 0 || hits.Loose
	}
	return g.timeOr(ctx, err)
}

func (g *grep) awaitIndex(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, awaitWait)
	defer cancel()
	if g.s.indexed.demand(ctx, g.bound) != nil {
		n := g.s.indexed.Seq()
		g.notSearched("the index is behind: positions %d to %d were not searched", n+1, g.bound)
	}
}

func (k *ranking) ask(ctx context.Context) (hits api.RankHits, err error) {
	rq := api.RankQuery{IndexQuery: k.indexQuery(k.bound), Question: k.q.question, Rules: k.rules}
	rq.Limit = max(rankDocs, k.q.skip+2*k.q.limit+1)
	if k.q.resumed != nil {
		rq.Stats = k.q.resumed.Stats
	}
	err = k.s.use(func(_ api.Store, index api.Index) (err error) {
		hits, err = index.Rank(ctx, rq)
		return err
	})
	k.stats = &hits.Stats
	if err == nil {
		k.scorer = rank.NewScorer(k.q.question, hits.Stats, k.rules)
	}
	return hits, err
}

// order ranks what the index found.
func (k *ranking) order(ctx context.Context, hits api.RankHits) ([]contender, error) {
	var list []contender
	err := k.s.view(func(tx api.StoreTx) (err error) {
		list, err = k.contenders(tx, hits.Hits)
		return err
	})
	if err != nil {
		return nil, err
	}
	rest := list[min(len(list), rankDocs):]
	list = list[:min(len(list), rankDocs)]
	if k.q.Mode == modeRelevance {
		if list, err = k.withNeighbours(list, rest); err != nil {
			return nil, err
		}
	}
	if err := k.readTexts(ctx, list); err != nil {
		return nil, err
	}
	k.spread(list)
	k.sort(list)
	if k.q.Mode == modeRelevance && k.q.question.Broad {
		list = rank.WithNext(list, func(c contender) rank.Candidate { return c.Candidate })
	}
	if k.q.Sort == sortHybrid {
		list = rank.Fuse(list, func(a, b contender) int { return cmp.Compare(b.row.Seq, a.row.Seq) })
	}
	return append(list, rest...), nil
}

// contenders maps hits to rows and passes over what the search does not want.
func (k *ranking) contenders(tx api.StoreTx, hits []api.RankHit) ([]contender, error) {
	var out []contender
	for _, h := range hits {
		in, err := k.resolve(tx, []api.IndexHit{h.IndexHit})
		if err != nil {
			return nil, err
		}
		for _, c := range in {
			one, ok, err := k.contender(tx, c)
			if err != nil {
				return nil, err
			}
			if one.Score = h.Score; ok {
				out = append(out, one)
			}
		}
	}
	return out, nil
}

func (k *ranking) contender(tx api.StoreTx, c candidate) (out contender, ok bool, err error) {
	if _, ok, err = k.scopes.admits(tx, c.row); err != nil || !ok {
		return out, false, err
	}
	out.candidate = c
	if c.row.Kind == session.RowEntry {
		rows, err := tx.Rows(c.row.Ref)
		if err != nil {
			return out, false, err
		}
		e, err := session.NewReader(rows).Entry(c.row.N)
		if err != nil {
			return out, false, err
		}
		out.role = string(e.Role)
	}
	out.Factor = k.rules.Role(k.q.question, out.role)
	out.Group, out.Number = k.place(c)
	return out, true, nil
}

// place tells which turns stand beside each other; nothing stands beside a
// summary or a file.
func (k *ranking) place(c candidate) (group int, number uint64) {
	ref := c.row.Ref
	if c.kind != api.KindTurn {
		ref.Session += "\x00" + api.DocID(c.row.Seq, c.kind, c.part)
	}
	if _, ok := k.groups[ref]; !ok {
		k.groups[ref] = len(k.groups)
	}
	return k.groups[ref], c.row.N
}

// withNeighbours adds the turns beside those found that hold no word of the
// question.
func (k *ranking) withNeighbours(list, rest []contender) ([]contender, error) {
	type place struct {
		group  int
		number uint64
	}
	known := map[place]bool{}
	for _, c := range slices.Concat(list, rest) {
		known[place{c.Group, c.Number}] = true
	}
	out := slices.Clone(list)
	err := k.s.view(func(tx api.StoreTx) error {
		for _, c := range list[:min(len(list), readDocs)] {
			if c.kind != api.KindTurn {
				continue
			}
			for _, n := range []uint64{c.row.N - 1, c.row.N + 1} {
				at := place{c.Group, n}
				if known[at] {
					continue
				}
				known[at] = true
				row, err := k.turnAt(tx, c.row.Ref, n)
				if err != nil || row == nil {
					return err
				}
				one, ok, err := k.contender(tx, candidate{row: *row, kind: api.KindTurn})
				if err != nil {
					return err
				}
				if ok {
					out = append(out, one)
				}
			}
		}
		return nil
	})
	return out, err
}

// turnAt is the row of an entry, nil where there is none in this search.
func (g *grep) turnAt(tx api.StoreTx, ref events.Ref, n uint64) (*api.FeedRow, error) {
	rows, err := tx.Rows(ref)
	if err != nil {
		return nil, err
	}
	r := session.NewReader(rows)
	h, err := r.Head()
	if err != nil || n == 0 || n > h.Entries {
		return nil, err
	}
	e, err := r.Entry(n)
	if err != nil || e.Seq > g.bound {
		return nil, err
	}
	return &api.FeedRow{Seq: e.Seq, Ref: ref, Kind: session.RowEntry, N: n}, nil
}

// readTexts adds what only the text tells to the scores of the best.
func (k *ranking) readTexts(ctx context.Context, list []contender) error {
	best := make([]int, len(list))
	for i := range best {
		best[i] = i
	}
	slices.SortStableFunc(best, func(a, b int) int {
		return cmp.Compare(list[b].Score*list[b].Factor, list[a].Score*list[a].Factor)
	})
	best = best[:min(len(best), readDocs)]
	return k.inParts(ctx, len(best), func(ctx context.Context, start, end int) error {
		for _, i := range best[start:end] {
			if err := k.readText(ctx, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (k *ranking) readText(ctx context.Context, c *contender) error {
	if c.Score == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text, err := k.textOf(ctx, c.candidate)
	if err != nil {
		return err
	}
	c.Score += k.scorer.Pairs(k.q.question, k.q.question.Places(text))
	if rank.Directive(text) && c.kind == api.KindTurn {
		c.Score *= k.rules.Standing
	}
	return nil
}

// textOf a document.
func (g *grep) textOf(ctx context.Context, c candidate) (string, error) {
	if known := g.s.kept.get(c.row.Seq); known != nil {
		for _, t := range known.texts {
			if t.kind == c.kind && t.part == c.part {
				return t.text, nil
			}
		}
	}
	var src source
	err := g.s.view(func(tx api.StoreTx) (err error) {
		src, err = readSource(tx, c.row)
		return err
	})
	if err != nil {
		return "", err
	}
	if c.row.Kind == session.RowNode {
		return nodeText(src.node), nil
	}
	t, err := g.s.turnOf(ctx, c.row.Ref, src.entry, src.body)
	if err != nil {
		return "", err
	}
	if c.kind == api.KindFile && c.part < len(t.Files) {
		return fileText(t, t.Files[c.part]), nil
	}
	return t.DerivedText(), nil
}

func (k *ranking) spread(list []contender) {
	in := make([]rank.Candidate, len(list))
	for i, c := range list {
		in[i] = c.Candidate
	}
	k.rules.Spread(in)
	for i := range list {
		list[i].Candidate = in[i]
	}
}

// sort by score; equal ones newest first.
func (k *ranking) sort(list []contender) {
	slices.SortStableFunc(list, func(a, b contender) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.id(), a.id()))
	})
}

func (c candidate) id() string { return api.DocID(c.row.Seq, c.kind, c.part) }

// evaluateUntilFull takes the hits in order.
func (k *ranking) evaluateUntilFull(ctx context.Context, list []contender) error {
	step := max(32, 2*k.q.limit)
	for part := range slices.Chunk(list, step) {
		in := make([]candidate, len(part))
		for i, c := range part {
			in[i] = c.candidate
		}
		if err := k.evaluate(ctx, in); err != nil || k.full {
			return err
		}
	}
	return nil
}
