package projector_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// library is a session with branches, nodes, a cut, files and a large body.
//
//	e1 system · e2..e9 talk · e10 a file · e11 a large body · leaf #1 over
//	e2..e5, #2 over e6..e9, a cut that shows both · e12, e13 · e14 branches
//	off e12: e13 is removed.
func library(log *fakeLog) (rf events.Ref, cut events.Position) {
	rf = ref("library")
	log.configure(rf, nil)
	log.say(rf, events.RoleSystem, "You keep a library.")
	for n := 2; n <= 9; n++ {
		log.say(rf, []events.Role{events.RoleUser, events.RoleAssistant}[n%2], fmt.Sprintf("shelf %d holds the atlas of region%d", n, n))
	}
	body := "package main\n" + strings.Repeat("func shelve() {}\n", 100)
	file := turn("file-turn", events.RoleTool, "")
	file.Blocks = []events.Block{
		{Type: events.BlockToolUse, CallID: "call-9", Name: "read", Input: `{"path":"cmd/shelve.go"}`},
		{Type: events.BlockToolResult, CallID: "call-9", Content: []events.Block{{Type: events.BlockText, Text: body}}},
	}
	file.Files = []events.File{{ID: events.HashBytes([]byte(body)), Path: "cmd/shelve.go", Kind: "go", Summary: "declares shelve", Bytes: len(body), Block: 1}}
	log.event(rf, file)
	log.event(rf, turn("large-turn", events.RoleUser, "a needle in "+strings.Repeat("much hay ", 20_000)))
	k1, _ := log.leaf(rf, 2, 5, "the first shelves, summed up")
	k2, _ := log.leaf(rf, 6, 9, "the later shelves, summed up")
	cut = log.cut(rf, 9, k1, k2)
	log.say(rf, events.RoleUser, "a question about the atlas")
	log.say(rf, events.RoleAssistant, "a wrong answer about the atlas")
	again := turn("again", events.RoleAssistant, "a better answer about the atlas")
	again.Parent = 12
	log.event(rf, again)
	return rf, cut
}

func TestReads(t *testing.T) {
	log := newLog("E1")
	rf, cut := library(log)
	f := setup(t, log).start()
	f.healthy()
	ctx := within(t)

	t.Run("view", func(t *testing.T) {
		now, err := f.View(ctx, api.ViewRequest{Ref: rf, Token: f.end()})
		must(t, err)
		if v := now.View; v.Entries != 14 || v.Leaf != 14 || v.Removed != 1 || v.Cut == nil || len(v.Frontier) != 2 || len(v.Tail) != 4 {
			t.Errorf("view now: %+v", v)
		}
		then, err := f.View(ctx, api.ViewRequest{Ref: rf, At: cut.Seq - 1})
		must(t, err)
		if v := then.View; v.Cut != nil || v.Entries != 11 || len(v.Pending) != 2 {
			t.Errorf("view before the cut: %+v", v)
		}
		if _, err := f.View(ctx, api.ViewRequest{Ref: rf, At: f.end().Seq + 1}); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("beyond the log: %v", err)
		}
		if _, err := f.View(ctx, api.ViewRequest{Ref: ref("nobody")}); !problem.IsCode(err, problem.NotFound) {
			t.Errorf("no session: %v", err)
		}
		if _, err := f.View(ctx, api.ViewRequest{}); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("no name: %v", err)
		}
	})
	t.Run("lookup", func(t *testing.T) {
		l, err := f.Lookup(ctx, api.LookupRequest{Ref: rf, IDs: []string{"t2", "again", "nope"}, Calls: []string{"call-9", "x"}})
		must(t, err)
		if len(l.Known) != 2 || l.Known["again"].Entry != 14 || l.Known["t2"].Hash == "" || l.Head.Entries != 14 {
			t.Errorf("lookup: %+v", l)
		}
		if b := l.Calls["call-9"]; len(l.Calls) != 1 || b.Name != "read" {
			t.Errorf("calls: %+v", l.Calls)
		}
		l, err = f.Lookup(ctx, api.LookupRequest{Ref: ref("new"), IDs: []string{"t2"}})
		if err != nil || l.Head.Entries != 0 || len(l.Known) != 0 || l.Watermark.Seq == 0 {
			t.Errorf("lookup in a new session: %+v, %v", l, err)
		}
	})
	t.Run("turns", func(t *testing.T) { testTurns(t, f, rf) })
	t.Run("node", func(t *testing.T) {
		n, err := f.Node(ctx, api.NodeRequest{Ref: rf, Numbers: []uint64{2, 1}})
		must(t, err)
		if len(n.Nodes) != 2 || n.Nodes[0].Node.N != 2 || !n.Nodes[0].OnPath || n.Nodes[1].Node.Primary.Text == "" {
			t.Errorf("nodes: %+v", n)
		}
		all, err := f.Node(ctx, api.NodeRequest{Ref: rf, All: true, At: cut.Seq - 2})
		if err != nil || len(all.Nodes) != 1 {
			t.Errorf("nodes before #2: %+v, %v", all, err)
		}
		key, err := f.Node(ctx, api.NodeRequest{Ref: rf, Keys: []string{n.Nodes[0].Node.Key}})
		if err != nil || key.Nodes[0].Node.N != 2 {
			t.Errorf("by key: %+v, %v", key, err)
		}
		for _, q := range []api.NodeRequest{{Numbers: []uint64{3}}, {Numbers: []uint64{0}}, {Keys: []string{"x"}}, {Numbers: []uint64{1}, At: 3}} {
			q.Ref = rf
			if _, err := f.Node(ctx, q); !problem.IsCode(err, problem.NotFound) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
	t.Run("file", func(t *testing.T) {
		turns, err := f.Turns(ctx, api.TurnsRequest{Ref: rf, Ranges: []events.Range{{First: 10, Last: 10}}})
		must(t, err)
		id := turns.Turns[0].Entry.Files[0]
		got, err := f.File(ctx, api.FileRequest{Ref: rf, ID: id})
		if err != nil || got.Entry != 10 || got.File.Path != "cmd/shelve.go" || len(got.Body) != got.File.Bytes {
			t.Errorf("file: %+v, %v", got.File, err)
		}
		if _, err := f.File(ctx, api.FileRequest{Ref: rf, ID: "0000"}); !problem.IsCode(err, problem.NotFound) {
			t.Errorf("no file: %v", err)
		}
	})
}

func testTurns(t *testing.T, f *fixture, rf events.Ref) {
	ctx := within(t)
	all, err := f.Turns(ctx, api.TurnsRequest{Ref: rf, MaxBytes: 1 << 20})
	must(t, err)
	if len(all.Turns) != 14 || all.Next != 0 || !all.Turns[12].Removed || all.Turns[13].Removed || !all.Turns[10].Entry.Big {
		t.Fatalf("%d turns, next %d", len(all.Turns), all.Next)
	}
	for _, st := range all.Turns {
		rec, err := f.log.Read(ctx, st.Entry.Seq)
		if err != nil || string(rec.Data) != string(st.Payload) {
			t.Errorf("payload of e%d differs from the log's", st.Entry.N)
		}
	}
	var paged []uint64
	for q := (api.TurnsRequest{Ref: rf, Limit: 3}); ; {
		p, err := f.Turns(ctx, q)
		must(t, err)
		for _, st := range p.Turns {
			paged = append(paged, st.Entry.N)
		}
		if q.After = p.Next; q.After == 0 {
			break
		}
	}
	if fmt.Sprint(paged) != "[1 2 3 4 5 6 7 8 9 10 11 12 13 14]" {
		t.Errorf("pages: %v", paged)
	}
	paged = nil
	for q := (api.TurnsRequest{Ref: rf, MaxBytes: 1}); ; { // at least one each
		p, err := f.Turns(ctx, q)
		must(t, err)
		if len(p.Turns) != 1 {
			t.Fatalf("%d turns in a page of a byte", len(p.Turns))
		}
		paged = append(paged, p.Turns[0].Entry.N)
		if q.After = p.Next; q.After == 0 {
			break
		}
	}
	if len(paged) != 14 {
		t.Errorf("pages of a byte: %v", paged)
	}
	some, err := f.Turns(ctx, api.TurnsRequest{Ref: rf, Ranges: []events.Range{{First: 13, Last: 99}, {First: 2, Last: 3}, {First: 3, Last: 4}}})
	must(t, err)
	var got []uint64
	for _, st := range some.Turns {
		got = append(got, st.Entry.N)
	}
	if fmt.Sprint(got) != "[2 3 4 13 14]" {
		t.Errorf("ranges: %v", got)
	}
	then, err := f.Turns(ctx, api.TurnsRequest{Ref: rf, At: all.Turns[12].Entry.Seq, After: 11})
	if err != nil || len(then.Turns) != 2 || then.Turns[1].Removed {
		t.Errorf("before the branch: %+v, %v", then.Turns, err)
	}
}

// TestBodyChangedInTheLog: a large body that is not what the fold accepted is
// refused, never handed out.
func TestBodyChangedInTheLog(t *testing.T) {
	log := newLog("E1")
	rf, _ := library(log)
	f := setup(t, log).start()
	f.awaitIndex()
	log.mu.Lock()
	for i, r := range log.records {
		if len(r.Data) > 64<<10 {
			log.records[i].Data = []byte(strings.Replace(string(r.Data), "needle", "noodle", 1))
		}
	}
	log.mu.Unlock()
	_, err := f.Turns(within(t), api.TurnsRequest{Ref: rf, Ranges: []events.Range{{First: 11, Last: 11}}})
	if !problem.IsCode(err, problem.Damaged) {
		t.Errorf("a changed body: %v", err)
	}
}

func TestSessions(t *testing.T) {
	log := newLog("E1")
	library(log)
	for _, name := range []string{"lib", "a", "zoo", "library/sub"} {
		log.configure(ref(name), nil)
		log.say(ref(name), events.RoleUser, "hi")
	}
	log.configure(events.Ref{Tenant: "other", Session: "a"}, nil)
	f := setup(t, log).start()
	var names []string
	for q := (api.SessionsRequest{Tenant: "acme", Limit: 2, Token: f.end()}); ; {
		p, err := f.Sessions(within(t), q)
		must(t, err)
		for _, s := range p.Sessions {
			names = append(names, s.Session)
		}
		if q.After = p.Next; q.After == "" {
			break
		}
	}
	if strings.Join(names, " ") != "a lib library library/sub zoo" {
		t.Errorf("sessions: %v", names)
	}
	p, err := f.Sessions(within(t), api.SessionsRequest{Tenant: "acme", Prefix: "library"})
	must(t, err)
	if len(p.Sessions) != 2 {
		t.Fatalf("prefix: %+v", p)
	}
	if s := p.Sessions[0]; s.Entries != 14 || s.Nodes != 2 || s.Cut != 1 || s.Removed != 1 || s.Regime != events.RegimePassive || s.Settings.Window == 0 {
		t.Errorf("row: %+v", s)
	}
}

func TestResolve(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	conf := log.configure(rf, nil)
	first := log.say(rf, events.RoleUser, "one")
	log.say(ref("b"), events.RoleUser, "elsewhere")
	second := log.say(rf, events.RoleUser, "two")
	moved := log.event(rf, &events.LeafMoved{Entry: 1})
	f := setup(t, log).start()
	at := func(p events.Position) string {
		rec, _ := log.Read(within(t), p.Seq)
		env, err := rec.Envelope()
		must(t, err)
		return env.Time.Format(time.RFC3339Nano)
	}
	for text, want := range map[string]uint64{
		"e1": first.Seq, "e2": second.Seq, "@3": 3, fmt.Sprintf("@%d", moved.Seq): moved.Seq,
		at(first): first.Seq, at(second): second.Seq, at(moved): moved.Seq, at(conf): conf.Seq,
		"2030-01-01T00:00:00Z": moved.Seq,
	} {
		r, err := f.Resolve(within(t), api.ResolveRequest{Ref: rf, At: text, Token: f.end()})
		if err != nil || r.Seq != want {
			t.Errorf("%s is %d, %v; want %d", text, r.Seq, err, want)
		}
	}
	for text, code := range map[string]problem.Code{
		"e3": problem.NotFound, "@99": problem.Invalid, "yesterday": problem.Invalid, "e0": problem.Invalid, "": problem.Invalid,
		"2001-01-01T00:00:00Z": problem.NotFound,
	} {
		if _, err := f.Resolve(within(t), api.ResolveRequest{Ref: rf, At: text}); !problem.IsCode(err, code) {
			t.Errorf("%q: %v, want %s", text, err, code)
		}
	}
}

// TestRepliesAreJSON: what crosses processes survives it.
func TestRepliesAreJSON(t *testing.T) {
	log := newLog("E1")
	rf, _ := library(log)
	f := setup(t, log).start()
	v, err := f.View(within(t), api.ViewRequest{Ref: rf, Token: f.end()})
	must(t, err)
	b, err := json.Marshal(v)
	must(t, err)
	var back api.ViewReply
	must(t, json.Unmarshal(b, &back))
	again, err := json.Marshal(back)
	must(t, err)
	if string(again) != string(b) {
		t.Error("a view changes on its way through JSON")
	}
}
