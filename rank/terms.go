package rank

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Term is a term of a text and its number among the terms that count: stop
// words have none.
type Term struct {
	Text       string
	Pos        int
	Start, End int // bytes
}

// maxTermBytes: longer words (blobs, data) help no question.
const maxTermBytes = 64

// Terms visits the terms of a text: words of letters and digits in lower case,
// stemmed, without stop words; identifiers by their parts; scripts without
// spaces by pairs of characters.
func Terms(text string, visit func(Term)) {
	eachTerm(text, func(t Term, stop bool) {
		if !stop {
			visit(t)
		}
	})
}

// eachTerm visits stop words too, which share the number of what follows.
func eachTerm(text string, visit func(t Term, stop bool)) {
	pos := 0
	emit := func(start, end int) {
		word := strings.ToLower(text[start:end])
		if len(word) > maxTermBytes {
			return
		}
		stop := stopWords[word]
		if !stop {
			pos++
		}
		visit(Term{Text: Stem(word), Pos: pos, Start: start, End: end}, stop)
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case spaceless(r):
			next, m := utf8.DecodeRuneInString(text[i+n:])
			if pos++; m > 0 && spaceless(next) {
				visit(Term{Text: text[i : i+n+m], Pos: pos, Start: i, End: i + n + m}, false)
			} else {
				visit(Term{Text: text[i : i+n], Pos: pos, Start: i, End: i + n}, false)
			}
			i += n
		case inWord(r):
			start := i
			i = wordEnd(text, i)
			emit(start, i)
			i += apostrophe(text[i:])
		default:
			i += n
		}
	}
}

// wordEnd is where the word at i ends: at a separator or a change of case.
func wordEnd(text string, i int) int {
	prev := rune(0)
	for start := i; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if !inWord(r) || i > start && unicode.IsUpper(r) && unicode.IsLower(prev) {
			return i
		}
		prev = r
		i += n
	}
	return i
}

// apostrophe is how much of a text a short English ending takes: don't, I'm,
// it's, we've.
func apostrophe(rest string) int {
	for _, quote := range []string{"'", "’"} {
		tail, ok := strings.CutPrefix(rest, quote)
		if !ok {
			continue
		}
		for _, end := range []string{"t", "s", "m", "re", "ve", "ll", "d"} {
			if after, ok := strings.CutPrefix(tail, end); ok {
				if r, _ := utf8.DecodeRuneInString(after); after == "" || !inWord(r) {
					return len(quote) + len(end)
				}
			}
		}
	}
	return 0
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)) && !spaceless(r)
}

// spaceless: scripts written without spaces between words.
func spaceless(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai,
		unicode.Lao, unicode.Khmer, unicode.Myanmar) && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r))
}

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// stopWords carry grammar, not matter. Pronouns are among them: who is meant
// is told by the role of a turn.
var stopWords = set(`a about above after again against all am an and any are aren as at be because been before being
below between both but by can cannot could couldn d did didn do does doesn doing don down during each few for from
further had hadn has hasn have haven having he her here hers herself him himself his how i if in into is isn it its
itself just ll m me more most my myself no nor not now of off on once only or other our ours ourselves out over own
re s same she should shouldn so some such t than that the their theirs them themselves then there these they this
those through to too under until up us ve very was wasn we were weren what when where which while who whom why will
with won would wouldn you your yours yourself yourselves`)
