package mapper

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/mapjob"
)

// Claims is the workers' end of the work queue.
type Claims interface {
	Queues(context.Context) ([]api.RowQueue, error)
	// Woken calls f when queues were opened or closed.
	Woken(f func()) (stop func(), err error)
	// Claim hands over up to n rows, as they come, for a short while.
	Claim(ctx context.Context, ref mapjob.Ref, n int, take func(api.RowLease)) error
	AckWait() time.Duration
	// Leave ends the claiming of a job's rows.
	Leave(mapjob.Ref)
}

// WorkerDeps of Workers.
type WorkerDeps struct {
	Events interface {
		Event(ctx context.Context, seq uint64) (events.Record, error)
		Publish(context.Context, events.Message) (uint64, error)
	}
	Claims Claims
	// Finished asks the service about a row that was handed out before.
	Finished func(ctx context.Context, ref mapjob.Ref, row uint64, round int) (bool, error)
	Model    Model
	// Agents gives sub-agents their tools; nil = agentic maps are left to others.
	Agents Agents
	Prices Prices
	Now    func() time.Time
	Logger *slog.Logger
	Finish Finish
}

// Finish is told of every row that got its result from this process: the job's
// operator, and "done" or the kind of its failure. nil = nobody is.
type Finish func(kind, outcome string)

func (f Finish) tell(op mapjob.Op, results ...mapjob.Result) {
	if f == nil {
		return
	}
	for _, r := range results {
		outcome := "done"
		if r.Error != nil {
			outcome = string(r.Error.Kind)
		}
		f(string(op), outcome)
	}
}

// Workers work on the rows of all jobs, some number of them at once.
type Workers struct {
	d     WorkerDeps
	slots chan struct{} // calls at once; who waits is served in order
	post  *poster

	mu    sync.Mutex
	held  map[uint64]func() error // signs of life of what is claimed
	next  uint64
	jobs  int // that are worked on
	tasks sync.WaitGroup
}

// NewWorkers makes workers that make at most so many calls at once.
func NewWorkers(calls int, d WorkerDeps) *Workers {
	w := &Workers{d: d, slots: make(chan struct{}, calls), held: map[uint64]func() error{}}
	w.post = newPoster(d.Events.Publish, d.Now)
	return w
}

const (
	// lookForJobs: how often the list of jobs is read without being woken.
	lookForJobs = time.Second
	// finishWithin: what results of calls that are over may take to be stored
	// when the workers stop.
	finishWithin = 5 * time.Second
)

// Run works until ctx ends. Calls on their way are given up then, and their
// rows come back to others.
func (w *Workers) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	stop, err := w.d.Claims.Woken(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	posting, endPosting := context.WithCancel(context.WithoutCancel(ctx))
	var post sync.WaitGroup
	post.Go(func() { w.post.run(posting) })
	defer func() { endPosting(); post.Wait() }()
	beating, endBeating := context.WithCancel(context.WithoutCancel(ctx))
	post.Go(func() { w.beat(beating) })
	defer endBeating()
	defer w.tasks.Wait()
	return w.watch(ctx, wake)
}

// watch keeps a task for each queue.
func (w *Workers) watch(ctx context.Context, wake <-chan struct{}) error {
	tasks := map[mapjob.Ref]*task{}
	defer func() {
		for _, t := range tasks {
			t.close()
		}
	}()
	tick := time.NewTicker(lookForJobs)
	defer tick.Stop()
	for {
		queues, err := w.d.Claims.Queues(ctx)
		if err != nil && !isEnd(ctx, err) {
			w.d.Logger.Warn("the map jobs cannot be listed", "error", err)
		}
		if err == nil {
			w.adjust(ctx, tasks, queues)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		case <-tick.C:
		}
	}
}

func (w *Workers) adjust(ctx context.Context, tasks map[mapjob.Ref]*task, queues []api.RowQueue) {
	open := map[mapjob.Ref]api.RowQueue{}
	for _, q := range queues {
		open[q.Ref] = q
	}
	for ref, t := range tasks {
		q, ok := open[ref]
		if !ok || t.open.Err() != nil || q.Round != t.queue.Round || q.Limits != t.queue.Limits {
			t.close()
			delete(tasks, ref)
		}
	}
	for ref, q := range open {
		if tasks[ref] != nil {
			continue
		}
		t, err := w.newTask(ctx, q)
		if err != nil {
			if !isEnd(ctx, err) && !errors.Is(err, errNotHere) {
				w.d.Logger.Warn("a map job cannot be worked on", "job", ref.Job, "error", err)
			}
			continue
		}
		tasks[ref] = t
		w.tasks.Go(func() { t.claim(ctx) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = len(tasks)
}

// Load is how many jobs are worked on here, and the rows that are held.
func (w *Workers) Load() (jobs, rows int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs, len(w.held)
}

// beat gives signs of life for everything that is claimed.
func (w *Workers) beat(ctx context.Context) {
	tick := time.NewTicker(w.d.Claims.AckWait() / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.mu.Lock()
		all := make([]func() error, 0, len(w.held))
		for _, alive := range w.held {
			all = append(all, alive)
		}
		w.mu.Unlock()
		for _, alive := range all {
			_ = alive() // a lost beat is redelivery, which is recognised
		}
	}
}

func (w *Workers) hold(l api.RowLease) (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	n := w.next
	w.held[n] = l.Alive
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.held, n)
	}
}
