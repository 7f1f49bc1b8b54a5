package bleveindex

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"lcm/internal/api"
)

// maxSpans bounds how many matches of one clause are returned.
const maxSpans = 8

// Locator implements api.IndexReader.
func (x *Index) Locator(text string, phrase bool) (api.Locator, error) {
	return Locator(text, phrase)
}

// Locator prepares a query's text for matching single texts: exactly what
// Search finds, without an index.
func Locator(text string, phrase bool) (api.Locator, error) { return parse(text, phrase) }

// Fold implements api.Locator.
func (p plan) Fold(text string) api.FoldedText {
	f := newFolded(text)
	return &f
}

// Locate implements api.Locator.
func (p plan) Locate(text api.FoldedText) [][2]int { return p.locate(*text.(*foldedText)) }

// analysed is a text by position.
type analysed struct {
	text   string
	tokens []token
	first  []int // position → index of its first token
}

func analyse(text string) analysed {
	a := analysed{text: text, first: []int{0}}
	tokenize(text, func(t token) { a.tokens = append(a.tokens, t) }) // by position
	for i, t := range a.tokens {
		for len(a.first) <= t.pos {
			a.first = append(a.first, i)
		}
	}
	return a
}

func (a analysed) at(pos int) []token {
	if pos <= 0 || pos >= len(a.first) {
		return nil
	}
	end := len(a.tokens)
	if pos+1 < len(a.first) {
		end = a.first[pos+1]
	}
	return a.tokens[a.first[pos]:end]
}

func (p plan) locate(f foldedText) [][2]int {
	var spans [][2]int
	for _, c := range p {
		found := c.locate(f)
		if len(found) == 0 {
			return nil
		}
		spans = append(spans, found...)
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i][0] < spans[j][0] })
	return spans
}

// anchor is a string that every match in a text holds, and how many words stand
// on either side of it at most: of a sequence, the word that stands there least
// often. ok is false where one of them does not stand there at all.
func (c clause) anchor(folded string) (part string, words int, ok bool) {
	if c.written != nil {
		return c.written.folded, 0, true
	}
	fewest := len(folded) + 1
	for _, s := range c.seq {
		term := cut(s.terms[0], anchorBytes)
		n := strings.Count(folded, term)
		if n == 0 {
			return "", 0, false
		}
		if n < fewest || n == fewest && len(term) > len(part) {
			part, fewest = term, n
		}
	}
	return part, len(c.seq) - 1, true
}

// anchorBytes: the end of a longer term may not stand in the text, where the
// word was cut and its sign put behind it.
const anchorBytes = maxTermBytes / 2

// locate looks around the places of the anchor only: to read a whole text into
// words takes many times longer than to find a string in it.
func (c clause) locate(f foldedText) (spans [][2]int) {
	part, words, ok := c.anchor(f.folded)
	if !ok {
		return nil
	}
	for w := range f.around(part, words) {
		a := analyse(f.text[w[0]:w[1]])
		for _, s := range c.locateIn(a, f.within(w)) {
			s[0], s[1] = s[0]+w[0], s[1]+w[0]
			if n := len(spans); n > 0 && s[0] <= spans[n-1][0] {
				continue // windows may overlap
			}
			if spans = append(spans, s); len(spans) == maxSpans {
				return spans
			}
		}
	}
	return spans
}

func (c clause) locateIn(a analysed, f foldedText) [][2]int {
	if c.written != nil {
		return c.written.locate(a, f)
	}
	var spans [][2]int
	for pos := 1; pos < len(a.first) && len(spans) < maxSpans; pos++ {
		if s, ok := a.match(c.seq, pos); ok {
			spans = append(spans, s)
		}
	}
	return spans
}

// match holds a sequence against the tokens from pos on.
func (a analysed) match(seq []slot, pos int) (span [2]int, ok bool) {
	for i, s := range seq {
		t, ok := s.find(a.at(pos + i))
		if !ok {
			return span, false
		}
		if i == 0 {
			span[0] = t.start
		}
		span[1] = t.end
		if s.prefix {
			span[1] = t.start + len(firstRune(a.text[t.start:t.end]))
		}
	}
	return span, true
}

func firstRune(s string) string {
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

func (s slot) find(tokens []token) (token, bool) {
	for _, t := range tokens {
		for _, want := range s.terms {
			if t.term == want || s.prefix && strings.HasPrefix(t.term, want) {
				return t, true
			}
		}
	}
	return token{}, false
}

// locate finds the string where its words are words of the text.
func (w *written) locate(a analysed, f foldedText) [][2]int {
	tokens := map[[2]int]bool{}
	for _, t := range a.tokens {
		tokens[[2]int{t.start, t.end}] = true
	}
	var spans [][2]int
	for i := 0; len(spans) < maxSpans; {
		j := strings.Index(f.folded[i:], w.folded)
		if j < 0 {
			break
		}
		at := i + j
		stands := func(s stretch) bool { return tokens[[2]int{f.at(at + s.from), f.at(at + s.to)}] }
		if !slices.ContainsFunc(w.words, func(word writtenWord) bool { return !word.stands(stands) }) {
			spans = append(spans, [2]int{f.at(at), f.at(at + len(w.folded))})
		}
		i = at + 1
	}
	return spans
}

func (w writtenWord) stands(is func(stretch) bool) bool {
	if w.run != nil || is(w.whole) {
		return true
	}
	return len(w.parts) > 0 && !slices.ContainsFunc(w.parts, func(p stretch) bool { return !is(p) })
}
