package tokens

import "sync/atomic"

// backtrack merges text[:n] in time linear in n. It takes the longest token at
// every position that may stand behind the one before, and goes back when none
// may. That finds byte-pair encoding's answer because there is only one
// sequence of tokens in which every two neighbours may stand beside each other
// ("So many tokens, so little time", GitHub's rust-gems, crate bpe).
func (c *counter) backtrack(text []byte, n int) {
	c.path = c.path[:0]
	c.dead = append(c.dead[:0], make([]uint64, n/64+1)...)
	at, longest := 0, n
	for at < n {
		id, size := c.prefix(text, at, n, longest)
		if size == 0 {
			// No token leads on from here: take back the one that led here.
			c.dead[at/64] |= 1 << (at % 64)
			last := len(c.path) - 1
			size := c.size(c.path[last].id)
			c.path = c.path[:last]
			at, longest = at-size, size-1
			continue
		}
		end := at + size
		if c.dead[end/64]>>(end%64)&1 != 0 || !c.follows(text, at, id) {
			longest = size - 1
			continue
		}
		c.path = append(c.path, part{id, int32(end)})
		at, longest = end, n
	}
}

// follows says whether token id may stand at text[at], behind c.path.
func (c *counter) follows(text []byte, at int, id uint32) bool {
	if len(c.path) == 0 {
		return true
	}
	return c.neighbours(text, at, c.path[len(c.path)-1].id, id, noRank)
}

// neighbours says whether byte-pair encoding leaves tokens left and right,
// which meet at text[at], beside each other, as far as merges lower than limit
// go. It undoes the merges that made the two, latest first, and looks whether
// what then met at text[at] would have merged before that. Of equal merges the
// left one is done first.
func (v *vocabulary) neighbours(text []byte, at int, left, right, limit uint32) bool {
	for {
		across := v.rank(text, at-v.size(left), at+v.size(right))
		if across < limit {
			return false
		}
		leftOf, rightOf := v.halves(left), v.halves(right)
		switch {
		case leftOf.whole() && rightOf.whole():
			return true
		case rightOf.whole() || !leftOf.whole() && left > right:
			limit, left = left, leftOf.right
		default:
			limit, right = right+1, rightOf.left
		}
	}
}

// halves are the two tokens that merge into a third. A byte has none.
type halves struct{ left, right uint32 }

// whole is the halves of a token that is no merge. It is no token's id.
const whole = idMask

func (h halves) whole() bool { return h.left == whole }

// halves finds the halves of a token when first asked, as few tokens are and
// all would take longer than the rest of the tables. It keeps what it found as
// the two ids plus one; zero is a token not asked for yet.
func (v *vocabulary) halves(id uint32) halves {
	memo := atomic.LoadUint64(&v.halfOf[id])
	if memo == 0 {
		h := v.findHalves(id)
		memo = uint64(h.left+1)<<32 | uint64(h.right+1)
		atomic.StoreUint64(&v.halfOf[id], memo)
	}
	return halves{uint32(memo>>32) - 1, uint32(memo) - 1}
}

func (v *vocabulary) findHalves(id uint32) halves {
	i, end := int(v.start[id]), int(v.start[id+1])
	for n := end - i - 1; n > 0; n-- {
		left, size := v.prefix(v.bytes, i, end, n)
		n = size
		right, ok := v.find(v.bytes, i+n, end)
		if ok && left < id && right < id && v.neighbours(v.bytes, i+n, left, right, id) {
			return halves{left, right}
		}
	}
	return halves{whole, whole}
}
