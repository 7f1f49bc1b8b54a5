package eval

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The answers are exact, also where a tenth of the model's answers are bad.
func TestAggregateIsExact(t *testing.T) {
	for _, faults := range []float64{0, 0.1} {
		r, err := MeasureAggregate(context.Background(), AggregateOptions{Rows: 600, Seed: 7, Faults: faults, Concurrency: 64})
		if err != nil {
			t.Fatal(err)
		}
		all := r.Kinds[len(r.Kinds)-1]
		if len(r.Kinds) != 8 || all.Questions != 7*perKind || all.Exact != all.Questions || all.Score < 99.999 || len(r.Wrong) > 0 {
			t.Errorf("faults %v: %+v", faults, r)
		}
		if bad := float64(r.Bad) / 600; faults > 0 && (bad < 0.06 || bad > 0.16) || faults == 0 && (r.Bad > 0 || r.Calls > 600) {
			t.Errorf("faults %v: %d bad answers, %d calls", faults, r.Bad, r.Calls)
		}
	}
}

func TestQuestionsAreScored(t *testing.T) {
	count := Question{Truth: "10"}
	names := Question{Truth: "a,b"}
	for _, c := range []struct {
		q      Question
		answer string
		want   float64
	}{{count, "10", 1}, {count, "11", 0.75}, {count, "8", 0.5625}, {count, "many", 0}, {names, "a,b", 1}, {names, "a", 0}, {names, "", 0}} {
		if got := c.q.Score(c.answer); got != c.want {
			t.Errorf("%q for %q scores %v, want %v", c.answer, c.q.Truth, got, c.want)
		}
	}
	a, b := NewSet(200, 3), NewSet(200, 3)
	if diff := cmp.Diff(a.Rows, b.Rows, cmp.AllowUnexported(Row{})); diff != "" {
		t.Errorf("one seed, two sets: %s", diff)
	}
	for i, q := range a.Questions() {
		if o := b.Questions; i == 0 && o()[0].Truth != q.Truth {
			t.Error("one seed, other questions")
		}
		if q.Truth == "" {
			t.Errorf("%s has no answer", q.Text)
		}
	}
}
