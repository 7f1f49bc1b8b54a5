package rank

import (
	"cmp"
	"slices"
)

// Corpus is one conversation in memory: the rules applied without an index.
// It is the reference an index is compared with, and quick enough to choose
// settings with.
type Corpus struct {
	docs    []document
	found   map[string]int
	average float64
}

type document struct {
	role      string
	at        map[string][]int // positions of each term
	length    float64
	directive bool
}

// Add appends a turn.
func (c *Corpus) Add(role, text string) {
	d := document{role: role, at: map[string][]int{}, directive: Directive(text)}
	Terms(text, func(t Term) {
		d.at[t.Text] = append(d.at[t.Text], t.Pos)
		d.length++
	})
	if c.found == nil {
		c.found = map[string]int{}
	}
	for t := range d.at {
		c.found[t]++
	}
	n := float64(len(c.docs))
	c.average = (c.average*n + d.length) / (n + 1)
	c.docs = append(c.docs, d)
}

// Search returns the numbers of the turns, best first.
func (c *Corpus) Search(question string, r Rules) []int {
	q := Parse(question, r)
	stats := Stats{Docs: float64(len(c.docs)), Length: c.average}
	for _, t := range q.Terms {
		stats.Found = append(stats.Found, float64(c.found[t]))
	}
	s := NewScorer(q, stats, r)
	all := make([]Candidate, len(c.docs))
	for i, d := range c.docs {
		all[i] = Candidate{Number: uint64(i + 1), Score: s.turn(q, d), Factor: r.Role(q, d.role)}
	}
	r.Spread(all)
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Number, a.Number))
	})
	if q.Broad {
		all = WithNext(all, func(c Candidate) Candidate { return c })
	}
	out := make([]int, len(all))
	for i, a := range all {
		out[i] = int(a.Number) - 1
	}
	return out
}

// turn scores one turn by itself.
func (s Scorer) turn(q Question, d document) float64 {
	sum := 0.0
	places := make([][]int, len(q.Terms))
	for i, t := range q.Terms {
		if places[i] = d.at[t]; places[i] != nil {
			sum += s.Term(i, float64(len(places[i])), d.length)
		}
	}
	if sum == 0 {
		return 0
	}
	sum += s.Pairs(q, places)
	if d.directive {
		sum *= s.Standing
	}
	return sum
}
