package bleveindex

import (
	"container/heap"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
)

// newest goes through the candidates of all segments, newest first.
type newest struct {
	s     *snapshot
	runs  []*run // those that have more
	total uint64
}

// run is the candidates of a segment in order.
type run struct {
	g    *seg
	key  uint64 // of the next one
	doc  uint32
	next func() (doc uint32, ok bool)
}

// newest finds the candidates whose keys are below one.
func (s *snapshot) newest(p plan, q Query, below uint64) (*newest, error) {
	m := &newest{s: s}
	for _, g := range s.segs {
		if err := g.readKeys(); err != nil {
			return nil, err
		}
		if len(g.facts.keys) == 0 || g.facts.least >= below {
			continue
		}
		found, err := g.candidates(p, q)
		if err != nil {
			return nil, err
		}
		found = g.facts.cutFrom(found, below)
		m.total += found.GetCardinality()
		r := &run{g: g, next: g.facts.descending(found)}
		if r.step() {
			m.runs = append(m.runs, r)
		}
		if s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
	}
	return m, nil
}

// cutFrom leaves out the documents whose keys are not below one.
func (f *facts) cutFrom(found *roaring.Bitmap, below uint64) *roaring.Bitmap {
	switch {
	case f.most < below:
		return found
	case f.ordered:
		n := sort.Search(len(f.keys), func(i int) bool { return f.keys[i] >= below })
		found = found.Clone()
		found.RemoveRange(uint64(n), uint64(len(f.keys)))
		return found
	}
	out := roaring.New()
	for _, doc := range found.ToArray() {
		if f.keys[doc] < below {
			out.Add(doc)
		}
	}
	return out
}

// descending visits documents by key.
func (f *facts) descending(found *roaring.Bitmap) func() (uint32, bool) {
	if f.ordered {
		it := found.ReverseIterator()
		return func() (uint32, bool) {
			if !it.HasNext() {
				return 0, false
			}
			return it.Next(), true
		}
	}
	if n := found.GetCardinality(); n > uint64(len(f.keys))/dense {
		i := 0
		return func() (uint32, bool) {
			for ; i < len(f.order); i++ {
				if doc := f.order[i]; found.Contains(doc) {
					i++
					return doc, true
				}
			}
			return 0, false
		}
	}
	h := &byKey{keys: f.keys, docs: found.ToArray()}
	heap.Init(h)
	return func() (uint32, bool) {
		if len(h.docs) == 0 {
			return 0, false
		}
		return heap.Pop(h).(uint32), true
	}
}

// dense: where at least one of so many documents is wanted, all are walked in
// order; sorting the wanted ones takes longer.
const dense = 64

// byKey is a heap, the greatest key on top.
type byKey struct {
	keys []uint64
	docs []uint32
}

func (h byKey) Len() int           { return len(h.docs) }
func (h byKey) Less(i, j int) bool { return h.keys[h.docs[i]] > h.keys[h.docs[j]] }
func (h byKey) Swap(i, j int)      { h.docs[i], h.docs[j] = h.docs[j], h.docs[i] }
func (h *byKey) Push(any)          { panic("not used") }
func (h *byKey) Pop() any {
	last := len(h.docs) - 1
	doc := h.docs[last]
	h.docs = h.docs[:last]
	return doc
}

func (r *run) step() (ok bool) {
	if r.doc, ok = r.next(); ok {
		r.key = r.g.facts.keys[r.doc]
	}
	return ok
}

// candidate is a document on its way to a page.
type candidate struct {
	g   *seg
	doc uint32
	key uint64
}

// take the next n candidates.
func (m *newest) take(n int) (out []candidate) {
	for len(out) < n && len(m.runs) > 0 {
		top := 0
		for i, r := range m.runs {
			if r.key > m.runs[top].key {
				top = i
			}
		}
		r := m.runs[top]
		out = append(out, candidate{r.g, r.doc, r.key})
		if !r.step() {
			m.runs = append(m.runs[:top], m.runs[top+1:]...)
		}
	}
	return out
}

const (
	// firstLook is how many candidates are looked into at first where the
	// places of the words decide; each further look is wider.
	firstLook, widestLook = 32, 4_096
	// countLook is how many more are looked into for the sake of the total.
	countLook = 96
)

// page takes the newest documents.
func (m *newest) page(p plan, limit int) (out Hits, err error) {
	out = Hits{Total: m.total, Loose: p.loose()}
	if !p.positioned() {
		for _, c := range m.take(limit) {
			out.Hits = append(out.Hits, unpack(c.key))
		}
		return out, nil
	}
	found, seen, more := uint64(0), uint64(0), countLook
	for look := firstLook; more > 0; look = min(4*look, widestLook) {
		if len(out.Hits) == limit {
			look = min(look, more)
			more -= look
		}
		batch := m.take(look)
		if len(batch) == 0 {
			break
		}
		pass, err := standing(p, batch)
		if err != nil {
			return out, err
		}
		for i, ok := range pass {
			if seen++; !ok {
				continue
			}
			if found++; len(out.Hits) < limit {
				out.Hits = append(out.Hits, unpack(batch[i].key))
			}
		}
	}
	out.Total = found
	if rest := m.total - seen; rest > 0 { // as many of them, likely
		out.Total, out.Loose = found+rest*found/seen, true
	}
	return out, nil
}

// standing tells of each candidate whether the words stand there as the plan
// says.
func standing(p plan, batch []candidate) ([]bool, error) {
	type place struct {
		doc uint32
		i   int
	}
	pass := make([]bool, len(batch))
	by := map[*seg][]place{}
	for i, c := range batch {
		by[c.g] = append(by[c.g], place{c.doc, i})
	}
	for g, places := range by {
		sort.Slice(places, func(i, j int) bool { return places[i].doc < places[j].doc })
		docs := make([]uint32, len(places))
		for i, at := range places {
			docs[i] = at.doc
		}
		kept, err := g.standing(p, docs)
		if err != nil {
			return nil, err
		}
		for _, at := range places {
			if len(kept) > 0 && kept[0] == at.doc {
				pass[at.i], kept = true, kept[1:]
			}
		}
	}
	return pass, nil
}
