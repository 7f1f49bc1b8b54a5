package bleveindex

import (
	"iter"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// foldedText is a text with its folded form. Most texts fold byte for byte; where a
// rune gets shorter or longer, all that follows is shifted.
type foldedText struct {
	text, folded string
	shifts       []shift
}

// shift: from this byte of the folded form on, byte i comes from i + by.
type shift struct{ from, by int }

func newFolded(text string) foldedText {
	f := foldedText{text: text}
	if lower, ok := lowerASCII(text); ok {
		f.folded = lower
		return f
	}
	var b strings.Builder
	b.Grow(len(text))
	by := 0
	for i, r := range text {
		if i-b.Len() != by {
			by = i - b.Len()
			f.shifts = append(f.shifts, shift{b.Len(), by})
		}
		b.WriteRune(fold(r))
	}
	if len(text)-b.Len() != by {
		f.shifts = append(f.shifts, shift{b.Len(), len(text) - b.Len()})
	}
	f.folded = b.String()
	return f
}

// lowerASCII folds a text of ASCII alone.
func lowerASCII(s string) (string, bool) {
	upper := false
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return "", false
		}
		upper = upper || 'A' <= c && c <= 'Z'
	}
	if !upper {
		return s, true
	}
	b := make([]byte, len(s))
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return string(b), true
}

// at is where byte i of the folded form comes from; i stands between runes.
func (f foldedText) at(i int) int {
	n := sort.Search(len(f.shifts), func(k int) bool { return f.shifts[k].from > i })
	if n == 0 {
		return i
	}
	return i + f.shifts[n-1].by
}

// within is a stretch of the text, which ends between runes.
func (f foldedText) within(w [2]int) foldedText {
	if len(f.shifts) == 0 {
		return foldedText{text: f.text[w[0]:w[1]], folded: f.folded[w[0]:w[1]]}
	}
	return newFolded(f.text[w[0]:w[1]])
}

// widestWindow: longer ones are looked into piece by piece.
const widestWindow = 4 << 10

// around lists the stretches of the text that hold a part, with at least so
// many words on either side. They begin and end at white space, where words
// do, ascend, and may overlap.
func (f foldedText) around(part string, words int) iter.Seq[[2]int] {
	return func(yield func([2]int) bool) {
		w := [2]int{0, -1}
		for i := 0; ; {
			j := strings.Index(f.folded[i:], part)
			if j < 0 {
				break
			}
			from, to := f.at(i+j), f.at(i+j+len(part))
			i += j + len(part)
			next := [2]int{f.left(from, words), f.right(to, words)}
			switch {
			case w[1] < 0:
				w = next
			case next[0] <= w[1] && w[1]-w[0] < widestWindow:
				w[1] = max(w[1], next[1])
			default:
				if !yield(w) {
					return
				}
				w = next
			}
		}
		if w[1] >= 0 {
			yield(w)
		}
	}
}

// left is where the white space before a place ends, so many words further on.
func (f foldedText) left(at, words int) int {
	for inWord := true; at > 0; { // the beginning of the word that stands there
		r, n := utf8.DecodeLastRuneInString(f.text[:at])
		if !unicode.IsSpace(r) {
			inWord = inWord || begins(r)
		} else if inWord {
			if words--; words < 0 {
				return at
			}
			inWord = false
		}
		at -= n
	}
	return 0
}

// begins reports whether a word may begin with a rune.
func begins(r rune) bool {
	c := classOf(narrow(r))
	return c == wordRune || c == runRune
}

// right is where the white space behind a place begins, so many words further on.
func (f foldedText) right(at, words int) int {
	for inWord := true; at < len(f.text); {
		r, n := utf8.DecodeRuneInString(f.text[at:])
		if !unicode.IsSpace(r) {
			inWord = inWord || begins(r)
		} else if inWord {
			if words--; words < 0 {
				return at
			}
			inWord = false
		}
		at += n
	}
	return len(f.text)
}
