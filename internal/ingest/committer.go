package ingest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

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

// take returns what queued, in order, up to the bounds but at least one job;
// nil where nothing waits.
func (q *queue) take(maxEvents, maxBytes int) []*job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, events, bytes := 0, 0, 0
	for n < len(q.jobs) {
		j := q.jobs[n]
		events, bytes = events+len(j.writes)+1, bytes+j.bytes
		if n > 0 && (events > maxEvents || bytes > maxBytes) {
			break
		}
		n++
	}
	out := q.jobs[:n:n]
	q.jobs = q.jobs[n:]
	return out
}

// waiting is how many jobs there are.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.jobs)
}

// gather waits until so many jobs are there, but not beyond a time. Where
// nobody waits already it does not begin.
func (q *queue) gather(jobs int, until time.Time) {
	rest := time.Until(until)
	if rest <= 0 {
		return
	}
	limit := time.NewTimer(rest)
	defer limit.Stop()
	for {
		if have := q.waiting(); have == 0 || have >= jobs {
			return
		}
		select {
		case <-q.wake:
		case <-limit.C:
			return
		}
	}
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
// finishes the commit in hand, refuses what waits and returns ctx's error. It
// runs once. A commit takes what queued while the one before it ran, and waits
// for those that it answered for half as long as that took; a lone append is
// not held up.
func (s *Service) Run(ctx context.Context) error {
	defer func() {
		for _, j := range s.queue.close() {
			j.answer(outcome{err: errClosed()})
		}
	}()
	// expected are those who wait and those just answered, who may come back
	// with their next turn. A batch has its fixed cost: they go into one, where
	// they come until then.
	expected, until := 0, time.Time{}
	for {
		s.queue.gather(expected, until)
		jobs := s.queue.take(s.c.BatchEvents, s.c.BatchBytes)
		if len(jobs) > 0 && ctx.Err() == nil {
			start := time.Now()
			s.commit(ctx, jobs)
			expected, until = len(jobs)+s.queue.waiting(), time.Now().Add(time.Since(start)/2)
			continue
		}
		if len(jobs) > 0 { // the context ended as they were taken
			for _, j := range jobs {
				j.answer(outcome{err: errClosed()})
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.queue.wake:
		}
	}
}

func errClosed() error {
	return problem.New(problem.Unavailable, "the ingestor is shutting down")
}

// commit stages jobs, commits them and answers every one.
func (s *Service) commit(ctx context.Context, jobs []*job) {
	st := s.stage(jobs)
	var seqs []uint64
	var err error
	if len(st.events) > 0 {
		start := s.d.Clock()
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.c.CommitTimeout)
		seqs, err = s.d.Log.Commit(cctx, st.events)
		cancel()
		if len(seqs) != len(st.events) { // nothing that is known to be stored
			seqs = make([]uint64, len(st.events))
		}
		s.observe(st, err, s.d.Clock().Sub(start))
	}
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
