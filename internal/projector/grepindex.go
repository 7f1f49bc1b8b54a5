package projector

import (
	"context"

	"lcm/internal/api"
)

// Hits that are asked of the index at first, and at most.
const (
	indexPage    = 256
	exactPage    = 1_024 // where texts decide
	maxIndexPage = 4_096
)

// awaitToken gives the index a moment to reach the position the caller names:
// who appended and then searches finds what was appended, by the index where
// it is quick. What it has not reached is searched row by row.
func (g *grep) awaitToken(ctx context.Context) {
	if g.q.token.Seq <= g.s.indexed.Seq() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, awaitWait)
	defer cancel()
	_ = g.s.indexed.demand(ctx, min(g.q.token.Seq, g.bound))
}

// search goes through the rows that are not indexed yet, and through the index.
func (g *grep) search(ctx context.Context) error {
	tail, err := g.searchTail(ctx)
	if err == nil {
		err = g.searchIndex(ctx, tail)
	}
	return g.timeOr(ctx, err)
}

// timeOr turns an ended scan into a sentence.
func (g *grep) timeOr(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	g.notSearched("time ran out before the index had answered: the hits are not complete")
	return nil
}

// searchTail looks into the newest rows that are not indexed yet, one by one.
// It returns the position up to which the index is asked.
func (g *grep) searchTail(ctx context.Context) (uint64, error) {
	indexed := g.s.indexed.Seq()
	if indexed >= g.bound {
		return g.bound, nil
	}
	before := g.bound + 1
	if g.q.after != "" {
		seq, _, _, err := api.ParseDocID(g.q.after)
		if err != nil {
			return 0, err
		}
		before = min(before, seq+1)
	}
	next := g.feedSource(before, indexed)
	var rows []api.FeedRow
	looked := 0
	err := g.s.view(func(tx api.StoreTx) error {
		for looked < tailRows {
			more, err := next(tx, indexPage)
			if err != nil || more == nil {
				return err
			}
			looked += indexPage
			rows = append(rows, more...)
		}
		rest, err := next(tx, 1)
		if rest != nil {
			g.notSearched("the index is behind: positions %d to %d were not searched", indexed+1, g.tailEnd(rows, before))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	in := rowCandidates(rows)
	for i := range in {
		in[i].unindexed = true
	}
	// Most of them are kept: another goroutine would wait for a busy processor
	// for longer than they take.
	results := make([][]found, len(in))
	if err := g.evaluateSome(ctx, in, results); err != nil {
		return 0, err
	}
	g.takeAll(results)
	return indexed, nil
}

// tailEnd is the last position that was left out.
func (g *grep) tailEnd(rows []api.FeedRow, before uint64) uint64 {
	if len(rows) > 0 {
		return rows[len(rows)-1].Seq - 1
	}
	return before - 1
}

// searchIndex takes hits of the index up to a position, until the page is full
// and the rest is counted.
func (g *grep) searchIndex(ctx context.Context, upto uint64) error {
	iq := g.indexQuery(upto)
	count, err := g.mustCount()
	if err != nil {
		return err
	}
	enough := uint64(countRows)
	switch {
	case g.q.exact(): // a search costs more than looking into some texts
		count, enough, iq.Limit = true, countTexts, exactPage
	case !count: // nothing that is found falls to a filter
		iq.Limit = min(iq.Limit, g.q.limit+1)
	}
	for seen := uint64(0); ; {
		var hits api.IndexHits
		err := g.s.use(func(_ api.Store, index api.Index) (err error) {
			hits, err = index.Search(ctx, iq)
			return err
		})
		if err != nil {
			return err
		}
		if g.full && !g.q.exact() {
			err = g.countOnly(hits)
		} else {
			err = g.evaluate(ctx, g.named(hits.Hits))
		}
		if err != nil {
			return err
		}
		n := uint64(len(hits.Hits))
		seen += n
		rest := hits.Total - min(hits.Total, n)
		if n < uint64(iq.Limit) || g.full && g.counted() || g.q.resumed == nil && rest == 0 {
			return nil
		}
		if g.full && (!count || seen > enough) {
			g.out.Total += int(rest) // what the index says of the rest
			g.out.TotalEstimated = g.out.TotalEstimated || count || hits.Loose
			return nil
		}
		if err := g.giveWay(ctx); err != nil {
			return err
		}
		iq.After = hits.Hits[n-1].ID
		iq.Limit = min(4*iq.Limit, maxIndexPage) // each page costs a search
	}
}

func (g *grep) indexQuery(upto uint64) api.IndexQuery {
	q := g.q
	iq := api.IndexQuery{
		Tenant: q.Tenant, Sessions: q.Sessions, Roles: q.Roles, Kinds: q.kinds, Depths: q.Depths,
		Since: q.since, Until: q.until, Limit: indexPage, After: q.after,
	}
	switch q.Mode {
	case modeWords, modePhrase:
		iq.Text, iq.Phrase = q.Pattern, q.Mode == modePhrase
	case modeRegex, modeSubstring:
		iq.Literals = q.literals
	}
	// Everything above upto was looked into, or is newer than the search.
	if top := api.DocID(upto+1, api.KindFile, 0); iq.After == "" || top < iq.After {
		iq.After = top
	}
	if q.Node == 0 && !q.exact() {
		iq.Limit = min(indexPage, q.limit+q.limit/4+8) // a few may fall to the filters
	}
	return iq
}

// mustCount: with nothing removed anywhere, the index's own total is exact.
func (g *grep) mustCount() (bool, error) {
	var c api.Counts
	err := g.s.view(func(tx api.StoreTx) (err error) {
		c, err = tx.Counts()
		return err
	})
	return g.q.Node != 0 || c.Removed != 0 && !g.q.IncludeRemoved, err
}

// named are the documents that the index found, as candidates.
func (g *grep) named(hits []api.IndexHit) []candidate {
	out := make([]candidate, 0, len(hits))
	for _, h := range hits {
		if h.Seq <= g.bound {
			out = append(out, candidate{row: api.FeedRow{Seq: h.Seq}, kind: h.Kind, part: h.Part})
		}
	}
	return out
}

// resolve finds the rows of what the index found. A document without a row is
// newer than the rows (a store that was rebuilt): it is skipped.
func (g *grep) resolve(tx api.StoreTx, hits []api.IndexHit) ([]candidate, error) {
	var out []candidate
	for _, c := range g.named(hits) {
		row, err := tx.FeedAt(c.row.Seq)
		if err != nil {
			return nil, err
		}
		if row != nil {
			c.row = *row
			out = append(out, c)
		}
	}
	return out, nil
}

// countOnly filters without reading texts.
func (g *grep) countOnly(hits api.IndexHits) error {
	return g.s.view(func(tx api.StoreTx) error {
		in, err := g.resolve(tx, hits.Hits)
		if err != nil {
			return err
		}
		for _, c := range in {
			_, ok, err := g.scopes.admits(tx, c.row)
			if err != nil {
				return err
			}
			if ok {
				g.out.Total++
			}
		}
		return nil
	})
}
