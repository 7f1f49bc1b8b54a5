// Package bench measures a node on this machine, each figure beside the raw
// engine's figure of the same run: ratios transfer between machines, times do
// not. It is wiring and may import everything.
package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"time"

	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// Options of a run.
type Options struct {
	Turns    int           // 0 = the benchmark's own
	Duration time.Duration // of those that run for a time, 0 = the benchmark's own
	Log      *slog.Logger
	Progress func(text string)
}

// Figure is one measured value.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Result of a benchmark: ours, the raw engine's in the same run, their ratio.
type Result struct {
	Bench string   `json:"bench"`
	Turns int      `json:"turns"`
	Ours  Figure   `json:"ours"`
	Raw   Figure   `json:"raw"`
	Ratio float64  `json:"ratio"` // ours / raw
	More  []Figure `json:"more"`
}

// Text is the result for people.
func (r Result) Text() string {
	var b strings.Builder
	line := func(f Figure) { fmt.Fprintf(&b, "  %-52s %14s %s\n", f.Name, number(f.Value), f.Unit) }
	b.WriteString(r.Bench)
	if r.Turns > 0 {
		fmt.Fprintf(&b, ", %d turns", r.Turns)
	}
	b.WriteByte('\n')
	line(r.Ours)
	line(r.Raw)
	fmt.Fprintf(&b, "  %-52s %14.3f\n", "ratio", r.Ratio)
	for _, f := range r.More {
		line(f)
	}
	return b.String()
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

type benchmark struct {
	turns int
	run   func(context.Context, *rig) (Result, error)
	// manual: the node does not condense by itself.
	manual bool
}

var benchmarks = map[string]benchmark{
	"agents":      {run: agentsBench},
	"ingest":      {turns: 50_000, run: ingestBench},
	"ingest-live": {turns: 50_000, run: ingestLiveBench},
	"reimport":    {turns: 100_000, run: reimportBench},
	"bulk":        {turns: 100_000, run: bulkBench},
	"append":      {turns: 60_000, run: appendBench},
	"replicas":    {turns: 60_000, run: replicasBench},
	"lone":        {turns: 4_000, run: loneBench},
	"memory":      {turns: 1_000_000, run: memoryBench},
	"replay":      {turns: 50_000, run: replayBench},
	"verify":      {turns: 100_000, run: verifyBench},
	"context":     {turns: 100_000, run: contextBench},
	"grep":        {turns: 100_000, run: grepBench},
	"condense":    {turns: 10_000, run: condenseBench, manual: true},
}

// Names of the benchmarks.
func Names() []string {
	out := make([]string, 0, len(benchmarks))
	for n := range benchmarks {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// rig is a node in a temporary directory.
type rig struct {
	Options
	dir string
	n   *node.Node
}

// Run measures one benchmark.
func Run(ctx context.Context, name string, o Options) (Result, error) {
	ctx = api.WithCaller(ctx, api.Operator())
	b, ok := benchmarks[name]
	if !ok {
		return Result{}, problem.New(problem.Invalid, "there is no benchmark %q", name).WithHint("there are %s", strings.Join(Names(), ", "))
	}
	if o.Turns == 0 {
		o.Turns = b.turns
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := os.MkdirTemp("", "lcm-bench-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	r := &rig{Options: o, dir: dir}
	cfg := config.Default()
	cfg.DataDir = dir
	roles := node.All()
	roles.Condenser = !b.manual
	if r.n, err = node.Open(ctx, cfg, roles, o.Log, "bench"); err != nil {
		return Result{}, err
	}
	run, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.n.Run(run) }()
	res, err := b.run(ctx, r)
	cancel()
	if rerr := <-ended; err == nil && rerr != nil && ctx.Err() == nil {
		err = rerr
	}
	if cerr := r.n.Close(); err == nil {
		err = cerr
	}
	res.Bench, res.Turns = name, o.Turns
	if res.Raw.Value > 0 {
		res.Ratio = res.Ours.Value / res.Raw.Value
	}
	return res, err
}

func (r *rig) say(format string, a ...any) {
	if r.Progress != nil {
		r.Progress(fmt.Sprintf(format, a...))
	}
}

// turnBytes is the size of a turn's text: what agents' turns come to on
// average in the transcripts the engine was designed on.
const turnBytes = 600

var words = strings.Fields(`the server returned an error because config value was missing from build step
retry after timeout check src/payments/retry.go line 128 and run go test ./... again ERR_CONN_RESET user
asked for a smaller window so we moved the cache into handler.go and measured p99 latency at 23 ms`)

// text makes a turn's text of about turnBytes, never the same twice.
func text(rng *rand.Rand, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d:", n)
	for b.Len() < turnBytes {
		b.WriteByte(' ')
		b.WriteString(words[rng.IntN(len(words))])
	}
	return b.String()
}

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

// mean of durations, in milliseconds.
func mean(d []time.Duration) float64 {
	sum := time.Duration(0)
	for _, t := range d {
		sum += t
	}
	return sum.Seconds() * 1e3 / float64(len(d))
}

// quantile of unsorted durations, in milliseconds.
func quantile(d []time.Duration, q float64) float64 {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return float64(d[int(q*float64(len(d)-1))].Nanoseconds()) / 1e6
}
