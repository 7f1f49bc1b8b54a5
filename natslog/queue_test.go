package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func ref(session string) events.Ref { return events.Ref{Tenant: "t", Session: session} }

func position(seq uint64) events.Position { return events.Position{Epoch: "E", Seq: seq} }

// work runs Tasks in the background; stop ends it and waits.
func work(t *testing.T, l *Log, n int, handle func(context.Context, api.Task) api.TaskResult) (stop func()) {
	t.Helper()
	c, cancel := context.WithCancel(ctx(t))
	done := make(chan error, 1)
	go func() { done <- l.Tasks(c, n, handle) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Tasks: %v", err)
		}
	}
}

func publishTask(t *testing.T, l *Log, u events.Urgency, session string, seq uint64) {
	t.Helper()
	if err := l.PublishTask(ctx(t), u, ref(session), position(seq)); err != nil {
		t.Fatal(err)
	}
}

func TestTasks(t *testing.T) {
	l := open(t)
	publishTask(t, l, events.Normal, "n1", 1)
	publishTask(t, l, events.Normal, "n2 ✓", 2)
	publishTask(t, l, events.Urgent, "u", 3)
	publishTask(t, l, events.Normal, "n1", 9) // pending already: the first stays
	got := make(chan api.Task, 10)
	stop := work(t, l, 1, func(_ context.Context, task api.Task) api.TaskResult {
		got <- task
		return api.TaskResult{}
	})
	want := []api.Task{
		{Ref: ref("u"), Urgency: events.Urgent, Position: position(3)},
		{Ref: ref("n1"), Urgency: events.Normal, Position: position(1)},
		{Ref: ref("n2 ✓"), Urgency: events.Normal, Position: position(2)},
	}
	for _, w := range want {
		if diff := cmp.Diff(w, <-got); diff != "" {
			t.Error(diff)
		}
	}
	publishTask(t, l, events.Urgent, "live", 4)
	if task := <-got; task.Ref != ref("live") {
		t.Errorf("got %v", task)
	}
	stop()
	// A cluster answers an acknowledgement before its replicas have removed the task.
	for limit := ctx(t); ; {
		info, err := l.js.Stream(limit, StreamTasks)
		if err != nil {
			t.Fatal(err) // ctx's deadline: tasks are left
		}
		if info.CachedInfo().State.Msgs == 0 {
			break
		}
	}
}

func TestTaskRetriesAndLongWork(t *testing.T) {
	_, nc := server(t, t.TempDir())
	l := openOn(t, nc, Options{Create: true, AckWait: 300 * time.Millisecond})
	publishTask(t, l, events.Urgent, "a", 1)
	var mu sync.Mutex
	runs, busy := 0, 0
	done := make(chan struct{})
	stop := work(t, l, 4, func(c context.Context, _ api.Task) api.TaskResult {
		mu.Lock()
		defer mu.Unlock()
		busy++
		defer func() { busy-- }()
		if busy > 1 {
			t.Error("a task that is being worked on was delivered again")
		}
		runs++
		if runs == 1 {
			return api.TaskResult{Retry: 10 * time.Millisecond}
		}
		mu.Unlock() // let a second delivery in, if there is one
		<-time.After(time.Second)
		mu.Lock()
		close(done)
		return api.TaskResult{}
	})
	<-done
	stop()
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

func TestTasksAfterTheStreamIsGone(t *testing.T) {
	l := open(t)
	got := make(chan api.Task, 1)
	stop := work(t, l, 2, func(_ context.Context, task api.Task) api.TaskResult {
		got <- task
		return api.TaskResult{}
	})
	publishTask(t, l, events.Normal, "a", 1)
	<-got
	drop(t, l, StreamTasks)
	publishTask(t, l, events.Normal, "b", 2)
	if task := <-got; task.Ref != ref("b") {
		t.Errorf("got %v", task)
	}
	stop()
}

func TestInbox(t *testing.T) {
	l := open(t)
	pub := func(session, text string) {
		m := nats.NewMsg(events.InboxSubject(ref(session)))
		m.Data = []byte(text)
		m.Header.Set(HeaderFormat, "plain")
		if _, err := l.js.PublishMsg(ctx(t), m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		pub("a b/ü", "m"+strconv.Itoa(i))
	}
	pub("other", "m0")
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	var mu sync.Mutex
	var got []string
	seqs := map[uint64]bool{}
	failed := false
	err := l.Inbox(c, func(_ context.Context, m api.InboxMessage) error {
		mu.Lock()
		defer mu.Unlock()
		if m.Format != "plain" {
			t.Errorf("format %q", m.Format)
		}
		if m.Ref == ref("a b/ü") && !failed && string(m.Data) == "m1" {
			failed = true
			return errors.New("not now")
		}
		seqs[m.Seq] = true
		if m.Ref == ref("a b/ü") {
			got = append(got, string(m.Data))
		}
		if len(seqs) == 4 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"m0", "m1", "m2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDeadLetters(t *testing.T) {
	l := open(t)
	for i := range 3 {
		for range 2 { // the second is the same letter
			d := api.DeadLetter{Ref: ref("a"), Origin: fmt.Sprintf("f.jsonl:%d", i), Reason: "no\nrole", Body: []byte{byte(i), 0xff}}
			if err := l.Bury(ctx(t), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Bury(ctx(t), api.DeadLetter{Ref: ref("b"), Origin: "inbox 4", Reason: "too large", Body: make([]byte, MaxDeadBody+1)}); err != nil {
		t.Fatal(err)
	}
	all, err := l.Dead(ctx(t), nil, 0, 10)
	if err != nil || len(all) != 4 {
		t.Fatalf("%d letters, %v", len(all), err)
	}
	if big := all[3]; big.Body != nil || big.Bytes != MaxDeadBody+1 || big.Hash == "" || big.Ref != ref("b") {
		t.Errorf("large letter: %+v", big)
	}
	a := ref("a")
	page, err := l.Dead(ctx(t), &a, 1, 1)
	if err != nil || len(page) != 1 || page[0].ID != "2" || page[0].Reason != "no\nrole" {
		t.Fatalf("page %+v, %v", page, err)
	}
	one, err := l.DeadLetter(ctx(t), "2")
	if diff := cmp.Diff(page[0], one); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for range 2 {
		if err := l.Unbury(ctx(t), "2"); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.DeadLetter(ctx(t), "2"); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("err = %v", err)
	}
	if _, err := l.DeadLetter(ctx(t), "x"); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("err = %v", err)
	}
	none := ref("nobody")
	if got, err := l.Dead(ctx(t), &none, 0, 10); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
}
