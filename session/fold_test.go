package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
	"lcm/tokens"
)

// world publishes events to a session the way the writers do, and folds them.
type world struct {
	rows    *Memory
	fold    *Fold
	records []events.Record
	now     time.Time
}

var ref = events.Ref{Tenant: "t", Session: "s"}

func newWorld() *world {
	w := &world{rows: NewMemory(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.fold, _ = NewFold(ref, w.rows)
	return w
}

// publish appends a payload with the chain as it should be.
func (w *world) publish(p events.Payload) Outcome {
	lane := p.EventType().Lane()
	w.now = w.now.Add(time.Second)
	m, _, err := events.Encode(events.Subject(lane, ref, 16), p, w.now, w.fold.lane(lane).Link)
	if err != nil {
		panic(err)
	}
	return w.inject(m)
}

func (w *world) inject(m events.Message) Outcome {
	rec := events.Record{Message: m, Seq: uint64(len(w.records)) + 1}
	w.records = append(w.records, rec)
	d, err := Decode(rec)
	if err != nil {
		panic(err)
	}
	out, err := w.fold.Apply(d)
	if err != nil {
		panic(err)
	}
	if err := w.fold.Flush(); err != nil {
		panic(err)
	}
	return out
}

func (w *world) turn(id string, role events.Role, parent uint64, blocks ...events.Block) Outcome {
	t := &events.TurnAppended{ID: id, Entry: w.fold.head.Entries + 1, Parent: parent, Role: role, Blocks: blocks, Tokens: 10 + len(id), InputTokens: 100}
	return w.publish(t)
}

func text(s string) events.Block { return events.Block{Type: events.BlockText, Text: s} }
func call(id string) events.Block {
	return events.Block{Type: events.BlockToolUse, CallID: id, Name: "run"}
}

func result(id string) events.Block {
	return events.Block{Type: events.BlockToolResult, CallID: id, Content: []events.Block{text("done")}}
}

func (w *world) leaf(first, last uint64) *events.NodeCommitted {
	path := Path(w.fold.head.Path)
	n := &events.NodeCommitted{Entries: path.Between(first, last), First: first, Last: last, InputTokens: 1000, PromptVersion: "p", Bounds: events.Bounds{HardCap: 300, MaxFan: 8}}
	n.Key = LeafKey(n.Entries, n.PromptVersion, "")
	n.Primary = tier(fmt.Sprintf("summary of e%d to e%d", first, last))
	return n
}

func tier(s string) events.Tier { return events.Tier{Text: s, Tokens: tokens.Count(s), Level: 1} }

func (w *world) condensed(children ...Node) *events.NodeCommitted {
	n := &events.NodeCommitted{Depth: children[0].Depth + 1, First: children[0].First, Last: children[len(children)-1].Last, InputTokens: 1000, PromptVersion: "p", Bounds: events.Bounds{HardCap: 300, MaxFan: 8}}
	for _, c := range children {
		n.Children = append(n.Children, c.Key)
	}
	n.Key = CondensedKey(n.Depth, n.Children, n.PromptVersion, "")
	n.Primary = tier("summary of summaries " + n.Key)
	return n
}

func (w *world) mustAccept(t *testing.T, out Outcome) uint64 {
	t.Helper()
	if out.Reason != "" {
		t.Fatalf("%s rejected: %s", out.Type, out.Reason)
	}
	return out.Number
}

func wantRejected(t *testing.T, out Outcome, why string) {
	t.Helper()
	if !strings.Contains(out.Reason, why) {
		t.Fatalf("%s: reason %q, want one that contains %q", out.Type, out.Reason, why)
	}
}

func TestTurnsAreNumberedAndKnown(t *testing.T) {
	w := newWorld()
	for i := range 5 { // equal text is not an equal turn
		if n := w.mustAccept(t, w.turn(fmt.Sprint("t", i), events.RoleUser, 0, text("ok"))); n != uint64(i+1) {
			t.Fatalf("entry e%d, want e%d", n, i+1)
		}
	}
	wantRejected(t, w.turn("t3", events.RoleUser, 0, text("ok")), "already entry e4")
	wantRejected(t, w.publish(&events.TurnAppended{ID: "x", Entry: 9, Role: events.RoleUser}), "claims entry e9")
	wantRejected(t, w.turn("", events.RoleUser, 0), "without an id")
	wantRejected(t, w.turn("r", "narrator", 0), "role")
	if h := w.fold.Head(); h.Entries != 5 || h.Rejected != 4 || h.Leaf != 5 {
		t.Fatalf("head %+v", h)
	}
}

// A broken chain does not advance, and the next good event stands on the last
// valid one.
func TestInvalidEventsDoNotAdvanceTheChain(t *testing.T) {
	w := newWorld()
	w.mustAccept(t, w.turn("a", events.RoleUser, 0, text("a")))
	good := w.fold.head.Timeline.Link
	subject := events.Subject(events.LaneTimeline, ref, 16)
	forged, _, _ := events.Encode(subject, &events.TurnAppended{ID: "f", Entry: 2, Role: events.RoleUser}, w.now, events.Link{Version: 7})
	wantRejected(t, w.inject(forged), "version 8 after 1")
	unchained, _, _ := events.Encode(subject, &events.TurnAppended{ID: "f", Entry: 2, Role: events.RoleUser}, w.now, events.Link{Version: 1})
	wantRejected(t, w.inject(unchained), "does not carry the hash")
	wantRejected(t, w.inject(events.Message{Subject: subject, Data: []byte("junk")}), "malformed")
	bad, _, _ := events.Encode(subject, &events.LeafMoved{Entry: 1}, w.now, good)
	bad.Data = []byte(`{"entry":`)
	wantRejected(t, w.inject(bad), "malformed")
	if got := w.fold.head.Timeline; got.Link != good || got.LastSeq != 5 {
		t.Fatalf("lane %+v, want link %+v and last seq 5", got, good)
	}
	w.mustAccept(t, w.turn("b", events.RoleUser, 0, text("b")))
}

func TestUnknownEventsKeepTheirPlace(t *testing.T) {
	w := newWorld()
	m, _, _ := events.Encode(events.Subject(events.LaneTimeline, ref, 16), &events.LeafMoved{}, w.now, events.Link{})
	m.Header[events.HeaderType] = "MoodChanged"
	if out := w.inject(m); !out.Unknown || out.Reason != "" {
		t.Fatalf("outcome %+v, want unknown", out)
	}
	w.mustAccept(t, w.turn("a", events.RoleUser, 0, text("a")))
}

func TestParallelResultsStayOnThePath(t *testing.T) {
	w := newWorld()
	part := func(id string, parent uint64, b events.Block) {
		w.publish(&events.TurnAppended{ID: id, Entry: w.fold.head.Entries + 1, Parent: parent, Role: events.RoleAssistant, MessageID: "m", Blocks: []events.Block{b}, Tokens: 1})
	}
	w.turn("u", events.RoleUser, 0, text("go"))     // e1
	part("a1", 1, call("x"))                        // e2
	part("a2", 2, call("y"))                        // e3, same message
	w.turn("r1", events.RoleUser, 2, result("x"))   // e4, forks below e2
	w.turn("r2", events.RoleUser, 3, result("y"))   // e5, forks below e3
	w.turn("a3", events.RoleAssistant, 4, text("")) // e6, below the first result
	if diff := cmp.Diff([]events.Range{{First: 1, Last: 6}}, w.fold.head.Path); diff != "" {
		t.Fatal(diff)
	}
	// The same call answered again is another attempt: a branch.
	w.turn("r2b", events.RoleUser, 3, result("y")) // e7
	if diff := cmp.Diff([]events.Range{{First: 1, Last: 3}, {First: 7, Last: 7}}, w.fold.head.Path); diff != "" {
		t.Fatal(diff)
	}
}

func TestBranchesCutsAndReturn(t *testing.T) {
	w := newWorld()
	w.turn("sys", events.RoleSystem, 0, text("be kind"))
	for i := 2; i <= 20; i++ {
		w.turn(fmt.Sprint("t", i), events.RoleUser, 0, text("hello"))
	}
	wantRejected(t, w.publish(w.leaf(1, 5)), "pinned")
	w.mustAccept(t, w.publish(w.leaf(2, 6)))
	wantRejected(t, w.publish(w.leaf(5, 9)), "already covered by #1")
	w.mustAccept(t, w.publish(w.leaf(7, 12)))
	q := NewReader(w.rows)
	one, _ := q.Node(1)
	two, _ := q.Node(2)
	cut := func(through uint64, nodes ...Node) *events.CutCommitted {
		c := &events.CutCommitted{Through: through, Kind: events.CutExtend, BlockTokens: 50}
		for _, n := range nodes {
			c.Frontier = append(c.Frontier, events.Shown{Key: n.Key, Tier: events.TierPrimary})
		}
		return c
	}
	wantRejected(t, w.publish(cut(12, two)), "without a gap")
	w.mustAccept(t, w.publish(cut(6, one)))
	w.mustAccept(t, w.publish(cut(12, one, two)))
	wantRejected(t, w.publish(cut(6, one)), "the active cut e12")
	wantRejected(t, w.publish(cut(12, one, two)), "same as the active cut")
	before := w.fold.Head()

	w.turn("branch", events.RoleUser, 8, text("another way")) // e21 below e8
	h := w.fold.Head()
	if h.ActiveCut != 1 || h.Leaf != 21 {
		t.Fatalf("on the branch: cut %d leaf e%d, want 1 and e21", h.ActiveCut, h.Leaf)
	}
	v := view(t, w)
	if v.Removed != 12 || len(v.Pending) != 0 || len(v.Tail) != 3 {
		t.Fatalf("removed %d pending %d tail %d, want 12 0 3", v.Removed, len(v.Pending), len(v.Tail))
	}
	w.mustAccept(t, w.publish(&events.LeafMoved{Entry: 20}))
	after := w.fold.Head()
	if after.ActiveCut != 2 || after.ContextTokens != before.ContextTokens || !slices.Equal(after.Path, before.Path) {
		t.Fatalf("after the return: %+v\nbefore: %+v", after, before)
	}
	w.mustAccept(t, w.publish(w.leaf(13, 18)))
	three, _ := q.Node(3)
	w.mustAccept(t, w.publish(w.condensed(one, two, three)))
	wantRejected(t, w.publish(w.condensed(one, two)), "already condensed into #4")
	if v := view(t, w); len(v.Pending) != 2 || v.Pending[1].N != 4 {
		t.Fatalf("pending %+v", v.Pending)
	}
}

func view(t *testing.T, w *world) *View {
	t.Helper()
	q := NewReader(w.rows)
	s, err := q.Now()
	if err != nil {
		t.Fatal(err)
	}
	v, err := q.View(ref, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTiersAreRecounted(t *testing.T) {
	w := newWorld()
	for i := range 6 {
		w.turn(fmt.Sprint(i), events.RoleUser, 0, text("x"))
	}
	for name, spoil := range map[string]func(*events.NodeCommitted){
		"claims":          func(n *events.NodeCommitted) { n.Primary.Tokens++ },
		"empty":           func(n *events.NodeCommitted) { n.Primary = tier("") },
		"not smaller":     func(n *events.NodeCommitted) { n.InputTokens = n.Primary.Tokens },
		"exceed the cap":  func(n *events.NodeCommitted) { n.Bounds.HardCap = 1 },
		"level 4":         func(n *events.NodeCommitted) { n.Primary.Level = 4 },
		"does not follow": func(n *events.NodeCommitted) { n.Key = "x" },
		"not that of its": func(n *events.NodeCommitted) { n.First = 2 },
		"are not the path": func(n *events.NodeCommitted) {
			n.Entries = []events.Range{{First: 1, Last: 2}, {First: 4, Last: 4}}
			n.Key = LeafKey(n.Entries, "p", "")
		},
		"unknown node": func(n *events.NodeCommitted) { n.Supersedes = "y"; n.Key = LeafKey(n.Entries, "p", "y") },
		"session has 6": func(n *events.NodeCommitted) {
			n.Entries = []events.Range{{First: 1, Last: 9}}
			n.Last = 9
			n.Key = LeafKey(n.Entries, "p", "")
		},
		"has no children":   func(n *events.NodeCommitted) { n.Children = []string{"k"} },
		"children, 2 to":    func(n *events.NodeCommitted) { n.Depth = 1; n.Key = CondensedKey(1, nil, "p", "") },
		"depth 9, at most":  func(n *events.NodeCommitted) { n.Depth = 9 },
		"depth -1, at most": func(n *events.NodeCommitted) { n.Depth = -1 },
	} {
		n := w.leaf(1, 4)
		spoil(n)
		wantRejected(t, w.publish(n), name)
	}
	w.mustAccept(t, w.publish(w.leaf(1, 4)))
}

// TestFoldIsReplay drives random sessions and holds, after every step: what
// the fold keeps equals what follows from the rows alone; at the end: replay
// gives the same rows, and every past state is what it was.
func TestFoldIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		states := map[uint64]State{} // by stream position
		steps := rapid.IntRange(5, 60).Draw(t, "steps")
		for i := range steps {
			randomStep(t, w, i)
			q := NewReader(w.rows)
			s, err := q.Now()
			if err != nil {
				t.Fatal(err)
			}
			checkState(t, w, q, s)
			states[uint64(len(w.records))] = s
		}
		again := NewMemory()
		f, _ := NewFold(ref, again)
		for _, rec := range w.records {
			d, _ := Decode(rec)
			if _, err := f.Apply(d); err != nil {
				t.Fatal(err)
			}
		}
		_ = f.Flush()
		if diff := cmp.Diff(dump(w.rows), dump(again)); diff != "" {
			t.Fatalf("replay differs: %s", diff)
		}
		for seq, want := range states {
			got, err := NewReader(w.rows).At(seq)
			if err != nil {
				t.Fatal(err)
			}
			want.Seq = seq
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("state at %d: %s", seq, diff)
			}
		}
	})
}

func dump(m *Memory) map[string]string {
	out := map[string]string{}
	m.Dump(func(k RowKind, key, value []byte) { out[fmt.Sprintf("%c%x", k, key)] = string(value) })
	return out
}

func randomStep(t *rapid.T, w *world, i int) {
	h := w.fold.Head()
	parent := func() uint64 {
		if rapid.IntRange(0, 9).Draw(t, "branch") > 0 || h.Entries == 0 {
			return 0
		}
		return rapid.Uint64Range(1, h.Entries).Draw(t, "parent")
	}
	id := fmt.Sprint("t", i)
	callID := fmt.Sprint("c", rapid.IntRange(0, 3).Draw(t, "call"))
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		w.turn(id, events.RoleUser, parent(), text("hi"))
	case 2:
		w.turn(id, events.RoleAssistant, parent(), text("let me look"), call(callID))
	case 3:
		w.turn(id, events.RoleTool, parent(), result(callID))
	case 4:
		w.turn(id, events.RoleSystem, parent(), text("rule"))
	case 5:
		w.publish(&events.LeafMoved{Entry: rapid.Uint64Range(0, h.Entries+1).Draw(t, "leaf")})
	case 6:
		s := events.DefaultSettings()
		s.FreshTailCount = i
		w.publish(&events.SessionConfigured{Settings: s})
	case 7:
		if h.Entries > 0 {
			first := rapid.Uint64Range(1, h.Entries).Draw(t, "first")
			n := w.leaf(first, min(h.Entries, first+rapid.Uint64Range(0, 6).Draw(t, "len")))
			if out := w.publish(n); out.Number != 0 {
				coveredOnce(t, w, out.Number)
			}
		}
	case 8:
		w.publish(randomCut(t, w))
	case 9:
		w.publish(randomParent(t, w))
	}
}

// randomCut shows the longest row of adjacent leaves from the path's start.
func randomCut(t *rapid.T, w *world) *events.CutCommitted {
	q := NewReader(w.rows)
	s, _ := q.Now()
	c := &events.CutCommitted{Kind: events.CutRecut, BlockTokens: 7}
	for n := s.Path.Next(s.Pinned); n != 0 && len(c.Frontier) < rapid.IntRange(1, 5).Draw(t, "nodes"); n = s.Path.Next(c.Through) {
		d, err := q.leafOver(n, s)
		if err != nil || d == nil {
			break
		}
		c.Frontier = append(c.Frontier, events.Shown{Key: d.Key, Tier: events.TierPrimary})
		c.Through = d.Last
	}
	return c
}

func randomParent(t *rapid.T, w *world) events.Payload {
	q := NewReader(w.rows)
	h := w.fold.Head()
	if h.Nodes < 2 {
		return &events.PassStalled{Reason: "nothing-eligible"}
	}
	first := rapid.Uint64Range(1, h.Nodes-1).Draw(t, "child")
	a, _ := q.Node(first)
	b, _ := q.Node(first + 1)
	return w.condensed(a, b)
}

// checkState derives everything again from the rows.
func checkState(t *rapid.T, w *world, q Reader, s State) {
	h := w.fold.Head()
	var walked []uint64 // path by parents
	for n := h.Leaf; n != 0; {
		e, err := q.Entry(n)
		if err != nil {
			t.Fatal(err)
		}
		walked = append(walked, n)
		n = e.Parent
	}
	slices.Reverse(walked)
	if got := s.Path.After(0); !slices.Equal(got, walked) {
		t.Fatalf("path %v, by parents %v", got, walked)
	}
	through, want := h.Pinned, 0
	if s.Cut != nil {
		through, want = max(through, s.Cut.Through), s.Cut.BlockTokens
	}
	for _, n := range walked {
		if n <= h.Pinned || n > through {
			e, _ := q.Entry(n)
			want += e.Tokens
		}
	}
	if h.ContextTokens != want {
		t.Fatalf("context of %d tokens, counted %d", h.ContextTokens, want)
	}
	if _, err := q.View(ref, s); err != nil {
		t.Fatal(err)
	}
}

// coveredOnce: when a leaf is accepted, no other on the current path covers an
// entry of it.
func coveredOnce(t *rapid.T, w *world, accepted uint64) {
	q := NewReader(w.rows)
	path := Path(w.fold.head.Path)
	d, _ := q.Node(accepted)
	for n := uint64(1); n < accepted; n++ {
		old, err := q.Node(n)
		if err != nil {
			t.Fatal(err)
		}
		if old.Depth == 0 && path.Covers(old.Covered) && old.First <= d.Last && d.First <= old.Last {
			t.Fatalf("#%d covers what #%d covers on the path", accepted, n)
		}
	}
}

// Settings that are refused today were accepted once: a log that holds them is
// replayed as it was.
func TestOlderSettingsHold(t *testing.T) {
	w := newWorld()
	s := events.DefaultSettings()
	s.ContextThreshold, s.CutTarget, s.MinCut, s.RecutThreshold = 0.2, 0.9, 1, 0
	if s.ValidateNew() == nil {
		t.Fatal("they are accepted today")
	}
	if out := w.publish(&events.SessionConfigured{Settings: s}); out.Reason != "" {
		t.Error(out.Reason)
	}
	if diff := cmp.Diff(s, w.fold.Head().Settings); diff != "" {
		t.Error(diff)
	}
}
