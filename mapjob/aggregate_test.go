package mapjob

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func query(t *testing.T, by, measures, where []string) Query {
	t.Helper()
	var q Query
	for _, s := range by {
		f, err := ParseField(s)
		if err != nil {
			t.Fatal(err)
		}
		q.By = append(q.By, f)
	}
	for _, s := range measures {
		m, err := ParseMeasure(s)
		if err != nil {
			t.Fatal(err)
		}
		q.Measures = append(q.Measures, m)
	}
	for _, s := range where {
		c, err := ParseCondition(s)
		if err != nil {
			t.Fatal(err)
		}
		q.Where = append(q.Where, c)
	}
	return q
}

func TestAggregate(t *testing.T) {
	rows := [][2]string{ // result, row
		{`{"label":"ham","score":0.1}`, `{"user":"a","date":"2024-01-05"}`},
		{`{"label":"ham","score":0.2}`, `{"user":"b","date":"2024-01-09"}`},
		{`{"label":"spam","score":1e2}`, `{"user":"a","date":"2024-02-01"}`},
		{`{"label":"spam","score":-3}`, `{"user":"a","date":"2024-02-02"}`},
		{`{"label":"eggs"}`, `{"user":"c","date":"2024-02-03"}`},
		{`{"score":5}`, `{"user":"c","date":"2024-03-01"}`},
	}
	for _, c := range []struct {
		name                string
		by, measures, where []string
		want                string
		skipped             uint64
	}{
		{name: "all", want: `[{"by":[],"count":6,"values":[]}]`},
		{
			name: "by label", by: []string{"label"}, measures: []string{"sum:score", "mean:score"}, skipped: 1,
			want: `[{"by":["ham"],"count":2,"values":[0.3,0.15]},{"by":["spam"],"count":2,"values":[97,48.5]},{"by":["eggs"],"count":1,"values":[null,null]}]`,
		},
		{
			name: "by month", by: []string{"row.date[0:7]"}, measures: []string{"most:label", "least:row.user"},
			want: `[{"by":["2024-02"],"count":3,"values":[["spam"],["c"]]},{"by":["2024-01"],"count":2,"values":[["ham"],["a","b"]]},{"by":["2024-03"],"count":1,"values":[null,["c"]]}]`,
		},
		{name: "extremes", measures: []string{"min:score", "max:score", "max:row.date"}, want: `[{"by":[],"count":6,"values":[-3,1e2,"2024-03-01"]}]`},
		{name: "where", by: []string{"row.user"}, where: []string{"label!=ham", "score>-5", "row.date^=2024-02"}, want: `[{"by":["a"],"count":2,"values":[]}]`},
		{name: "numbers compare as numbers", where: []string{"score>=5"}, want: `[{"by":[],"count":2,"values":[]}]`},
		{name: "none", where: []string{"label=x"}, want: `[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := query(t, c.by, c.measures, c.where)
			a := NewAggregate(q)
			for _, i := range rand.Perm(len(rows)) {
				if err := a.Add(json.RawMessage(rows[i][0]), json.RawMessage(rows[i][1])); err != nil {
					t.Fatal(err)
				}
			}
			got := save(a.Groups())
			if diff := cmp.Diff(c.want, got); diff != "" || a.Skipped != c.skipped {
				t.Errorf("skipped %d %s", a.Skipped, diff)
			}
		})
	}
}

func TestAggregateWords(t *testing.T) {
	for _, s := range []string{"", "sum", "sum:", "avg:x", "sum:a..b"} {
		if _, err := ParseMeasure(s); err == nil {
			t.Errorf("measure %q was taken", s)
		}
	}
	for _, s := range []string{"", "x", "=x", "a..b=1", "a[3:3]=x"} {
		if _, err := ParseCondition(s); err == nil {
			t.Errorf("condition %q was taken", s)
		}
	}
	// An exact sum of such a number would take a gigabyte.
	a := NewAggregate(query(t, nil, []string{"sum:x", "max:x"}, nil))
	if err := a.Add(json.RawMessage(`{"x":1e999999999}`), nil); err != nil {
		t.Fatal(err)
	}
	if got := save(a.Groups()); got != `[{"by":[],"count":1,"values":[null,1e999999999]}]` {
		t.Error(got)
	}
}
