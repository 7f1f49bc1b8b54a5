package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/config"
	"lcm/internal/fakemodel"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// What agents are measured with: each thinks, appends what it was told and what
// it said, asks for its context, and now and then searches. Their sessions are
// over their threshold after half a minute, so condensing goes on all the time,
// with a provider that is well, slow, dead, mad and overloaded in turn.
const (
	agents       = 64
	agentsThink  = time.Second // on average, from half to one and a half of it
	agentsWindow = 32_000
	agentsPast   = 50 // steps a session has when its agent begins: close to its threshold
	agentsGrep   = 8  // steps from one search to the next
	agentsSlow   = 2 * time.Second
	agentsFor    = 5 * time.Minute
	agentsLimit  = 250 // milliseconds that the 99th percentile may take
	// agentsGrowth of the live heap, from the second quarter to the last, that
	// still counts as flat: caches fill up.
	agentsGrowth = 1.25
)

// agentsBench runs agents against a server for a time, and fails where one of
// them meets an error.
func agentsBench(ctx context.Context, r *rig) (Result, error) {
	f := &fleet{rig: r, provider: &fakemodel.Provider{Delay: agentsSlow}, duration: cmp.Or(r.Duration, agentsFor)}
	err := f.serve(ctx)
	if err != nil {
		return Result{}, err
	}
	return f.result()
}

// fleet is the agents and what was measured.
type fleet struct {
	*rig
	provider *fakemodel.Provider
	duration time.Duration

	mu    sync.Mutex
	took  map[string][]time.Duration // by operation
	heaps []uint64                   // live bytes, a sample each
	routs []int                      // goroutines
	odd   int                        // degraded contexts
	fails []error
}

// serve runs a provider, a server and the agents.
func (f *fleet) serve(ctx context.Context) error {
	f.took = map[string][]time.Duration{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	model := &http.Server{Handler: f.provider, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = model.Serve(l) }()
	defer model.Close()

	c := config.Default()
	c.DataDir, c.HTTP = filepath.Join(f.dir, "agents"), "127.0.0.1:0"
	c.Session.Window, c.Condenser.Workers = agentsWindow, 6
	c.Summarizer = config.Summarizer{
		Kind: "openai", BaseURL: "http://" + l.Addr().String() + "/v1", Model: "fake", TimeoutSeconds: 10, WhenDown: config.Extractive,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- node.Serve(ctx, c, f.Log, "bench", func(url string) { ready <- url }) }()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	conn, done, err := node.Connect(ctx, c, f.Log, "bench")
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	f.run(ctx, conn)
	err = done()
	cancel()
	return errors.Join(err, <-ended)
}

// run lets all agents work until the time is over, and changes the provider's
// mood meanwhile.
func (f *fleet) run(ctx context.Context, c *client.Client) {
	f.say("agents remember")
	f.remember(ctx, c)
	ctx, cancel := context.WithTimeout(ctx, f.duration)
	defer cancel()
	var wg sync.WaitGroup
	for i := range agents {
		wg.Go(func() { f.agent(ctx, c, i) })
	}
	wg.Go(func() { f.syncs(ctx) })
	moods := []fakemodel.Mode{fakemodel.Well, fakemodel.Slow, fakemodel.Dead, fakemodel.Garbage, fakemodel.Overloaded}
	names := []string{"well", "slow", "dead", "mad", "overloaded"}
	const rounds = 2
	for i := range rounds * len(moods) {
		f.provider.Set(moods[i%len(moods)])
		f.say("provider is %s", names[i%len(moods)])
		_ = await.Sleep(ctx, f.duration/time.Duration(rounds*len(moods)))
		f.sample()
	}
	wg.Wait()
}

// syncs measures what the disk itself takes meanwhile: an append is a write and
// a sync to it.
func (f *fleet) syncs(ctx context.Context) {
	file, err := os.Create(filepath.Join(f.dir, "sync"))
	if err != nil {
		f.failed(err)
		return
	}
	defer file.Close()
	page := make([]byte, 4096)
	for ctx.Err() == nil {
		start := time.Now()
		_, err := file.Write(page)
		if err = errors.Join(err, file.Sync()); err != nil {
			f.failed(err)
			return
		}
		f.mu.Lock()
		f.took["sync"] = append(f.took["sync"], time.Since(start))
		f.mu.Unlock()
		_ = await.Sleep(ctx, 100*time.Millisecond)
	}
}

func sessionOf(agent int) api.Scope { return api.Scope{Session: fmt.Sprintf("agent-%d", agent)} }

// remember gives every session its past; it is not measured.
func (f *fleet) remember(ctx context.Context, c *client.Client) {
	rng := rand.New(rand.NewPCG(2, 0))
	for i := range agents {
		past := ""
		for step := range agentsPast {
			past += said(rng, step)
		}
		if _, err := c.AppendBody(ctx, api.AppendIn{Scope: sessionOf(i)}, []byte(past)); err != nil {
			f.failed(fmt.Errorf("the past of agent %d: %w", i, err))
		}
	}
}

// sample takes the size of what is alive.
func (f *fleet) sample() {
	debug.FreeOSMemory() // two collections: what has a finalizer goes too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heaps, f.routs = append(f.heaps, m.HeapAlloc), append(f.routs, runtime.NumGoroutine())
}

// agent works until ctx ends.
func (f *fleet) agent(ctx context.Context, c *client.Client, i int) {
	rng := rand.New(rand.NewPCG(1, uint64(i)))
	s := sessionOf(i)
	for step := agentsPast; ; step++ {
		if await.Sleep(ctx, agentsThink/2+rand.N(agentsThink)) != nil {
			return
		}
		said := said(rng, step)
		f.time(ctx, "append", func(ctx context.Context) error {
			_, err := c.AppendBody(ctx, api.AppendIn{Scope: s}, []byte(said))
			return err
		})
		f.time(ctx, "context", func(ctx context.Context) error {
			var out api.ContextOut
			err := c.Call(ctx, "context", api.ContextIn{Scope: s}, &out)
			if err == nil && out.Degraded {
				f.mu.Lock()
				f.odd++
				f.mu.Unlock()
			}
			return err
		})
		if (step+i)%agentsGrep == 0 {
			f.time(ctx, "grep", func(ctx context.Context) error {
				in := api.GrepIn{Scope: s, Pattern: []string{"error", "cache", "retry", "window", "config"}[rng.IntN(5)], Limit: 10}
				return c.Call(ctx, "grep", in, &api.GrepReply{})
			})
		}
	}
}

// time measures one request. What the end of the run cuts off does not count.
func (f *fleet) time(ctx context.Context, what string, request func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	start := time.Now()
	err := request(context.WithoutCancel(ctx))
	took := time.Since(start)
	if err != nil {
		f.failed(fmt.Errorf("%s: %w", what, err))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took[what] = append(f.took[what], took)
}

func (f *fleet) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails = append(f.fails, err)
}

// said is what one step appends: a question and an answer.
func said(rng *rand.Rand, step int) string {
	return fmt.Sprintf("{\"id\":\"u%d\",\"role\":\"user\",\"content\":%q}\n{\"id\":\"a%d\",\"role\":\"assistant\",\"content\":%q}\n",
		step, text(rng, 2*step), step, strings.Repeat(text(rng, 2*step+1)+"\n", 2))
}

func (f *fleet) result() (Result, error) {
	var all []time.Duration
	var more []Figure
	for _, what := range []string{"append", "context", "grep"} {
		d := f.took[what]
		if len(d) == 0 {
			return Result{}, problem.New(problem.Internal, "no %s was answered", what)
		}
		all = append(all, d...)
		more = append(more, Figure{what + " requests", float64(len(d)), ""},
			Figure{what + " median", quantile(d, .5), "ms"}, Figure{what + " 99th percentile", quantile(d, .99), "ms"}, Figure{what + " slowest", quantile(d, 1), "ms"})
	}
	early, late := f.heaps[len(f.heaps)/4], slices.Max(f.heaps[len(f.heaps)*3/4:])
	more = append(more,
		Figure{"degraded contexts", float64(f.odd), ""}, Figure{"calls of the provider", float64(f.provider.Calls()), ""},
		Figure{"live heap after a quarter", float64(early) / 1e6, "MB"}, Figure{"live heap at the end", float64(late) / 1e6, "MB"},
		Figure{"goroutines after a quarter", float64(f.routs[len(f.routs)/4]), ""}, Figure{"goroutines at the end", float64(f.routs[len(f.routs)-1]), ""},
		Figure{"errors", float64(len(f.fails)), ""})
	res := Result{
		Ours: Figure{fmt.Sprintf("%d agents for %s, 99th percentile", agents, f.duration), quantile(all, .99), "ms"},
		Raw:  Figure{"a write and sync of 4 KiB to the same disk", quantile(f.took["sync"], .99), "ms"}, More: more,
	}
	if len(f.fails) > 0 {
		return res, problem.New(problem.Internal, "%d of %d requests failed; the first: %w", len(f.fails), len(all)+len(f.fails), f.fails[0])
	}
	return res, nil
}
