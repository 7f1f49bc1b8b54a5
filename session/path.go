package session

import (
	"encoding/binary"
	"slices"
	"sort"

	"lcm/events"
)

// Path is the entries from a root to a leaf, as ascending ranges.
type Path []events.Range

// Contains reports whether entry n is on the path.
func (p Path) Contains(n uint64) bool {
	i := sort.Search(len(p), func(i int) bool { return p[i].Last >= n })
	return i < len(p) && p[i].First <= n
}

// Len is the number of entries on the path.
func (p Path) Len() int {
	n := 0
	for _, r := range p {
		n += int(r.Last - r.First + 1)
	}
	return n
}

// Leaf is the last entry of the path, 0 where it is empty.
func (p Path) Leaf() uint64 {
	if len(p) == 0 {
		return 0
	}
	return p[len(p)-1].Last
}

// Between returns the part of the path from entry a to entry b, both included.
func (p Path) Between(a, b uint64) []events.Range {
	var out []events.Range
	for _, r := range p {
		r.First, r.Last = max(r.First, a), min(r.Last, b)
		if r.First <= r.Last {
			out = append(out, r)
		}
	}
	return out
}

// Covers reports whether every entry of set is on the path.
func (p Path) Covers(set []events.Range) bool {
	for _, r := range set {
		i := sort.Search(len(p), func(i int) bool { return p[i].Last >= r.Last })
		if i == len(p) || p[i].First > r.First {
			return false
		}
	}
	return true
}

// Next returns the entry after n on the path, 0 where n is the leaf. Entry 0
// stands before the first.
func (p Path) Next(n uint64) uint64 {
	i := sort.Search(len(p), func(i int) bool { return p[i].Last > n })
	if i == len(p) {
		return 0
	}
	return max(p[i].First, n+1)
}

// After returns the entries behind n, in order.
func (p Path) After(n uint64) []uint64 {
	ranges := p.Between(n+1, p.Leaf())
	if len(ranges) == 0 {
		return nil
	}
	out := make([]uint64, 0, Count(ranges))
	for _, r := range ranges {
		for e := r.First; e <= r.Last; e++ {
			out = append(out, e)
		}
	}
	return out
}

// Joined merges touching ranges of consecutive sets into one set.
func Joined(sets ...[]events.Range) []events.Range {
	var out []events.Range
	for _, set := range sets {
		for _, r := range set {
			if n := len(out); n > 0 && out[n-1].Last+1 == r.First {
				out[n-1].Last = r.Last
				continue
			}
			out = append(out, r)
		}
	}
	return out
}

// Count is the number of entries in a set.
func Count(set []events.Range) int { return Path(set).Len() }

// path walks from leaf to the root over the runs. Its cost is the number of
// branch points on the path, not its length.
func (r rows) path(leaf uint64) (Path, error) {
	var p Path
	for n := leaf; n != 0; {
		k, v, err := r.Floor(RowRun, Num(n))
		if err != nil {
			return nil, err
		}
		if k == nil {
			return nil, ErrNoRow
		}
		first := binary.BigEndian.Uint64(k)
		var run Run
		if err := decodeRow(RowRun, v, &run); err != nil {
			return nil, err
		}
		p = append(p, events.Range{First: first, Last: n})
		n = run.Parent
	}
	slices.Reverse(p)
	return Joined(p), nil
}

// pinned is the last of the leading system and developer turns of a path, 0
// where it starts with another role.
func (r rows) pinned(p Path) (uint64, error) {
	last := uint64(0)
	for n := p.Next(0); n != 0; n = p.Next(n) {
		var e Entry
		if err := r.entry(n, &e); err != nil {
			return 0, err
		}
		if !e.Role.Pinned() {
			break
		}
		last = n
	}
	return last, nil
}
