package bleveindex

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// maxSpans bounds how many matches of one clause are returned.
const maxSpans = 8

// Locator implements api.IndexReader.
func (x *Index) Locator(text string, phrase bool) (func(string) [][2]int, error) {
	return Locator(text, phrase)
}

// Locator prepares a query's text for matching single texts: exactly what
// Search finds, without an index. The function returns the byte ranges of the
// matches in order, nil where the text does not match.
func Locator(text string, phrase bool) (func(string) [][2]int, error) {
	p, err := parse(text, phrase)
	if err != nil {
		return nil, err
	}
	return p.locate, nil
}

// analysed is a text by position.
type analysed struct {
	text   string
	tokens []token
	first  []int // position → index of its first token
}

func analyse(text string) analysed {
	a := analysed{text: text, first: []int{0}}
	tokenize(text, func(t token) { a.tokens = append(a.tokens, t) })
	sort.SliceStable(a.tokens, func(i, j int) bool { return a.tokens[i].pos < a.tokens[j].pos })
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

func (p plan) locate(text string) [][2]int {
	a := analyse(text)
	var spans [][2]int
	for _, c := range p {
		found := c.locate(a)
		if len(found) == 0 {
			return nil
		}
		spans = append(spans, found...)
	}
	sort.Slice(spans, func(i, j int) bool { return spans[i][0] < spans[j][0] })
	return spans
}

func (c clause) locate(a analysed) [][2]int {
	if c.literal != "" {
		return locateLiteral(a, c.literal)
	}
	var spans [][2]int
	for pos := 1; pos < len(a.first) && len(spans) < maxSpans; pos++ {
		for _, seq := range c.seqs {
			if s, ok := a.match(seq, pos); ok {
				spans = append(spans, s)
				break
			}
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

// locateLiteral finds the folded literal between token boundaries.
func locateLiteral(a analysed, literal string) [][2]int {
	folded, at := foldWithOffsets(a.text)
	starts, ends := map[int]bool{}, map[int]bool{}
	for _, t := range a.tokens {
		starts[t.start], ends[t.end] = true, true
	}
	lastRun := endsInRun(literal)
	var spans [][2]int
	for i := 0; len(spans) < maxSpans; {
		j := strings.Index(folded[i:], literal)
		if j < 0 {
			break
		}
		from, to := at[i+j], at[i+j+len(literal)]
		if starts[from] && (ends[to] || lastRun) {
			spans = append(spans, [2]int{from, to})
		}
		i += j + 1
	}
	return spans
}

func endsInRun(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return classOf(r) == runRune
}

// foldWithOffsets folds a text; at[i] is where byte i of the result comes from.
func foldWithOffsets(text string) (folded string, at []int) {
	var b strings.Builder
	at = make([]int, 0, len(text)+1)
	for i, r := range text {
		n := b.Len()
		b.WriteRune(fold(r))
		for range b.Len() - n {
			at = append(at, i)
		}
	}
	return b.String(), append(at, len(text))
}
