package bleveindex

import (
	"context"
	"strings"

	"github.com/blevesearch/bleve/v2/mapping"
	"github.com/blevesearch/bleve/v2/search"
	"github.com/blevesearch/bleve/v2/search/searcher"
	index "github.com/blevesearch/bleve_index_api"
)

// containing is a Bleve query for the documents with a word that holds a part,
// or that may hold it: a word that was cut.
type containing struct{ part }

// Searcher implements query.Query. It reads the whole dictionary of the field:
// some 30 ns a word.
func (c containing) Searcher(ctx context.Context, r index.IndexReader, _ mapping.IndexMapping, o search.SearcherOptions) (search.Searcher, error) {
	dict, err := r.FieldDict(fieldText)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dict.Close() }()
	terms := []string{longWord}
	for n := 0; ; n++ {
		e, err := dict.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			break
		}
		if c.in(e.Term) {
			terms = append(terms, e.Term)
		}
		if n%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return searcher.NewMultiTermSearcher(ctx, r, terms, fieldText, 1, o, false)
}

func (c containing) in(term string) bool {
	if c.right {
		return strings.Contains(term, c.term)
	}
	return strings.HasSuffix(term, c.term)
}
