package condenser

import (
	"context"
	"errors"
	"sync"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// job is a node to be made.
type job struct {
	key, supersedes string
	depth           int
	covered         []events.Range
	make            func(context.Context) (*events.NodeCommitted, error)
}

func (r *run) leafJobs(leaves []condense.LeafJob) []job {
	jobs := make([]job, len(leaves))
	for i, l := range leaves {
		q := api.TurnsRequest{Ref: r.ref, Ranges: l.Entries, Token: r.token()}
		jobs[i] = job{
			key: l.Key, supersedes: l.Supersedes, covered: l.Entries,
			make: func(ctx context.Context) (*events.NodeCommitted, error) {
				lines, err := r.s.lines(ctx, q)
				if err != nil {
					return nil, err
				}
				return r.ladder().Leaf(ctx, l, lines, l.Blocking)
			},
		}
	}
	return jobs
}

// ladder of the session's tenant.
func (r *run) ladder() condense.Ladder {
	l := r.s.ladder
	l.Tenant = r.ref.Tenant
	return l
}

func (r *run) groupJobs(groups []condense.GroupJob) []job {
	jobs := make([]job, len(groups))
	for i, g := range groups {
		var sets [][]events.Range
		for _, c := range g.Children {
			sets = append(sets, c.Covered)
		}
		jobs[i] = job{
			key: g.Key, supersedes: g.Supersedes, depth: g.Depth, covered: session.Joined(sets...),
			make: func(ctx context.Context) (*events.NodeCommitted, error) {
				return r.ladder().Condensed(ctx, g, g.Blocking)
			},
		}
	}
	return jobs
}

// lines fetches turns page by page and renders them as summariser input.
func (s *Service) lines(ctx context.Context, q api.TurnsRequest) ([]condense.Line, error) {
	var entries []session.Entry
	bodies := map[uint64]*events.TurnAppended{}
	for {
		page, err := s.d.Reads.Turns(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Turns {
			body, err := events.DecodeTurn(t.Payload)
			if err != nil {
				return nil, problem.New(problem.Damaged, "payload of e%d of %s: %w", t.Entry.N, q.Ref, err)
			}
			entries, bodies[t.Entry.N] = append(entries, t.Entry), body
		}
		if page.Next == 0 {
			break
		}
		if page.Next <= q.After {
			return nil, problem.New(problem.Internal, "turns of %s: the page behind e%d goes on at e%d", q.Ref, q.After, page.Next)
		}
		q.After = page.Next
	}
	if n := session.Count(q.Ranges); n != len(entries) {
		return nil, problem.New(problem.Internal, "turns of %s: %d of %d entries came", q.Ref, len(entries), n)
	}
	return condense.LinesOf(entries, func(n uint64) (*events.TurnAppended, error) { return bodies[n], nil })
}

// errSkipped: the job was not begun.
var errSkipped = errors.New("not begun")

// made is the outcome of a job.
type made struct {
	node *events.NodeCommitted
	err  error
}

// makers run jobs in order, some at once.
type makers struct {
	jobs    []job
	results []chan made // one each, buffered: a maker never waits
	cancels []context.CancelFunc
	ctxs    []context.Context
	wg      sync.WaitGroup

	mu     sync.Mutex
	next   int
	halted bool
}

func startMakers(ctx context.Context, jobs []job, concurrency int) *makers {
	m := &makers{jobs: jobs}
	for range jobs {
		c, cancel := context.WithCancel(ctx)
		m.ctxs, m.cancels = append(m.ctxs, c), append(m.cancels, cancel)
		m.results = append(m.results, make(chan made, 1))
	}
	for range min(concurrency, len(jobs)) {
		m.wg.Go(m.work)
	}
	return m
}

func (m *makers) work() {
	for {
		m.mu.Lock()
		i, halted := m.next, m.halted
		m.next++
		m.mu.Unlock()
		if i >= len(m.jobs) {
			return
		}
		out := made{err: errSkipped}
		if !halted && m.ctxs[i].Err() == nil {
			out.node, out.err = m.jobs[i].make(m.ctxs[i])
		}
		m.results[i] <- out
	}
}

// halt begins no more jobs; those in hand go on.
func (m *makers) halt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.halted = true
}

// stop ends all jobs and waits for the makers.
func (m *makers) stop() {
	for _, c := range m.cancels {
		c()
	}
	m.wg.Wait()
}

// make makes jobs at once and commits the nodes in order. A job that fails
// begins no more, but what is in hand is finished and committed: it is paid
// for, and leaves do not depend on each other.
func (r *run) make(ctx context.Context, jobs []job) error {
	m := startMakers(ctx, jobs, r.s.c.Concurrency)
	defer m.stop()
	var failed error
	for i, j := range jobs {
		if r.taken(ctx, j) {
			m.cancels[i]() // another condenser made it while this one waited
			continue
		}
		out := <-m.results[i]
		switch {
		case out.err == nil:
			if err := r.commit(ctx, j, out.node); err != nil {
				return err
			}
		case errors.Is(out.err, condense.ErrNotBetter):
			r.s.giveUp(j.supersedes)
		case failed == nil && !errors.Is(out.err, errSkipped):
			failed = out.err
			m.halt()
		}
	}
	if failed == nil {
		failed = ctx.Err()
	}
	return failed
}
