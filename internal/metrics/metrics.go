// Package metrics counts what the roles do, under the names operators know, in
// base units and without labels for tenants or sessions: those are unbounded.
// Services tell it through the functions they are given; it never reads more
// than they say.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Set of all metrics of a process. Its methods may be called concurrently.
type Set struct {
	registry *prometheus.Registry

	turns, rejected    *prometheus.CounterVec
	appendTime         prometheus.Histogram
	batch              prometheus.Histogram
	conflicts          prometheus.Counter
	tasks              *prometheus.CounterVec
	nodes              *prometheus.CounterVec
	ratio              prometheus.Histogram
	cuts               *prometheus.CounterVec
	contextTime        prometheus.Histogram
	contextTokens      *prometheus.HistogramVec
	degraded           prometheus.Counter
	prefixes           *prometheus.CounterVec
	calls              *prometheus.CounterVec
	callTime           *prometheus.HistogramVec
	modelCalls, tokens *prometheus.CounterVec
	refusals, mapRows  *prometheus.CounterVec
}

// New makes a set of its own registry, with those of the Go process.
func New(version string) *Set {
	m := &Set{registry: prometheus.NewRegistry()}
	f := factory{m.registry}
	m.turns = f.counters("lcm_turns_appended_total", "Turns stored, without those that were known already.", "role")
	m.rejected = f.counters("lcm_turns_rejected_total", "Turns refused, by the code of the problem.", "reason")
	m.appendTime = f.histogram("lcm_append_duration_seconds", "Time of one append, from request to durable.", times)
	m.batch = f.histogram("lcm_append_batch_events", "Events of one commit.", prometheus.ExponentialBuckets(1, 2, 11))
	m.conflicts = f.counter("lcm_append_conflicts_total", "Subjects that another writer had appended to first.")
	m.tasks = f.counters("lcm_tasks_total", "Tasks of the condenser: done, or retry later.", "outcome")
	m.nodes = f.counters("lcm_nodes_total", "Summaries stored, by depth and level (3 = truncated).", "depth", "level")
	m.ratio = f.histogram("lcm_summary_ratio", "Tokens of a summary by tokens of its input.", []float64{.01, .02, .05, .1, .15, .2, .3, .4, .5, .75, 1})
	m.cuts = f.counters("lcm_cuts_total", "Cuts stored: extend or recut.", "kind")
	m.contextTime = f.histogram("lcm_context_duration_seconds", "Time of one context call, waits included.", times)
	m.contextTokens = f.histograms("lcm_context_tokens", "Tokens of contexts: all, and of the pointers among them.", prometheus.ExponentialBuckets(500, 2, 12), "kind")
	m.degraded = f.counter("lcm_context_degraded_total", "Contexts given in a degraded view: over budget, no condenser answered in time.")
	m.prefixes = f.counters("lcm_prefix_changes_total", "Contexts whose prefix is not the caller's last one.", "reason")
	m.calls = f.counters("lcm_tool_calls_total", "Calls of tools, by outcome: ok or the code of the problem.", "tool", "outcome")
	m.callTime = f.histograms("lcm_tool_duration_seconds", "Time of one call.", times, "tool")
	m.modelCalls = f.counters("lcm_llm_requests_total", "HTTP attempts at model providers; code 0 = no answer.", "provider", "model", "code")
	m.tokens = f.counters("lcm_llm_tokens_total", "Tokens as providers reported.", "direction")
	m.refusals = f.counters("lcm_grant_refusals_total", "Calls of tools refused for want of a right or a budget.", "reason")
	m.mapRows = f.counters("lcm_map_rows_total", "Rows of map jobs that got their result from this process, by the job's kind and done or the kind of failure.", "kind", "outcome")
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "lcm_build_info", Help: "1; the version is its label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// times are the bounds of durations: from a read of rows to a wait for a model.
var times = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// factory registers what it makes.
type factory struct{ r *prometheus.Registry }

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	f.r.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.r.MustRegister(c)
	return c
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	f.r.MustRegister(h)
	return h
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	f.r.MustRegister(h)
	return h
}

// Handler answers a scrape.
func (m *Set) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Appended counts one append and its answer.
func (m *Set) Appended(r api.AppendRequest, reply *api.AppendReply, err error, took time.Duration) {
	m.appendTime.Observe(took.Seconds())
	if err != nil {
		for _, w := range r.Writes {
			if w.Turn != nil {
				m.rejected.WithLabelValues(string(problem.From(err).Code)).Inc()
			}
		}
		return
	}
	for i, w := range reply.Written {
		switch {
		case w.Error != "":
			m.rejected.WithLabelValues(w.Code).Inc()
		case !w.Duplicate && r.Writes[i].Turn != nil:
			m.turns.WithLabelValues(string(r.Writes[i].Turn.Turn.Role)).Inc()
		}
	}
}

// Committed counts one commit to the log.
func (m *Set) Committed(events, conflicts int) {
	m.batch.Observe(float64(events))
	m.conflicts.Add(float64(conflicts))
}

// Task counts one task of the condenser.
func (m *Set) Task(r api.TaskResult) {
	outcome := "done"
	if r.Retry > 0 {
		outcome = "retry"
	}
	m.tasks.WithLabelValues(outcome).Inc()
}

// Derived counts what a condenser stored.
func (m *Set) Derived(p events.Payload) {
	switch e := p.(type) {
	case *events.NodeCommitted:
		m.nodes.WithLabelValues(strconv.Itoa(e.Depth), strconv.Itoa(e.Primary.Level)).Inc()
		if e.InputTokens > 0 {
			m.ratio.Observe(float64(e.Primary.Tokens) / float64(e.InputTokens))
		}
	case *events.CutCommitted:
		m.cuts.WithLabelValues(string(e.Kind)).Inc()
	}
}

// Context counts one context that was given.
func (m *Set) Context(c *api.ContextOut, took time.Duration) {
	m.contextTime.Observe(took.Seconds())
	m.contextTokens.WithLabelValues("all").Observe(float64(c.Tokens))
	m.contextTokens.WithLabelValues("pointers").Observe(float64(c.BlockTokens))
	if c.Degraded {
		m.degraded.Inc()
	}
	if c.PrefixChange == "" {
		return
	}
	reason := "cut"
	switch {
	case c.Degraded:
		reason = "degraded"
	case c.Hypothetical:
		reason = "hypothetical"
	case c.PrefixChange == api.PrefixMoved:
		reason = "path"
	case c.PrefixChange == api.PrefixSettings:
		reason = "settings"
	case c.PrefixChange == api.PrefixUnknown:
		reason = "unknown"
	}
	m.prefixes.WithLabelValues(reason).Inc()
}

// Called counts one call of a tool.
func (m *Set) Called(tool string, err error, took time.Duration) {
	m.callTime.WithLabelValues(tool).Observe(took.Seconds())
	code := outcome(err)
	m.calls.WithLabelValues(tool, code).Inc()
	switch problem.Code(code) {
	case problem.Unauthorized, problem.Forbidden, problem.Limited:
		m.refusals.WithLabelValues(code).Inc()
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return string(problem.From(err).Code)
}

// Model counts one attempt at a model provider.
func (m *Set) Model(provider, model string, code, input, output int) {
	m.modelCalls.WithLabelValues(provider, model, strconv.Itoa(code)).Inc()
	m.tokens.WithLabelValues("input").Add(float64(max(input, 0)))
	m.tokens.WithLabelValues("output").Add(float64(max(output, 0)))
}

// MapRow counts a row of a map job that has its result, by the job's kind, and
// "done" or the kind of its failure.
func (m *Set) MapRow(kind, outcome string) { m.mapRows.WithLabelValues(kind, outcome).Inc() }
