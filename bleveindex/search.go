package bleveindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/blevesearch/bleve/v2"
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

// planOf is the part of a query that the filters are not.
func planOf(q Query) (plan, error) {
	if len(q.Literals) > 0 {
		return narrowing(q.Literals), nil
	}
	return parse(q.Text, q.Phrase)
}

// Search implements api.IndexReader.
func (x *Index) Search(ctx context.Context, q Query) (Hits, error) {
	if err := x.health(); err != nil {
		return Hits{}, err
	}
	p, err := planOf(q)
	if err != nil {
		return Hits{}, err
	}
	req := request(p, q)
	var res *bleve.SearchResult
	err = x.guarded(func() (err error) {
		res, err = x.idx.SearchInContext(ctx, req)
		return err
	})
	if err != nil {
		return Hits{}, x.searchError(ctx, err)
	}
	out, err := hits(res, p.loose())
	if err == nil {
		out.Upto, err = x.inSight()
	}
	return out, err
}

// inSight is the position that searches see: a batch is visible before it is
// durable, which is what Checkpoint waits for.
func (x *Index) inSight() (uint64, error) {
	var s state
	raw, err := x.idx.GetInternal(stateKey)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return 0, damaged("index %s has no readable state: %v", x.dir, err)
	}
	return s.Upto, nil
}

// searchError says what went wrong in a search.
func (x *Index) searchError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("search: %w", errors.Join(ctx.Err(), err))
	case errors.Is(err, bleve.ErrorIndexClosed):
		return problem.New(problem.Unavailable, "index %s is closed: %w", x.dir, err)
	case problem.IsCode(err, problem.Damaged):
		return err
	}
	return damaged("index %s: search: %v", x.dir, err)
}

func hits(res *bleve.SearchResult, loose bool) (Hits, error) {
	out := Hits{Total: res.Total, Loose: loose}
	for _, m := range res.Hits {
		seq, kind, part, err := api.ParseDocID(m.ID)
		if err != nil {
			return Hits{}, damaged("index: %v", err)
		}
		out.Hits = append(out.Hits, Hit{Seq: seq, Kind: kind, Part: part, ID: m.ID})
	}
	return out, nil
}

// request asks for ids in descending order: a sort by a field costs much more,
// and the ids sort by position.
func request(p plan, q Query) *bleve.SearchRequest {
	req := bleve.NewSearchRequestOptions(build(p, q), max(1, q.Limit), 0, false)
	req.SortBy([]string{"-_id"})
	req.Score = "none"
	if q.After != "" {
		req.SetSearchAfter([]string{q.After})
	}
	return req
}

// build makes the Bleve query. Nothing in it scores: filters are conditions
// like the others, which lets Bleve intersect bitmaps.
func build(p plan, q Query) query.Query {
	all := []query.Query{anyOf(fieldTenant, []string{q.Tenant})}
	for _, c := range p {
		all = append(all, c.query())
	}
	add := func(field string, values []string) {
		if len(values) > 0 {
			all = append(all, anyOf(field, values))
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
		all = append(all, timeRange(q))
	}
	return query.NewConjunctionQuery(all)
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

// query of a clause: any of its sequences or pieces, or all of its words.
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
	for _, l := range c.literals {
		alts = append(alts, l.query())
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
