package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lcm/internal/api"
)

// scrapeWithin bounds how long a scrape waits for the log.
const scrapeWithin = 2 * time.Second

var (
	logSeq  = prometheus.NewDesc("lcm_log_last_seq", "Last position of the log.", nil, nil)
	applied = prometheus.NewDesc("lcm_projection_applied_seq", "Position a projection has reached.", []string{"projection"}, nil)
	lag     = prometheus.NewDesc("lcm_projection_lag_events", "Events a projection is behind the log.", []string{"projection"}, nil)
	due     = prometheus.NewDesc("lcm_due_sessions", "Sessions that wait for condensing.", nil, nil)
	mapJobs = prometheus.NewDesc("lcm_map_jobs", "Map jobs that this process keeps and that have not ended: running, or paused while the provider is down.", []string{"state"}, nil)
	mapWork = prometheus.NewDesc("lcm_map_worker_jobs", "Map jobs that this process works on.", nil, nil)
	mapHeld = prometheus.NewDesc("lcm_map_worker_rows", "Rows that this process holds: in work, or next.", nil, nil)
	breaker = prometheus.NewDesc("lcm_llm_breaker_open", "Model providers that are not called for now.", nil, nil)
)

// Watch reads the end of the log at every scrape, and, where progress is not
// nil, how far this process's projections are. What cannot be read is left out.
func (m *Set) Watch(lastSeq func(context.Context) (uint64, error), progress func() api.Progress) {
	m.registry.MustRegister(gauges{lastSeq, progress})
}

type gauges struct {
	lastSeq  func(context.Context) (uint64, error)
	progress func() api.Progress
}

// Describe implements prometheus.Collector: unchecked, as what is sent varies.
func (gauges) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeWithin)
	defer cancel()
	var p api.Progress
	if g.progress != nil {
		p = g.progress() // before the end of the log: lag is not negative
	}
	last, err := g.lastSeq(ctx)
	if err == nil {
		send(logSeq, last)
	}
	if g.progress == nil {
		return
	}
	for name, at := range map[string]uint64{"rows": p.Applied, "index": p.Indexed} {
		send(applied, at, name)
		if err == nil {
			send(lag, last-min(at, last), name)
		}
	}
	send(due, uint64(p.Due))
}

// WatchModels reads at every scrape how many providers are not called.
func (m *Set) WatchModels(state func() []api.ModelState) {
	m.registry.MustRegister(models{state})
}

type models struct{ state func() []api.ModelState }

// Describe implements prometheus.Collector.
func (models) Describe(out chan<- *prometheus.Desc) { out <- breaker }

// Collect implements prometheus.Collector.
func (m models) Collect(out chan<- prometheus.Metric) {
	n := 0
	for _, s := range m.state() {
		if s.Breaker != "" {
			n++
		}
	}
	out <- prometheus.MustNewConstMetric(breaker, prometheus.GaugeValue, float64(n))
}

// WatchMaps reads at every scrape how many jobs of each state are kept here,
// and how many jobs and rows are worked on here; nil = none.
func (m *Set) WatchMaps(kept func() map[string]int, worked func() (jobs, rows int)) {
	m.registry.MustRegister(maps{kept, worked})
}

type maps struct {
	kept   func() map[string]int
	worked func() (jobs, rows int)
}

// Describe implements prometheus.Collector.
func (m maps) Describe(out chan<- *prometheus.Desc) {
	if m.kept != nil {
		out <- mapJobs
	}
	if m.worked != nil {
		out <- mapWork
		out <- mapHeld
	}
}

// Collect implements prometheus.Collector.
func (m maps) Collect(out chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	if m.kept != nil {
		for state, n := range m.kept() {
			send(mapJobs, n, state)
		}
	}
	if m.worked != nil {
		jobs, rows := m.worked()
		send(mapWork, jobs)
		send(mapHeld, rows)
	}
}
