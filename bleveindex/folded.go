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
	if !changes(text) {
		f.folded = text
		return f
	}
	b := make([]byte, 0, len(text))
	by := 0
	for i := 0; i < len(text); {
		if i-len(b) != by {
			by = i - len(b)
			f.shifts = append(f.shifts, shift{len(b), by})
		}
		c := text[i]
		if c < utf8.RuneSelf {
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			b = append(b, c)
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		b = utf8.AppendRune(b, fold(r))
		i += n
	}
	if len(text)-len(b) != by {
		f.shifts = append(f.shifts, shift{len(b), len(text) - len(b)})
	}
	f.folded = string(b)
	return f
}

// changes reports whether the folded form may differ.
func changes(s string) bool {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			return true
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError || !caseless(r) {
				return true
			}
			i += n
		}
	}
	return false
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
