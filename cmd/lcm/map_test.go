package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"lcm/internal/api"
	"lcm/internal/backup"
	"lcm/internal/problem"
)

// rowProvider is a chat-completions server that labels a row with the last
// word of its prompt, after a while.
type rowProvider struct {
	*httptest.Server
	latency time.Duration
	calls   atomic.Int64
	inHand  atomic.Int64
	most    atomic.Int64 // in hand at once
	mu      sync.Mutex
	asked   map[string]int // label → calls
}

func newRowProvider(t *testing.T, latency time.Duration) *rowProvider {
	p := &rowProvider{latency: latency, asked: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		n := p.inHand.Add(1)
		defer p.inHand.Add(-1)
		for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
		}
		var q struct {
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said := q.Messages[1].Content // behind the system's
		label := said[strings.LastIndexByte(said, ' ')+1:]
		p.mu.Lock()
		p.asked[label]++
		p.mu.Unlock()
		time.Sleep(p.latency) // as a model does
		answer := fmt.Sprintf(`{"label":%q}`, label)
		if label == "bad" {
			answer = "I cannot say"
		}
		content, _ := json.Marshal(answer)
		fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"content":%s}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, content)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *rowProvider) options() []string {
	return []string{"--option", "map.kind=openai", "--option", "map.base_url=" + p.URL, "--option", "map.model=fake"}
}

const mapSchema = `{"type":"object","properties":{"label":{"type":"string"}},"required":["label"]}`

func writeRows(t *testing.T, n int, more ...string) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"text\":\"w%d\",\"user\":\"u%d\"}\n", i+1, i%3)
	}
	for _, s := range more {
		b.WriteString(s + "\n")
	}
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMapCommands(t *testing.T) {
	p := newRowProvider(t, 0)
	dir := t.TempDir()
	in, out := writeRows(t, 30, `{"text":"bad"}`, `broken`), filepath.Join(t.TempDir(), "out.jsonl")
	with := func(args ...string) []string { return append(p.options(), args...) }
	r := lcm(t, dir, with("map", "run", in, "--prompt", "Label {{text}}", "--schema", mapSchema, "--output", out, "--attempts", "2", "--json")...)
	if r.code != problem.ExitDegraded {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	job := decode[api.MapOut](t, r.out)
	if job.OK != 30 || job.Failed != 2 || job.Kinds["malformed"] != 1 || job.Kinds["not_json"] != 1 || job.Calls != 32 || job.Output != out || !strings.Contains(r.err, job.Job) {
		t.Errorf("%+v\n%s", job, r.err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rows := lines[api.MapRow](t, string(b))
	if len(rows) != 32 || string(rows[4].Result) != `{"label":"w5"}` || rows[30].OK || rows[30].Attempts != 2 {
		t.Errorf("%s", b)
	}
	if got := ok(t, dir, "map", "output", job.Job, "--json"); got != string(b) {
		t.Errorf("output differs from the file:\n%s", got)
	}
	if got := lines[api.MapRow](t, ok(t, dir, "map", "output", "--failed", job.Job)); len(got) != 2 || got[0].Row != 31 {
		t.Errorf("%+v", got)
	}
	agg := decode[api.MapAggregateOut](t, ok(t, dir, "map", "aggregate", job.Job, "--count-by", "row.user", "--where", "label!=w1", "--json"))
	if fmt.Sprint(agg.Groups) != "[{[u1] 10 []} {[u2] 10 []} {[u0] 9 []}]" || agg.Counted != 29 || agg.Failed != 2 {
		t.Errorf("%+v", agg)
	}
	if got := ok(t, dir, "map", "aggregate", job.Job, "--count-by", "row.user"); !strings.Contains(got, "10  u0\n") || !strings.Contains(got, "30 counted, 2 failed") {
		t.Error(got)
	}
	if got := ok(t, dir, "map", "list"); !strings.Contains(got, job.Job) {
		t.Error(got)
	}
	calls := p.calls.Load()
	if r := lcm(t, dir, with("map", "retry", job.Job, "--json")...); decode[api.MapOut](t, r.out).Round != 1 || p.calls.Load()-calls != 2 {
		t.Errorf("%d calls: %s%s", p.calls.Load()-calls, r.out, r.err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"map", "run", in, "--prompt", "x", "--schema", mapSchema, "--output", out}, problem.ExitFailed, "exists"},
		{[]string{"map", "run", in, "--prompt", "x", "--schema", `{"$ref":"file:///etc/passwd"}`}, problem.ExitUsage, "refer to itself"},
		{[]string{"map", "run", in, "--prompt", "x", "--schema", `{`}, problem.ExitUsage, "not JSON"},
		{[]string{"map", "run", in + "x", "--prompt", "x", "--schema", mapSchema}, problem.ExitNotFound, "no such file"},
		{[]string{"map", "run", in, "--prompt", "x"}, problem.ExitUsage, "--schema"},
		{[]string{"map", "status", "nobody"}, problem.ExitNotFound, "nobody"},
		{[]string{"map", "aggregate", job.Job, "--measure", "median:x"}, problem.ExitUsage, "median"},
	} {
		if r := lcm(t, dir, with(c.args...)...); r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, r.code, c.code, r.err)
		}
	}
	if r := lcm(t, dir, "map", "run", in, "--prompt", "x", "--schema", mapSchema); r.code == 0 || !strings.Contains(r.err, "map.kind") {
		t.Errorf("without a model: exit %d, %s", r.code, r.err)
	}
}

// A command that looks at something else works on no job.
func TestALookMakesNoCalls(t *testing.T) {
	p := newRowProvider(t, 5*time.Millisecond)
	dir := t.TempDir()
	in := writeRows(t, 50)
	r := lcm(t, dir, append(p.options(), "map", "run", in, "--prompt", "Label {{text}}", "--schema", mapSchema, "--detach", "--json")...)
	job := decode[api.MapOut](t, r.out)
	calls := p.calls.Load()
	if got := decode[api.MapOut](t, ok(t, dir, append(p.options(), "map", "status", job.Job, "--json")...)); got.State != "running" {
		t.Errorf("%+v", got)
	}
	time.Sleep(50 * time.Millisecond)
	if now := p.calls.Load(); now != calls {
		t.Errorf("%d calls were made by a look", now-calls)
	}
	if got := decode[api.MapOut](t, ok(t, dir, append(p.options(), "map", "watch", job.Job, "--json")...)); got.OK != 50 || got.State != "done" {
		t.Errorf("%+v", got)
	}
}

// Who follows a job is told its state while it changes, and its end: over HTTP
// as server-sent events, over MCP as progress. What was done is counted.
func TestMapWatch(t *testing.T) {
	p := newRowProvider(t, 20*time.Millisecond)
	dir := t.TempDir()
	serve(t, dir, p.options()...)
	c, url := ownerClient(dir), serverURL(t, dir)
	begin := func() string {
		t.Helper()
		f, err := os.Open(writeRows(t, 400, `broken`))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		up, err := c.MapUpload(t.Context(), api.Scope{}, f)
		if err != nil {
			t.Fatal(err)
		}
		var out api.MapOut
		if err := c.Call(t.Context(), "llm_map", api.MapRunIn{InputObject: up.Object, Prompt: "Label {{text}}", OutputSchema: []byte(mapSchema), Concurrency: 4}, &out); err != nil {
			t.Fatal(err)
		}
		return out.Job
	}

	resp, err := http.Get(url + "/v1/map-watch?job=" + begin())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatalf("HTTP %d, %s", resp.StatusCode, ct)
	}
	var names []string
	var last api.MapOut
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		if name, ok := strings.CutPrefix(in.Text(), "event: "); ok {
			names = append(names, name)
		}
		if data, ok := strings.CutPrefix(in.Text(), "data: "); ok {
			o := decode[api.MapOut](t, data)
			if o.OK < last.OK {
				t.Errorf("%d rows after %d", o.OK, last.OK)
			}
			last = o
		}
	}
	if n := len(names); n < 3 || names[0] != "progress" || slices.Index(names, "end") != n-1 || last.OK != 400 || last.Failed != 1 {
		t.Errorf("%v: %+v", names, last)
	}

	var told []float64
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			if r.Params.Total != 401 {
				t.Errorf("progress: %+v", r.Params)
			}
			told = append(told, r.Params.Progress)
		},
	}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := &sdk.CallToolParams{Name: "lcm_map_watch", Arguments: map[string]any{"job": begin()}}
	call.SetProgressToken("token")
	r, err := session.CallTool(t.Context(), call)
	if err != nil || r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := session.Close(); err != nil { // no notification comes after it
		t.Error(err)
	}
	if out := decode[api.MapOut](t, r.Content[0].(*sdk.TextContent).Text); out.OK != 400 || len(told) == 0 || !slices.IsSorted(told) {
		t.Errorf("%v, then %+v", told, out)
	}

	_, counted := ask(t, http.MethodGet, url+"/metrics", "")
	for _, want := range []string{
		`lcm_map_rows_total{kind="llm_map",outcome="done"} 800`, `lcm_map_rows_total{kind="llm_map",outcome="not_json"} 2`,
		`lcm_map_jobs{state="running"} 0`, `lcm_map_worker_rows 0`,
	} {
		if !strings.Contains(string(counted), want+"\n") {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// Jobs and their inputs are in a backup, and in a repaired log: results are
// read, failed rows done again, and what was not ended goes on.
func TestMapBackup(t *testing.T) {
	p := newRowProvider(t, 0)
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	appendLines(t, data, "s", `{"id":"1","role":"user","content":"hello"}`)
	with := func(args ...string) []string { return append(p.options(), args...) }
	r := lcm(t, data, with("map", "run", writeRows(t, 30, `{"text":"bad"}`), "--prompt", "Label {{text}}", "--schema", mapSchema, "--attempts", "1", "--json")...)
	done := decode[api.MapOut](t, r.out)
	open := decode[api.MapOut](t, ok(t, data, with("map", "run", writeRows(t, 20), "--prompt", "Label {{text}}", "--schema", mapSchema, "--detach", "--json")...))
	want := ok(t, data, "map", "output", done.Job)
	ok(t, data, "backup", dir)
	if s := decode[backup.Summary](t, ok(t, data, "backup", "--check", "--json", dir)); s.Jobs < 4 || s.Inputs < 4 || !s.Whole {
		t.Errorf("%+v", s)
	}
	check := func(t *testing.T, data string) {
		t.Helper()
		if got := ok(t, data, "map", "output", done.Job); got != want {
			t.Errorf("output\n%s, want\n%s", got, want)
		}
		agg := decode[api.MapAggregateOut](t, ok(t, data, "map", "aggregate", done.Job, "--count-by", "row.user", "--json"))
		if agg.Counted != 30 {
			t.Errorf("%+v", agg)
		}
		r := lcm(t, data, with("map", "retry", done.Job, "--json")...)
		if o := decode[api.MapOut](t, r.out); o.Round != 1 || o.Calls != done.Calls+1 {
			t.Errorf("%d calls in all, %d before: %s", o.Calls, done.Calls, r.err)
		}
		if got := decode[api.MapOut](t, ok(t, data, with("map", "watch", open.Job, "--json")...)); got.OK != 20 || got.State != "done" {
			t.Errorf("%+v", got)
		}
	}
	t.Run("restored", func(t *testing.T) {
		copied := t.TempDir()
		ok(t, copied, "restore", dir)
		check(t, copied)
	})
	t.Run("repaired", func(t *testing.T) {
		spoiled := copyTree(t, data)
		spoilBlock(t, blocks(spoiled)[0])
		repaired(t, spoiled, dir, 0)
		check(t, spoiled)
	})
}
