package mapjob

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// maxGroups of one answer: more are a list, not an aggregate.
const maxGroups = 100_000

// Measure is one figure of a group.
type Measure struct {
	Op    string // sum, mean, min, max, most, least
	Field Field
}

// ParseMeasure reads sum:score, mean:score, min:…, max:…, most:label (the most
// frequent values), least:label.
func ParseMeasure(s string) (Measure, error) {
	op, field, ok := strings.Cut(s, ":")
	if !ok || !slices.Contains([]string{"sum", "mean", "min", "max", "most", "least"}, op) {
		return Measure{}, fmt.Errorf("measure %q: write sum:FIELD, mean:FIELD, min:FIELD, max:FIELD, most:FIELD or least:FIELD", s)
	}
	f, err := ParseField(field)
	return Measure{op, f}, err
}

// Query is what is asked of a job's results.
type Query struct {
	By       []Field
	Measures []Measure
	Where    []Condition
}

// NeedsRows reports whether fields of the input take part.
func (q Query) NeedsRows() bool {
	for _, f := range q.By {
		if f.row {
			return true
		}
	}
	for _, m := range q.Measures {
		if m.Field.row {
			return true
		}
	}
	for _, c := range q.Where {
		if c.field.row {
			return true
		}
	}
	return false
}

// Group is one line of the answer.
type Group struct {
	By    []string `json:"by"` // values of the query's fields, in its order
	Count uint64   `json:"count"`
	// Values of the measures, in the query's order: a number, a text, or for
	// most and least the list of all values that share the place. null: no row
	// of the group has one.
	Values []any `json:"values"`
}

// Aggregate counts and measures, deterministically: the same results in any
// order give the same answer, and sums are exact.
type Aggregate struct {
	q       Query
	groups  map[string]*group
	Rows    uint64 // that counted
	Skipped uint64 // where a field of the query is missing
}

type group struct {
	by    []string
	count uint64
	cells []cell
}

// cell is one measure of one group, as it grows.
type cell struct {
	n        int64
	sum      *big.Rat
	min, max any
	counts   map[string]uint64
}

// NewAggregate begins an answer.
func NewAggregate(q Query) *Aggregate { return &Aggregate{q: q, groups: map[string]*group{}} }

// Add takes a result, and the row it belongs to where the query needs rows.
func (a *Aggregate) Add(result, row json.RawMessage) error {
	rv, err := oneValue(string(result))
	if err != nil {
		return err
	}
	var iv any
	if row != nil {
		if iv, err = oneValue(string(row)); err != nil {
			return err
		}
	}
	for _, c := range a.q.Where {
		if !c.Holds(rv, iv) {
			return nil
		}
	}
	g, err := a.group(rv, iv)
	if err != nil || g == nil {
		return err
	}
	a.Rows++
	g.count++
	for i, m := range a.q.Measures {
		if v, ok := m.Field.Of(rv, iv); ok {
			if err := g.cells[i].add(m.Op, v); err != nil {
				return fmt.Errorf("%s:%s: %w", m.Op, m.Field.Name, err)
			}
		}
	}
	return nil
}

func (a *Aggregate) group(result, row any) (*group, error) {
	by := make([]string, len(a.q.By))
	for i, f := range a.q.By {
		v, ok := f.Of(result, row)
		if !ok {
			a.Skipped++
			return nil, nil
		}
		by[i] = text(v)
	}
	key := strings.Join(by, "\x00")
	g := a.groups[key]
	if g == nil {
		if len(a.groups) >= maxGroups {
			return nil, fmt.Errorf("there are more than %d groups", maxGroups)
		}
		g = &group{by: by, cells: make([]cell, len(a.q.Measures))}
		a.groups[key] = g
	}
	return g, nil
}

func (c *cell) add(op string, v any) error {
	switch op {
	case "sum", "mean":
		if n, ok := number(v); ok {
			if c.sum == nil {
				c.sum = new(big.Rat)
			}
			c.sum.Add(c.sum, n)
			c.n++
		}
	case "min", "max":
		if c.min == nil || order(v, c.min) < 0 {
			c.min = v
		}
		if c.max == nil || order(v, c.max) > 0 {
			c.max = v
		}
	default:
		if c.counts == nil {
			c.counts = map[string]uint64{}
		}
		if c.counts[text(v)]++; len(c.counts) > maxGroups {
			return fmt.Errorf("there are more than %d different values", maxGroups)
		}
	}
	return nil
}

// order of two values: numbers before texts, each by its own order.
func order(a, b any) int {
	n, aNum := number(a)
	m, bNum := number(b)
	switch {
	case aNum && bNum:
		return n.Cmp(m)
	case aNum != bNum:
		if aNum {
			return -1
		}
		return 1
	}
	return strings.Compare(text(a), text(b))
}

// number reads a JSON number. One with an exponent that no measurement has is
// none: as an exact fraction it would fill the memory.
func number(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 400 {
		return nil, false
	}
	if i := strings.IndexAny(string(n), "eE"); i >= 0 && len(strings.TrimLeft(string(n[i+1:]), "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

// Groups are the answer: the largest first, equal ones by name.
func (a *Aggregate) Groups() []Group {
	out := make([]Group, 0, len(a.groups))
	for _, g := range a.groups {
		values := make([]any, len(a.q.Measures))
		for i, m := range a.q.Measures {
			values[i] = g.cells[i].value(m.Op)
		}
		out = append(out, Group{By: g.by, Count: g.count, Values: values})
	}
	slices.SortFunc(out, func(x, y Group) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), slices.Compare(x.By, y.By))
	})
	return out
}

func (c *cell) value(op string) any {
	switch op {
	case "sum", "mean":
		if c.sum == nil {
			return nil
		}
		r := c.sum
		if op == "mean" {
			r = new(big.Rat).Quo(c.sum, new(big.Rat).SetInt64(c.n))
		}
		return decimal(r)
	case "min":
		return c.min
	case "max":
		return c.max
	}
	var best []string
	var count uint64
	for v, n := range c.counts {
		better := n > count
		if op == "least" {
			better = n < count
		}
		switch {
		case best == nil || better:
			best, count = []string{v}, n
		case n == count:
			best = append(best, v)
		}
	}
	if best == nil {
		return nil
	}
	slices.Sort(best)
	return best
}

// decimal writes a fraction exactly where it can be, else with 12 places.
func decimal(r *big.Rat) json.Number {
	if r.IsInt() {
		return json.Number(r.Num().String())
	}
	prec, exact := r.FloatPrec()
	if !exact || prec > 30 {
		return json.Number(strings.TrimSuffix(strings.TrimRight(r.FloatString(12), "0"), "."))
	}
	return json.Number(r.FloatString(prec))
}
