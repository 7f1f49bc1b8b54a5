package engine

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"lcm/condense"
	"lcm/events"
	"lcm/window"
)

// The planner over whole sessions: what needs the fold, the ladder and the
// context besides. What it does to entries alone is tested beside it.

// roomy: B 15,000, soft 11,250, leaf chunk 1,500.
func roomy() events.Settings {
	s := events.DefaultSettings()
	s.Window = 20_000
	return s
}

func check(w *world) { newChecker(w, func(n int) int { return n - 1 }).run() }

// The stages of one pass, as the condenser sees them.
func TestPass(t *testing.T) {
	w := newWorld(t, roomy())
	onTarget := condense.Ladder{Summarizer: summarizers["on target"]}
	n := 0
	fill := func(tokens int) {
		for range tokens / 104 {
			n++
			say(w, []events.Role{events.RoleUser, events.RoleAssistant}[n%2], 100)
		}
	}
	fill(11_000)
	if a := condense.Plan(w.view()); a.Due() || a.Stop != condense.StopPassive {
		t.Fatalf("below soft: %+v", a)
	}
	fill(600)
	a := condense.Plan(w.view())
	if len(a.Leaves) < 3 || a.Cut != nil || a.Regime != events.RegimeAsync {
		t.Fatalf("above soft: %+v", a)
	}
	nodes, err := w.make(onTarget, a)
	if err != nil {
		t.Fatal(err)
	}
	w.must(nodes[0])
	left := condense.Plan(w.view())
	if len(left.Leaves) != len(a.Leaves)-1 || left.Leaves[0].Key != a.Leaves[1].Key {
		t.Fatalf("after one of %d leaves: %+v", len(a.Leaves), left)
	}
	for _, d := range nodes[1:] {
		w.must(d)
	}
	a = condense.Plan(w.view())
	if a.Cut == nil || a.Cut.Kind != events.CutExtend || a.Cut.TokensAfter > a.Target {
		t.Fatalf("leaves committed: %+v", a.Cut)
	}
	w.close(w.view(), a)
	if a := condense.Plan(w.view()); a.Due() {
		t.Fatalf("after the cut: %+v", a)
	}
	kinds := map[events.CutKind]int{}
	for range 40 {
		fill(1_000)
		for a := condense.Plan(w.view()); a.Due(); a = condense.Plan(w.view()) {
			nodes, err := w.make(onTarget, a)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range nodes {
				w.must(d)
			}
			w.close(w.view(), a)
			if a.Cut != nil {
				kinds[a.Cut.Kind]++
			}
		}
		check(w)
	}
	if kinds[events.CutExtend] == 0 || kinds[events.CutRecut] == 0 {
		t.Errorf("cuts: %v", kinds)
	}
}

// What a pass would free, and what has aged, must be worth it.
func TestTooSmallAPassWaits(t *testing.T) {
	plan := func(minCut float64, trigger int) condense.Actions {
		s := roomy()
		s.Window, s.FreshTailCount, s.MinCut, s.LeafTriggerTokens = 16_000, 4, minCut, trigger
		w := newWorld(t, s)
		say(w, events.RoleSystem, 6_300)
		say(w, events.RoleUser, 400) // a whole chunk: the next turn does not fit it
		for _, n := range []int{1_400, 500, 500, 400} {
			say(w, events.RoleUser, n)
		}
		return condense.Plan(w.view())
	}
	if a := plan(0, 0); len(a.Leaves) != 1 || a.Regime != events.RegimeAsync {
		t.Fatalf("nothing is planned where nothing is asked of it: %+v", a)
	}
	if a := plan(0.10, 0); a.Due() || a.Stop != condense.StopTooSmall {
		t.Errorf("a pass that frees less than min_cut: %+v", a)
	}
	if a := plan(0, 2_000); a.Due() || a.Stop != condense.StopTooSmall {
		t.Errorf("less has aged than leaf_trigger_tokens: %+v", a)
	}
}

// The chunk before the fresh tail that may still grow waits, however much is
// wanted, unless a reader waits.
func TestUnfinishedChunkStaysRaw(t *testing.T) {
	s := roomy()
	s.Window, s.FreshTailCount = 16_000, 4
	w := newWorld(t, s)
	say(w, events.RoleSystem, 4_000) // pinned: the target is out of reach
	for range 9 {
		say(w, events.RoleUser, 500)
	}
	for range 4 {
		say(w, events.RoleUser, 50)
	}
	for range 4 {
		say(w, events.RoleUser, 400)
	}
	a := condense.Plan(w.view())
	if a.Regime != events.RegimeAsync || len(a.Leaves) == 0 {
		t.Fatalf("%+v", a)
	}
	if last := a.Leaves[len(a.Leaves)-1]; last.Last > 10 {
		t.Errorf("a leaf over e%d..e%d: e11 to e14 are the beginning of a chunk", last.First, last.Last)
	}
}

// The provider is down: above B a session still converges, and is repaired
// later from the leaves up.
func TestOutageAndRepair(t *testing.T) {
	s := roomy()
	w := newWorld(t, s)
	for i := range 1_200 {
		say(w, []events.Role{events.RoleUser, events.RoleAssistant}[i%2], 40)
		if i%100 == 99 {
			w.rest(condense.Ladder{Summarizer: summarizers["outage"]}, 0)
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
	bad := condense.Ladder{Summarizer: summarizers["nothing"]}
	a, err := condense.PlanRepairs(v, w.below, 2)
	if err != nil || len(a.Leaves) != 2 || len(a.Groups) != 0 {
		t.Fatalf("repairs begin with leaves: %+v, %v", a, err)
	}
	if _, err := w.make(bad, a); !errors.Is(err, condense.ErrNotBetter) {
		t.Fatalf("a repair that truncates again: %v", err)
	}
	for range maxPlans {
		a, err := condense.PlanRepairs(w.view(), w.below, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !a.Due() {
			break
		}
		nodes, err := w.make(condense.Ladder{Summarizer: summarizers["on target"]}, a)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range nodes {
			w.must(d)
		}
	}
	v = w.view()
	if len(v.Replaced) != len(v.Frontier) {
		t.Errorf("%d of %d shown nodes were repaired", len(v.Replaced), len(v.Frontier))
	}
	if a, _ := condense.PlanRepairs(v, w.below, 0); a.Due() || a.Stop != condense.StopRepaired {
		t.Errorf("repairs do not end: %+v", a)
	}
}

// One result larger than everything: clipped, and quiet from then on.
func TestClip(t *testing.T) {
	w := newWorld(t, roomy())
	say(w, events.RoleUser, 2)
	w.turn(&events.TurnAppended{Role: events.RoleAssistant, Blocks: []events.Block{{Type: events.BlockToolUse, CallID: "x", Name: "cat", Input: "{}"}}})
	w.turn(&events.TurnAppended{Role: events.RoleTool, Blocks: []events.Block{{Type: events.BlockToolResult, CallID: "x", Text: words(30_000)}}})
	a := condense.Plan(w.view())
	if a.Cut == nil || len(a.Cut.Clips) != 1 || a.Cut.Clips[0].Entry != 3 || a.Cut.Through != 0 {
		t.Fatalf("plan: %+v", a)
	}
	w.rest(condense.Ladder{}, 0)
	check(w)
	if a := condense.Plan(w.view()); a.Due() {
		t.Errorf("still due: %+v", a)
	}
}

// What never condenses is over the target alone: said once, then quiet.
func TestStallIsRecordedOnce(t *testing.T) {
	w := newWorld(t, roomy())
	for range 3 {
		say(w, events.RoleUser, 4_000) // whole groups, each over the tail's cap
	}
	v := w.view()
	v.Tail = v.Tail[2:]
	v.Tail[0].Tokens = 12_000
	a := condense.Plan(v)
	if a.Stall == nil || a.Stall.Reason != condense.StopTail || !a.Due() {
		t.Fatalf("plan: %+v", a)
	}
	v.Stall = a.Stall
	if a := condense.Plan(v); a.Due() || a.Stop != condense.StopTail {
		t.Errorf("repeated: %+v", a)
	}
}

// Rewinding is ordinary use: leaves made on the abandoned branch must not stand
// in the way of the new one.
func TestRewinds(t *testing.T) {
	l := condense.Ladder{Summarizer: summarizers["on target"]}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, roomy())
		for round := range 8 {
			for i := range 60 + r.IntN(120) {
				say(w, []events.Role{events.RoleUser, events.RoleAssistant}[i%2], 1+int(80*math.Exp(r.NormFloat64())))
			}
			a := w.rest(l, 0)
			check(w)
			if n := window.ContextTokens(w.view()); a.Stop == stopWedged || n > roomy().Budget() {
				t.Fatalf("seed %d, round %d: %q, %d tokens\n%s", seed, round, a.Stop, n, w.dump())
			}
			back := uint64(1 + r.IntN(100))
			if n := w.fold.Head().Entries; r.IntN(3) > 0 && n > back {
				w.must(&events.LeafMoved{Entry: n - back})
			}
		}
	}
}

// The user's newest turn stays readable where the cap left it outside the tail.
func TestKept(t *testing.T) {
	w := newWorld(t, roomy())
	say(w, events.RoleUser, 50) // the task
	for range 150 {
		say(w, events.RoleAssistant, 100)
	}
	w.rest(condense.Ladder{Summarizer: summarizers["on target"]}, 0)
	v := w.view()
	if v.Cut == nil || v.Cut.Kept != 1 || v.Kept == nil {
		t.Fatalf("cut: %+v", v.Cut)
	}
	say(w, events.RoleUser, 1)
	for range 150 {
		say(w, events.RoleAssistant, 100)
	}
	w.rest(condense.Ladder{Summarizer: summarizers["on target"]}, 0)
	if v := w.view(); v.Cut.Kept != 152 {
		t.Errorf("kept e%d, want e152", v.Cut.Kept)
	}
}
