package projector

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/rank"
	"lcm/tokens"
)

const (
	// tailRows of the feed that are not indexed yet are searched one by one:
	// some 20 µs each, in every search while turns come in.
	tailRows = indexPage
	// countRows bounds how many further matches are looked at for the total,
	// countTexts how many where that means reading texts.
	countRows  = 5_000
	countTexts = indexPage
)

// Grep searches turns, summaries and files.
func (s *Service) Grep(ctx context.Context, r api.GrepRequest) (*api.GrepReply, error) {
	out := &api.GrepReply{Hits: []api.Hit{}, NotSearched: []string{}}
	q, err := newQuery(r)
	if err != nil {
		return out, err
	}
	if out.Watermark, err = s.Wait(ctx, q.token); err != nil {
		return out, err
	}
	if err := s.prepare(q); err != nil {
		return out, err
	}
	g := &grep{s: s, q: q, out: out, bound: out.Watermark.Seq, scopes: newScopes(q, &s.scopes), skip: q.skip}
	if q.resumed != nil { // the pages of one search see one state
		g.bound = min(g.bound, q.resumed.Seq)
	}
	sctx, cancel := scanContext(ctx, s.cfg.ScanWait)
	defer cancel()
	defer g.standUp()
	err = g.find(sctx)
	if err == nil {
		err = g.finish(ctx)
	}
	return out, err
}

// find fills the page. What it waits for, it waits for without a seat.
func (g *grep) find(ctx context.Context) error {
	work := g.search
	switch {
	case g.q.ranked():
		g.awaitIndex(ctx)
		work = g.rank
	case g.scans():
		work = g.scan
	default:
		g.awaitToken(ctx)
	}
	if err := g.sit(ctx); err != nil {
		if g.q.ranked() {
			return g.timeOr(ctx, err)
		}
		g.ranOut(0)
		return nil
	}
	return work(ctx)
}

// scanContext ends a little before the caller's deadline: an answer that says
// what is missing is worth more than none.
func scanContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		d = min(d, left-min(left/10, 200*time.Millisecond))
	}
	return context.WithTimeout(ctx, d)
}

// grep is one search under way.
type grep struct {
	s      *Service
	q      *query
	out    *api.GrepReply
	bound  uint64 // positions above it are not looked at
	scopes *scopes
	seated bool // see seats

	page  []found
	skip  int // matches of earlier pages still to pass over
	full  bool
	last  string      // key of the last hit of the page
	stats *rank.Stats // that the ranks were made with
	// partial: the time ran out before everything was counted.
	partial bool
}

// found is a document that matches, and the hit that is made of it once it has
// a place on the page.
type found struct {
	hit   api.Hit
	key   string
	kind  string
	ref   events.Ref
	n     uint64 // entry or node
	node  bool
	text  string
	spans [][2]int
	*material
}

// take counts a match and puts it on the page while there is room.
func (g *grep) take(f found) {
	g.out.Total++
	if g.skip > 0 {
		g.skip--
		return
	}
	if g.full = g.full || len(g.page) == g.q.limit; g.full {
		return
	}
	g.page = append(g.page, f)
	g.last = f.key
}

// counted: the total is known from an earlier page.
func (g *grep) counted() bool { return g.q.resumed != nil && !g.q.resumed.Partial }

func (g *grep) notSearched(format string, a ...any) {
	g.out.NotSearched = append(g.out.NotSearched, fmt.Sprintf(format, a...))
}

// finish writes the page and sets the cursor.
func (g *grep) finish(ctx context.Context) error {
	if c := g.q.resumed; c != nil && c.Partial {
		g.out.Total += c.Total
	} else if c != nil {
		g.out.Total, g.out.TotalEstimated = c.Total, c.Estimated
	}
	if g.full {
		g.out.Cursor = g.cursor() // its tokens count too
	}
	given := 0
	err := g.s.view(func(tx api.StoreTx) (err error) {
		given, err = g.write(ctx, tx)
		return err
	})
	if err == nil && given < len(g.page) {
		g.page = g.page[:given]
		g.last = g.page[given-1].key
		g.out.Cursor = g.cursor()
	}
	return err
}

// write answers hits while their tokens are within the bound.
func (g *grep) write(ctx context.Context, tx api.StoreTx) (given int, err error) {
	left := g.q.MaxTokens
	if left > 0 {
		left -= jsonTokens(g.out) + cursorTokens
	}
	for _, f := range g.page {
		f.describe()
		if err := g.cover(tx, &f); err != nil {
			return given, err
		}
		if err := g.beside(ctx, tx, &f); err != nil {
			return given, err
		}
		if g.q.MaxTokens > 0 {
			if left -= jsonTokens(f.hit); left < 0 && given > 0 {
				return given, nil
			}
		}
		g.out.Hits = append(g.out.Hits, f.hit)
		given++
	}
	return given, nil
}

// cursorTokens: a page that is cut short gets a cursor, which is no more than
// this.
const cursorTokens = 160

// jsonTokens of a value as it is sent.
func jsonTokens(v any) int {
	b, _ := json.Marshal(v) // texts, numbers, times: cannot fail
	return tokens.Count(string(b)) + 1
}

func (g *grep) cursor() string {
	c := cursor{Seq: g.bound, Key: g.last, Hash: g.q.hash, Total: g.out.Total, Estimated: g.out.TotalEstimated, Partial: g.partial}
	if g.q.ranked() {
		c.Key, c.Skip, c.Stats = "", g.q.skip+len(g.page), g.stats
	}
	return c.String()
}
