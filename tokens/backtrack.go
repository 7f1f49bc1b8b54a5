package tokens

import "sync/atomic"

// backtrack merges text[:n] in time linear in n. It takes the longest token at
// every position that may stand behind the one before, and goes back where
// none may. That finds byte-pair encoding's answer because only one sequence
// of tokens has none but neighbours that may stand beside each other (GitHub's
// rust-gems, crate bpe; "So many tokens, so little time", GitHub blog, 2024).
//
// On some text, most of all long runs of a dash, it goes back so often that it
// gives up and reports false.
func (c *counter) backtrack(text []byte, n int) bool {
	attempts := n/2 + 128 // twice those that text of any language takes
	c.path = c.path[:0]
	c.dead = append(c.dead[:0], make([]uint64, n/64+1)...)
	at, longest := 0, n
	for at < n {
		if attempts--; attempts < 0 {
			return false
		}
		id, size := c.prefix(text, at, n, longest)
		if size == 0 {
			// No token leads on from here: take back the one that led here.
			c.dead[at/64] |= 1 << (at % 64)
			last := len(c.path) - 1
			size = c.lineageOf(c.path[last].id).size()
			c.path = c.path[:last]
			at, longest = at-size, size-1
			continue
		}
		end := at + size
		if c.dead[end/64]>>(end%64)&1 != 0 || !c.mayFollow(text, at, id) {
			longest = size - 1
			continue
		}
		c.path = append(c.path, part{id, int32(end)})
		at, longest = end, n
	}
	return true
}

// mayFollow says whether token id may stand at text[at], behind c.path.
func (c *counter) mayFollow(text []byte, at int, id uint32) bool {
	if len(c.path) == 0 {
		return true
	}
	return c.neighbours(text, at, c.path[len(c.path)-1].id, id, noRank)
}

// neighbours says whether byte-pair encoding leaves tokens left and right,
// which meet at text[at], beside each other, as far as merges with ids below
// limit go. It undoes the merges that made the two, the latest first, and looks
// whether what met at text[at] then would have merged earlier. Of two merges
// with the same id the left one is the earlier.
func (v *vocabulary) neighbours(text []byte, at int, left, right, limit uint32) bool {
	l, r := v.lineageOf(left), v.lineageOf(right)
	for {
		if v.rank(text, at-l.size(), at+r.size()) < limit {
			return false
		}
		switch {
		case l.isByte() && r.isByte():
			return true
		case r.isByte() || !l.isByte() && left > right:
			limit, left = left, l.right()
			l = v.lineageOf(left)
		default:
			limit, right = right+1, r.left()
			r = v.lineageOf(right)
		}
	}
}

// lineage says how long a token is and which two tokens it is merged from:
// from the lowest bit up, the ids of these, of idBits each, its own size and
// that of the left one, in bytes, of eight bits each. A byte is merged from
// nothing; its left token is all of it. Zero is a lineage not known yet.
type lineage uint64

func newLineage(left, right uint32, size, leftSize int) lineage {
	return lineage(left) | lineage(right)<<idBits | lineage(size)<<(2*idBits) | lineage(leftSize)<<(2*idBits+8)
}

func (l lineage) left() uint32  { return uint32(l & idMask) }
func (l lineage) right() uint32 { return uint32(l >> idBits & idMask) }
func (l lineage) size() int     { return int(l >> (2 * idBits) & 0xff) }
func (l lineage) leftSize() int { return int(l >> (2*idBits + 8)) }
func (l lineage) isByte() bool  { return l.leftSize() == l.size() }

// lineageOf finds the lineage of a token when first asked, as few tokens are
// and all would take longer than the rest of the tables.
func (v *vocabulary) lineageOf(id uint32) lineage {
	memo := &v.known[id].lineage
	l := lineage(atomic.LoadUint64(memo))
	if l == 0 {
		l = v.findLineage(id)
		atomic.StoreUint64(memo, uint64(l))
	}
	return l
}

// findLineage splits a token where nothing would have merged across the split
// before the token itself.
func (v *vocabulary) findLineage(id uint32) lineage {
	i, end := int(v.start[id]), int(v.start[id+1])
	size := end - i
	for most := size - 1; most > 0; {
		left, leftSize := v.prefix(v.bytes, i, end, most)
		middle := i + leftSize
		right, ok := v.find(v.bytes, middle, end)
		if ok && left < id && right < id && v.neighbours(v.bytes, middle, left, right, id) {
			return newLineage(left, right, size, leftSize)
		}
		most = leftSize - 1
	}
	return newLineage(0, 0, size, size)
}
