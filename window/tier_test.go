package window

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
	"lcm/session"
)

func tierNames(shown []events.Shown) string {
	var s []string
	for _, k := range shown {
		s = append(s, string(k.Tier))
	}
	return strings.Join(s, " ")
}

func someNodes(n, primary, rich int) []session.Node {
	w := newWorld(200_000)
	var out []session.Node
	for i := range n {
		r := ""
		if rich > 0 {
			r = strings.Repeat("more ", rich)
		}
		out = append(out, w.node(0, uint64(i*10+1), uint64(i*10+10), strings.Repeat("word ", primary), r))
	}
	return out
}

func TestRetier(t *testing.T) {
	nodes := someNodes(3, 400, 800)
	p := PointerTokens(nodes[0], events.TierPrimary)
	r := PointerTokens(nodes[0], events.TierRich)
	stub := PointerTokens(nodes[0], events.TierStub)
	frame := FrameTokens(3)
	for _, tt := range []struct {
		budget int
		want   string
	}{
		{frame + 3*r, "rich rich rich"},
		{frame + 3*r - 1, "primary rich rich"},
		{frame + 2*p + r, "primary primary rich"},
		{frame + 3*p, "primary primary primary"},
		{frame + 3*p - 1, "stub primary primary"},
		{frame + 2*stub + p, "stub stub primary"},
		{frame + 3*stub, "stub stub stub"},
		{frame + 3*stub - 1, "header stub stub"},
		{0, "header header header"},
	} {
		shown := Retier(nodes, tt.budget)
		if got := tierNames(shown); got != tt.want {
			t.Errorf("budget %d: %s, want %s", tt.budget, got, tt.want)
		}
		if n := BlockTokens(nodes, shown); n > tt.budget && tt.budget > 0 {
			t.Errorf("budget %d: takes %d", tt.budget, n)
		}
	}
	if got := Retier(nil, 100); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestExtend(t *testing.T) {
	old := []events.Shown{{Key: "x", Tier: events.TierStub}, {Key: "y", Tier: events.TierRich}}
	fresh := someNodes(2, 400, 800)
	p, r := PointerTokens(fresh[0], events.TierPrimary), PointerTokens(fresh[0], events.TierRich)
	for room, want := range map[int]string{
		2 * r: "stub rich rich rich", p + r: "stub rich primary rich", 2 * p: "stub rich primary primary",
		2*p - 1: "stub rich stub primary", 0: "stub rich header header",
	} {
		got := Extend(old, fresh, room)
		if tierNames(got) != want || !cmp.Equal(got[:2], old) {
			t.Errorf("room %d: %s, want %s", room, tierNames(got), want)
		}
	}
}

func TestTiersNeverDropANode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []session.Node
		w := newWorld(200_000)
		for i := range rapid.IntRange(0, 40).Draw(t, "nodes") {
			rich := ""
			if rapid.Bool().Draw(t, "rich") {
				rich = strings.Repeat("rich ", 50)
			}
			nodes = append(nodes, w.node(0, uint64(i+1), uint64(i+1), strings.Repeat("word ", rapid.IntRange(0, 300).Draw(t, "size")), rich))
		}
		budget := rapid.IntRange(0, 10_000).Draw(t, "budget")
		shown := Retier(nodes, budget)
		least := FrameTokens(len(nodes))
		for i, s := range shown {
			if s.Key != nodes[i].Key {
				t.Fatalf("node %d is %s", i, s.Key)
			}
			least += min(PointerTokens(nodes[i], events.TierHeader), PointerTokens(nodes[i], s.Tier))
		}
		if n := BlockTokens(nodes, shown); len(shown) != len(nodes) || n > budget && n > least {
			t.Fatalf("%d of %d nodes, %d tokens, budget %d, least %d", len(shown), len(nodes), n, budget, least)
		}
	})
}

func TestBlockTokensByKey(t *testing.T) {
	nodes := someNodes(3, 100, 0)
	shown := []events.Shown{{Key: nodes[2].Key, Tier: events.TierHeader}, {Key: nodes[0].Key, Tier: events.TierPrimary}, {Key: nodes[1].Key, Tier: events.TierStub}}
	want := FrameTokens(3) + PointerTokens(nodes[0], events.TierPrimary) + PointerTokens(nodes[1], events.TierStub) + PointerTokens(nodes[2], events.TierHeader)
	if got := BlockTokens(nodes, shown); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if BlockTokens(nil, nil) != 0 || FrameTokens(0) != 0 {
		t.Error("no pointers cost something")
	}
}

func TestTailStart(t *testing.T) {
	tail := func(script string) *world {
		w := newWorld(200_000)
		w.play(script)
		return w
	}
	steps := func(n int) string {
		var s []string
		for i := range n {
			s = append(s, fmt.Sprintf("A.c%d R.c%d", i, i))
		}
		return strings.Join(s, " ")
	}
	for _, tt := range []struct {
		name   string
		turns  string
		count  int
		share  float64
		want   int
		tokens int // of every entry, 0 = as counted
	}{
		{"all of a short one", "U A U A", 32, 0.25, 0, 0},
		{"the count", strings.Repeat("U A ", 30), 32, 0.25, 28, 0},
		{"whole groups", "U " + steps(20) + " U", 2, 0.25, 39, 0},
		{"back to the user", "U A U " + steps(20), 4, 0.25, 2, 0},
		{"reminders are not the user", "U A U " + steps(3), 1, 0.25, 2, 0},
		{"the cap wins", "U A U " + steps(20), 32, 0.25, 39, 10_000},
		{"the newest group stays", "U A A.a.b R.a R.b", 32, 0.25, 2, 30_000},
		{"no cap", "U A U " + steps(20), 32, 0, 2, 10_000},
		{"no count", "U A U A", 0, 0.25, 2, 0},
		{"no user at all", steps(10), 4, 0.25, 16, 0},
		{"nothing", "", 32, 0.25, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tail(tt.turns)
			w.v.Settings.FreshTailCount, w.v.Settings.FreshTailMax = tt.count, tt.share
			for i := range w.v.Tail {
				if tt.tokens > 0 {
					w.v.Tail[i].Tokens = tt.tokens
				}
			}
			if got := TailStart(&w.v); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestRegimeOf(t *testing.T) {
	s := events.DefaultSettings() // B = 180,000
	for n, want := range map[int]events.Regime{
		0: events.RegimePassive, 135_000: events.RegimePassive, 135_001: events.RegimeAsync,
		180_000: events.RegimeAsync, 180_001: events.RegimeBlocking,
	} {
		if got := RegimeOf(n, s); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
