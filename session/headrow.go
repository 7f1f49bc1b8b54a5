package session

import (
	"fmt"
	"maps"
	"slices"

	"lcm/events"
)

// The path of a session that branched is a range for each branch point. All but
// its last range stay as they are until the leaf moves, so they have a row of
// their own, and a turn that is appended rewrites a head of constant size.

// MarshalBinary gives the head's row, which holds only the last range of the path.
func (h Head) MarshalBinary() ([]byte, error) {
	w := rowWriter{b: make([]byte, 0, 512)}
	w.flags(h.Configured)
	w.lane(h.Timeline)
	w.lane(h.Derived)
	for _, n := range [...]uint64{h.Entries, h.Nodes, h.Cuts, h.Rejected, h.Lost, h.Leaf, h.Pinned, h.ActiveCut} {
		w.number(n)
	}
	w.ranges(h.Path[max(len(h.Path)-1, 0):])
	w.settings(h.Settings)
	w.int(h.Tokens)
	w.int(h.ContextTokens)
	w.time(h.Started)
	w.time(h.Time)
	return w.b, nil
}

// UnmarshalBinary reverses MarshalBinary.
func (h *Head) UnmarshalBinary(row []byte) error {
	r := readRow(row)
	*h = Head{}
	r.flags(&h.Configured)
	h.Timeline, h.Derived = r.lane(), r.lane()
	for _, n := range [...]*uint64{&h.Entries, &h.Nodes, &h.Cuts, &h.Rejected, &h.Lost, &h.Leaf, &h.Pinned, &h.ActiveCut} {
		*n = r.number()
	}
	h.Path, h.Settings = r.ranges(), r.settings()
	h.Tokens, h.ContextTokens = r.int(), r.int()
	h.Started, h.Time = r.time(), r.time()
	return r.end()
}

// head reads the head with its whole path, the zero Head for an unknown session.
func (r rows) head() (h Head, err error) {
	if _, err := r.get(RowHead, nil, &h); err != nil || len(h.Path) == 0 || h.Path[0].First == 1 {
		return h, err // nothing stands before entry 1
	}
	b, err := r.Get(RowPath, nil)
	if err != nil {
		return h, err
	}
	if b == nil {
		return h, fmt.Errorf("%w: the path to e%d", ErrNoRow, h.Leaf)
	}
	before := readRow(b)
	h.Path = append(before.ranges(), h.Path...)
	return h, before.end()
}

// putPath writes all of a path but its last range.
func (r rows) putPath(p Path) error {
	var w rowWriter
	w.ranges(p[:max(len(p)-1, 0)])
	return r.Put(RowPath, nil, w.b)
}

func (w *rowWriter) lane(l LaneHead) {
	w.number(l.Version)
	w.hash(l.Hash)
	w.number(l.LastSeq)
}

func (r *rowReader) lane() (l LaneHead) {
	l.Version, l.Hash, l.LastSeq = r.number(), r.hash(), r.number()
	return l
}

func (w *rowWriter) settings(s events.Settings) {
	for _, n := range settingsNumbers(&s) {
		w.int(*n)
	}
	for _, f := range settingsShares(&s) {
		w.float(*f)
	}
	w.text(s.Model)
	w.text(s.ParentSession)
	w.number(uint64(len(s.Labels)))
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		w.text(k)
		w.text(s.Labels[k])
	}
}

func (r *rowReader) settings() (s events.Settings) {
	for _, n := range settingsNumbers(&s) {
		*n = r.int()
	}
	for _, f := range settingsShares(&s) {
		*f = r.float()
	}
	s.Model, s.ParentSession = r.text(), r.text()
	if n := r.length(); n > 0 {
		s.Labels = make(map[string]string, n)
		for range n {
			k := r.text()
			s.Labels[k] = r.text()
		}
	}
	return s
}

func settingsNumbers(s *events.Settings) [12]*int {
	return [...]*int{
		&s.Window, &s.Overhead, &s.MaxContextTokens, &s.LeafTriggerTokens, &s.FreshTailCount, &s.FanoutMin, &s.FanoutMax,
		&s.LeafChunkMin, &s.LeafChunkMax, &s.LeafInputMax, &s.OpenGroupEntries, &s.LargeFileChars,
	}
}

func settingsShares(s *events.Settings) [8]*float64 {
	return [...]*float64{
		&s.TokenFactor, &s.ContextThreshold, &s.CutTarget, &s.MinCut, &s.SummaryBudget, &s.RecutThreshold,
		&s.RecutTarget, &s.FreshTailMax,
	}
}
