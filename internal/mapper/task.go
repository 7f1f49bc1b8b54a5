package mapper

import (
	"context"
	"errors"
	"sync"
	"time"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/mapjob"
)

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

// rowWorker makes the results of rows in hand, one or as many as one call takes:
// llm_map, by rows or in batches, and agentic_map. An error is none of a row's:
// then the items that are not done have no result.
type rowWorker interface {
	work(ctx context.Context, t *task, items []*item) error
}

// item is a row in hand.
type item struct {
	row  *mapjob.Object
	r    *mapjob.Result
	done bool // r is the result
}

// each works on one item after the other.
func each(items []*item, work func(row *mapjob.Object, r *mapjob.Result) error) error {
	for _, it := range items {
		if err := work(it.row, it.r); err != nil {
			return err
		}
		it.done = true
	}
	return nil
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
		calls: make(chan struct{}, calls), claims: make(chan struct{}, calls*leasesPerCall*q.Limits.RowsPerCall()),
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
		var hand []held
		begin := func() {
			if batch := hand; len(batch) > 0 {
				rows.Go(func() { t.run(ctx, batch) })
			}
			hand = nil
		}
		err := t.w.d.Claims.Claim(t.open, t.queue.Ref, n, func(l api.RowLease) {
			taken++
			if hand = append(hand, held{l, t.w.hold(l)}); len(hand) == t.queue.Limits.RowsPerCall() {
				begin()
			}
		})
		begin()
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

// held is a claimed row that signs of life are given for.
type held struct {
	api.RowLease
	release func()
}

// reserve waits for room and takes all there is. It waits until there is room
// for some rows together: as many as may lie idle while all calls are made.
func (t *task) reserve() int {
	least := max(1, (cap(t.claims)-cap(t.calls)*t.queue.Limits.RowsPerCall())/4)
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

// run works on claimed rows to their end: a stored result of each, or its
// release.
func (t *task) run(ctx context.Context, rows []held) {
	items, leases := make([]*item, 0, len(rows)), make([]held, 0, len(rows)) // to be worked on
	for _, l := range rows {
		it, err := t.item(ctx, l.RowLease)
		switch {
		case err != nil || it == nil || it.done:
			t.settle(ctx, l, it, err)
		default:
			items, leases = append(items, it), append(leases, l)
		}
	}
	if len(items) == 0 {
		return
	}
	err := t.worker.work(ctx, t, items)
	if len(items) == 1 {
		t.settle(ctx, leases[0], items[0], err)
		return
	}
	var together sync.WaitGroup
	for i, it := range items {
		together.Go(func() { t.settle(ctx, leases[i], it, err) })
	}
	together.Wait()
}

// item of a claimed row; nil: the row has its result already.
func (t *task) item(ctx context.Context, l api.RowLease) (*item, error) {
	if l.Again {
		done, err := t.w.d.Finished(ctx, t.queue.Ref, l.Row.N, l.Row.Round)
		if err != nil || done {
			return nil, err
		}
	}
	it := &item{r: &mapjob.Result{Row: l.Row.N, Round: l.Row.Round}}
	if l.Row.Text == nil {
		it.r.Error = mapjob.Oversized(l.Row.Size)
	} else {
		it.row, it.r.Error = mapjob.ParseRow(l.Row.Text)
	}
	it.done = it.r.Error != nil
	return it, nil
}

// settle ends the claim of a row: with its result, where it has one now or had
// it before (nil), else for the reason why it has none.
func (t *task) settle(ctx context.Context, l held, it *item, err error) {
	defer func() { l.release(); <-t.claims }()
	if it != nil && it.done {
		store, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
		defer cancel()
		if err = t.w.post.send(store, t.queue.Ref, *it.r); err == nil {
			t.w.d.Finish.tell(t.op, *it.r)
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
