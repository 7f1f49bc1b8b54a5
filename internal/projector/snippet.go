package projector

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

const (
	// snippetBytes around the first match; white space counts as it stands.
	snippetBytes = 200
	// clusterBytes: no grapheme cluster that people write is longer.
	clusterBytes = 64
)

// snippet is the text around the first match, on one line, cut between
// graphemes, with "…" where it was cut, and the byte ranges of the matches in
// it.
func snippet(text string, spans [][2]int) (string, [][2]int) {
	from, to := 0, 0
	if len(spans) > 0 {
		from, to = spans[0][0], min(spans[0][1], spans[0][0]+snippetBytes)
	}
	room := max(0, snippetBytes-(to-from)) / 2
	start := boundaryAfter(text, from-room)
	end := boundaryBefore(text, to+room)
	if end <= start {
		end = boundaryBefore(text, min(len(text), start+snippetBytes))
	}
	l := newLine(text, start, end)
	matches := [][2]int{}
	for _, s := range spans {
		if s[0] >= end || s[1] <= start {
			continue
		}
		m := [2]int{l.at(boundaryBefore(text, s[0])), l.at(boundaryAfter(text, s[1]))}
		if n := len(matches); n > 0 && m[0] < matches[n-1][1] {
			matches[n-1][1] = max(matches[n-1][1], m[1])
		} else if m[0] < m[1] {
			matches = append(matches, m)
		}
	}
	return l.out.String(), matches
}

// line is a stretch of a text on one line: every run of white space is one
// space, and none stands at its ends.
type line struct {
	start int
	out   strings.Builder
	place []int32 // of each byte of the stretch in out
	end   int     // of the text in out, before a closing "…"
}

func newLine(text string, start, end int) *line {
	l := &line{start: start, place: make([]int32, 0, end-start)}
	l.out.Grow(end - start + 2*len("…"))
	if start > 0 {
		l.out.WriteString("…")
	}
	space, begun := false, false
	for i, r := range text[start:end] {
		n := 1
		if r == utf8.RuneError { // also what is no UTF-8
			_, n = utf8.DecodeRuneInString(text[start+i:])
		} else if r >= utf8.RuneSelf {
			n = utf8.RuneLen(r)
		}
		if unicode.IsSpace(r) {
			space = begun
			l.mark(n)
			continue
		}
		if space {
			l.out.WriteByte(' ')
		}
		space, begun = false, true
		l.mark(n)
		l.out.WriteRune(r)
	}
	if l.end = l.out.Len(); end < len(text) {
		l.out.WriteString("…")
	}
	return l
}

// mark notes where n bytes of the text go.
func (l *line) mark(n int) {
	for range n {
		l.place = append(l.place, int32(l.out.Len()))
	}
}

// at maps a place in the text to one in the line.
func (l *line) at(i int) int {
	switch i -= l.start; {
	case i < 0:
		i = 0
	case i >= len(l.place):
		return l.end
	}
	return int(l.place[i])
}

// boundaryAfter is the first grapheme boundary at or after byte i.
func boundaryAfter(text string, i int) int {
	if i <= 0 {
		return 0
	}
	if between(text, i) {
		return i
	}
	at := runeStart(text, max(0, i-clusterBytes))
	for it := graphemes.FromString(text[at:]); at < i && it.Next(); {
		at += len(it.Value())
	}
	return at
}

// boundaryBefore is the last grapheme boundary at or before byte i.
func boundaryBefore(text string, i int) int {
	if i >= len(text) {
		return len(text)
	}
	if between(text, i) {
		return i
	}
	at := runeStart(text, max(0, i-clusterBytes))
	for it := graphemes.FromString(text[at:]); it.Next(); {
		next := at + len(it.Value())
		if next > i {
			break
		}
		at = next
	}
	return at
}

// between reports that byte i begins a grapheme for sure: two characters of
// ASCII are never one, except at the end of a line.
func between(text string, i int) bool {
	return 0 < i && i < len(text) && text[i-1] < utf8.RuneSelf && text[i] < utf8.RuneSelf && text[i-1] != '\r'
}

func runeStart(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
