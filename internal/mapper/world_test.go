package mapper_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"lcm/boltstore"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/grants"
	"lcm/internal/mapper"
	"lcm/llm"
	"lcm/natsembed"
	"lcm/natslog"
)

// provider is a chat-completions server whose answers a test decides.
type provider struct {
	*httptest.Server
	calls   atomic.Int64
	inHand  atomic.Int64
	most    atomic.Int64 // in hand at once
	busy    atomic.Int64 // nanoseconds, of all calls together
	latency time.Duration
	mu      sync.Mutex
	seen    map[string]int // last user message → calls
	// answer gets the messages; it returns the answer's text and finish reason,
	// or a status other than 200.
	answer func(m []message) (text, finish string, status int)
}

type message struct{ Role, Content string }

func newProvider(t testing.TB, latency time.Duration, answer func(m []message) (string, string, int)) *provider {
	p := &provider{latency: latency, answer: answer, seen: map[string]int{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.calls.Add(1)
	n, start := p.inHand.Add(1), time.Now()
	defer func() { p.inHand.Add(-1); p.busy.Add(int64(time.Since(start))) }()
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	var q struct{ Messages []message }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.seen[q.Messages[len(q.Messages)-1].Content]++
	p.mu.Unlock()
	if p.latency > 0 {
		time.Sleep(p.latency) // the latency of a model: what is measured
	}
	text, finish, status := p.answer(q.Messages)
	if status != http.StatusOK {
		http.Error(w, `{"error":{"message":"so be it"}}`, status)
		return
	}
	content, _ := json.Marshal(text)
	fmt.Fprintf(w, `{"model":"fake","choices":[{"finish_reason":%q,"message":{"content":%s}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`, finish, content)
}

func (p *provider) client(t testing.TB) *llm.Client {
	c, err := llm.New(llm.Config{
		Family: llm.OpenAI, BaseURL: p.URL, Model: "fake", Attempts: 2, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond,
		BreakerFailures: 1000,
	}, llm.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// world is a service and its workers over real engines.
type world struct {
	t       testing.TB
	dir     string
	ackWait time.Duration
	server  *natsembed.Server
	jobs    *natslog.Jobs
	store   *boltstore.Jobs
	service *mapper.Service
	model   mapper.Model
	agents  mapper.Agents
	grants  *grants.Authority
	roots   []string
	prices  mapper.Prices
	keep    time.Duration
	// storeDir of the service's state, "" = dir.
	storeDir string
	now      func() time.Time
	calls    int
	log      *slog.Logger
	stops    []func()
}

func newWorld(t testing.TB, m mapper.Model) *world {
	return &world{t: t, dir: t.TempDir(), ackWait: 5 * time.Second, model: m, calls: 64, log: slog.New(slog.DiscardHandler), now: time.Now}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// open starts everything; close stops it in order.
func (w *world) open() *world {
	w.t.Helper()
	var err error
	w.server, err = natsembed.Start(natsembed.Options{Dir: filepath.Join(w.dir, "js")})
	w.must(err)
	nc, err := w.server.Conn()
	w.must(err)
	l, err := natslog.Open(w.t.Context(), nc, natslog.Options{Create: true})
	w.must(err)
	w.jobs, err = l.Jobs(w.t.Context(), natslog.JobOptions{Create: true, Lease: w.ackWait})
	w.must(err)
	w.store, err = boltstore.OpenJobs(filepath.Join(cmp.Or(w.storeDir, w.dir), "maps.bolt"), w.log)
	w.must(err)
	seed := make([]byte, 32)
	w.grants = grants.New(l, func() (grant.Key, error) { return grant.NewKey(seed) }, time.Now)
	w.service = mapper.New(mapper.Config{Configured: true, Roots: w.roots, Prices: w.prices, KeepInputs: w.keep, Tools: map[string]bool{"read": true, "agentic_map": false}}, mapper.Deps{
		Grants: w.grants,
		Events: w.jobs, Queue: w.jobs, Objects: w.jobs, Store: w.store,
		NewSeen: func() (mapper.Seen, error) { return boltstore.NewSeen(w.dir) },
		Now:     w.now, NewID: func() string { return ulid.Make().String() }, Logger: w.log,
	})
	w.stops = append(w.stops, w.server.Stop, func() { w.must(w.store.Close()) })
	w.loop(w.service.Run)
	w.workers(w.calls)
	w.t.Cleanup(w.close)
	return w
}

// workers starts one more process' worth of workers.
func (w *world) workers(calls int) (stop func()) {
	return w.loop(mapper.NewWorkers(calls, mapper.WorkerDeps{
		Events: w.jobs, Claims: w.jobs, Finished: w.service.Finished, Model: w.model, Agents: w.agents, Prices: w.prices, Now: time.Now, Logger: w.log,
	}).Run)
}

func (w *world) loop(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				w.t.Errorf("a loop ended with %v", err)
			}
		})
	}
	w.stops = append(w.stops, stop)
	return stop
}

func (w *world) close() {
	for len(w.stops) > 0 {
		n := len(w.stops) - 1
		stop := w.stops[n]
		w.stops = w.stops[:n]
		stop()
	}
}

const labelSchema = `{"type":"object","properties":{"label":{"type":"string"}},"required":["label"],"additionalProperties":false}`

var tenant = api.Scope{Tenant: "t"}

// begin uploads an input and starts a job over it.
func (w *world) begin(input string, in api.MapRunIn) string {
	w.t.Helper()
	up, err := mapper.Upload(w.t.Context(), w.jobs, "t", ulid.Make().String(), strings.NewReader(input))
	w.must(err)
	in.Scope, in.InputObject = tenant, up.Object
	if in.Prompt == "" {
		in.Prompt = "Label {{text}}"
	}
	if in.OutputSchema == nil {
		in.OutputSchema = json.RawMessage(labelSchema)
	}
	out, err := w.service.MapRun(w.t.Context(), in)
	w.must(err)
	return out.Job
}

// end waits for a job and checks what must hold of every job that has ended.
func (w *world) end(job string) *api.MapOut {
	w.t.Helper()
	out := w.until(job, func(o *api.MapOut) bool { return o.State != "running" })
	if out.State == "done" && (out.OK+out.Failed != out.Rows || out.Pending != 0) {
		w.t.Errorf("%d rows went in, %d + %d came out", out.Rows, out.OK, out.Failed)
	}
	return out
}

// output of a job that is done, line by line.
func (w *world) output(job string) []api.MapRow {
	w.t.Helper()
	var b bytes.Buffer
	w.must(w.service.WriteRows(w.t.Context(), refOf(job), &b))
	var rows []api.MapRow
	for d := json.NewDecoder(&b); ; {
		var r api.MapRow
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return rows
		} else if err != nil {
			w.t.Fatal(err)
		}
		rows = append(rows, r)
	}
}

func rowsOf(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"text\":\"row %d\"}\n", i+1)
	}
	return b.String()
}

// echo answers with the last word of the prompt as the label.
func echo(m []message) (string, string, int) {
	return label(m), "stop", http.StatusOK
}

func label(m []message) string {
	for _, one := range m {
		if one.Role == "user" {
			return fmt.Sprintf(`{"label":"%s"}`, one.Content[strings.LastIndexByte(one.Content, ' ')+1:])
		}
	}
	return ""
}
