package tokens

import (
	"math/bits"
	"slices"
)

// batches is the state of a merge done as byte-pair encoding is defined: all
// merges of the lowest id from left to right, then those of the next. It takes
// time n log n for any text. Long runs of one character, on which backtrack
// loses its way, it does in few batches.
type batches struct {
	*vocabulary
	text []byte

	next, prev []int32  // by where a part starts: where its neighbours do
	ranks      []uint32 // by where a part starts: of merging it with the next

	starts  map[uint32][]int32            // by rank: parts that have it or had it
	waiting [vocabularySize/64 + 1]uint64 // bit set of the ranks in starts
}

// batch merges text[:n].
func (c *counter) batch(text []byte, n int) {
	b := &batches{
		vocabulary: c.vocabulary,
		text:       text,
		next:       make([]int32, n+1),
		prev:       make([]int32, n+1),
		ranks:      make([]uint32, n+1),
		starts:     map[uint32][]int32{},
	}
	for i := range n + 1 {
		b.next[i], b.prev[i] = int32(i+1), int32(i-1)
	}
	for i := range n {
		b.update(int32(i))
	}
	for w := range b.waiting {
		for b.waiting[w] != 0 {
			bit := bits.TrailingZeros64(b.waiting[w])
			b.waiting[w] &^= 1 << bit
			b.mergeAll(uint32(w*64 + bit))
		}
	}
	c.path = c.path[:0]
	for i := int32(0); int(i) < n; {
		i = b.next[i]
		c.path = append(c.path, part{end: i})
	}
}

// mergeAll does the merges of one id. New pairs all have higher ids, as a
// token's id is higher than those of the two it is merged from.
func (b *batches) mergeAll(id uint32) {
	starts := b.starts[id]
	delete(b.starts, id)
	slices.Sort(starts)
	for _, i := range starts {
		if b.ranks[i] != id {
			continue // an earlier merge took one of the two
		}
		taken := b.next[i]
		b.ranks[taken] = noRank
		b.next[i] = b.next[taken]
		b.prev[b.next[i]] = i
		b.update(i)
		if before := b.prev[i]; before >= 0 {
			b.update(before)
		}
	}
}

// update sets the rank of a part when it or the next one has changed.
func (b *batches) update(i int32) {
	b.ranks[i] = noRank
	if int(b.next[i]) == len(b.next)-1 {
		return // the last part
	}
	rank := b.rank(b.text, int(i), int(b.next[b.next[i]]))
	if rank == noRank {
		return
	}
	b.ranks[i] = rank
	b.starts[rank] = append(b.starts[rank], i)
	b.waiting[rank/64] |= 1 << (rank % 64)
}
