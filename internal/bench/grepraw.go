package bench

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/blevesearch/bleve/v2"

	"lcm/bleveindex"
	"lcm/events"
	"lcm/internal/api"
)

// rawSearch asks the same queries of an index of its own in the same run: what
// Bleve takes without rows, checks, snippets and grouping. The first figure is
// the time of a query; the others are the index's size, and its speed beside
// Bleve's own with the same mapping.
func (r *rig) rawSearch(ctx context.Context) ([]Figure, error) {
	r.say("an index without a store")
	x, err := bleveindex.Open(filepath.Join(r.dir, "raw-index"), bleveindex.Options{Epoch: "raw"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = x.Close() }()
	plain, err := bleve.New(filepath.Join(r.dir, "plain-index"), x.Mapping())
	if err != nil {
		return nil, err
	}
	defer func() { _ = plain.Close() }()
	took, bytes, err := r.fillRaw([2]applier{x.Apply, func(docs []bleveindex.Doc, _ uint64) error { return applyPlain(plain, docs) }})
	if err != nil {
		return nil, err
	}
	p50, err := rawQueries(ctx, x)
	return []Figure{
		p50,
		{"indexing, our adapter", rate(r.rawTurns(), took[0]), "docs/s"},
		{"indexing, plain Bleve with the same mapping", rate(r.rawTurns(), took[1]), "docs/s"},
		{"indexing, ratio", float64(took[1]) / float64(took[0]), ""},
		{"index size / text", float64(x.SizeBytes()) / float64(bytes), ""},
	}, err
}

func rawQueries(ctx context.Context, x *bleveindex.Index) (Figure, error) {
	f := Figure{Name: "the index alone: ids of the same queries, p50", Unit: "ms"}
	rng := rand.New(rand.NewPCG(3, 4))
	m := grepMeasures()[0]
	var waits []time.Duration
	for range grepRounds {
		q := bleveindex.Query{Text: m.in(rng).Pattern, Tenant: "default", Limit: 20}
		start := time.Now()
		if _, err := x.Search(ctx, q); err != nil {
			return f, err
		}
		waits = append(waits, time.Since(start))
	}
	f.Value = quantile(waits, 0.5)
	return f, nil
}

// rawTurns: the speed of indexing does not need more to be known.
func (r *rig) rawTurns() int { return min(r.Turns, 30_000) }

type applier func(docs []bleveindex.Doc, upto uint64) error

// fillRaw applies the corpus in batches, each to both indexes, first to one and
// the next one first to the other: merges in the background, and a machine that
// has other things to do, slow down both. It counts the bytes of the texts.
func (r *rig) fillRaw(to [2]applier) (took [2]time.Duration, bytes int, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	var docs []bleveindex.Doc
	turns := r.rawTurns()
	for n := range turns {
		text := corpusText(rng, n)
		bytes += len(text)
		docs = append(docs, bleveindex.Doc{
			Seq: uint64(n + 1), Kind: api.KindTurn, Ref: events.Ref{Tenant: "default", Session: "s"}, Role: "user",
			Depth: api.NoDepth, Time: time.Unix(1_700_000_000+int64(n), 0), Text: text,
		})
		if len(docs) < rawBatch && n+1 < turns {
			continue
		}
		for i := range to {
			k := (i + n/rawBatch) % len(to)
			start := time.Now()
			if err := to[k](docs, uint64(n+1)); err != nil {
				return took, bytes, err
			}
			took[k] += time.Since(start)
		}
		docs = docs[:0]
	}
	return took, bytes, nil
}

const rawBatch = 1_000

// applyPlain goes through Bleve's own interface.
func applyPlain(idx bleve.Index, docs []bleveindex.Doc) error {
	b := idx.NewBatch()
	for _, d := range docs {
		id, fields := bleveindex.Fields(d)
		if err := b.Index(id, fields); err != nil {
			return err
		}
	}
	return idx.Batch(b)
}
