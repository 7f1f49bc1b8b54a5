package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"lcm/internal/api"
)

// Row of an aggregation task: who asked what, when. Its label is hidden.
type Row struct {
	ID   string `json:"id"`
	Date string `json:"date"`
	User string `json:"user"`
	Text string `json:"text"`

	label string
}

// labels and what rows of each look like: questions, by what they ask for.
var labels = []struct {
	name string
	ask  []string
}{
	{"abbreviation", []string{"What does %s stand for?", "What is the full form of %s?"}},
	{"description", []string{"How does %s work?", "What is the purpose of %s?", "Why is %s used at all?"}},
	{"entity", []string{"Which instrument is used to measure %s?", "What colour is %s?", "What animal is named after %s?"}},
	{"human", []string{"Who invented %s?", "Which person first described %s?", "Who wrote the book about %s?"}},
	{"location", []string{"Where was %s built?", "In which country is %s found?", "Which city is known for %s?"}},
	{"numeric", []string{"How many years did %s take?", "What is the price of %s?", "When did %s begin?"}},
}

var things = []string{
	"the steam turbine", "radio astronomy", "the printing press", "double-entry bookkeeping", "the suspension bridge",
	"vulcanised rubber", "the metric system", "the transit of Venus", "the pendulum clock", "continental drift",
	"the jacquard loom", "public-key encryption", "the lateen sail", "cast iron", "the water wheel",
}

const asides = "The person adds that an answer is wanted soon, and that the last one came without a source, which made it hard to rely on."

// Set is a generated collection of rows.
type Set struct {
	Rows []Row
	rng  *rand.Rand
}

// NewSet generates rows over one year, with users and labels of very
// different frequency.
func NewSet(rows int, seed uint64) *Set {
	s := &Set{rng: rand.New(rand.NewPCG(seed, 2))}
	users := max(3, min(40, rows/20))
	weights := make([]float64, len(labels))
	for i := range weights {
		weights[i] = 0.3 + s.rng.Float64()
	}
	begin := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range rows {
		k := pick(s.rng, weights)
		ask := labels[k].ask[s.rng.IntN(len(labels[k].ask))]
		r := Row{
			ID: fmt.Sprintf("r%06d", i+1), Date: begin.AddDate(0, 0, s.rng.IntN(366)).Format(time.DateOnly),
			User: fmt.Sprintf("u%02d", int(float64(users)*math.Pow(s.rng.Float64(), 1.5))), label: labels[k].name,
		}
		r.Text = fmt.Sprintf(ask, things[s.rng.IntN(len(things))]) + " " + asides
		s.Rows = append(s.Rows, r)
	}
	return s
}

func pick(rng *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := rng.Float64() * sum
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	return len(weights) - 1
}

// WriteTo writes the rows as JSON lines.
func (s *Set) WriteTo(w io.Writer) (int64, error) {
	var n int64
	for _, r := range s.Rows {
		b, err := json.Marshal(r)
		if err != nil {
			return n, err
		}
		k, err := w.Write(append(b, '\n'))
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Question over a set, with its right answer.
type Question struct {
	Kind  string // count, most, least, compare, user, month, when
	Text  string
	Truth string // a number, or names, sorted, with commas
	// Ask is how the answer is computed from the labels that the map found.
	Ask   api.MapAggregateIn
	first bool // the answer is the groups that share the first place
	pair  [2]string
}

// perKind is how many questions there are of each kind.
const perKind = 5

// Questions about a set: counts, the most and least frequent, comparisons, by
// user, by month, before a day.
func (s *Set) Questions() []Question {
	var out []Question
	for range perKind {
		x, y := s.label(), s.label()
		user, month := s.row().User, s.row().Date[:7]
		day := s.row().Date
		is := func(label string) func(Row) bool { return func(r Row) bool { return r.label == label } }
		out = append(out,
			s.count("count", fmt.Sprintf("How many rows are labelled %s?", x), []string{"label=" + x}, is(x)),
			s.best("most", fmt.Sprintf("Which label is the most frequent of user %s?", user), "label", []string{"row.user=" + user}, func(r Row) (string, bool) { return r.label, r.User == user }, false),
			s.best("least", fmt.Sprintf("Which label is the least frequent in %s?", month), "label", []string{"row.date^=" + month}, func(r Row) (string, bool) { return r.label, r.Date[:7] == month }, true),
			s.compare(x, y),
			s.count("user", fmt.Sprintf("How many rows of user %s are labelled %s?", user, x), []string{"label=" + x, "row.user=" + user}, func(r Row) bool { return r.label == x && r.User == user }),
			s.best("month", fmt.Sprintf("In which month is %s asked the most?", x), "row.date[0:7]", []string{"label=" + x}, func(r Row) (string, bool) { return r.Date[:7], r.label == x }, false),
			s.count("when", fmt.Sprintf("How many rows before %s are labelled %s?", day, y), []string{"label=" + y, "row.date<" + day}, func(r Row) bool { return r.label == y && r.Date < day }),
		)
	}
	slices.SortStableFunc(out, func(a, b Question) int { return cmp.Compare(a.Kind, b.Kind) })
	return out
}

func (s *Set) label() string { return labels[s.rng.IntN(len(labels))].name }
func (s *Set) row() Row      { return s.Rows[s.rng.IntN(len(s.Rows))] }

func (s *Set) count(kind, text string, where []string, holds func(Row) bool) Question {
	n := 0
	for _, r := range s.Rows {
		if holds(r) {
			n++
		}
	}
	return Question{Kind: kind, Text: text, Truth: fmt.Sprint(n), Ask: api.MapAggregateIn{Where: where}}
}

// best asks for the value that comes most often, or least.
func (s *Set) best(kind, text, by string, where []string, of func(Row) (string, bool), least bool) Question {
	counts := map[string]int{}
	for _, r := range s.Rows {
		if v, ok := of(r); ok {
			counts[v]++
		}
	}
	var names []string
	best := 0
	for v, n := range counts {
		switch {
		case names == nil || n > best && !least || n < best && least:
			names, best = []string{v}, n
		case n == best:
			names = append(names, v)
		}
	}
	slices.Sort(names)
	measure := "most:"
	if least {
		measure = "least:"
	}
	return Question{Kind: kind, Text: text, Truth: strings.Join(names, ","), first: true, Ask: api.MapAggregateIn{Where: where, Measures: []string{measure + by}}}
}

func (s *Set) compare(x, y string) Question {
	n := map[string]int{}
	for _, r := range s.Rows {
		n[r.label]++
	}
	return Question{
		Kind: "compare", Text: fmt.Sprintf("Is %s more frequent than %s, less, or the same?", x, y), Truth: order(n[x], n[y]),
		pair: [2]string{x, y}, Ask: api.MapAggregateIn{By: []string{"label"}},
	}
}

func order[N cmp.Ordered](a, b N) string {
	return []string{"less", "same", "more"}[cmp.Compare(a, b)+1]
}

// Answer reads the answer to a question out of an aggregate.
func (q Question) Answer(a *api.MapAggregateOut) string {
	switch {
	case q.pair != [2]string{}:
		n := map[string]uint64{}
		for _, g := range a.Groups {
			n[g.By[0]] = g.Count
		}
		return order(n[q.pair[0]], n[q.pair[1]])
	case q.first && len(a.Groups) > 0:
		list, _ := a.Groups[0].Values[0].([]any)
		names := make([]string, len(list))
		for i, v := range list {
			names[i] = fmt.Sprint(v)
		}
		return strings.Join(names, ",")
	case q.first:
		return ""
	}
	return fmt.Sprint(a.Counted)
}

// Score of an answer: 1 where it is right; a count that is wrong by d gets
// 0.75^d.
func (q Question) Score(answer string) float64 {
	if answer == q.Truth {
		return 1
	}
	var got, want int
	if _, err := fmt.Sscan(answer, &got); err != nil {
		return 0
	}
	if _, err := fmt.Sscan(q.Truth, &want); err != nil {
		return 0
	}
	return math.Pow(0.75, math.Abs(float64(got-want)))
}
