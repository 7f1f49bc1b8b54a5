package mapper_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lcm/internal/api"
	"lcm/internal/mapper"
	"lcm/internal/problem"
	"lcm/mapjob"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func refOf(job string) mapjob.Ref { return mapjob.Ref{Tenant: "t", Job: job} }

func TestMapEndToEnd(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t)).open()
	job := w.begin(rowsOf(500), api.MapRunIn{Concurrency: 32})
	out := w.end(job)
	if out.OK != 500 || out.Calls != 500 || p.calls.Load() != 500 || len(out.First) != 3 || out.InputTokens != 5000 {
		t.Errorf("%+v after %d calls", out, p.calls.Load())
	}
	for i, r := range w.output(job) {
		if want := fmt.Sprintf(`{"label":"%d"}`, i+1); r.Row != uint64(i+1) || !r.OK || string(r.Result) != want || r.Attempts != 1 {
			t.Fatalf("line %d: %+v", i+1, r)
		}
	}
	if most := p.most.Load(); most > 32 {
		t.Errorf("%d calls at once", most)
	}
	// A finished job costs nothing: there is no queue left.
	if _, err := w.jobs.Queue(t.Context(), refOf(job)); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("the queue of a finished job: %v", err)
	}
	if qs, err := w.jobs.Queues(t.Context()); err != nil || len(qs) != 0 {
		t.Errorf("queues %v, %v", qs, err)
	}
}

// Every row's own fault fails that row, costs no call, and loses nothing else.
func TestRowsThatCannotBeAsked(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t)).open()
	big := `{"text":"` + strings.Repeat("x", 10<<20) + `"}`
	input := strings.Join([]string{`{"text":"a"}`, `nonsense`, `[1]`, ``, big, `{"txt":"b"}`, `{"text":"c"}`}, "\n")
	job := w.begin(input, api.MapRunIn{})
	out := w.end(job)
	want := map[mapjob.Kind]uint64{mapjob.NotJSON: 1, mapjob.NotObject: 1, mapjob.Empty: 1, mapjob.TooLarge: 1, mapjob.MissingField: 1}
	if fmt.Sprint(out.Kinds) != fmt.Sprint(want) || out.OK != 2 || p.calls.Load() != 2 {
		t.Errorf("%+v after %d calls", out, p.calls.Load())
	}
	rows := w.output(job)
	if len(rows) != 7 || !rows[0].OK || !rows[6].OK || !strings.Contains(rows[4].Error.Text, "10485771 bytes") || !strings.Contains(rows[5].Error.Text, `"text"`) {
		t.Errorf("%+v", rows)
	}
	empty := w.begin("", api.MapRunIn{})
	if out := w.end(empty); out.State != "done" || out.Rows != 0 || len(w.output(empty)) != 0 {
		t.Errorf("an empty input: %+v", out)
	}
}

// A bad answer goes back with everything that was wrong; stop reasons count.
func TestAnswersAreRepaired(t *testing.T) {
	p := newProvider(t, 0, func(m []message) (string, string, int) {
		asked := (len(m) - 2) / 2 // beyond the first
		last := m[len(m)-1].Content
		switch {
		case strings.Contains(m[1].Content, "mends") && asked == 0:
			return `{"lable":"x"}`, "stop", 200
		case strings.Contains(m[1].Content, "mends"):
			if !strings.Contains(last, "lable") || !strings.Contains(last, "label") || m[2].Role != "assistant" || m[2].Content != `{"lable":"x"}` {
				return "the model was not told what was wrong: " + last, "stop", 200
			}
			return `{"label":"mended"}`, "stop", 200
		case strings.Contains(m[1].Content, "never"):
			return `so sorry`, "stop", 200
		case strings.Contains(m[1].Content, "long"):
			return `{"label":"cut"}`, "length", 200 // would be valid: it is not read as whole
		case strings.Contains(m[1].Content, "declined"):
			return ``, "content_filter", 200
		case strings.Contains(m[1].Content, "rejected"):
			return ``, "", 422
		}
		return echo(m)
	})
	w := newWorld(t, p.client(t)).open()
	words := []string{"mends", "never", "long", "declined", "rejected", "fine"}
	var input strings.Builder
	for _, s := range words {
		fmt.Fprintf(&input, "{\"text\":%q}\n", s)
	}
	job := w.begin(input.String(), api.MapRunIn{Attempts: 3})
	w.end(job)
	rows := w.output(job)
	for i, want := range []struct {
		kind     mapjob.Kind
		attempts int
	}{{"", 2}, {mapjob.Malformed, 3}, {mapjob.CutOff, 3}, {mapjob.Refused, 1}, {mapjob.Refused, 1}, {"", 1}} {
		r := rows[i]
		if r.Attempts != want.attempts || r.OK != (want.kind == "") || !r.OK && r.Error.Kind != want.kind {
			t.Errorf("%s: %+v %v", words[i], r, r.Error)
		}
	}
	if string(rows[0].Result) != `{"label":"mended"}` {
		t.Errorf("%s", rows[0].Result)
	}
}

// An hour without the provider costs no row: the job pauses and goes on.
func TestOutageAndRetry(t *testing.T) {
	var down atomic.Bool
	var fail atomic.Bool
	fail.Store(true)
	p := newProvider(t, 0, func(m []message) (string, string, int) {
		switch {
		case down.Load():
			return "", "", http.StatusServiceUnavailable
		case fail.Load() && strings.HasSuffix(m[1].Content, "7"):
			return "no", "stop", 200
		}
		return echo(m)
	})
	w := newWorld(t, p.client(t)).open()
	down.Store(true)
	job := w.begin(rowsOf(40), api.MapRunIn{Attempts: 2})
	out := w.until(job, func(o *api.MapOut) bool { return o.Paused != "" })
	if out.State != "running" || out.Failed != 0 || !strings.Contains(out.Paused, "503") {
		t.Errorf("%+v", out)
	}
	down.Store(false)
	out = w.end(job)
	if out.Failed != 4 || out.OK != 36 || out.Paused != "" || out.Kinds[mapjob.Malformed] != 4 {
		t.Errorf("%+v", out)
	}
	fail.Store(false)
	before := p.calls.Load()
	if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: job}); err != nil {
		t.Fatal(err)
	}
	out = w.end(job)
	if out.Failed != 0 || out.OK != 40 || out.Round != 1 || p.calls.Load()-before != 4 {
		t.Errorf("%+v after %d more calls", out, p.calls.Load()-before)
	}
}

// until watches a job until something holds.
func (w *world) until(job string, holds func(*api.MapOut) bool) *api.MapOut {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(time.Minute); ; {
		out, err := w.service.MapStatus(w.t.Context(), api.MapIn{Scope: tenant, Job: job})
		w.must(err)
		if holds(out) {
			return out
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("a minute passed: %+v", out)
		}
	}
}

func TestCancelStopsCallsWithinASecond(t *testing.T) {
	p := newProvider(t, 20*time.Millisecond, echo)
	w := newWorld(t, p.client(t)).open()
	job := w.begin(rowsOf(5000), api.MapRunIn{Concurrency: 8})
	w.until(job, func(o *api.MapOut) bool { return o.OK > 50 })
	if _, err := w.service.MapCancel(t.Context(), api.MapIn{Scope: tenant, Job: job}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // what is promised
	calls := p.calls.Load()
	time.Sleep(300 * time.Millisecond)
	if now := p.calls.Load(); now != calls {
		t.Errorf("%d calls a second after the cancellation", now-calls)
	}
	out := w.until(job, func(o *api.MapOut) bool { return true })
	if out.State != "cancelled" || out.OK != uint64(calls) {
		t.Errorf("%d calls were made: %+v", calls, out)
	}
	if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: job, Concurrency: 64}); err != nil {
		t.Fatal(err)
	}
	if out := w.end(job); out.OK != 5000 || p.calls.Load() != 5000 {
		t.Errorf("%+v after %d calls", out, p.calls.Load())
	}
}

func TestTwoJobsShareTheWorkers(t *testing.T) {
	p := newProvider(t, 10*time.Millisecond, echo)
	w := newWorld(t, p.client(t))
	w.calls = 16
	w.open()
	first := w.begin(rowsOf(4000), api.MapRunIn{Concurrency: 16})
	w.until(first, func(o *api.MapOut) bool { return o.OK > 100 })
	second := w.begin(strings.ReplaceAll(rowsOf(4000), "row", "other"), api.MapRunIn{Concurrency: 16})
	w.until(second, func(o *api.MapOut) bool { return o.OK > 20 })
	a := w.until(first, func(*api.MapOut) bool { return true }).OK
	b := w.until(second, func(*api.MapOut) bool { return true }).OK
	w.until(second, func(o *api.MapOut) bool { return o.OK >= b+500 })
	gain := w.until(first, func(*api.MapOut) bool { return true }).OK - a
	if gain < 300 || gain > 800 {
		t.Errorf("while the second job finished 500 rows, the first one finished %d", gain)
	}
	for _, job := range []string{first, second} {
		if _, err := w.service.MapCancel(t.Context(), api.MapIn{Scope: tenant, Job: job}); err != nil {
			t.Error(err)
		}
	}
}

func TestEqualRowsShareACall(t *testing.T) {
	p := newProvider(t, 2*time.Millisecond, echo)
	w := newWorld(t, p.client(t)).open()
	input := strings.Repeat(rowsOf(20), 200)
	job := w.begin(input, api.MapRunIn{})
	if out := w.end(job); out.OK != 4000 || p.calls.Load() != 20 {
		t.Errorf("%+v after %d calls", out, p.calls.Load())
	}
	for i, r := range w.output(job) {
		if want := fmt.Sprintf(`{"label":"%d"}`, i%20+1); string(r.Result) != want {
			t.Fatalf("row %d: %+v", i+1, r)
		}
	}
	p.calls.Store(0)
	if out := w.end(w.begin(strings.Repeat(rowsOf(20), 5), api.MapRunIn{NoDedupe: true})); out.OK != 100 || p.calls.Load() != 100 {
		t.Errorf("%+v after %d calls", out, p.calls.Load())
	}
}

func TestSpendingLimit(t *testing.T) {
	p := newProvider(t, time.Millisecond, echo)
	w := newWorld(t, p.client(t))
	w.prices = mapper.Prices{Input: 1e6, Output: 1e6} // one a token
	w.open()
	for _, in := range []api.MapRunIn{
		{MaxTokens: 2000, MaxOutputTokens: 10, Attempts: 1}, {MaxCost: 2000, MaxOutputTokens: 10, Attempts: 1},
	} {
		job := w.begin(rowsOf(1000), in)
		out := w.end(job)
		if spent := out.InputTokens + out.OutputTokens; spent > 2000 || spent < 1500 || out.Kinds[mapjob.Limit] != out.Failed || out.Failed == 0 {
			t.Errorf("%d tokens of 2000 were spent: %+v", spent, out)
		}
		if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: job, MaxTokens: 1 << 30, MaxCost: 1e9}); err != nil {
			t.Fatal(err)
		}
		if out := w.end(job); out.OK != 1000 {
			t.Errorf("%+v", out)
		}
	}
}

func TestPaths(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t))
	root, outside := t.TempDir(), t.TempDir()
	w.roots = []string{root}
	w.open()
	file := func(path, text string) {
		t.Helper()
		w.must(os.WriteFile(path, []byte(text), 0o600))
	}
	file(filepath.Join(root, "in.jsonl"), rowsOf(10))
	file(filepath.Join(root, "there.jsonl"), "mine")
	file(filepath.Join(outside, "secret"), `{"text":"secret"}`)
	w.must(os.Symlink(filepath.Join(outside, "secret"), filepath.Join(root, "link")))
	w.must(os.Symlink(outside, filepath.Join(root, "dir")))
	for _, c := range []struct {
		in, out string
		code    problem.Code
	}{
		{"../x", "", problem.Forbidden},
		{filepath.Join(outside, "secret"), "", problem.Forbidden},
		{filepath.Join(root, "..", filepath.Base(outside), "secret"), "", problem.Forbidden},
		{"link", "", problem.Forbidden},
		{"dir/secret", "", problem.Forbidden},
		{"nothing", "", problem.NotFound},
		{".", "", problem.Invalid},
		{"in.jsonl", "there.jsonl", problem.Conflict},
		{"in.jsonl", "../new", problem.Forbidden},
		{"in.jsonl", "dir/new", problem.Forbidden},
		{"in.jsonl", "none/new", problem.NotFound},
		{"", "", problem.Invalid},
	} {
		_, err := w.service.MapRun(t.Context(), api.MapRunIn{Scope: tenant, InputPath: c.in, OutputPath: c.out, Prompt: "{{text}}", OutputSchema: json.RawMessage(labelSchema)})
		if !problem.IsCode(err, c.code) {
			t.Errorf("%s → %s: %v, want %s", c.in, c.out, err, c.code)
		}
	}
	run := func(output string) *api.MapOut {
		t.Helper()
		o, err := w.service.MapRun(t.Context(), api.MapRunIn{Scope: tenant, InputPath: "in.jsonl", OutputPath: output, Prompt: "Label {{text}}", OutputSchema: json.RawMessage(labelSchema)})
		w.must(err)
		return w.end(o.Job)
	}
	if o := run("out.jsonl"); o.Output != "out.jsonl" || o.OutputError != "" {
		t.Errorf("%+v", o)
	}
	b, err := os.ReadFile(filepath.Join(root, "out.jsonl"))
	if err != nil || strings.Count(string(b), "\n") != 10 || !strings.HasPrefix(string(b), `{"row":1,"ok":true,"result":{"label":"1"},"attempts":1}`+"\n") {
		t.Errorf("%s, %v", b, err)
	}
	// A file that comes up while the job runs is not overwritten, nothing is
	// left half written, and a retry writes once it is gone.
	p.latency = 30 * time.Millisecond
	o, err := w.service.MapRun(t.Context(), api.MapRunIn{Scope: tenant, InputPath: "in.jsonl", OutputPath: "late.jsonl", Prompt: "Label {{text}}", OutputSchema: json.RawMessage(labelSchema)})
	w.must(err)
	file(filepath.Join(root, "late.jsonl"), "mine")
	o = w.end(o.Job)
	if o.Output != "" || !strings.Contains(o.OutputError, "exists") || o.OK != 10 {
		t.Errorf("%+v", o)
	}
	w.must(os.Remove(filepath.Join(root, "late.jsonl")))
	if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: o.Job}); err != nil {
		t.Fatal(err)
	}
	if o = w.end(o.Job); o.Output != "late.jsonl" {
		t.Errorf("%+v", o)
	}
	left, _ := filepath.Glob(filepath.Join(root, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestAggregateOverInputAndResult(t *testing.T) {
	p := newProvider(t, 0, func(m []message) (string, string, int) {
		if strings.Contains(m[1].Content, "red") {
			return `{"label":"warm"}`, "stop", 200
		}
		return `{"label":"cold"}`, "stop", 200
	})
	w := newWorld(t, p.client(t)).open()
	job := w.begin("{\"text\":\"red\",\"user\":\"a\"}\n{\"text\":\"blue\",\"user\":\"b\"}\nbroken\n{\"text\":\"red\",\"user\":\"b\"}\n", api.MapRunIn{})
	w.end(job)
	out, err := w.service.MapAggregate(t.Context(), api.MapAggregateIn{Scope: tenant, Job: job, By: []string{"row.user", "label"}})
	w.must(err)
	got, _ := json.Marshal(out.Groups)
	if string(got) != `[{"by":["a","warm"],"count":1,"values":[]},{"by":["b","cold"],"count":1,"values":[]},{"by":["b","warm"],"count":1,"values":[]}]` || out.Failed != 1 {
		t.Errorf("%s %+v", got, out)
	}
}

// What was begun goes on after a stop, from the log or from the store; no row
// is asked twice.
func TestRestart(t *testing.T) {
	for _, lose := range []bool{false, true} {
		p := newProvider(t, 5*time.Millisecond, echo)
		w := newWorld(t, p.client(t)).open()
		job := w.begin(rowsOf(600), api.MapRunIn{Concurrency: 8})
		w.until(job, func(o *api.MapOut) bool { return o.OK > 100 })
		w.close()
		if lose {
			w.must(os.Remove(filepath.Join(w.dir, "maps.bolt")))
		}
		w.open()
		if out := w.end(job); out.OK != 600 || p.calls.Load() > 608 {
			t.Errorf("%+v after %d calls", out, p.calls.Load())
		}
		w.close()
	}
}

// An input goes when its last job has been over for long, and an upload that
// nobody used; what runs, what is new, and what others stored stays.
func TestInputsThatAreOverAreDeleted(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t))
	var ahead atomic.Int64
	w.keep, w.now = 48*time.Hour, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w.open()
	ended := w.begin(rowsOf(3)+"broken\n", api.MapRunIn{})
	w.end(ended)
	for _, name := range []string{"t/upload-unused", "t/mine"} {
		w.must(w.jobs.PutObject(t.Context(), name, strings.NewReader(rowsOf(1))))
	}
	left := func() (n int) {
		t.Helper()
		w.must(w.jobs.ListObjects(t.Context(), func(string, time.Time) error { n++; return nil }))
		return n
	}
	for _, c := range []struct {
		ahead time.Duration
		gone  int
		left  int
	}{{time.Hour, 0, 3}, {25 * time.Hour, 1, 2}, {47 * time.Hour, 0, 2}, {49 * time.Hour, 1, 1}, {1000 * time.Hour, 0, 1}} {
		ahead.Store(int64(c.ahead))
		n, err := w.service.Sweep(t.Context())
		w.must(err)
		if n != c.gone || left() != c.left {
			t.Errorf("after %v: %d deleted, %d left, want %d and %d", c.ahead, n, left(), c.gone, c.left)
		}
	}
	// Results stay; a retry that needs the input says that it is gone.
	if rows := w.output(ended); len(rows) != 4 {
		t.Errorf("%+v", rows)
	}
	_, err := w.service.MapAggregate(t.Context(), api.MapAggregateIn{Scope: tenant, Job: ended, By: []string{"row.text"}})
	if !problem.IsCode(err, problem.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: ended}); !problem.IsCode(err, problem.NotFound) || !strings.Contains(err.Error(), "input") {
		t.Errorf("%v", err)
	}
}
