package condense

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// small: B 15,000, soft 11,250, leaf chunk 1,500.
func small() events.Settings {
	s := events.DefaultSettings()
	s.Window = 20_000
	return s
}

// entry builds a tail entry from a short form: role u, a, t (call and result
// ids behind it: "a+x" calls x, "t-x" answers it) and its size.
func entry(n int, form string, size int) session.Entry {
	e := session.Entry{N: uint64(n), Tokens: size, InputTokens: size}
	switch form[0] {
	case 'u':
		e.Role = events.RoleUser
	case 'a':
		e.Role = events.RoleAssistant
	case 't':
		e.Role = events.RoleTool
	}
	for _, f := range strings.Fields(strings.NewReplacer("+", " +", "-", " -").Replace(form[1:])) {
		if f[0] == '+' {
			e.Calls = append(e.Calls, f[1:])
		} else {
			e.Results = append(e.Results, f[1:])
		}
	}
	return e
}

func TestChunks(t *testing.T) {
	type turn struct {
		form string
		size int
	}
	repeat := func(n int, t turn) []turn {
		var out []turn
		for range n {
			out = append(out, t)
		}
		return out
	}
	u := func(n int) turn { return turn{"u", n} }
	for _, c := range []struct {
		name  string
		turns []turn
		limit int    // aged entries, 0 = all
		want  string // last entries of the chunks, ? = unfinished
	}{
		{"fills up", []turn{u(600), u(600), u(600), u(600), u(600), u(600)}, 0, "2 4 6?"},
		{"the next group may stand in the fresh tail", []turn{u(600), u(600), u(600)}, 2, "2"},
		{"a chunk that may still grow is unfinished", []turn{u(600), u(600), u(200)}, 2, "2?"},
		{"a full chunk closes by itself", []turn{u(1500)}, 0, "1"},
		{"below a quarter it takes the next group anyway", []turn{u(300), u(9000), u(10)}, 0, "2 3?"},
		{"from a quarter on it does not", []turn{u(375), u(9000), u(10)}, 0, "1 2 3?"},
		{"a call stays with its results", []turn{u(900), {"a+x+y", 300}, {"t-y", 500}, {"t-x", 500}, u(10)}, 0, "1 5?"},
		{"an open group holds everything behind it back", []turn{u(1500), {"a+x", 900}, {"a", 900}, {"a", 900}}, 0, "1"},
		{"until the user speaks again", []turn{u(1500), {"a+x", 900}, {"a", 900}, u(10)}, 0, "1 2 4?"},
		{"or 32 entries later", append([]turn{{"a+x", 900}}, repeat(32, turn{"a", 40})...), 1, "1?"},
		{"not 31", append([]turn{{"a+x", 900}}, repeat(31, turn{"a", 40})...), 1, ""},
		{"a late result is a group of its own", []turn{u(1500), {"t-z", 1400}, u(200)}, 0, "1 2 3?"},
		{"an id used again pairs with its own call", []turn{{"a+x", 700}, {"t-x", 700}, {"a+x", 700}, {"t-x", 700}, u(10)}, 0, "2 5?"},
		{"many tiny turns", repeat(400, u(9)), 0, "166 332 400?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var entries []session.Entry
			for i, turn := range c.turns {
				entries = append(entries, entry(i+1, turn.form, turn.size))
			}
			if c.limit == 0 {
				c.limit = len(entries)
			}
			p := &pass{z: sizesOf(small()), v: &session.View{}}
			p.z.chunk = 1_500
			var got []string
			for _, s := range p.chunks(entries, c.limit, false) {
				mark := ""
				if s.unfinished {
					mark = "?"
				}
				got = append(got, fmt.Sprint(entries[s.end-1].N)+mark)
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); len(got)+len(c.want) > 0 && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the summariser does not see closes chunks all the same.
func TestChunksByRawTokens(t *testing.T) {
	p := &pass{z: sizesOf(small()), v: &session.View{}}
	var entries []session.Entry
	for i := range 20 {
		e := entry(i+1, "u", 20)
		e.Tokens = 1_600 // images
		entries = append(entries, e)
	}
	got := p.chunks(entries, len(entries), false)
	if len(got) < 5 {
		t.Errorf("%d chunks of 32,000 raw tokens", len(got))
	}
}

// After branch moves leaves may overlap: those are taken that reach furthest.
func TestLayLeaves(t *testing.T) {
	var tail []session.Entry
	for n := 10; n <= 40; n++ {
		tail = append(tail, entry(n, "u", 10))
	}
	leaf := func(first, last uint64) session.Node {
		return session.Node{NodeCommitted: events.NodeCommitted{Key: fmt.Sprintf("%d-%d", first, last), First: first, Last: last}}
	}
	for _, c := range []struct {
		name    string
		pending []session.Node
		want    map[int]string
		covered int
	}{
		{"none", nil, map[int]string{}, 0},
		{"nested: the longer one", []session.Node{leaf(10, 12), leaf(10, 30)}, map[int]string{0: "10-30"}, 21},
		{"nested, complete: the longer one", []session.Node{leaf(10, 12), leaf(13, 30), leaf(10, 30)}, map[int]string{0: "10-30", 3: "13-30"}, 21},
		{"the short one where the long one is stuck", []session.Node{leaf(10, 20), leaf(10, 15), leaf(16, 30)}, map[int]string{0: "10-15", 6: "16-30"}, 21},
		{"reaching in from below the cut", []session.Node{leaf(5, 15)}, map[int]string{}, 6},
		{"below the cut", []session.Node{leaf(2, 9)}, map[int]string{}, 0},
		{"a gap before", []session.Node{leaf(20, 25)}, map[int]string{10: "20-25"}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layLeaves(tail, c.pending)
			got := map[int]string{}
			for i, d := range l.chosen {
				if i > 0 && c.want[i] == "" {
					continue // never started from
				}
				got[i] = d.Key
			}
			covered := 0
			for _, is := range l.covered {
				if is {
					covered++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || covered != c.covered {
				t.Errorf("covered %d, want %d; %s", covered, c.covered, diff)
			}
		})
	}
}

// The stages of one pass, as the condenser sees them.
func TestPass(t *testing.T) {
	w := newWorld(t, small())
	onTarget := Ladder{Summarizer: summarizers["on target"]}
	n := 0
	fill := func(tokens int) {
		for range tokens / 104 {
			n++
			w.say([]events.Role{events.RoleUser, events.RoleAssistant}[n%2], words(100))
		}
	}
	fill(11_000)
	if a := Plan(w.view()); a.Due() || a.Stop != StopPassive {
		t.Fatalf("below soft: %+v", a)
	}
	fill(600)
	a := Plan(w.view())
	if len(a.Leaves) < 3 || a.Cut != nil || a.Regime != events.RegimeAsync {
		t.Fatalf("above soft: %+v", a)
	}
	nodes, err := w.make(onTarget, a)
	if err != nil {
		t.Fatal(err)
	}
	w.emit(nodes[0])
	left := Plan(w.view())
	if len(left.Leaves) != len(a.Leaves)-1 || left.Leaves[0].Key != a.Leaves[1].Key {
		t.Fatalf("after one of %d leaves: %+v", len(a.Leaves), left)
	}
	for _, d := range nodes[1:] {
		w.emit(d)
	}
	a = Plan(w.view())
	if a.Cut == nil || a.Cut.Kind != events.CutExtend || a.Cut.TokensAfter > a.Target {
		t.Fatalf("leaves committed: %+v", a.Cut)
	}
	w.close(w.view(), a)
	if a := Plan(w.view()); a.Due() {
		t.Fatalf("after the cut: %+v", a)
	}
	kinds := map[events.CutKind]int{}
	for range 40 {
		fill(1_000)
		for a := Plan(w.view()); a.Due(); a = Plan(w.view()) {
			nodes, err := w.make(onTarget, a)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range nodes {
				w.emit(d)
			}
			w.close(w.view(), a)
			if a.Cut != nil {
				kinds[a.Cut.Kind]++
			}
		}
		w.check()
	}
	if kinds[events.CutExtend] == 0 || kinds[events.CutRecut] == 0 {
		t.Errorf("cuts: %v", kinds)
	}
}

// The provider is down: above B a session still converges, and is repaired
// later from the leaves up.
// What a pass would free, and what has aged, must be worth it.
func TestTooSmallAPassWaits(t *testing.T) {
	plan := func(minCut float64, trigger int) Actions {
		s := small()
		s.Window, s.FreshTailCount, s.MinCut, s.LeafTriggerTokens = 16_000, 4, minCut, trigger
		w := newWorld(t, s)
		w.say(events.RoleSystem, words(6_300))
		w.say(events.RoleUser, words(400)) // a whole chunk: the next turn does not fit it
		for _, n := range []int{1_400, 500, 500, 400} {
			w.say(events.RoleUser, words(n))
		}
		return Plan(w.view())
	}
	if a := plan(0, 0); len(a.Leaves) != 1 || a.Regime != events.RegimeAsync {
		t.Fatalf("nothing is planned where nothing is asked of it: %+v", a)
	}
	if a := plan(0.10, 0); a.Due() || a.Stop != StopTooSmall {
		t.Errorf("a pass that frees less than min_cut: %+v", a)
	}
	if a := plan(0, 2_000); a.Due() || a.Stop != StopTooSmall {
		t.Errorf("less has aged than leaf_trigger_tokens: %+v", a)
	}
}

// The chunk before the fresh tail that may still grow waits, however much is
// wanted, unless a reader waits.
func TestUnfinishedChunkStaysRaw(t *testing.T) {
	s := small()
	s.Window, s.FreshTailCount = 16_000, 4
	w := newWorld(t, s)
	w.say(events.RoleSystem, words(4_000)) // pinned: the target is out of reach
	for range 9 {
		w.say(events.RoleUser, words(500))
	}
	for range 4 {
		w.say(events.RoleUser, words(50))
	}
	for range 4 {
		w.say(events.RoleUser, words(400))
	}
	a := Plan(w.view())
	if a.Regime != events.RegimeAsync || len(a.Leaves) == 0 {
		t.Fatalf("%+v", a)
	}
	if last := a.Leaves[len(a.Leaves)-1]; last.Last > 10 {
		t.Errorf("a leaf over e%d..e%d: e11 to e14 are the beginning of a chunk", last.First, last.Last)
	}
}

func TestOutageAndRepair(t *testing.T) {
	s := small()
	w := newWorld(t, s)
	for i := range 1_200 {
		w.say([]events.Role{events.RoleUser, events.RoleAssistant}[i%2], words(40))
		if i%100 == 99 {
			w.rest(Ladder{Summarizer: summarizers["outage"]}, 0)
		}
	}
	v := w.view()
	if n := window.ContextTokens(v); n > s.Budget() || v.Cut == nil {
		t.Fatalf("%d tokens, cut %+v", n, v.Cut)
	}
	deep := 0
	for _, d := range v.Frontier {
		deep = max(deep, d.Depth)
	}
	if deep == 0 {
		t.Fatal("nothing was condensed: the test does not test repairs")
	}
	bad := Ladder{Summarizer: summarizers["nothing"]}
	a, err := PlanRepairs(v, w.below, 2)
	if err != nil || len(a.Leaves) != 2 || len(a.Groups) != 0 {
		t.Fatalf("repairs begin with leaves: %+v, %v", a, err)
	}
	if _, err := w.make(bad, a); !errors.Is(err, ErrNotBetter) {
		t.Fatalf("a repair that truncates again: %v", err)
	}
	for range maxPlans {
		a, err := PlanRepairs(w.view(), w.below, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Due() {
			break
		}
		nodes, err := w.make(Ladder{Summarizer: summarizers["on target"]}, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range nodes {
			w.emit(d)
		}
	}
	v = w.view()
	if len(v.Replaced) != len(v.Frontier) {
		t.Errorf("%d of %d shown nodes were repaired", len(v.Replaced), len(v.Frontier))
	}
	if a, _ := PlanRepairs(v, w.below, 0); a.Due() || a.Stop != StopRepaired {
		t.Errorf("repairs do not end: %+v", a)
	}
}

// One result larger than everything: clipped, and quiet from then on.
func TestClip(t *testing.T) {
	w := newWorld(t, small())
	w.say(events.RoleUser, "read it")
	w.turn(&events.TurnAppended{Role: events.RoleAssistant, Blocks: []events.Block{{Type: events.BlockToolUse, CallID: "x", Name: "cat", Input: "{}"}}})
	w.turn(&events.TurnAppended{Role: events.RoleTool, Blocks: []events.Block{{Type: events.BlockToolResult, CallID: "x", Text: words(30_000)}}})
	a := Plan(w.view())
	if a.Cut == nil || len(a.Cut.Clips) != 1 || a.Cut.Clips[0].Entry != 3 || a.Cut.Through != 0 {
		t.Fatalf("plan: %+v", a)
	}
	w.rest(Ladder{}, 0)
	w.check()
	if a := Plan(w.view()); a.Due() {
		t.Errorf("still due: %+v", a)
	}
}

// What never condenses is over the target alone: said once, then quiet.
func TestStallIsRecordedOnce(t *testing.T) {
	w := newWorld(t, small())
	for range 3 {
		w.say(events.RoleUser, words(4_000)) // whole groups, each over the tail's cap
	}
	v := w.view()
	v.Tail = v.Tail[2:]
	v.Tail[0].Tokens = 12_000
	a := Plan(v)
	if a.Stall == nil || a.Stall.Reason != StopTail || !a.Due() {
		t.Fatalf("plan: %+v", a)
	}
	v.Stall = a.Stall
	if a := Plan(v); a.Due() || a.Stop != StopTail {
		t.Errorf("repeated: %+v", a)
	}
}

// Rewinding is ordinary use: leaves made on the abandoned branch must not stand
// in the way of the new one.
func TestRewinds(t *testing.T) {
	l := Ladder{Summarizer: summarizers["on target"]}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, small())
		for round := range 8 {
			for i := range 60 + r.IntN(120) {
				w.say([]events.Role{events.RoleUser, events.RoleAssistant}[i%2], words(lognormal(r, 130, 1)))
			}
			a := w.rest(l, 0)
			w.check()
			if n := window.ContextTokens(w.view()); a.Stop == stopWedged || n > small().Budget() {
				t.Fatalf("seed %d, round %d: %q, %d tokens\n%s", seed, round, a.Stop, n, w.dump())
			}
			back := uint64(1 + r.IntN(100))
			if n := w.fold.Head().Entries; r.IntN(3) > 0 && n > back {
				w.emit(&events.LeafMoved{Entry: n - back})
			}
		}
	}
}

func TestNotConfigured(t *testing.T) {
	if a := Plan(&session.View{}); a.Due() || a.Stop != StopInvalid {
		t.Errorf("plan: %+v", a)
	}
}

// The user's newest turn stays readable where the cap left it outside the tail.
func TestKept(t *testing.T) {
	w := newWorld(t, small())
	w.say(events.RoleUser, "the task "+words(50))
	for range 150 {
		w.say(events.RoleAssistant, words(100))
	}
	w.rest(Ladder{Summarizer: summarizers["on target"]}, 0)
	v := w.view()
	if v.Cut == nil || v.Cut.Kept != 1 || v.Kept == nil {
		t.Fatalf("cut: %+v", v.Cut)
	}
	w.say(events.RoleUser, "next")
	for range 150 {
		w.say(events.RoleAssistant, words(100))
	}
	w.rest(Ladder{Summarizer: summarizers["on target"]}, 0)
	if v := w.view(); v.Cut.Kept != 152 {
		t.Errorf("kept e%d, want e152", v.Cut.Kept)
	}
}

func TestSizesFitFiveDepths(t *testing.T) {
	for _, win := range []int{16_000, 32_000, 128_000, 200_000, 1_000_000} {
		s := events.DefaultSettings()
		s.Window = win
		z := sizesOf(s)
		if got := 15 * (z.nodeTarget + pointerOverhead); got > z.summary && z.nodeTarget > minSlot {
			t.Errorf("window %d: 15 nodes take %d of %d", win, got, z.summary)
		}
		if z.leafTarget*4 > z.chunk {
			t.Errorf("window %d: a leaf of %d for a chunk of %d", win, z.leafTarget, z.chunk)
		}
	}
}
