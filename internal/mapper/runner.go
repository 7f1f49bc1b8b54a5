package mapper

import (
	"context"
	"errors"
	"sync"
	"time"

	"lcm/internal/await"
	"lcm/mapjob"
)

// errLost: the queue lost rows; they are handed out again.
var errLost = errors.New("the queue lost rows")

// runner supplies one job with rows, from the first one on, until every row
// has its result or the job is cancelled.
type runner struct {
	s   *Service
	ref mapjob.Ref

	mu      sync.Mutex
	out     map[uint64]handed // rows handed out without a result yet
	bytes   int64             // of them
	tokens  int64             // what they may cost at most
	done    []sample          // for the rate
	changed chan struct{}     // something came; holds one
	copies  map[uint64][]uint64
	waiting int // rows in copies
}

// handed is a row in the queue.
type handed struct {
	bytes  int64
	tokens int64
}

// sample of finished rows.
type sample struct {
	at   time.Time
	rows int
}

func newRunner(s *Service, ref mapjob.Ref) *runner {
	return &runner{s: s, ref: ref, out: map[uint64]handed{}, copies: map[uint64][]uint64{}, changed: make(chan struct{}, 1)}
}

// finished takes the rows that have got their result.
func (r *runner) finished(rows []uint64) {
	r.mu.Lock()
	for _, n := range rows {
		if h, ok := r.out[n]; ok {
			delete(r.out, n)
			r.bytes -= h.bytes
			r.tokens -= h.tokens
		}
	}
	now := r.s.d.Now()
	if k := len(r.done); k > 0 && now.Sub(r.done[k-1].at) < 100*time.Millisecond {
		r.done[k-1].rows += len(rows)
	} else {
		r.done = append(r.done, sample{now, len(rows)})
	}
	for len(r.done) > 1 && now.Sub(r.done[0].at) > 10*time.Second {
		r.done = r.done[1:]
	}
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// rate of the last seconds, rows a second; 0 = unknown.
func (r *runner) rate() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) < 2 {
		return 0
	}
	rows := 0
	for _, d := range r.done[1:] { // the first one says when counting began
		rows += d.rows
	}
	return float64(rows) / r.s.d.Now().Sub(r.done[0].at).Seconds()
}

// run ends when the job does, or ctx.
func (r *runner) run(ctx context.Context) {
	backoff := time.Second
	for ctx.Err() == nil {
		j, err := r.s.job(r.ref)
		if err == nil && j.State != mapjob.Running {
			r.close(ctx)
			return
		}
		if err == nil && j.Pending() == 0 {
			err = r.end(ctx, j)
		} else if err == nil {
			err = r.pass(ctx, j)
		}
		switch {
		case err == nil:
			backoff = time.Second
			continue
		case isEnd(ctx, err):
			return
		case !errors.Is(err, errLost):
			r.s.d.Logger.Warn("a map job waits", "job", r.ref.Job, "error", err, "retry_in", backoff)
		}
		if await.Sleep(ctx, backoff) != nil {
			return
		}
		backoff = min(2*backoff, time.Minute)
	}
}

func (r *runner) close(ctx context.Context) {
	if err := r.s.d.Queue.CloseQueue(ctx, r.ref); err != nil && !isEnd(ctx, err) {
		r.s.d.Logger.Warn("the queue of a map job stays open", "job", r.ref.Job, "error", err)
	}
}

// end closes the queue, writes the output, and says so.
func (r *runner) end(ctx context.Context, j *mapjob.Job) error {
	r.close(ctx)
	e := mapjob.JobEnded{Output: j.Definition.Output}
	if e.Output != "" {
		if err := r.s.writeOutput(ctx, j); err != nil {
			if isEnd(ctx, err) {
				return err
			}
			e.Output, e.Error = "", err.Error()
		}
	}
	return r.s.publish(ctx, r.ref, e)
}

// pass reads the input once from its beginning and hands out what has no
// result; it returns nil once nothing that it handed out is missing.
func (r *runner) pass(ctx context.Context, j *mapjob.Job) error {
	p := &pass{runner: r, job: j, limits: j.Definition.Limits}
	defer p.end()
	if err := p.begin(ctx); err != nil {
		return err
	}
	err := p.readAll(ctx)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}
