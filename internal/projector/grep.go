package projector

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// Grep's limits.
const (
	defaultHits = 20
	maxHits     = 200
	maxPattern  = 4096
	// hitTokens is about what a hit takes beside its snippet.
	hitTokens = 40
	// tailRows of the feed that are not indexed yet are searched one by one.
	tailRows = 2_000
	// countRows bounds how many further matches are looked at for the total.
	countRows = 5_000
)

// The modes and orders of a search.
const (
	modeWords  = "words"
	modePhrase = "phrase"
	modeRegex  = "regex"

	sortRecency   = "recency"
	sortRelevance = "relevance"
)

// matcher returns the byte ranges of the matches in a text, nil for none.
type matcher func(text string) [][2]int

// query is a validated GrepRequest.
type query struct {
	api.GrepRequest
	kinds        []string
	since, until time.Time
	limit        int
	hash         string
	resumed      *cursor // of the page before, nil on the first
	after        string  // its key, "" by relevance
	skip         int     // by relevance: hits on earlier pages
	token        events.Position
	match        matcher
}

// cursor is what the opaque Cursor holds. Seq is the watermark of the first
// page: later turns do not disturb the pages that follow. By relevance it
// counts hits: scores drift as the index grows, a score is no place to go on
// from.
type cursor struct {
	Seq   uint64 `json:"s"`
	Key   string `json:"k,omitempty"`
	Skip  int    `json:"n,omitempty"`
	Hash  string `json:"h"`
	Total int    `json:"t"`
	// Partial: Total counts only what stands before the key.
	Partial bool `json:"p,omitempty"`
}

// newQuery checks a request and fills in its defaults.
func newQuery(r api.GrepRequest) (*query, error) {
	orDefault(&r.Mode, modeWords)
	orDefault(&r.Sort, sortRecency)
	q := &query{GrepRequest: r, kinds: r.Kinds, limit: limitOf(r.Limit, defaultHits, maxHits), token: r.Token}
	if q.kinds == nil {
		q.kinds = []string{api.KindTurn, api.KindSummary}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	var err error
	if q.since, err = bound("since", r.Since); err != nil {
		return nil, err
	}
	if q.until, err = bound("until", r.Until); err != nil {
		return nil, err
	}
	q.hash = hashOf(r)
	return q, q.resume(r.Cursor)
}

func (q *query) check() error {
	invalid := func(format string, a ...any) error { return problem.New(problem.Invalid, format, a...) }
	switch {
	case q.Tenant == "":
		return invalid("a search needs a tenant")
	case q.Pattern == "":
		return invalid("the pattern is empty")
	case len(q.Pattern) > maxPattern:
		return invalid("the pattern has %d bytes, at most %d are searched for", len(q.Pattern), maxPattern)
	case !slices.Contains([]string{modeWords, modePhrase, modeRegex}, q.Mode):
		return invalid("mode %q is none of words, phrase, regex", q.Mode)
	case q.Sort != sortRecency && q.Sort != sortRelevance:
		return invalid("sort %q is none of recency, relevance", q.Sort)
	case q.Sort == sortRelevance && q.Mode == modeRegex:
		return invalid("a regex has no relevance: sort by recency")
	case q.Node != 0 && len(q.Sessions) != 1:
		return invalid("node #%d needs the one session it belongs to", q.Node)
	}
	for _, k := range q.kinds {
		if !slices.Contains([]string{api.KindTurn, api.KindSummary, api.KindFile}, k) {
			return invalid("kind %q is none of turn, summary, file", k)
		}
	}
	return nil
}

func bound(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, problem.New(problem.Invalid, "%s %q is no RFC 3339 time: %w", name, text, err)
	}
	return t, nil
}

// hashOf identifies what is searched for, so that a cursor of another query
// is noticed.
func hashOf(r api.GrepRequest) string {
	r.Cursor, r.Limit, r.MaxTokens, r.Token = "", 0, 0, events.Position{}
	b, _ := json.Marshal(r) // strings and numbers only: cannot fail
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// resume reads the cursor of an earlier page.
func (q *query) resume(text string) error {
	if text == "" {
		return nil
	}
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && c.Skip <= 0 {
		_, _, _, err = api.ParseDocID(c.Key)
	}
	if err != nil {
		return problem.New(problem.Invalid, "the cursor cannot be read: %w", err)
	}
	if c.Hash != q.hash {
		return problem.New(problem.Invalid, "the cursor belongs to another search")
	}
	q.resumed, q.after, q.skip, q.token.Seq = &c, c.Key, c.Skip, max(q.token.Seq, c.Seq)
	return nil
}

func (c cursor) String() string {
	b, _ := json.Marshal(c) // strings and numbers only: cannot fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// prepare makes the matcher. A pattern that cannot be searched for is invalid,
// never zero hits.
func (s *Service) prepare(q *query) error {
	if q.Mode == modeRegex {
		re, err := regexp.Compile(q.Pattern)
		if err != nil {
			return problem.New(problem.Invalid, "the pattern is no regular expression (RE2): %w", err)
		}
		q.match = func(text string) [][2]int {
			if at := re.FindStringIndex(text); at != nil {
				return [][2]int{{at[0], at[1]}}
			}
			return nil
		}
		return nil
	}
	return s.use(func(_ api.Store, index api.Index) error {
		m, err := index.Locator(q.Pattern, q.Mode == modePhrase)
		q.match = m
		return err
	})
}

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
	g := &grep{s: s, q: q, out: out, bound: out.Watermark.Seq, scopes: newScopes(q), skip: q.skip, seen: map[string]bool{}}
	if q.resumed != nil { // the pages of one search see one state
		g.bound = min(g.bound, q.resumed.Seq)
	}
	sctx, cancel := scanContext(ctx, s.cfg.ScanWait)
	defer cancel()
	if q.Mode == modeRegex {
		err = g.scan(sctx)
	} else {
		err = g.search(sctx)
	}
	if err == nil {
		err = g.finish()
	}
	return out, err
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

	page   []found
	skip   int             // matches of earlier pages still to pass over
	seen   map[string]bool // keys, by relevance
	tokens int
	full   bool
	last   string // key of the last hit of the page
	// partial: the time ran out before everything was counted.
	partial bool
}

// found is a hit and what its cover is looked up by.
type found struct {
	hit  api.Hit
	key  string
	ref  events.Ref
	n    uint64 // entry or node
	node bool
}

// take counts a match and puts it on the page while there is room.
func (g *grep) take(f found) {
	if g.q.Sort == sortRelevance {
		if g.seen[f.key] { // scores changed between two pages of the index
			return
		}
		g.seen[f.key] = true
	}
	g.out.Total++
	if g.skip > 0 {
		g.skip--
		return
	}
	if g.full {
		return
	}
	cost := hitTokens
	if g.q.MaxTokens > 0 {
		cost += tokens.Count(f.hit.Snippet)
	}
	if len(g.page) == g.q.limit || g.q.MaxTokens > 0 && len(g.page) > 0 && g.tokens+cost > g.q.MaxTokens {
		g.full = true
		return
	}
	g.tokens += cost
	g.page = append(g.page, f)
	g.last = f.key
}

// counted: the total is known from an earlier page.
func (g *grep) counted() bool { return g.q.resumed != nil && !g.q.resumed.Partial }

func (g *grep) notSearched(format string, a ...any) {
	g.out.NotSearched = append(g.out.NotSearched, fmt.Sprintf(format, a...))
}

// finish looks up what covers the hits of the page, and sets the cursor.
func (g *grep) finish() error {
	if c := g.q.resumed; c != nil && c.Partial {
		g.out.Total += c.Total
	} else if c != nil {
		g.out.Total = c.Total
	}
	if g.full {
		c := cursor{Seq: g.bound, Key: g.last, Hash: g.q.hash, Total: g.out.Total, Partial: g.partial}
		if g.q.Sort == sortRelevance {
			c.Key, c.Skip = "", g.q.skip+len(g.page)
		}
		g.out.Cursor = c.String()
	}
	if len(g.page) == 0 {
		return nil
	}
	return g.s.view(func(tx api.StoreTx) error {
		for _, f := range g.page {
			if err := g.cover(tx, &f); err != nil {
				return err
			}
			g.out.Hits = append(g.out.Hits, f.hit)
		}
		return nil
	})
}
