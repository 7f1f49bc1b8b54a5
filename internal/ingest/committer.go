package ingest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// queue holds jobs for the committer. Anyone may push.
type queue struct {
	mu     sync.Mutex
	jobs   []*job
	wake   chan struct{} // holds one
	closed bool
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// push reports false once the committer has ended.
func (q *queue) push(j *job) bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.jobs = append(q.jobs, j)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns what queued, in order, up to the bounds but at least one job,
// and leaves the jobs of busy sessions; nil where fewer than least events could
// be taken.
func (q *queue) take(busy map[events.Ref]bool, least, maxJobs, maxEvents, maxBytes int) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out, left []*job
	size, bytes := 0, 0
	for i, j := range q.jobs {
		if busy[j.ref] {
			left = append(left, j)
			continue
		}
		size, bytes = size+len(j.writes)+1, bytes+j.bytes
		if len(out) > 0 && (len(out) == maxJobs || size > maxEvents || bytes > maxBytes) {
			left = append(left, q.jobs[i:]...)
			break
		}
		out = append(out, j)
	}
	if size < least {
		return nil
	}
	q.jobs = left
	return out
}

// waiting is how many jobs there are.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// close returns the jobs that nobody will take, and refuses new ones.
func (q *queue) close() []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	left := q.jobs
	q.jobs = nil
	return left
}

// Run commits what Append and Configure queue, until ctx ends; then it
// finishes the commits under way, refuses what waits and returns ctx's error.
// It runs once. A commit takes what queued while those before it ran, and waits
// for those that were just answered for half as long as that took; a lone append
// is not held up. While many append, two commits are under way, of different
// sessions: one is prepared and sent while the log syncs the other.
func (s *Service) Run(ctx context.Context) error {
	c := newCommitter(s)
	defer c.late.Stop()
	defer func() {
		for c.flying > 0 {
			c.land(<-c.landed)
		}
		for _, j := range s.queue.close() {
			j.answer(outcome{err: errClosed()})
		}
	}()
	for {
		for ctx.Err() == nil && c.start(ctx) {
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-c.landed:
			c.land(f)
		case <-s.queue.wake:
		case <-c.late.C:
		}
	}
}

const (
	// Above splitJobs that append at once, a commit takes half of them: each
	// has its fixed cost, and fewer would pay more for it than they save.
	splitJobs = 64
	// A second commit begins with so many events.
	secondEvents = splitJobs / 2
)

// committer holds the commits under way. It belongs to Run.
type committer struct {
	s      *Service
	landed chan *flight
	busy   map[events.Ref]bool // sessions of the commits under way
	flying int                 // commits under way
	jobs   int                 // in them
	// expected are those who wait and those just answered, who may come back
	// with their next turn until then.
	expected int
	until    time.Time
	late     *time.Timer // fires then
}

// flight is a commit under way.
type flight struct {
	st   *staging
	jobs int
	err  error
	took time.Duration
}

func newCommitter(s *Service) *committer {
	return &committer{s: s, landed: make(chan *flight, 2), busy: map[events.Ref]bool{}, late: time.NewTimer(0)}
}

// start begins a commit, if it is time for one.
func (c *committer) start(ctx context.Context) bool {
	waiting := c.s.queue.waiting()
	if waiting == 0 || c.flying == 2 {
		return false
	}
	expected := c.expected
	if !time.Now().Before(c.until) {
		expected = 0
	}
	most := c.jobs + max(waiting, expected)
	if most >= splitJobs {
		most = (most + 1) / 2
	}
	if waiting < min(expected, most) {
		return false
	}
	least := 0
	if c.flying > 0 {
		least = secondEvents
	}
	jobs := c.s.queue.take(c.busy, least, most, c.s.c.BatchEvents, c.s.c.BatchBytes)
	if len(jobs) == 0 {
		return false
	}
	c.expected = max(0, c.expected-len(jobs))
	c.fly(ctx, jobs)
	return true
}

// fly stages jobs and commits them beside whoever else is under way. A few are
// committed here and now: handing them over would cost them more than those
// behind them could gain.
func (c *committer) fly(ctx context.Context, jobs []*job) {
	st := c.s.stage(jobs)
	if len(st.events) == 0 {
		c.s.settle(st, nil, nil)
		return
	}
	for ref := range st.staged {
		c.busy[ref] = true
	}
	c.flying, c.jobs = c.flying+1, c.jobs+len(jobs)
	commit := func() *flight {
		f := &flight{st: st, jobs: len(jobs)}
		f.took, f.err = c.s.commit(ctx, st)
		return f
	}
	if len(st.events) < secondEvents {
		c.land(commit())
		return
	}
	go func() { c.landed <- commit() }()
}

// land takes a commit that was answered off those under way.
func (c *committer) land(f *flight) {
	for ref := range f.st.staged {
		delete(c.busy, ref)
	}
	c.flying, c.jobs = c.flying-1, c.jobs-f.jobs
	now := time.Now()
	if !now.Before(c.until) {
		c.expected = 0
	}
	c.expected, c.until = max(c.expected, c.s.queue.waiting())+f.jobs, now.Add(f.took/2)
	c.late.Reset(f.took / 2)
	c.s.observe(f.st, f.err, f.took)
}

func errClosed() error {
	return problem.New(problem.Unavailable, "the ingestor is shutting down")
}

// commit stores what is staged and answers every job.
func (s *Service) commit(ctx context.Context, st *staging) (took time.Duration, err error) {
	start := s.d.Clock()
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.c.CommitTimeout)
	defer cancel()
	seqs, err := s.d.Log.Commit(cctx, st.events)
	if len(seqs) != len(st.events) { // nothing that is known to be stored
		seqs = make([]uint64, len(st.events))
	}
	took = s.d.Clock().Sub(start)
	s.settle(st, seqs, err)
	return took, err
}

func (s *Service) settle(st *staging, seqs []uint64, err error) {
	defer s.lanes.lock()()
	st.settle(s.epoch, seqs, func(subject string) error { return why(err, subject) })
}

func (s *Service) stage(jobs []*job) *staging {
	defer s.lanes.lock()()
	st := newStaging(s.partitions, s.d.Clock().UTC(), s.lanes, s.c.LaneIDs)
	for _, j := range jobs {
		if !st.add(j) {
			j.answer(outcome{err: errStale})
		}
	}
	return st
}

// why an event of a subject was not stored.
func why(err error, subject string) error {
	var conflict *api.ConflictError
	switch {
	case errors.As(err, &conflict) && slices.Contains(conflict.Subjects, subject):
		return errConflict
	case errors.Is(err, api.ErrLogUnavailable) && !errors.Is(err, api.ErrUnknownOutcome):
		return errUnavailable
	}
	return errUnknown
}

func (s *Service) observe(st *staging, err error, took time.Duration) {
	c := Committed{Events: len(st.events), Turns: st.turns, Took: took, Err: err}
	var conflict *api.ConflictError
	if errors.As(err, &conflict) {
		c.Conflicts = len(conflict.Subjects)
	}
	s.d.Observe(c)
}
