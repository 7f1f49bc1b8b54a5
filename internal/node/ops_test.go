package node

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/config"
	"lcm/internal/fakemodel"
)

// node runs every role over a new directory, with a port for operators.
func opsNode(t *testing.T, change func(*config.Config)) (base, ops string, n *Node) {
	t.Helper()
	c := config.Default()
	c.DataDir, c.OpsListen = t.TempDir(), "127.0.0.1:0"
	if change != nil {
		change(&c)
	}
	c.HTTP = "127.0.0.1:0"
	fronts, _, err := listen(c)
	if err != nil {
		t.Fatal(err)
	}
	operators, err := listenOps(c, All())
	if err != nil {
		t.Fatal(err)
	}
	if n, err = Open(t.Context(), c, All(), slog.New(slog.DiscardHandler), "1.2.3"); err != nil {
		t.Fatal(err)
	}
	n.serveOps(operators)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- n.runWithHTTP(ctx, fronts) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return fronts[0].url(), "http://" + operators.Addr().String(), n
}

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// scrape reads samples: name with labels → value.
func scrape(t *testing.T, base string) map[string]float64 {
	t.Helper()
	code, body := get(t, base+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("scrape: %d\n%s", code, body)
	}
	out := map[string]float64{}
	for s := bufio.NewScanner(strings.NewReader(body)); s.Scan(); {
		name, value, ok := strings.Cut(s.Text(), "} ")
		if ok {
			name += "}"
		} else {
			name, value, _ = strings.Cut(s.Text(), " ")
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			out[name] = v
		}
	}
	return out
}

// sum of a metric over its labels.
func sum(samples map[string]float64, name string) (total float64, found bool) {
	for n, v := range samples {
		if base, _, _ := strings.Cut(n, "{"); base == name {
			total, found = total+v, true
		}
	}
	return total, found
}

// moving are the metrics that a session which is appended to, condensed, read
// and searched must move.
var moving = []string{
	"lcm_turns_appended_total", "lcm_turns_rejected_total", "lcm_append_duration_seconds_count", "lcm_append_batch_events_sum",
	"lcm_log_last_seq", "lcm_projection_applied_seq", "lcm_tasks_total", "lcm_nodes_total", "lcm_summary_ratio_count",
	"lcm_cuts_total", "lcm_context_duration_seconds_count", "lcm_context_tokens_sum", "lcm_context_degraded_total", "lcm_prefix_changes_total",
	"lcm_tool_calls_total", "lcm_tool_duration_seconds_count", "lcm_llm_requests_total", "lcm_llm_tokens_total",
}

func TestMetricsOfASession(t *testing.T) {
	provider := &fakemodel.Provider{}
	model := httptest.NewServer(provider)
	defer model.Close()
	base, ops, _ := opsNode(t, func(c *config.Config) {
		c.Summarizer.Kind, c.Summarizer.BaseURL, c.Summarizer.Model = "openai", model.URL+"/v1", "fake"
		c.Session.Window, c.Session.FreshTailCount = 16_000, 4
	})
	c := client.New(base)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := scrape(t, base)

	// A model that hangs: a context over its budget comes degraded.
	provider.Delay = 3 * time.Second
	provider.Set(fakemodel.Slow)
	words := strings.Repeat("the cache was dropped because of a race ", 60)
	var body strings.Builder
	for i := range 40 {
		fmt.Fprintf(&body, "{\"id\":\"t%d\",\"role\":%q,\"content\":\"%d %s\"}\n", i, []string{"user", "assistant"}[i%2], i, words)
	}
	if _, err := c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: "s"}}, []byte(body.String())); err != nil {
		t.Fatal(err)
	}
	_, _ = c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: "s"}}, []byte(`{"id":"t1","role":"user","content":"other words"}`))
	var out api.ContextOut
	if err := c.Call(ctx, "context", api.ContextIn{Scope: api.Scope{Session: "s"}, WaitSeconds: 1, PrefixHash: "of long ago"}, &out); err != nil || !out.Degraded {
		t.Fatalf("%v, degraded %v", err, out.Degraded)
	}
	// A model that is well: it is condensed, in the background or now.
	provider.Set(fakemodel.Well)
	if err := c.Call(ctx, "condense", api.CondenseIn{Scope: api.Scope{Session: "s"}}, &api.CondenseOut{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Call(ctx, "grep", api.GrepIn{Scope: api.Scope{Session: "s"}, Pattern: "race"}, &api.GrepReply{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a task to be done", func() bool { v, _ := sum(scrape(t, ops), "lcm_tasks_total"); return v > 0 })

	after := scrape(t, ops)
	for _, name := range moving {
		was, _ := sum(before, name)
		if is, ok := sum(after, name); !ok || is <= was {
			t.Errorf("%s went from %v to %v", name, was, is)
		}
	}
	for _, name := range []string{"lcm_projection_lag_events", "lcm_due_sessions", "lcm_append_conflicts_total", "lcm_llm_breaker_open"} {
		if _, ok := sum(after, name); !ok {
			t.Errorf("%s is missing", name)
		}
	}
	waitFor(t, "nothing to be due", func() bool { due, ok := sum(scrape(t, ops), "lcm_due_sessions"); return ok && due == 0 })
	for name := range after {
		if strings.Contains(name, "tenant") || strings.Contains(name, "session=") {
			t.Errorf("%s has a label without bounds", name)
		}
	}
	if v := after[`lcm_turns_appended_total{role="user"}`]; v != 20 {
		t.Errorf("%v turns of the user", v)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain for " + what)
		}
	}
}

// A provider that is dead makes nobody unready.
func TestReadyWithoutAModel(t *testing.T) {
	provider := &fakemodel.Provider{}
	provider.Set(fakemodel.Dead)
	model := httptest.NewServer(provider)
	defer model.Close()
	base, ops, n := opsNode(t, func(c *config.Config) {
		c.Summarizer.Kind, c.Summarizer.BaseURL, c.Summarizer.Model = "openai", model.URL+"/v1", "fake"
		c.Session.Window, c.Session.FreshTailCount = 16_000, 4
	})
	c := client.New(base)
	long := strings.Repeat("words and more words ", 600)
	for i := range 12 {
		body := fmt.Sprintf(`{"id":"t%d","role":"user","content":%q}`, i, long)
		if _, err := c.AppendBody(t.Context(), api.AppendIn{Scope: api.Scope{Session: "s"}}, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "the breaker to open", func() bool { return n.models.State()[0].Breaker != "" })
	if v, _ := sum(scrape(t, ops), "lcm_llm_breaker_open"); v != 1 {
		t.Errorf("%v breakers are open", v)
	}
	st, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Models) != 1 || len(st.Models[0].Models) != 1 || st.Models[0].Spending == nil || st.Log == nil || st.Log.LogBytes == 0 {
		t.Fatalf("status: %+v", st)
	}
	if m := st.Models[0].Models[0]; m.Breaker != "outage" || m.LastError == "" || m.Failed == 0 {
		t.Errorf("status of the model: %+v", m)
	}
	for _, url := range []string{base + "/livez", base + "/readyz", ops + "/livez", ops + "/readyz"} {
		if code, body := get(t, url); code != http.StatusOK {
			t.Errorf("%s: %d %s", url, code, body)
		}
	}
}

// Not ready while far behind, and not live once the roles have ended.
func TestReadyTellsLag(t *testing.T) {
	_, ops, n := opsNode(t, nil)
	waitFor(t, "readiness", func() bool { code, _ := get(t, ops+"/readyz"); return code == http.StatusOK })
	n.reads = lagging{n.reads}
	if code, body := get(t, ops+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "20000") {
		t.Errorf("%d %s", code, body)
	}
}

type lagging struct{ reads }

func (lagging) Status(context.Context) (*api.StatusReply, error) {
	return &api.StatusReply{Lag: 20_000}, nil
}

func TestProfilesAreForThisMachine(t *testing.T) {
	base, ops, _ := opsNode(t, nil)
	for _, tt := range []struct {
		url    string
		header []string
		want   int
	}{
		{ops + "/debug/pprof/goroutine?debug=1", nil, 200},
		{ops + "/debug/pprof/", []string{"Host", "evil.example"}, 403},
		{ops + "/debug/pprof/", []string{"Origin", "https://evil.example"}, 403},
		{base + "/debug/pprof/", nil, 404},
	} {
		if code, body := get(t, tt.url, tt.header...); code != tt.want {
			t.Errorf("%s %v: %d %.100s", tt.url, tt.header, code, body)
		}
	}
	if auth.LoopbackHost((&net.TCPAddr{IP: net.IPv4zero}).String()) || auth.LoopbackHost((&net.TCPAddr{}).String()) || !auth.LoopbackHost((&net.TCPAddr{IP: net.IPv6loopback}).String()) {
		t.Error("loopback is told wrong")
	}
}

func TestListenOps(t *testing.T) {
	if l, err := listenOps(config.Config{}, All()); l != nil || err != nil {
		t.Errorf("a role with HTTP: %v %v", l, err)
	}
	a, err := listenOps(config.Config{}, Roles{Condenser: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := listenOps(config.Config{}, Roles{Condenser: true}) // the second on this machine
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if !auth.LoopbackHost(a.Addr().String()) || !auth.LoopbackHost(b.Addr().String()) {
		t.Errorf("%v %v", a.Addr(), b.Addr())
	}
	if _, err := listenOps(config.Config{OpsListen: a.Addr().String()}, Roles{Condenser: true}); err == nil {
		t.Error("a chosen port that is taken is no error")
	}
}
