package tokens

import (
	"math"
	"unicode/utf8"
)

// cacheSlots is the size of a counter's piece cache.
const cacheSlots = 1 << 13

// cached is the token count of the piece of the same key.
type cached struct {
	key   key
	count int
}

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
	if slot.key != k {
		*slot = cached{k, c.countMiss(text, i, end)}
	}
	return slot.count
}

// countMiss is count without the cache.
func (c *counter) countMiss(text []byte, i, end int) int {
	return len(c.encode(text[i:end]))
}

// pad returns a copy of piece with slack bytes behind it.
func (c *counter) pad(piece []byte) []byte {
	c.padded = append(c.padded[:0], piece...)
	c.padded = append(c.padded, make([]byte, slack)...)
	return c.padded
}

// part is a token of a piece and the offset it ends at.
type part struct {
	id  uint32
	end int32
}

// encode returns the tokens of a piece. They stay valid until the next call.
func (c *counter) encode(piece []byte) []part {
	if !utf8.Valid(piece) {
		piece = replaceInvalid(piece)
	}
	n := len(piece)
	text := c.pad(piece)
	if id, ok := c.find(text, 0, n); ok {
		c.path = append(c.path[:0], part{id, int32(n)})
	} else if n <= maxScanned {
		c.scan(text, n)
	} else {
		c.backtrack(text, n)
	}
	return c.path
}

// replaceInvalid returns b with U+FFFD in place of every byte that is not part
// of valid UTF-8. Such bytes must not be looked up: the vocabulary holds
// tokens that are parts of characters.
func replaceInvalid(b []byte) []byte {
	return []byte(string([]rune(string(b))))
}

// maxScanned is the piece length up to which scan is faster than backtrack.
const maxScanned = 16

const noRank = math.MaxUint32

// scan merges text[:n] as byte-pair encoding is defined: of all neighbours
// that make a token, merge the ones with the lowest id, the first of equals.
func (c *counter) scan(text []byte, n int) {
	var (
		start [maxScanned + 1]uint8  // of every part; the end of the last
		rank  [maxScanned + 1]uint32 // of merging a part with the next
	)
	for i := range n {
		start[i] = uint8(i)
		rank[i] = noRank
		if i+1 < n {
			rank[i] = c.pair[uint(text[i])<<8|uint(text[i+1])] - 1
		}
	}
	start[n] = uint8(n)
	for parts := n; ; parts-- {
		best := 0
		for i := 1; i < parts-1; i++ {
			if rank[i] < rank[best] {
				best = i
			}
		}
		if rank[best] == noRank || parts == 1 {
			c.path = c.path[:0]
			for i := range parts {
				id, _ := c.find(text, int(start[i]), int(start[i+1]))
				c.path = append(c.path, part{id, int32(start[i+1])})
			}
			return
		}
		copy(start[best+1:], start[best+2:parts+1])
		copy(rank[best+1:], rank[best+2:parts])
		rank[best] = noRank
		if best < parts-2 {
			rank[best] = c.rank(text, int(start[best]), int(start[best+2]))
		}
		if best > 0 {
			rank[best-1] = c.rank(text, int(start[best-1]), int(start[best+1]))
		}
	}
}

func (v *vocabulary) rank(text []byte, i, end int) uint32 {
	if id, ok := v.find(text, i, end); ok {
		return id
	}
	return noRank
}
