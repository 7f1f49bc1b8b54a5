package natsmicro

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// byRank: the order is by relevance, at least in part. Positions decide else.
func byRank(q api.GrepRequest) bool {
	return q.Sort == "relevance" || q.Sort == "hybrid" || q.Sort == "" && q.Mode == "relevance"
}

// Grep implements Reads. Hits of several projectors are merged by position,
// or by rank where the order is by relevance: scores of two indexes are never
// compared. A partition nobody serves is said to be not searched.
//
// Each list of sort hybrid is the fusion of relevance and recency among its own
// matches already. Sessions fall to partitions by hash, so each list is a sample
// of the union, and the places of both orders in it stand for those in the
// union: the merge by rank, equal ranks newest first, is the fusion of the union
// as far as that holds. Where one projector has few matches, they come earlier
// than they would in the union, never later.
func (c *ReadsClient) Grep(ctx context.Context, q api.GrepRequest) (*api.GrepReply, error) {
	var wanted []int
	for _, s := range q.Sessions {
		if p := c.partition(events.Ref{Tenant: q.Tenant, Session: s}); !slices.Contains(wanted, p) {
			wanted = append(wanted, p)
		}
	}
	if strings.HasPrefix(q.Cursor, cursorPrefix) {
		return c.grepOn(ctx, q, wanted)
	}
	got, missing, err := fanout[api.GrepReply](ctx, c, verbGrep, q, wanted)
	if err != nil {
		return nil, err
	}
	if len(got) == 0 {
		return nil, missingError(missing)
	}
	got, lost, err := answered(got)
	if err != nil {
		return nil, err
	}
	for _, p := range missing {
		lost = append(lost, notSearched{[]int{p}, "no projector answers for it"})
	}
	if len(got) == 1 && len(lost) == 0 {
		return got[0].reply, nil // its cursor too
	}
	if q.Cursor != "" {
		return nil, problem.New(problem.Invalid, "the cursor is of one projector, now there are %d", len(got)).WithHint("search again")
	}
	lists := make([]hitList, len(got))
	for i, a := range got {
		lists[i] = hitList{place: place{Part: a.parts[0]}, reply: a.reply}
	}
	return mergeHits(q, lists, 0, lost), nil
}

// notSearched names partitions that an answer leaves out, and why.
type notSearched struct {
	Parts []int  `json:"p"`
	Why   string `json:"w"`
}

func (n notSearched) String() string {
	word := "partition"
	if len(n.Parts) > 1 {
		word = "partitions"
	}
	return fmt.Sprintf("%s %s: %s", word, spans(n.Parts), n.Why)
}

// answered tells answers from projectors in trouble: what the others found is
// worth having. A request that is wrong is wrong for all, and where nobody
// answers there is nothing to have.
func answered(got []from[api.GrepReply]) (ok []from[api.GrepReply], lost []notSearched, err error) {
	for _, a := range got {
		switch {
		case a.err == nil:
			ok = append(ok, a)
		case !inTrouble(a.err):
			return nil, nil, a.err
		default:
			lost = append(lost, notSearched{a.parts, a.err.Error()})
		}
	}
	if len(ok) == 0 {
		err = firstError(got)
	}
	return ok, lost, err
}

func inTrouble(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || slices.ContainsFunc(
		[]problem.Code{problem.Stale, problem.Damaged, problem.Unavailable, problem.Limited, problem.Internal},
		func(c problem.Code) bool { return problem.IsCode(err, c) })
}

// grepOn goes on behind a merged page.
func (c *ReadsClient) grepOn(ctx context.Context, q api.GrepRequest, wanted []int) (*api.GrepReply, error) {
	at, err := parseCursor(q.Cursor)
	if err != nil {
		return nil, err
	}
	sets, missing, err := c.layout(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var lists []hitList
	for _, p := range at.Places {
		if slices.Contains(missing, p.Part) {
			return nil, nobody(p.Part)
		}
		if !slices.ContainsFunc(sets, func(s []int) bool { return s[0] == p.Part }) {
			return nil, problem.New(problem.Invalid, "the cursor is of other projectors than those of now").WithHint("search again")
		}
		ask := q
		ask.Cursor = p.Cursor
		reply := new(api.GrepReply)
		if _, err := c.call(ctx, readSubject(p.Part, verbGrep), ask, reply); err != nil {
			if errors.Is(err, errNobody) {
				c.forget()
				err = nobody(p.Part)
			}
			return nil, err
		}
		if p.Skip > len(reply.Hits) {
			return nil, problem.New(problem.Invalid, "the cursor is of another search")
		}
		lists = append(lists, hitList{place: p, reply: reply})
	}
	lost := at.Lost
	for _, p := range missing {
		if !slices.ContainsFunc(lost, func(n notSearched) bool { return slices.Contains(n.Parts, p) }) {
			lost = append(lost, notSearched{[]int{p}, "no projector answers for it"})
		}
	}
	return mergeHits(q, lists, at.Total, lost), nil
}

// place is how far a merged search has got in one projector.
type place struct {
	Part   int    `json:"p"`           // its first partition
	Cursor string `json:"c,omitempty"` // of the page it stands in
	Skip   int    `json:"s,omitempty"` // hits of that page already given
	Rank   int    `json:"r,omitempty"` // hits of the pages before it
}

// hitList is a page of one projector and the place in it.
type hitList struct {
	place
	reply *api.GrepReply
}

func (l *hitList) done() bool    { return l.Skip >= len(l.reply.Hits) }
func (l *hitList) hit() *api.Hit { return &l.reply.Hits[l.Skip] }

// mergeHits takes the best hit until the page is full, or until a list is used
// up that goes on elsewhere: what follows there may be better than the rest.
// total is what projectors found that have no more.
func mergeHits(q api.GrepRequest, lists []hitList, total int, lost []notSearched) *api.GrepReply {
	out := &api.GrepReply{Hits: []api.Hit{}, NotSearched: []string{}, Total: total}
	limit := 0
	for i := range lists {
		r := lists[i].reply
		limit = max(limit, len(r.Hits))
		out.Total += r.Total
		out.TotalEstimated = out.TotalEstimated || r.TotalEstimated
		out.Watermark = lower(out.Watermark, r.Watermark)
		for _, s := range r.NotSearched {
			if !slices.Contains(out.NotSearched, s) {
				out.NotSearched = append(out.NotSearched, s)
			}
		}
	}
	for _, n := range lost {
		out.NotSearched = append(out.NotSearched, n.String())
		out.TotalEstimated = true
	}
	if q.Limit > 0 {
		limit = q.Limit
	}
	spent := answerTokens
	for len(out.Hits) < limit {
		best := bestOf(byRank(q), lists)
		if best == nil {
			break
		}
		n := hitTokens(best.hit())
		if q.MaxTokens > 0 && spent+n > q.MaxTokens && len(out.Hits) > 0 {
			break
		}
		spent += n
		out.Hits = append(out.Hits, *best.hit())
		if best.Skip++; best.done() && best.reply.Cursor != "" {
			break
		}
	}
	out.Cursor = formatCursor(lists, total, lost)
	return out
}

// answerTokens is about what an answer without hits takes, its cursor included.
const answerTokens = 250

// hitTokens of a hit as it is sent.
func hitTokens(h *api.Hit) int {
	b, _ := json.Marshal(h) // texts, numbers, times: cannot fail
	return tokens.Count(string(b)) + 1
}

func bestOf(ranked bool, lists []hitList) *hitList {
	var best *hitList
	for i := range lists {
		if l := &lists[i]; !l.done() && (best == nil || before(ranked, l, best)) {
			best = l
		}
	}
	return best
}

// before orders by rank, then position; or by position alone, newest first.
func before(ranked bool, a, b *hitList) bool {
	if ranked {
		if d := cmp.Compare(a.Rank+a.Skip, b.Rank+b.Skip); d != 0 {
			return d < 0
		}
	}
	return a.hit().Seq > b.hit().Seq
}

const cursorPrefix = "m1."

// cursor is how far a merged search has got.
type cursor struct {
	Total  int     `json:"t,omitempty"` // found by projectors that have no more
	Places []place `json:"at"`
	// Lost are partitions that the first page left out: so do the others.
	Lost []notSearched `json:"lost,omitempty"`
}

// formatCursor writes the places of the lists that have more, "" = none has.
func formatCursor(lists []hitList, total int, lost []notSearched) string {
	c := cursor{Total: total, Lost: lost}
	for _, l := range lists {
		p := l.place
		if l.done() {
			if l.reply.Cursor == "" {
				c.Total += l.reply.Total
				continue
			}
			p = place{Part: p.Part, Cursor: l.reply.Cursor, Rank: p.Rank + len(l.reply.Hits)}
		}
		c.Places = append(c.Places, p)
	}
	if len(c.Places) == 0 {
		return ""
	}
	b, _ := json.Marshal(c) // strings and numbers: cannot fail
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (cursor, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(s, cursorPrefix))
	var c cursor
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	bad := err != nil || len(c.Places) == 0 || c.Total < 0
	for _, p := range c.Places {
		bad = bad || p.Skip < 0 || p.Rank < 0 || p.Part < 0
	}
	if bad {
		return cursor{}, problem.New(problem.Invalid, "the cursor cannot be read").WithHint("pass it as it came, or search again")
	}
	return c, nil
}
