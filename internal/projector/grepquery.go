package projector

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/rank"
)

// Limits of a search.
const (
	defaultHits   = 20
	maxHits       = 200
	maxPattern    = 4096
	maxNeighbours = 5
)

// The modes and orders of a search.
const (
	modeWords     = "words"
	modePhrase    = "phrase"
	modeRelevance = "relevance"
	modeRegex     = "regex"
	modeSubstring = "substring"

	sortRecency   = "recency"
	sortRelevance = "relevance"
	sortHybrid    = "hybrid"
)

var (
	modes = []string{modeWords, modePhrase, modeRelevance, modeRegex, modeSubstring}
	sorts = []string{sortRecency, sortRelevance, sortHybrid}
	kinds = []string{api.KindTurn, api.KindSummary, api.KindFile}
)

// query is a validated GrepRequest.
type query struct {
	api.GrepRequest
	kinds        []string
	since, until time.Time
	limit        int
	hash         string
	resumed      *cursor // of the page before, nil on the first
	after        string  // its key, "" where ranks decide
	skip         int     // where ranks decide: hits on earlier pages
	token        events.Position
	pattern
}

// ranked: ranks decide on the order, not positions.
func (q *query) ranked() bool { return q.Sort != sortRecency }

// exact: the text is looked for as it stands, not by its words.
func (q *query) exact() bool { return q.Mode == modeRegex || q.Mode == modeSubstring }

// cursor is what the opaque Cursor holds. Seq is the watermark of the first
// page: later turns do not disturb the pages that follow. Where ranks decide it
// counts hits, and keeps the statistics that the scores were made with: a score
// is no place to go on from while the index grows.
type cursor struct {
	Seq   uint64      `json:"s"`
	Key   string      `json:"k,omitempty"`
	Skip  int         `json:"n,omitempty"`
	Stats *rank.Stats `json:"f,omitempty"`
	Hash  string      `json:"h"`
	Total int         `json:"t"`
	// Estimated and Partial say of Total that it is a guess, or that it counts
	// only what stands before the key.
	Estimated bool `json:"e,omitempty"`
	Partial   bool `json:"p,omitempty"`
}

// newQuery checks a request and fills in its defaults.
func newQuery(r api.GrepRequest) (*query, error) {
	r.Mode = cmp.Or(r.Mode, modeWords)
	if r.Mode == modeRelevance {
		r.Sort = cmp.Or(r.Sort, sortRelevance)
	}
	r.Sort = cmp.Or(r.Sort, sortRecency)
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
	case !slices.Contains(modes, q.Mode):
		return invalid("mode %q is none of %s", q.Mode, strings.Join(modes, ", "))
	case !slices.Contains(sorts, q.Sort):
		return invalid("sort %q is none of %s", q.Sort, strings.Join(sorts, ", "))
	case q.ranked() && q.exact():
		return invalid("a %s has no relevance: sort by recency", q.Mode)
	case !q.exact() && (q.IgnoreCase || q.Multiline):
		return invalid("ignore_case and multiline are for regex and substring: words never regard case")
	case q.Mode == modeSubstring && q.Multiline:
		return invalid("multiline is for regex")
	case q.Node != 0 && len(q.Sessions) != 1:
		return invalid("node #%d needs the one session it belongs to", q.Node)
	case q.Neighbours < 0 || q.Neighbours > maxNeighbours:
		return invalid("%d neighbours, at most %d are given", q.Neighbours, maxNeighbours)
	case q.MaxTokens < 0:
		return invalid("max_tokens is %d", q.MaxTokens)
	}
	for _, k := range q.kinds {
		if !slices.Contains(kinds, k) {
			return invalid("kind %q is none of %s", k, strings.Join(kinds, ", "))
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
	r.Cursor, r.Limit, r.MaxTokens, r.Neighbours, r.Token = "", 0, 0, 0, events.Position{}
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
