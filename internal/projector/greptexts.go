package projector

import (
	"slices"
	"sync"

	"lcm/internal/api"
)

// text is what is searched of one document. Searches share those that are kept.
type text struct {
	kind string
	part int
	text string

	once   sync.Once
	folded api.FoldedText
}

// in is the text as locators read it: to fold it takes longer than to look for
// words in it.
func (t *text) in(words api.Locator) api.FoldedText {
	t.once.Do(func() { t.folded = words.Fold(t.text) })
	return t.folded
}

// keptRow is a row with the texts of all its documents. Rows never change.
type keptRow struct {
	source // without the body
	texts  []*text
}

// keptRowBytes a row takes beside its texts.
const keptRowBytes = 512

// size counts a text twice: it is folded too.
func (r *keptRow) size() int {
	n := keptRowBytes
	for _, t := range r.texts {
		n += 2 * len(t.text)
	}
	return n
}

// keptRows are the rows that searches have read: newest first, they read the
// same ones again and again, and while turns come in each of them looks into
// the rows that are not indexed yet. Whoever was not asked for while a
// generation filled up is forgotten.
type keptRows struct {
	mu         sync.Mutex
	young, old map[uint64]*keptRow // by position
	bytes      int                 // of the young
}

// maxKeptBytes of a generation: some 4,000 rows.
const maxKeptBytes = 8 << 20

func (k *keptRows) get(seq uint64) *keptRow {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.young[seq]; r != nil {
		return r
	}
	r := k.old[seq]
	if r != nil {
		k.add(r)
	}
	return r
}

func (k *keptRows) put(r *keptRow) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.young[r.row.Seq] == nil {
		k.add(r)
	}
}

func (k *keptRows) add(r *keptRow) {
	if k.young == nil || k.bytes > maxKeptBytes {
		k.young, k.old, k.bytes = map[uint64]*keptRow{}, k.young, 0
	}
	k.young[r.row.Seq] = r
	k.bytes += r.size()
}

// wanted are the documents that the search asks for.
func (g *grep) wanted(c candidate, m *material, all []*text) []*text {
	return slices.DeleteFunc(slices.Clone(all), func(t *text) bool {
		return c.kind != "" && (c.kind != t.kind || c.part != t.part) || !g.q.passes(m.source, t.kind)
	})
}
