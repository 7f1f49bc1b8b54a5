package bleveindex

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/blevesearch/bleve/v2"

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
func (x *Index) planOf(q Query) (plan, error) {
	if len(q.Literals) > 0 {
		return narrowing(q.Literals, x.trigrams), nil
	}
	return parse(q.Text, q.Phrase)
}

// Search implements api.IndexReader.
func (x *Index) Search(ctx context.Context, q Query) (out Hits, err error) {
	if err := x.health(); err != nil {
		return out, err
	}
	if ctx.Err() != nil {
		return out, x.searchError(ctx, ctx.Err())
	}
	p, err := x.planOf(q)
	if err != nil {
		return out, err
	}
	below := uint64(math.MaxUint64)
	if q.After != "" {
		seq, kind, part, err := api.ParseDocID(q.After)
		if err != nil {
			return out, err
		}
		if key, ok := pack(seq, kind, part); ok {
			below = key
		}
	}
	err = x.reading(ctx, func(s *snapshot) error {
		m, err := s.newest(p, q, below)
		if err == nil {
			out, err = m.page(p, max(1, q.Limit))
		}
		return err
	})
	return out, x.searchError(ctx, err)
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
