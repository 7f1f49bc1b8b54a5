package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

const (
	// taskPoll finds tasks that come back by themselves (a delayed retry, a
	// worker that died); new ones wake the worker.
	taskPoll = time.Second
	// wakeSubject tells workers that a task was stored. It is not in the task
	// stream's subjects: a listener there would keep a publisher from noticing
	// that the stream is gone.
	wakeSubject = "lcm.wake.task"
)

// PublishTask asks for a session to be looked at. A task of the session and
// urgency that is pending or in flight already makes it nil: not success, but
// no failure; dispatch again while the session is due.
func (l *Log) PublishTask(ctx context.Context, u events.Urgency, ref events.Ref, pos events.Position) error {
	data, err := json.Marshal(pos)
	if err != nil {
		return err
	}
	m := nats.NewMsg(events.TaskSubject(u, ref))
	m.Data = data
	m.Header[jetstream.ExpectedStreamHeader] = []string{StreamTasks}
	_, err = l.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		// The stream lives in memory: a restart of the server drops it.
		if err := ensureTasks(ctx, l.js, l.o); err != nil {
			return err
		}
		_, err = l.js.PublishMsg(ctx, m)
	}
	switch {
	case err == nil:
		return l.nc.Publish(wakeSubject, nil)
	case isPending(err):
		return nil
	}
	return unavailable("task for "+ref.String(), err)
}

// Tasks hands tasks to handle, urgent ones first, at most concurrency at once,
// until ctx ends; then it waits for those in hand and returns ctx's error. A
// task is taken only when there is room to run it; while handle runs, the
// server is told so. A task whose handler asks for a retry comes back after
// that delay; one whose worker dies comes back after AckWait. A task may run
// twice.
func (l *Log) Tasks(ctx context.Context, concurrency int, handle func(context.Context, api.Task) api.TaskResult) error {
	if concurrency < 1 {
		return problem.New(problem.Invalid, "concurrency is %d, at least 1 is needed", concurrency)
	}
	w := &worker{l: l, wake: make(chan struct{}, 1)}
	sub, err := l.nc.Subscribe(wakeSubject, func(*nats.Msg) { w.poke() })
	if err != nil {
		return unavailable("listen for tasks", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, concurrency)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		m, urgency, err := w.next(ctx)
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer func() { <-slots }()
			l.runTask(ctx, m, urgency, handle)
		})
	}
}

// worker finds the next task.
type worker struct {
	l              *Log
	urgent, normal jetstream.Consumer
	wake           chan struct{}
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// next waits for a task; its only error is ctx's.
func (w *worker) next(ctx context.Context) (jetstream.Msg, events.Urgency, error) {
	for {
		m, u, err := w.take(ctx)
		if err == nil || errors.Is(err, errNothing) {
			w.l.taskTrouble.Over(w.l.o.Logger, "tasks", "tasks can be taken again")
		}
		if err == nil {
			return m, u, nil
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		if !errors.Is(err, errNothing) {
			w.l.taskTrouble.Met(w.l.o.Logger, "tasks", "no tasks can be taken", err)
			w.urgent, w.normal = nil, nil // the stream may be gone: look again
		}
		t := time.NewTimer(taskPoll)
		select {
		case <-w.wake:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

func (w *worker) take(ctx context.Context) (jetstream.Msg, events.Urgency, error) {
	if err := w.consumers(ctx); err != nil {
		return nil, "", err
	}
	m, err := fetchOne(ctx, w.urgent, 0)
	if err == nil || !errors.Is(err, errNothing) {
		return m, events.Urgent, err
	}
	m, err = fetchOne(ctx, w.normal, 0)
	return m, events.Normal, err
}

func (w *worker) consumers(ctx context.Context) (err error) {
	if w.urgent != nil && w.normal != nil {
		return nil
	}
	if err := ensureTasks(ctx, w.l.js, w.l.o); err != nil {
		return err
	}
	if w.urgent, err = w.l.taskConsumer(ctx, events.Urgent); err != nil {
		return err
	}
	w.normal, err = w.l.taskConsumer(ctx, events.Normal)
	return err
}

func (l *Log) taskConsumer(ctx context.Context, u events.Urgency) (jetstream.Consumer, error) {
	return l.js.CreateOrUpdateConsumer(ctx, StreamTasks, jetstream.ConsumerConfig{
		Durable: "condense-" + string(u), FilterSubject: "lcm.task." + string(u) + ".*.*",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: l.o.AckWait,
		MaxDeliver:    -1, // one that reached a limit would block its session for ever
		MaxAckPending: -1,
	})
}

func (l *Log) runTask(ctx context.Context, m jetstream.Msg, u events.Urgency, handle func(context.Context, api.Task) api.TaskResult) {
	t := api.Task{Urgency: u}
	ref, err := events.ParseTaskSubject(m.Subject())
	if err == nil {
		t.Ref = ref
		err = json.Unmarshal(m.Data(), &t.Position)
	}
	if err != nil { // not one of ours: drop it
		l.o.Logger.Warn("task dropped", "subject", m.Subject(), "error", err)
		_ = m.Term()
		return
	}
	var res api.TaskResult
	alive(m, l.o.AckWait, func() { res = handle(ctx, t) })
	switch {
	case res.Retry > 0:
		err = m.NakWithDelay(res.Retry)
	default:
		// Twice acknowledged: until the server has answered, the session's
		// next task would be refused as pending.
		actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.CommitTimeout)
		defer cancel()
		err = m.DoubleAck(actx)
	}
	if err != nil {
		l.o.Logger.Warn("task not acknowledged: it will come again", "session", ref.String(), "error", err)
	}
}
