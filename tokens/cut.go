package tokens

import (
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Head returns the longest prefix of s it finds with Count(prefix) <= max. It
// never cuts within a grapheme cluster, and returns s itself if that fits. It
// may miss a prefix longer by a character or two: where the cut falls within a
// word, it is put behind one of the whole word's tokens.
//
// Its time grows with the length of the prefix, not of s, unless s begins with
// a piece without end, such as a megabyte of one letter.
func Head(s string, max int) string {
	c := borrow()
	defer c.giveBack()
	text := bytesOf(s)
	for budget := range budgets(max) {
		end := c.headEnd(text, budget)
		if end == len(text) {
			return s
		}
		// Going back to a boundary, and cutting within a piece, may make
		// other tokens: few more, if any. Hence look.
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
	for budget := range budgets(max) {
		start := c.tailStart(text, budget)
		if start == 0 {
			return s
		}
		start = boundaryAfter(text, start)
		if c.countAll(text[start:]) <= max {
			return s[start:]
		}
	}
	return ""
}

// budgets yields max, and then ever smaller positive numbers: max-1, max-3,
// max-7 and so on, so that few attempts reach the last.
func budgets(max int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for step := 1; max > 0 && yield(max); step *= 2 {
			max -= step
		}
	}
}

// headEnd returns the end of the first budget tokens of text.
func (c *counter) headEnd(text []byte, budget int) int {
	for i := 0; i < len(text); {
		end := c.split(text, i)
		n := c.count(text, i, end)
		if n > budget {
			return i + c.tokensEnd(text[i:end], budget)
		}
		budget -= n
		i = end
	}
	return len(text)
}

// tokensEnd returns the end of the first n tokens of piece, which has more.
func (c *counter) tokensEnd(piece []byte, n int) int {
	if n == 0 {
		return 0
	}
	end := int(c.encode(piece)[n-1].end)
	if utf8.Valid(piece) {
		return end
	}
	// The tokens are those of a piece with three bytes for every invalid one.
	for i, encoded := 0, 0; ; {
		r, width := utf8.DecodeRune(piece[i:])
		encoded += utf8.RuneLen(r)
		if encoded > end {
			return i
		}
		i += width
	}
}

// bytesPerToken is about what a token of English text has; see tailStart.
const bytesPerToken = 4

// tailStart returns the start of the last budget tokens of text. It reads only
// as much of the end of text as it needs. That is sound because cutting into
// pieces looks at no text before: the pieces found from anywhere on are, from
// the second on, those of a suffix.
func (c *counter) tailStart(text []byte, budget int) int {
	for window := 2 * bytesPerToken * budget; ; window *= 2 {
		from := runeStart(text, len(text)-window)
		total := c.countAll(text[from:])
		if total > budget {
			return from + c.dropTokens(text[from:], total-budget)
		}
		if from == 0 {
			return 0
		}
	}
}

// dropTokens returns the end of the first n tokens of text, and the end of the
// whole piece if that end is within one that ... 
func (c *counter) dropTokens(text []byte, n int) int {
	return c.headEnd(text, n)
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
	clusters := graphemes.FromBytes(text[last:])
	for base := last; last < cut && clusters.Next(); {
		end := base + clusters.End()
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
	base := surelyBoundary(text, cut)
	end := base
	for clusters := graphemes.FromBytes(text[base:]); end < cut && clusters.Next(); {
		end = base + clusters.End()
	}
	return end
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
	if cut == len(text) { return cut }
	return 0
}
