package rank

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Stats are what BM25 needs to know of a collection.
type Stats struct {
	Docs   float64 `json:"n"`
	Length float64 `json:"l"` // average, in terms
	// Found is how many documents hold each term of the question.
	Found []float64 `json:"f"`
}

// Scorer weighs the terms of one question over one collection.
type Scorer struct {
	Rules
	idf     []float64
	average float64
}

// NewScorer prepares a question's weights.
func NewScorer(q Question, s Stats, r Rules) Scorer {
	out := Scorer{Rules: r, average: max(1, s.Length)}
	for i, w := range q.Weights {
		n := s.Found[i]
		out.idf = append(out.idf, w*math.Log(1+(s.Docs-n+0.5)/(n+0.5)))
	}
	return out
}

// Term is what a term adds that stands freq times in a document of length
// terms.
func (s Scorer) Term(i int, freq, length float64) float64 {
	norm := 1 - s.B + s.B*max(length, s.Floor)/s.average
	return s.idf[i] * freq * (s.K1 + 1) / (freq + s.K1*norm)
}

// Places of the terms of a question in a text, each ascending.
func (q Question) Places(text string) [][]int {
	places := make([][]int, len(q.Terms))
	Terms(text, func(t Term) {
		if i := slices.Index(q.Terms, t.Text); i >= 0 {
			places[i] = append(places[i], t.Pos)
		}
	})
	return places
}

// Pairs is what neighbouring terms of the question add that stand close to
// each other in the text, in any order.
func (s Scorer) Pairs(q Question, places [][]int) float64 {
	sum := 0.0
	for _, p := range q.pairs {
		if s.Pair > 0 && near(places[p[0]], places[p[1]], s.PairReach) {
			sum += s.Pair * (s.idf[p[0]] + s.idf[p[1]])
		}
	}
	return sum
}

// near: two ascending lists hold positions within reach of each other.
func near(a, b []int, reach int) bool {
	for i, j := 0, 0; i < len(a) && j < len(b); {
		d := a[i] - b[j]
		if d <= reach && -d <= reach {
			return true
		}
		if d < 0 {
			i++
		} else {
			j++
		}
	}
	return false
}

// Role is the factor of a turn's role.
func (r Rules) Role(q Question, role string) float64 {
	asked := "user"
	if q.OfAssistant {
		asked = "assistant"
	}
	if role == asked {
		return r.Asked
	}
	return r.Other
}

// directives open a standing wish. People state one once, in passing, and
// expect it to hold from then on.
var directives = []string{
	"always ", "never ", "from now on", "i prefer", "i'd prefer", "i would prefer", "going forward", "in the future, ",
}

// Directive: the text states a rule or a preference.
func Directive(text string) bool {
	text = strings.ReplaceAll(strings.ToLower(text), "’", "'")
	for _, d := range directives {
		if i := strings.Index(text, d); i >= 0 && (i == 0 || !inWord(rune(text[i-1]))) {
			return true
		}
	}
	return false
}

// Candidate is a turn that may answer. Group and Number tell which turns stand
// beside each other.
type Candidate struct {
	Group  int
	Number uint64
	Score  float64 // of the turn by itself
	Factor float64 // of its role
}

// Spread adds to each candidate a part of the scores of the turns beside it,
// and weighs the sum by the role: a turn that asked is found by its answer too.
func (r Rules) Spread(in []Candidate) {
	type place struct {
		group  int
		number uint64
	}
	own := make(map[place]float64, len(in))
	for _, c := range in {
		own[place{c.Group, c.Number}] = c.Score
	}
	for i, c := range in {
		prev, next := own[place{c.Group, c.Number - 1}], own[place{c.Group, c.Number + 1}]
		in[i].Score = c.Factor * (c.Score + r.Neighbour*(prev+r.Next*next))
	}
}

// Dated is a text with its date beside it, so that "in March" and "on Friday"
// find what was said then.
func Dated(t time.Time, text string) string {
	if t.IsZero() {
		return text
	}
	return t.UTC().Format("Monday 2 January 2006") + "\n" + text
}

// Spans are the places of the question's terms in a text, at most eight. They
// are not nil: a turn may be found by what stands beside it.
func (q Question) Spans(text string) [][2]int {
	spans := [][2]int{}
	Terms(text, func(t Term) {
		if len(spans) < 8 && slices.Contains(q.Terms, t.Text) {
			spans = append(spans, [2]int{t.Start, t.End})
		}
	})
	return spans
}

// WithNext puts behind each candidate the turn that follows it, if it is a
// candidate too: where a summary is wanted the answer belongs to the question.
func WithNext[T any](in []T, of func(T) Candidate) []T {
	type place struct {
		group  int
		number uint64
	}
	at := make(map[place]int, len(in))
	for i, c := range in {
		at[place{of(c).Group, of(c).Number}] = i
	}
	taken := make([]bool, len(in))
	out := make([]T, 0, len(in))
	for i, c := range in {
		if !taken[i] {
			taken[i] = true
			out = append(out, c)
		}
		if next, ok := at[place{of(c).Group, of(c).Number + 1}]; ok && !taken[next] {
			taken[next] = true
			out = append(out, in[next])
		}
	}
	return out
}
