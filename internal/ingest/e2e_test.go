package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/natsembed"
	"lcm/natslog"
)

// node is the append path over a real log, with a projection that follows it.
type node struct {
	log  *natslog.Log
	nc   *nats.Conn
	svc  *Service
	proj *projection
	stop func()
}

// follower keeps a projection's source: the records of a log as they come.
type follower struct {
	mu      sync.Mutex
	recs    []events.Record
	arrived chan struct{} // closed and replaced on every batch
}

func (f *follower) handle(_ context.Context, recs []events.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recs = append(f.recs, recs...)
	close(f.arrived)
	f.arrived = make(chan struct{})
	return nil
}

func (f *follower) all() []events.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recs[:len(f.recs):len(f.recs)]
}

// wait until position seq is there.
func (f *follower) wait(ctx context.Context, seq uint64) error {
	for {
		f.mu.Lock()
		n, arrived := uint64(0), f.arrived
		if len(f.recs) > 0 {
			n = f.recs[len(f.recs)-1].Seq
		}
		f.mu.Unlock()
		if n >= seq {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func startNode(t testing.TB, dir string, inbox bool) *node {
	t.Helper()
	srv, err := natsembed.Start(natsembed.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Conn()
	if err != nil {
		t.Fatal(err)
	}
	n := startOn(t, nc, natslog.Options{Create: true}, Config{}, inbox)
	stop := n.stop
	n.stop = sync.OnceFunc(func() { stop(); srv.Stop() })
	t.Cleanup(n.stop)
	return n
}

// startOn is a node on a server that runs already.
func startOn(t testing.TB, nc *nats.Conn, o natslog.Options, c Config, inbox bool) *node {
	t.Helper()
	n := &node{nc: nc}
	var err error
	if n.log, err = natslog.Open(context.Background(), nc, o); err != nil {
		t.Fatal(err)
	}
	f := &follower{arrived: make(chan struct{})}
	n.proj = newProjection(n.log.Epoch(), f.all)
	lookup := func(ctx context.Context, r api.LookupRequest) (*api.LookupReply, error) {
		if err := f.wait(ctx, r.Token.Seq); err != nil {
			return nil, err
		}
		return n.proj.lookup(ctx, r)
	}
	if n.svc, err = New(c, Deps{Log: n.log, Lookup: lookup, Measures: quickMeasures}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return n.svc.Run(ctx) })
	g.Go(func() error { return n.log.Follow(ctx, 0, f.handle) })
	if inbox {
		g.Go(func() error { return n.log.Inbox(ctx, n.svc.HandleInbox) })
	}
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := g.Wait(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestEndToEnd(t *testing.T) {
	dir := t.TempDir()
	ctx := testContext(t)
	n := startNode(t, dir, false)
	const sessions, turns = 24, 20
	send := func(n *node, from, to int, wantDuplicate bool) {
		var g errgroup.Group
		for s := range sessions {
			g.Go(func() error {
				for i := from; i < to; i++ {
					r, err := n.svc.Append(ctx, api.AppendRequest{Ref: ref(fmt.Sprint("s", s)), Writes: []api.Write{said(fmt.Sprint(i), "turn")}})
					if err != nil {
						return err
					}
					if w := r.Written[0]; w.Entry != uint64(i+1) || w.Duplicate != wantDuplicate || w.Error != "" {
						return fmt.Errorf("session %d turn %d: %+v", s, i, w)
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	send(n, 0, turns, false)
	n.stop()
	n = startNode(t, dir, false)
	send(n, 0, turns, true)
	send(n, turns, turns+5, false)
	for s := range sessions {
		h := n.head(t, ctx, fmt.Sprint("s", s))
		if h.Head.Entries != turns+5 {
			t.Errorf("session %d has %d entries", s, h.Head.Entries)
		}
	}
}

func (n *node) head(t testing.TB, ctx context.Context, name string) *api.LookupReply {
	t.Helper()
	last, err := n.log.LastSeq(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := n.svc.d.Lookup(ctx, api.LookupRequest{Ref: ref(name), Token: events.Position{Epoch: n.log.Epoch(), Seq: last}})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.proj.rejected) > 0 {
		t.Fatalf("the fold rejects what was appended: %v", n.proj.rejected)
	}
	return r
}

// Two ingestors append to the same sessions at once, with the same turns.
func TestTwoIngestors(t *testing.T) {
	ctx := testContext(t)
	n := startNode(t, t.TempDir(), false)
	second, err := New(Config{}, Deps{Log: n.log, Lookup: n.svc.d.Lookup, Measures: quickMeasures})
	if err != nil {
		t.Fatal(err)
	}
	runCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = second.Run(runCtx) }()
	defer func() { cancel(); <-done }()
	var mu sync.Mutex
	entries := map[string]uint64{}
	fresh := 0
	var g errgroup.Group
	for _, svc := range []*Service{n.svc, second} {
		for s := range 4 {
			g.Go(func() error {
				for i := range 15 {
					r, err := svc.Append(ctx, api.AppendRequest{Ref: ref(fmt.Sprint(s)), Writes: []api.Write{said(fmt.Sprint(i), "x")}})
					if err != nil {
						return err
					}
					w := r.Written[0]
					mu.Lock()
					key := fmt.Sprint(s, "/", i)
					if have, ok := entries[key]; ok && have != w.Entry {
						err = fmt.Errorf("%s is e%d and e%d", key, have, w.Entry)
					}
					entries[key] = w.Entry
					if !w.Duplicate {
						fresh++
					}
					mu.Unlock()
					if err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if fresh != 60 {
		t.Errorf("%d turns called new, there are 60", fresh)
	}
	for s := range 4 {
		if h := n.head(t, ctx, fmt.Sprint(s)); h.Head.Entries != 15 {
			t.Errorf("session %d has %d entries", s, h.Head.Entries)
		}
	}
}

func TestInboxEndToEnd(t *testing.T) {
	ctx := testContext(t)
	n := startNode(t, t.TempDir(), true)
	publish := func(body string) {
		m := nats.NewMsg(events.InboxSubject(ref("box")))
		m.Data = []byte(body)
		if _, err := n.nc.RequestMsgWithContext(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	publish(`{"role":"user","content":"hello"}`)
	publish("{\"role\":\"user\",\"content\":\"two\"}\n{\"role\":\"assistant\",\"content\":\"three\"}\n")
	publish("\x00\x01 not a turn")
	publish(`{"role":"user","content":"four"}`)
	ref := ref("box")
	deadline := time.Now().Add(20 * time.Second)
	for {
		if h := n.head(t, ctx, "box"); h.Head.Entries == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the inbox was not emptied")
		}
		time.Sleep(5 * time.Millisecond) // polling an outside effect, not a delay
	}
	r, err := n.svc.d.Lookup(ctx, api.LookupRequest{Ref: ref, IDs: []string{"in:" + n.log.Epoch() + ":2:1"}})
	if err != nil || r.Known["in:"+n.log.Epoch()+":2:1"].Entry != 3 {
		t.Errorf("%+v, %v", r.Known, err)
	}
	letters, err := n.log.Dead(ctx, &ref, 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Origin != "inbox 3" || string(letters[0].Body) != "\x00\x01 not a turn" {
		t.Errorf("%+v, %v", letters, err)
	}
}

func TestImportEndToEnd(t *testing.T) {
	ctx := testContext(t)
	n := startNode(t, t.TempDir(), false)
	var file bytes.Buffer
	const turns = 3500
	for i := range turns {
		line, _ := json.Marshal(map[string]string{"role": []string{"user", "assistant"}[i%2], "content": fmt.Sprint("turn ", i/7)})
		file.Write(append(line, '\n'))
	}
	for round, want := range []api.ImportReport{{Appended: turns}, {Duplicates: turns}} {
		reports, err := Import(ctx, bytes.NewReader(file.Bytes()), ImportOptions{
			Tenant: "t", File: "dir/chat.jsonl", Measures: quickMeasures, Bury: n.log.Bury,
		}, n.svc)
		if err != nil || len(reports) != 1 {
			t.Fatalf("%+v, %v", reports, err)
		}
		got := reports[0]
		if got.Session != "chat" || got.Turns != turns || got.Appended != want.Appended || got.Duplicates != want.Duplicates || got.Rejected != 0 {
			t.Errorf("round %d: %+v", round, got)
		}
	}
	if h := n.head(t, ctx, "chat"); h.Head.Entries != turns {
		t.Errorf("%d entries", h.Head.Entries)
	}
	edited := strings.Replace(file.String(), `"turn 3"`, `"turn 3, edited"`, 1)
	reports, err := Import(ctx, strings.NewReader(edited), ImportOptions{
		Tenant: "t", File: "chat.jsonl", Measures: quickMeasures, Bury: n.log.Bury,
	}, n.svc)
	if err != nil || reports[0].Appended != 1 {
		t.Errorf("edited, without ids: %+v, %v", reports, err)
	}
}
