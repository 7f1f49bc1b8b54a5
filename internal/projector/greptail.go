package projector

import (
	"slices"
	"sync"
)

// tail keeps the texts of rows that are not indexed yet: while turns come in,
// every search looks into the same few hundred of them.
type tail struct {
	mu    sync.Mutex
	rows  map[uint64]*tailRow // by position
	bytes int
}

// tailRow is a row with the texts of all its documents.
type tailRow struct {
	source // without the body
	texts  []text
}

func (r *tailRow) size() (n int) {
	for _, t := range r.texts {
		n += len(t.text)
	}
	return n
}

// What a tail keeps at most.
const (
	maxTailRows  = 4 * tailRows
	maxTailBytes = 16 << 20
)

func (t *tail) get(seq uint64) *tailRow {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[seq]
}

// put keeps a row. Where there are too many, those that are indexed by now go,
// or else all.
func (t *tail) put(r *tailRow, indexed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[uint64]*tailRow{}
	}
	if t.rows[r.row.Seq] != nil {
		return
	}
	t.rows[r.row.Seq] = r
	t.bytes += r.size()
	for _, upto := range []uint64{indexed, forever} {
		if len(t.rows) <= maxTailRows && t.bytes <= maxTailBytes {
			return
		}
		for seq, old := range t.rows {
			if seq <= upto {
				t.bytes -= old.size()
				delete(t.rows, seq)
			}
		}
	}
}

// without the documents that are not wanted.
func (g *grep) wanted(c candidate, m *material, all []text) []text {
	return slices.DeleteFunc(slices.Clone(all), func(t text) bool {
		return c.kind != "" && (c.kind != t.kind || c.part != t.part) || !g.q.passes(m.source, t.kind)
	})
}
