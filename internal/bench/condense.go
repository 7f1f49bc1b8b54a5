package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/config"
)

// What condensing is measured with.
const (
	condenseWindow = 128_000
	latency        = time.Second // of a model's answer
	leavesAtOnce   = 16
	fleetSessions  = 8
	fleetTurns     = 600
	fleetWindow    = 32_000
	fleetLatency   = 100 * time.Millisecond
	fleetLeaves    = 4
)

// stand answers for a model after a while, and counts its calls by depth.
type stand struct {
	wait  time.Duration
	mu    sync.Mutex
	calls map[int]int
}

func (s *stand) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[int]int{}
	}
	s.calls[r.Depth]++
	s.mu.Unlock()
	if s.wait > 0 {
		if err := await.Sleep(ctx, s.wait); err != nil {
			return condense.Response{}, err
		}
	}
	text := fmt.Sprintf("- %s to %s: retry.go was changed, the tests ran again.\n", r.Lines[0].Ref, r.Lines[len(r.Lines)-1].Ref)
	return condense.Response{Text: strings.Repeat(text, 8), Stop: condense.StopEnd, Model: "stand"}, nil
}

// ideal is the time its calls take where so many run at once and a depth waits
// for the one below it.
func (s *stand) ideal(atOnce int) time.Duration {
	var sum time.Duration
	for _, n := range s.calls {
		sum += time.Duration((n+atOnce-1)/atOnce) * s.wait
	}
	return sum
}

func condenseBench(ctx context.Context, r *rig) (Result, error) {
	instant := &stand{}
	out, _, cpu, err := r.condense(ctx, "instant", r.Turns, instant)
	if err != nil {
		return Result{}, err
	}
	slow := &stand{wait: latency}
	_, wall, _, err := r.condense(ctx, "slow", r.Turns, slow)
	if err != nil {
		return Result{}, err
	}
	one, err := r.fleet(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	two, err := r.fleet(ctx, 2)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{fmt.Sprintf("condensing, %s an answer, %d at once: wall", latency, leavesAtOnce), wall.Seconds(), "s"},
		Raw:  Figure{"the answers alone, depth after depth", slow.ideal(leavesAtOnce).Seconds(), "s"},
		More: []Figure{
			{"processor time with instant answers, log and rows in it", cpu.Seconds(), "s"},
			{"summaries made", float64(out.Nodes), ""},
			{"tokens before", float64(out.TokensBefore), "tokens"},
			{"tokens after", float64(out.TokensAfter), "tokens"},
			{fmt.Sprintf("%d sessions, one condenser", fleetSessions), one.Seconds(), "s"},
			{fmt.Sprintf("%d sessions, two condensers", fleetSessions), two.Seconds(), "s"},
			{"two condensers are faster by", one.Seconds() / two.Seconds(), "times"},
		},
	}, nil
}

// condense imports a session and condenses it to condenseWindow: how long it
// took, and the processor time of the whole process meanwhile.
func (r *rig) condense(ctx context.Context, session string, turns int, s *stand) (out *api.CondenseOut, wall, cpu time.Duration, err error) {
	r.say("importing %d turns for the %s model", turns, session)
	if _, err := r.importTurns(ctx, session, turns); err != nil {
		return nil, 0, 0, err
	}
	at, err := r.configure(ctx, session, condenseWindow)
	if err != nil {
		return nil, 0, 0, err
	}
	if err := r.idle(ctx); err != nil {
		return nil, 0, 0, err
	}
	c, err := r.n.CondenserWith(s, leavesAtOnce)
	if err != nil {
		return nil, 0, 0, err
	}
	r.say("condensing with the %s model", session)
	start, busy := time.Now(), cpuTime()
	out, err = c.Condense(ctx, r.ref(session), at)
	return out, time.Since(start), cpuTime() - busy, err
}

// fleet has some condensers work off sessions, each one at a time.
func (r *rig) fleet(ctx context.Context, condensers int) (time.Duration, error) {
	r.say("%d sessions for %d condensers", fleetSessions, condensers)
	type task struct {
		ref events.Ref
		at  events.Position
	}
	tasks := make(chan task, fleetSessions)
	for i := range fleetSessions {
		name := fmt.Sprintf("fleet-%d-%d", condensers, i)
		if _, err := r.importTurns(ctx, name, fleetTurns); err != nil {
			return 0, err
		}
		at, err := r.configure(ctx, name, fleetWindow)
		if err != nil {
			return 0, err
		}
		tasks <- task{r.ref(name), at}
	}
	close(tasks)
	if err := r.idle(ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	ended := make(chan error, condensers)
	for range condensers {
		c, err := r.n.CondenserWith(&stand{wait: fleetLatency}, fleetLeaves)
		if err != nil {
			return 0, err
		}
		go func() {
			for t := range tasks {
				if _, err := c.Condense(ctx, t.ref, t.at); err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range condensers {
		if err := <-ended; err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

func (r *rig) ref(session string) events.Ref {
	return events.Ref{Tenant: config.Default().Tenant, Session: session}
}

func (r *rig) configure(ctx context.Context, session string, window int) (events.Position, error) {
	out, err := r.n.Tools().Configure(ctx, api.ConfigureIn{Scope: api.Scope{Session: session}, Set: map[string]any{"window": window}})
	if err != nil {
		return events.Position{}, err
	}
	return events.ParsePosition(out.Token)
}
