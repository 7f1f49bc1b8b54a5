package projector

import (
	"strings"
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
// graphemes, with "…" where it was cut.
func snippet(text string, spans [][2]int) string {
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
	out := oneLine(strings.ToValidUTF8(text[start:end], "\uFFFD"))
	if start > 0 {
		out = "…" + out
	}
	if end < len(text) {
		out += "…"
	}
	return out
}

// boundaryAfter is the first grapheme boundary at or after byte i.
func boundaryAfter(text string, i int) int {
	if i <= 0 {
		return 0
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

func runeStart(text string, i int) int {
	for i > 0 && i < len(text) && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}
