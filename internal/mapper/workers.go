package mapper

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
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

// task is one job in this process.
type task struct {
	w      *Workers
	queue  api.RowQueue
	op     mapjob.Op
	worker rowWorker
	gate   *gate
	calls  chan struct{} // of this job at once
	claims chan struct{} // rows in hand
	// open ends when the job's queue is gone: no more calls then. It ends with
	// the process, too.
	open  context.Context
	close context.CancelFunc
}

// rowWorker makes the result of a row; an error that is none of the row's is
// an outage. Package-internal: llm_map and agentic_map.
type rowWorker interface {
	work(ctx context.Context, t *task, row *mapjob.Object, r *mapjob.Result) error
}

func (w *Workers) newTask(ctx context.Context, q api.RowQueue) (*task, error) {
	rec, err := w.d.Events.Event(ctx, q.Definition)
	if err != nil {
		return nil, err
	}
	payload, err := mapjob.Decode(rec)
	if err != nil {
		return nil, err
	}
	defined, ok := payload.(mapjob.JobDefined)
	if !ok {
		return nil, problem.New(problem.Damaged, "position %d holds no definition", q.Definition)
	}
	defined.Definition.Limits = q.Limits
	worker, err := newRowWorker(defined.Definition, w.d)
	if err != nil {
		return nil, err
	}
	calls := min(q.Limits.Concurrency, cap(w.slots))
	t := &task{
		w: w, queue: q, op: defined.Definition.Op, worker: worker,
		calls: make(chan struct{}, calls), claims: make(chan struct{}, calls*leasesPerCall),
	}
	t.open, t.close = context.WithCancel(ctx)
	t.gate = newGate(func(reason string) { t.say(ctx, mapjob.JobPaused{Reason: reason}) }, func() { t.say(ctx, mapjob.JobResumed{}) })
	return t, nil
}

// say publishes an event about the job as a whole.
func (t *task) say(ctx context.Context, payload any) {
	m, err := mapjob.Event(t.queue.Ref, payload, t.w.d.Now())
	if err == nil {
		_, err = t.w.d.Events.Publish(ctx, m)
	}
	if err != nil && !isEnd(ctx, err) {
		t.w.d.Logger.Warn("a map job's state could not be told", "job", t.queue.Ref.Job, "error", err)
	}
}

// claim takes rows while there is room for them, until the queue is gone.
func (t *task) claim(ctx context.Context) {
	var rows sync.WaitGroup
	defer t.w.d.Claims.Leave(t.queue.Ref)
	defer rows.Wait() // those in hand may finish, unless the process ends
	for t.open.Err() == nil {
		n := t.reserve()
		if t.open.Err() != nil {
			break // what was reserved is nobody's any more
		}
		taken := 0
		err := t.w.d.Claims.Claim(t.open, t.queue.Ref, n, func(l api.RowLease) {
			taken++
			rows.Go(func() {
				defer func() { <-t.claims }()
				t.run(ctx, l)
			})
		})
		for range n - taken {
			<-t.claims
		}
		if err != nil && t.open.Err() == nil {
			if problem.IsCode(err, problem.NotFound) {
				t.close() // the list tells when it is open again
				return
			}
			t.w.d.Logger.Warn("rows cannot be claimed", "job", t.queue.Ref.Job, "error", err)
			_ = await.Sleep(t.open, time.Second) // the loop looks at it
		}
	}
}

// reserve waits for room and takes all there is. It waits until there is room
// for some rows together: as many as may lie idle while all calls are made.
func (t *task) reserve() int {
	least := max(1, (cap(t.claims)-cap(t.calls))/4)
	for n := range least {
		select {
		case t.claims <- struct{}{}:
		case <-t.open.Done():
			return n
		}
	}
	for n := least; ; n++ {
		select {
		case t.claims <- struct{}{}:
		default:
			return n
		}
	}
}

// run works on one claimed row to its end: a stored result, or its release.
func (t *task) run(ctx context.Context, l api.RowLease) {
	defer t.w.hold(l)()
	r, err := t.result(ctx, l)
	if err == nil && r != nil {
		store, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
		defer cancel()
		if err = t.w.post.send(store, t.queue.Ref, *r); err == nil {
			t.w.d.Finish.tell(t.op, *r)
		}
	}
	if err == nil {
		err = l.Done(context.WithoutCancel(ctx))
	}
	if err == nil {
		return
	}
	if !isEnd(ctx, err) && !errors.Is(err, errStopped) {
		t.w.d.Logger.Warn("a row goes back to the queue", "job", t.queue.Ref.Job, "row", l.Row.N, "error", err)
	}
	_ = l.Release(0) // else its lease runs out
}

// result of a row; nil: it has one already.
func (t *task) result(ctx context.Context, l api.RowLease) (*mapjob.Result, error) {
	if l.Again {
		done, err := t.w.d.Finished(ctx, t.queue.Ref, l.Row.N, l.Row.Round)
		if err != nil || done {
			return nil, err
		}
	}
	r := &mapjob.Result{Row: l.Row.N, Round: l.Row.Round}
	if l.Row.Text == nil {
		r.Error = mapjob.Oversized(l.Row.Size)
		return r, nil
	}
	row, bad := mapjob.ParseRow(l.Row.Text)
	if bad != nil {
		r.Error = bad
		return r, nil
	}
	return r, t.worker.work(ctx, t, row, r)
}

// errNoVerdict of a call says nothing about the provider as a whole.
var errNoVerdict = errors.New("no verdict")

// call runs f when a call of the job may go out: in its turn among all jobs,
// and not while the provider is down. f's error is that of the provider as a
// whole, and the call is made again when it is back; or errNoVerdict.
func (t *task) call(ctx context.Context, f func(ctx context.Context, healthy func() bool) error) error {
	for {
		if err := t.gate.wait(ctx, t.open.Done()); err != nil {
			return err
		}
		if err := t.enter(ctx); err != nil {
			t.gate.leave()
			return err
		}
		began := t.gate.successes()
		err := f(ctx, func() bool { return t.gate.successes() > began })
		<-t.w.slots
		<-t.calls
		switch {
		case err == nil:
			t.gate.opened()
			return nil
		case errors.Is(err, errNoVerdict):
			t.gate.leave()
			return nil
		case ctx.Err() != nil:
			t.gate.leave()
			return ctx.Err()
		}
		t.gate.shut(err)
	}
}

// enter takes a slot of the job and one of the process.
func (t *task) enter(ctx context.Context) error {
	select {
	case t.calls <- struct{}{}:
	case <-t.open.Done():
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case t.w.slots <- struct{}{}:
	case <-t.open.Done():
		<-t.calls
		return errStopped
	case <-ctx.Done():
		<-t.calls
		return ctx.Err()
	}
	if t.open.Err() != nil { // both were ready
		<-t.w.slots
		<-t.calls
		return errStopped
	}
	return nil
}
