package bleveindex

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"

	index "github.com/blevesearch/bleve_index_api"

	"lcm/internal/api"
	"lcm/rank"
)

// Rank implements api.IndexReader. Bleve's own scores are not used: they are
// no BM25, and drift as segments are merged.
func (x *Index) Rank(ctx context.Context, q api.RankQuery) (out api.RankHits, err error) {
	if err := x.health(); err != nil {
		return out, err
	}
	var p plan
	if q.Text != "" {
		if p, err = parse(q.Text, q.Phrase); err != nil {
			return out, err
		}
	}
	err = x.reading(ctx, func(r *snapshot) error {
		k := ranking{snapshot: r, q: q}
		if err := k.collect(p); err != nil {
			return err
		}
		out, err = k.best(len(p) > 0)
		out.Loose = p.loose()
		return err
	})
	return out, x.searchError(ctx, err)
}

// ranking is one question under way. Documents are Bleve's numbers: they hold
// for one reader.
type ranking struct {
	*snapshot
	q api.RankQuery

	scope []uint64 // documents that pass the filters, ascending
	terms [][]posting
	stats rank.Stats
}

// posting is a document that holds a term.
type posting struct {
	doc          uint64
	freq, length float64
}

// collect reads the scope and the postings of each term in it.
func (k *ranking) collect(p plan) error {
	if err := k.readScope(p); err != nil {
		return err
	}
	for _, term := range k.q.Question.Terms {
		list, err := k.postings(term)
		if err != nil {
			return err
		}
		k.terms = append(k.terms, list)
		k.stats.Found = append(k.stats.Found, float64(len(list)))
	}
	k.stats.Docs = float64(len(k.scope))
	var err error
	k.stats.Length, err = k.averageLength()
	if k.q.Stats != nil && len(k.q.Stats.Found) == len(k.terms) {
		k.stats = *k.q.Stats
	}
	return err
}

func (k *ranking) readScope(p plan) error {
	for _, g := range k.segs {
		found, err := g.candidates(p, k.q.IndexQuery)
		if err != nil {
			return err
		}
		docs := found.ToArray()
		if p.positioned() {
			if docs, err = g.standing(p, docs); err != nil {
				return err
			}
		}
		for _, d := range docs {
			k.scope = append(k.scope, g.base+uint64(d))
		}
		if k.ctx.Err() != nil {
			return k.ctx.Err()
		}
	}
	return nil
}

// postings of a term within the scope. Where the scope is much smaller than
// the list, its documents are looked up one by one.
func (k *ranking) postings(term string) ([]posting, error) {
	tfr, err := k.TermFieldReader(k.ctx, []byte(term), fieldProse, true, true, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tfr.Close() }()
	if k.ctx.Err() != nil {
		return nil, k.ctx.Err()
	}
	if uint64(len(k.scope))*lookupCost < tfr.Count() {
		return k.lookUp(tfr)
	}
	return k.intersect(tfr)
}

// lookupCost is how many times dearer finding a document in a list is than
// reading the next one.
const lookupCost = 8

func (k *ranking) lookUp(tfr index.TermFieldReader) ([]posting, error) {
	var out []posting
	var doc index.TermFieldDoc
	var id index.IndexInternalID
	for i := 0; i < len(k.scope); {
		id = index.NewIndexInternalID(id, k.scope[i])
		d, err := tfr.Advance(id, doc.Reset())
		if err != nil || d == nil {
			return out, err
		}
		at := d.ID.Value()
		if at == k.scope[i] {
			out = append(out, postingOf(d))
			i++
			continue
		}
		n, found := slices.BinarySearch(k.scope[i:], at)
		if i += n; found {
			out = append(out, postingOf(d))
			i++
		}
	}
	return out, nil
}

func (k *ranking) intersect(tfr index.TermFieldReader) ([]posting, error) {
	out := make([]posting, 0, min(uint64(len(k.scope)), tfr.Count()))
	var doc index.TermFieldDoc
	for i := 0; ; {
		d, err := tfr.Next(doc.Reset())
		if err != nil || d == nil {
			return out, err
		}
		at := d.ID.Value()
		for i < len(k.scope) && k.scope[i] < at {
			i++
		}
		if i == len(k.scope) {
			return out, nil
		}
		if k.scope[i] == at {
			out = append(out, postingOf(d))
		}
	}
}

// postingOf reads the length off the norm, which is 1/√length. The term that
// stands in every document is no part of it.
func postingOf(d *index.TermFieldDoc) posting {
	length := 1.0
	if d.Norm > 0 {
		length = math.Round(1/(d.Norm*d.Norm)) - 1
	}
	return posting{doc: d.ID.Value(), freq: float64(d.Freq), length: length}
}

// averageSample bounds how many documents the average length is taken over.
const averageSample = 2_000

func (k *ranking) averageLength() (float64, error) {
	if len(k.scope) == 0 {
		return 0, nil
	}
	all := k.scope
	if step := len(all) / averageSample; step > 1 {
		k.scope = make([]uint64, 0, averageSample+1)
		for i := 0; i < len(all); i += step {
			k.scope = append(k.scope, all[i])
		}
	}
	list, err := k.postings(everyDoc)
	k.scope = all
	sum := 0.0
	for _, p := range list {
		sum += p.length
	}
	return sum / max(1, float64(len(list))), err
}

// scored is a document with its score.
type scored struct {
	doc   uint64
	score float64
}

func (a scored) before(b scored) bool {
	return a.score > b.score || a.score == b.score && a.doc > b.doc
}

// worstFirst is a heap.
type worstFirst []scored

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return h[j].before(h[i]) }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(v any)        { *h = append(*h, v.(scored)) }
func (h *worstFirst) Pop() any          { panic("not used") }

// best adds up the scores. all: documents of the scope without any word of the
// question count too.
func (k *ranking) best(all bool) (api.RankHits, error) {
	out := api.RankHits{Stats: k.stats}
	if len(k.scope) == 0 {
		return out, nil
	}
	s := rank.NewScorer(k.q.Question, k.stats, k.q.Rules)
	first := k.scope[0]
	scores := make([]float64, k.scope[len(k.scope)-1]-first+1)
	for i, list := range k.terms {
		for _, p := range list {
			scores[p.doc-first] += s.Term(i, p.freq, p.length)
		}
	}
	var top worstFirst
	for _, doc := range k.scope {
		d := scored{doc, scores[doc-first]}
		if d.score == 0 && !all {
			continue
		}
		out.Total++
		if len(top) < k.q.Limit {
			heap.Push(&top, d)
		} else if d.before(top[0]) {
			top[0] = d
			heap.Fix(&top, 0)
		}
	}
	return k.name(top, out)
}

// name finds the documents' ids and sorts by score, then newest first.
func (k *ranking) name(top []scored, out api.RankHits) (api.RankHits, error) {
	out.Hits = make([]api.RankHit, 0, len(top))
	var internal index.IndexInternalID
	for _, d := range top {
		internal = index.NewIndexInternalID(internal, d.doc)
		id, err := k.ExternalID(internal)
		if err != nil {
			return out, err
		}
		seq, kind, part, err := api.ParseDocID(id)
		if err != nil {
			return out, damaged("index: %v", err)
		}
		out.Hits = append(out.Hits, api.RankHit{IndexHit: api.IndexHit{Seq: seq, Kind: kind, Part: part, ID: id}, Score: d.score})
	}
	slices.SortFunc(out.Hits, func(a, b api.RankHit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.ID, a.ID))
	})
	return out, nil
}
