package tokens

import "unicode/utf8"

// cacheSlots is the size of a counter's piece cache, 256 KiB. From empty, and
// not counting pieces of one byte, it holds 96 of 100 pieces of 5 MB of agents'
// transcripts and 91 of 1.4 MB of prose.
const cacheSlots = 1 << 14

// cached is the key of a piece and, in the four bits the key leaves free, its
// number of tokens.
type cached key

const (
	countShift = 60
	maxCached  = 1<<(64-countShift) - 1
)

// count returns the number of tokens of the piece text[i:end].
func (c *counter) count(text []byte, i, end int) int {
	n := end - i
	if n == 1 && text[i] < utf8.RuneSelf {
		return 1
	}
	if n > maxKeyed {
		return c.countMiss(text, i, end)
	}
	if i+slack > len(text) {
		text, i, end = c.pad(text[i:end]), 0, n
	}
	k := keyOf(text, i, n)
	slot := &c.cache[k.hash()%cacheSlots]
	if slot.low == k.low && (slot.high^k.high)<<(64-countShift) == 0 {
		return int(slot.high >> countShift)
	}
	count := c.countMiss(text, i, end)
	// A piece has no more tokens than bytes, unless perhaps invalid ones.
	if count <= maxCached {
		*slot = cached{k.low, k.high | uint64(count)<<countShift}
	}
	return count
}

// countMiss is count without the cache.
func (c *counter) countMiss(text []byte, i, end int) int {
	c.encode(text, i, end)
	return len(c.path)
}

// part is a token of a piece and the offset in the piece it ends at.
type part struct {
	id  uint32 // only set by backtrack
	end int32
}

// encode leaves the tokens of the piece text[i:end] in c.path.
func (c *counter) encode(text []byte, i, end int) {
	c.path = c.path[:0]
	if !utf8.Valid(text[i:end]) {
		text = c.pad(replaceInvalid(text[i:end]))
		i, end = 0, len(text)-slack
	} else if end+slack > len(text) {
		text = c.pad(text[i:end])
		i, end = 0, end-i
	}
	if _, ok := c.find(text, i, end); ok {
		c.path = append(c.path, part{end: int32(end - i)})
	} else if end-i <= maxScanned {
		c.scan(text[i:], end-i)
	} else if !c.backtrack(text[i:], end-i) {
		c.batch(text[i:], end-i)
	}
}

// pad returns a copy of piece with slack bytes behind it.
func (c *counter) pad(piece []byte) []byte {
	c.padded = append(c.padded[:0], piece...)
	c.padded = append(c.padded, make([]byte, slack)...)
	return c.padded
}

// replaceInvalid returns b with U+FFFD in place of every byte that is not part
// of valid UTF-8. Such bytes must not be looked up: the vocabulary holds
// tokens that are parts of characters.
func replaceInvalid(b []byte) []byte {
	return []byte(string([]rune(string(b))))
}

// maxScanned is the piece length up to which scan is faster than backtrack.
const maxScanned = 16

// scan merges text[:n] as byte-pair encoding is defined: of all neighbours
// that make a token, merge the ones with the lowest id, the first of equals.
func (c *counter) scan(text []byte, n int) {
	var (
		start [maxScanned + 1]uint8  // of every part; the end of the last
		rank  [maxScanned + 1]uint32 // of merging a part with the next
	)
	for i := range n - 1 {
		start[i] = uint8(i)
		rank[i] = c.rankOfPair(text[i], text[i+1])
	}
	start[n-1], start[n] = uint8(n-1), uint8(n)
	parts := n
	for parts > 1 {
		best := 0
		for i := 1; i < parts-1; i++ {
			if rank[i] < rank[best] {
				best = i
			}
		}
		if rank[best] == noRank {
			break
		}
		parts--
		for i := best + 1; i < parts; i++ {
			start[i], rank[i] = start[i+1], rank[i+1]
		}
		start[parts] = uint8(n)
		rank[best] = noRank
		if best < parts-1 {
			rank[best] = c.rank(text, int(start[best]), int(start[best+2]))
		}
		if best > 0 {
			rank[best-1] = c.rank(text, int(start[best-1]), int(start[best+1]))
		}
	}
	for _, end := range start[1 : parts+1] {
		c.path = append(c.path, part{end: int32(end)})
	}
}
