package mapjob

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
)

// memory is Rows in maps; it keeps encoded copies, as a store does.
type memory struct {
	jobs map[Ref]string
	rows map[string]string
}

func newMemory() *memory { return &memory{map[Ref]string{}, map[string]string{}} }

func load[T any](text string) (*T, error) {
	if text == "" {
		return nil, nil
	}
	v := new(T)
	return v, json.Unmarshal([]byte(text), v)
}

func save(v any) string { b, _ := json.Marshal(v); return string(b) }

func (m *memory) Job(r Ref) (*Job, error) { return load[Job](m.jobs[r]) }
func (m *memory) PutJob(j *Job) error     { m.jobs[j.Ref] = save(j); return nil }
func (m *memory) Row(r Ref, n uint64) (*Row, error) {
	return load[Row](m.rows[fmt.Sprint(r, "/", n)])
}

func (m *memory) PutRow(r Ref, row *Row) error {
	m.rows[fmt.Sprint(r, "/", row.Row)] = save(row)
	return nil
}

var ref = Ref{"t", "j"}

func definition(rows uint64) Definition {
	return Definition{Op: LLMMap, Prompt: "p", Schema: json.RawMessage(`{}`), Input: Input{Rows: rows}}.WithDefaults()
}

func record(t interface{ Fatal(...any) }, seq uint64, payload any) events.Record {
	m, err := Event(ref, payload, time.Unix(int64(seq), 0))
	if err != nil {
		t.Fatal(err)
	}
	return events.Record{Message: m, Seq: seq}
}

// Whatever workers publish, in whatever order and however often: every row
// has at most one result a round, the first; the counts are those of the rows;
// and a replay, which may also begin anywhere behind rows that are there
// already, ends in the same state.
func TestFoldIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint64Range(1, 8).Draw(t, "rows")
		log := []events.Record{record(t, 1, JobDefined{definition(total)})}
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			log = append(log, record(t, uint64(len(log)+1), drawEvent(t, total)))
		}
		live := newMemory()
		first := map[string]string{} // round/row → value
		for _, r := range log {
			before, _ := live.Job(ref)
			a, err := Apply(live, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range a.Rows {
				row, _ := live.Row(ref, n)
				key := fmt.Sprint(before.Round, "/", n)
				if first[key] != "" {
					t.Fatalf("row %s finished twice", key)
				}
				first[key] = save(row)
			}
			check(t, live)
		}
		again := newMemory()
		for _, r := range log {
			if _, err := Apply(again, r); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(live.jobs, again.jobs) + cmp.Diff(live.rows, again.rows); diff != "" {
			t.Fatal(diff)
		}
	})
}

// check compares a job's counts with its rows.
func check(t *rapid.T, m *memory) {
	j, err := m.Job(ref)
	if err != nil || j == nil {
		t.Fatal("no job", err)
	}
	var ok, failed uint64
	kinds := map[Kind]uint64{}
	for n := uint64(1); n <= j.Definition.Input.Rows; n++ {
		row, err := m.Row(ref, n)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !row.Finished(j.Round):
		case row.OK():
			ok++
		default:
			failed++
			kinds[row.Error.Kind]++
		}
	}
	if ok != j.OK || failed != j.Failed || j.Pending() != j.Definition.Input.Rows-ok-failed {
		t.Fatalf("job says %d ok, %d failed; rows say %d, %d", j.OK, j.Failed, ok, failed)
	}
	if len(kinds)+len(j.Kinds) > 0 && !cmp.Equal(kinds, j.Kinds) {
		t.Fatal(cmp.Diff(kinds, j.Kinds))
	}
	if j.State == Done && j.Pending() > 0 {
		t.Fatal("done with pending rows")
	}
}

func drawEvent(t *rapid.T, total uint64) any {
	switch rapid.IntRange(0, 12).Draw(t, "event") {
	case 0:
		return JobDefined{definition(99)}
	case 1:
		return JobPaused{"down"}
	case 2:
		return JobResumed{}
	case 3:
		return JobCancelled{}
	case 4, 5:
		return RowsRetried{definition(1).Limits}
	case 6:
		return JobEnded{Output: "o"}
	}
	var p RowsFinished
	for range rapid.IntRange(0, 4).Draw(t, "results") {
		r := Result{
			Row: rapid.Uint64Range(0, total+1).Draw(t, "row"), Round: rapid.IntRange(0, 3).Draw(t, "round"), Attempts: 1,
			Usage: Usage{Calls: 1, InputTokens: 10, OutputTokens: 2},
		}
		if rapid.Bool().Draw(t, "ok") {
			r.Value = json.RawMessage(fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "value")))
		} else {
			r.Error = Failed(Malformed, "no")
		}
		p.Results = append(p.Results, r)
	}
	return p
}

func TestFoldOfOneJob(t *testing.T) {
	m := newMemory()
	seq := uint64(0)
	apply := func(payload any) Applied {
		t.Helper()
		seq++
		a, err := Apply(m, record(t, seq, payload))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	ok := func(n uint64, round int, v string) Result {
		return Result{Row: n, Round: round, Value: json.RawMessage(v), Attempts: 1, Usage: Usage{Calls: 1}}
	}
	if a := apply(RowsFinished{}); a.Rejected == "" {
		t.Error("results before the definition were taken")
	}
	apply(JobDefined{definition(3)})
	if a := apply(RowsFinished{[]Result{ok(1, 0, `"a"`), ok(1, 0, `"b"`), {Row: 2, Error: Failed(Late, "x"), Usage: Usage{Calls: 3}}}}); !slices.Equal(a.Rows, []uint64{1, 2}) {
		t.Errorf("rows %v", a.Rows)
	}
	if a := apply(JobEnded{}); a.Rejected == "" {
		t.Error("a job with a pending row ended")
	}
	apply(JobCancelled{})
	apply(RowsFinished{[]Result{ok(3, 0, `3`)}}) // was on its way
	apply(RowsRetried{definition(1).Limits})
	if a := apply(RowsFinished{[]Result{{Row: 2, Round: 0, Error: Failed(Late, "of the old round")}}}); len(a.Rows) != 0 {
		t.Error("a failure of an earlier round failed the row")
	}
	apply(RowsFinished{[]Result{ok(2, 1, `2`)}})
	if a := apply(JobEnded{Output: "/x"}); a.Rejected != "" {
		t.Error(a.Rejected)
	}
	j, _ := m.Job(ref)
	if j.State != Done || j.OK != 3 || j.Failed != 0 || j.Repeats != 2 || j.Usage.Calls != 7 || j.Output != "/x" || j.Round != 1 {
		t.Errorf("%+v", j)
	}
	row, _ := m.Row(ref, 1)
	if string(row.Value) != `"a"` || row.Seq != 3 {
		t.Errorf("row 1 is %+v", row)
	}
}

func TestEventsOfANewerBuildAreSkipped(t *testing.T) {
	m := newMemory()
	if _, err := Apply(m, record(t, 1, JobDefined{definition(1)})); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*events.Record){
		func(r *events.Record) { r.Header[events.HeaderType] = "RowsPraised" },
		func(r *events.Record) { r.Header[events.HeaderSchema] = "2" },
		func(r *events.Record) { r.Data = []byte("{") },
		func(r *events.Record) { r.Subject = "lcm.job.x" },
	} {
		r := record(t, 2, JobCancelled{})
		change(&r)
		a, err := Apply(m, r)
		if err != nil || a.Rejected == "" {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if j, _ := m.Job(ref); j.State != Running {
		t.Error(j.State)
	}
}
