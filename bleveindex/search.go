package bleveindex

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/query"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// Query, Hits and Hit of a search.
type (
	Query = api.IndexQuery
	Hits  = api.IndexHits
	Hit   = api.IndexHit
)

// Search implements api.IndexReader.
func (x *Index) Search(ctx context.Context, q Query) (Hits, error) {
	if err := x.health(); err != nil {
		return Hits{}, err
	}
	p, err := parse(q.Text, q.Phrase)
	if err != nil {
		return Hits{}, err
	}
	req, err := request(p, q)
	if err != nil {
		return Hits{}, err
	}
	var res *bleve.SearchResult
	err = x.guarded(func() (err error) {
		res, err = x.idx.SearchInContext(ctx, req)
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return Hits{}, fmt.Errorf("search: %w", errors.Join(ctx.Err(), err))
	case errors.Is(err, bleve.ErrorIndexClosed):
		return Hits{}, problem.New(problem.Unavailable, "index %s is closed: %w", x.dir, err)
	case problem.IsCode(err, problem.Damaged):
		return Hits{}, err
	default:
		return Hits{}, damaged("index %s: search: %v", x.dir, err)
	}
	return hits(res, q.ByScore)
}

func hits(res *bleve.SearchResult, byScore bool) (Hits, error) {
	out := Hits{Total: res.Total}
	for _, m := range res.Hits {
		seq, kind, part, err := api.ParseDocID(m.ID)
		if err != nil {
			return Hits{}, damaged("index: %v", err)
		}
		out.Hits = append(out.Hits, Hit{Seq: seq, Kind: kind, Part: part, Cursor: cursorOf(m, byScore)})
	}
	return out, nil
}

// cursorOf is "<id>", or "<score>/<id>" where scores decide.
func cursorOf(m *search.DocumentMatch, byScore bool) string {
	if !byScore {
		return m.ID
	}
	return strconv.FormatFloat(m.Score, 'g', -1, 64) + "/" + m.ID
}

func request(p plan, q Query) (*bleve.SearchRequest, error) {
	req := bleve.NewSearchRequestOptions(build(p, q), max(1, q.Limit), 0, false)
	if q.ByScore {
		req.SortBy([]string{"-_score", "-_id"})
	} else {
		req.SortBy([]string{"-_id"})
		req.Score = "none"
	}
	if q.After == "" {
		return req, nil
	}
	after := []string{q.After}
	if q.ByScore {
		after = strings.SplitN(q.After, "/", 2)
		if len(after) != 2 {
			return nil, problem.New(problem.Invalid, "cursor %q is none of a search by relevance", q.After)
		}
	}
	req.SetSearchAfter(after)
	return req, nil
}

// build makes the Bleve query: text clauses score, filters do not.
func build(p plan, q Query) query.Query {
	b := bleve.NewBooleanQuery()
	for _, c := range p {
		b.AddMust(c.query())
	}
	filters := []query.Query{anyOf(fieldTenant, []string{q.Tenant})}
	add := func(field string, values []string) {
		if len(values) > 0 {
			filters = append(filters, anyOf(field, values))
		}
	}
	add(fieldSession, q.Sessions)
	add(fieldRole, q.Roles)
	add(fieldKind, q.Kinds)
	var depths []string
	for _, d := range q.Depths {
		depths = append(depths, strconv.Itoa(d))
	}
	add(fieldDepth, depths)
	if !q.Since.IsZero() || !q.Until.IsZero() {
		filters = append(filters, timeRange(q))
	}
	b.AddFilter(query.NewConjunctionQuery(filters))
	return b
}

func anyOf(field string, values []string) query.Query {
	var out []query.Query
	for _, v := range values {
		t := bleve.NewTermQuery(v)
		t.SetField(field)
		out = append(out, t)
	}
	if len(out) == 1 {
		return out[0]
	}
	return query.NewDisjunctionQuery(out)
}

func timeRange(q Query) query.Query {
	var from, to *float64
	if !q.Since.IsZero() {
		f := float64(q.Since.UnixMilli())
		from = &f
	}
	if !q.Until.IsZero() {
		f := float64(q.Until.UnixMilli())
		to = &f
	}
	yes := true
	r := bleve.NewNumericRangeInclusiveQuery(from, to, &yes, &yes)
	r.SetField(fieldTime)
	return r
}

// query of a clause: any of its sequences, or all of its words.
func (c clause) query() query.Query {
	var alts []query.Query
	for _, seq := range c.seqs {
		alts = append(alts, seqQuery(seq))
	}
	if len(c.all) > 0 {
		var all []query.Query
		for _, term := range c.all {
			all = append(all, slotQuery(one(term)))
		}
		alts = append(alts, query.NewConjunctionQuery(all))
	}
	if len(alts) == 1 {
		return alts[0]
	}
	return query.NewDisjunctionQuery(alts)
}

// seqQuery is a phrase. A prefix cannot stand in a phrase of Bleve's: there
// the index only narrows down.
func seqQuery(seq []slot) query.Query {
	if len(seq) == 1 {
		return slotQuery(seq[0])
	}
	last := seq[len(seq)-1]
	if last.prefix {
		return query.NewConjunctionQuery([]query.Query{seqQuery(seq[:len(seq)-1]), slotQuery(last)})
	}
	terms := make([][]string, len(seq))
	for i, s := range seq {
		terms[i] = s.terms
	}
	return query.NewMultiPhraseQuery(terms, fieldText)
}

func slotQuery(s slot) query.Query {
	if s.prefix {
		p := bleve.NewPrefixQuery(s.terms[0])
		p.SetField(fieldText)
		return p
	}
	return anyOf(fieldText, s.terms)
}
