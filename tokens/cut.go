package tokens

import (
	"iter"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Head returns the longest prefix of s it finds with Count(prefix) <= max. It
// never cuts within a grapheme cluster, and returns s itself if that fits. It
// may miss a prefix longer by a character or two: where the cut falls within a
// word, it is put behind one of the whole word's tokens. Its time grows with
// that of counting the prefix.
func Head(s string, max int) string {
	c := borrow()
	defer c.giveBack()
	text := bytesOf(s)
	for budget := range budgets(max) {
		end := c.headEnd(text, budget)
		if end == len(text) {
			return s
		}
		// Going back to a boundary may make more tokens, though seldom does.
		end = boundaryBefore(text, end)
		if c.countAll(text[:end]) <= max {
			return s[:end]
		}
	}
	return ""
}

// Tail returns the longest suffix of s it finds with Count(suffix) <= max. It
// is to the end of s what Head is to its start.
func Tail(s string, max int) string {
	c := borrow()
	defer c.giveBack()
	text := bytesOf(s)
	if max > 0 && c.headEnd(text, max) == len(text) {
		return s
	}
	for budget := range budgets(max) {
		start := boundaryAfter(text, c.tailStart(text, budget))
		if c.countAll(text[start:]) <= max {
			return s[start:]
		}
	}
	return ""
}

// budgets yields max, and then ever smaller positive numbers: max-1, max-3,
// max-7 and so on, so that few attempts reach the last.
func budgets(max int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for step := 1; max > 0 && yield(max); step *= 2 {
			max -= step
		}
	}
}

// bytesPerToken is about twice that of English text.
const bytesPerToken = 8

// headEnd returns the end of the first budget tokens of text, or of text if
// that has no more.
func (c *counter) headEnd(text []byte, budget int) int {
	i := 0
	for i < len(text) && budget > 0 {
		end := c.split(text, i)
		if (end-i)/c.longest > budget {
			// The piece has more tokens for sure, and may be as long as text.
			return c.longHeadEnd(text, i, end, budget)
		}
		n := c.count(text, i, end)
		if n > budget {
			c.encode(text, i, end)
			return c.tokensEnd(text, i, end, budget)
		}
		budget -= n
		i = end
	}
	return i
}

// longHeadEnd is headEnd for the piece text[i:end], of which it looks at no more
// than is needed.
func (c *counter) longHeadEnd(text []byte, i, end, budget int) int {
	for window := bytesPerToken * budget; ; window *= 2 {
		until := end
		if i+window < end {
			until = runeStart(text, i+window)
		}
		if c.encode(text, i, until); len(c.path) > budget {
			return c.tokensEnd(text, i, until, budget)
		}
	}
}

// tokensEnd returns where the n-th token of c.path ends, which are the tokens
// of text[i:end].
func (c *counter) tokensEnd(text []byte, i, end, n int) int {
	size := int(c.path[n-1].end)
	if utf8.Valid(text[i:end]) {
		return i + size
	}
	// The tokens are those of a piece with three bytes for every invalid one.
	for encoded := 0; ; {
		r, width := utf8.DecodeRune(text[i:])
		encoded += utf8.RuneLen(r)
		if encoded > size {
			return i
		}
		i += width
	}
}

// tailStart returns the start of the last budget tokens of text, which has
// more. It reads about twice the text it needs. That is sound because splitting
// never looks back: whatever piece a suffix starts with, the pieces behind it
// are those of any shorter suffix that starts with one of them.
func (c *counter) tailStart(text []byte, budget int) int {
	window := len(text)
	if budget < len(text)/bytesPerToken {
		window = bytesPerToken * budget
	}
	for ; ; window *= 2 {
		from := runeStart(text, len(text)-window)
		total := c.countAll(text[from:])
		if total > budget || from == 0 {
			return from + c.headEnd(text[from:], total-budget)
		}
	}
}

// runeStart returns where the character at text[i] starts, or zero for a
// position before text.
func runeStart(text []byte, i int) int {
	for back := 0; i > 0 && back < utf8.UTFMax-1 && !utf8.RuneStart(text[i]); back++ {
		i--
	}
	return max(i, 0)
}

// boundaryBefore returns the last boundary between grapheme clusters of text
// that is at cut or before.
func boundaryBefore(text []byte, cut int) int {
	last := surelyBoundary(text, cut)
	for last < cut {
		end := clusterEnd(text, last)
		if end > cut {
			break
		}
		last = end
	}
	return last
}

// boundaryAfter returns the first boundary between grapheme clusters of text
// that is at cut or behind.
func boundaryAfter(text []byte, cut int) int {
	end := surelyBoundary(text, cut)
	for end < cut {
		end = clusterEnd(text, end)
	}
	return end
}

// clusterEnd returns the end of the grapheme cluster that starts at text[i]. A
// byte that is not part of valid UTF-8 is a cluster of its own.
func clusterEnd(text []byte, i int) int {
	n, cluster, _ := graphemes.SplitFunc(text[i:], true) // never fails
	if utf8.Valid(cluster) {
		return i + n
	}
	// The library promises nothing here. Take what is valid, or one byte.
	valid := 0
	for {
		r, width := utf8.DecodeRune(cluster[valid:])
		if r == utf8.RuneError && width <= 1 {
			return i + max(valid, 1)
		}
		valid += width
	}
}

// surelyBoundary returns a boundary at or before cut that is known to be one
// without reading text from its start: between any two ASCII characters but
// \r\n (Unicode Standard Annex 29, rules GB3 to GB999).
func surelyBoundary(text []byte, cut int) int {
	for i := cut; i > 0 && i < len(text); i-- {
		before, after := text[i-1], text[i]
		if before < utf8.RuneSelf && after < utf8.RuneSelf && (before != '\r' || after != '\n') {
			return i
		}
	}
	return 0
}
