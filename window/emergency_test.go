package window

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lcm/events"
)

func TestEmergencyOnlyWhereOver(t *testing.T) {
	w := newWorld(16_000)
	w.play("U A U A")
	if c := w.render(t, Options{Emergency: true}); c.Degraded || outline(c) != "U A U A" {
		t.Errorf("degraded %v: %s", c.Degraded, outline(c))
	}
	for range 60 {
		w.text(events.RoleUser, strings.Repeat("many words ", 150))
	}
	c := w.render(t, Options{})
	if c.Degraded || c.Tokens <= c.Budget || c.Regime != events.RegimeBlocking {
		t.Errorf("degraded %v, %d of %d, %s", c.Degraded, c.Tokens, c.Budget, c.Regime)
	}
	d := w.render(t, Options{Emergency: true})
	if !d.Degraded || d.Tokens > d.Budget || d.Regime != events.RegimeBlocking {
		t.Errorf("degraded %v, %d of %d, %s", d.Degraded, d.Tokens, d.Budget, d.Regime)
	}
	first := d.Messages[0].Blocks[1].Text
	for _, want := range []string{"[lcm:excerpt span e1..e", cutMark, "e1 user: said", "lcm_grep"} {
		if !strings.Contains(first, want) {
			t.Errorf("excerpt %q lacks %q", first, want)
		}
	}
	if last := d.Messages[len(d.Messages)-1]; last.Entry != 64 || last.Blocks[0].Text != w.bodies[64].Text {
		t.Errorf("the newest turn is not shown whole")
	}
}

// Between two steps of the through-entry the emergency view grows at its end.
func TestEmergencyIsStable(t *testing.T) {
	for _, windowTokens := range []int{16_000, 64_000} {
		w := newWorld(windowTokens)
		var before []string
		changes, degraded, tokens := 0, 0, 0
		for i := range 350 {
			w.text(events.RoleUser, fmt.Sprintf("turn %d %s", i, strings.Repeat("word ", windowTokens/320)))
			tokens += w.v.Tail[len(w.v.Tail)-1].Tokens
			c, err := Render(&w.v, w.body, Options{Emergency: true})
			if err != nil {
				t.Fatal(err)
			}
			if !c.Degraded {
				continue
			}
			if degraded++; degraded%20 == 0 {
				checkContext(t, c)
			}
			parts := partBytes(c)
			for k := range before {
				if before[k] != parts[k] {
					changes++
					break
				}
			}
			before = parts
		}
		step := int(0.1 * float64(w.v.Settings.Budget()))
		if most := tokens/step + 1; degraded < 100 || changes > most {
			t.Errorf("window %d: %d changes in %d degraded contexts, want at most %d", windowTokens, changes, degraded, most)
		}
	}
}

func TestHugeTurns(t *testing.T) {
	huge := strings.Repeat("The quick brown fox. ", 5_000) // about 100k characters
	for name, script := range map[string]func(w *world){
		"a user turn": func(w *world) { w.text(events.RoleUser, huge) },
		"a result":    func(w *world) { w.play("U A.a"); w.say(turnOf(events.RoleTool, resultBlock("a", huge))) },
		"an open call": func(w *world) {
			w.play("U")
			b := callBlock("a")
			b.Input = `{"x":"` + huge + `"}`
			w.say(turnOf(events.RoleAssistant, b))
		},
		"a pinned turn": func(w *world) { w.pin(huge); w.play("U A U") },
		"a compaction": func(w *world) {
			w.v.Compactions = []events.HistoryCompacted{{Text: huge}, {Text: huge}}
			w.play("U A U")
		},
		"tail of many": func(w *world) {
			for range 3_000 {
				w.text(events.RoleUser, "short words here and there")
			}
		},
		"one group": func(w *world) {
			w.play("U")
			var ids []string
			for i := range 2_000 {
				ids = append(ids, fmt.Sprintf("c%d", i))
			}
			w.call("m", ids...)
			w.result(ids...)
			w.text(events.RoleUser, "and?")
		},
		"everything at once": func(w *world) {
			w.pin(huge)
			w.v.Compactions = []events.HistoryCompacted{{Text: huge}}
			w.play("U")
			for i := range 40 {
				b := callBlock(fmt.Sprint("c", i))
				b.Input = huge
				w.say(turnOf(events.RoleAssistant, textBlock(huge), b))
				w.say(turnOf(events.RoleTool, resultBlock(b.CallID, huge), textBlock(huge)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(16_000)
			script(w)
			c := w.render(t, Options{Emergency: true})
			if !c.Degraded || c.Tokens > 12_000 || recount(c) > 12_000 {
				t.Errorf("degraded %v, %d tokens, counted again %d", c.Degraded, c.Tokens, recount(c))
			}
			if c.Tokens < 500 {
				t.Errorf("only %d tokens", c.Tokens)
			}
		})
	}
}

// A block made for a large window is shown to a small one within its share,
// and every node of it is named.
func TestHypotheticalSmallWindow(t *testing.T) {
	for _, n := range []int{30, 400} {
		w := newWorld(1_000_000)
		entry := uint64(1)
		var shown []events.Shown
		for range n {
			d := w.node(0, entry, entry+9, strings.Repeat("Something was done. ", 100), "")
			entry += 10
			w.v.Frontier = append(w.v.Frontier, d)
			shown = append(shown, events.Shown{Key: d.Key, Tier: events.TierPrimary})
		}
		w.setCut(entry-1, shown)
		w.next = entry
		w.text(events.RoleUser, "go on")
		whole := w.render(t, Options{})
		if whole.Hypothetical || whole.Degraded || whole.Tokens > whole.Budget {
			t.Errorf("got %+v", whole)
		}
		c := w.render(t, Options{Window: 16_000})
		if !c.Hypothetical || !c.Degraded || c.Budget != 12_000 || c.BlockTokens > 2_400 || len(c.Pointers) != n {
			t.Errorf("%d nodes: hypothetical %v, degraded %v, B %d, block %d, %d pointers", n, c.Hypothetical, c.Degraded, c.Budget, c.BlockTokens, len(c.Pointers))
		}
		if same := w.render(t, Options{Window: 1_000_000}); same.Hypothetical || same.PrefixHash != whole.PrefixHash {
			t.Error("the session's own window is hypothetical")
		}
	}
}

func TestKeptTurn(t *testing.T) {
	w := newWorld(200_000)
	w.play("U A U A")
	kept := w.v.Tail[2]
	w.cut(4, "They talked.")
	w.v.Cut.Kept, w.v.Kept = kept.N, &kept
	before := w.render(t, Options{}).PrefixHash
	w.play("A.a R.a A")
	c := w.render(t, Options{})
	if outline(c) != "U U A.a R.a A" || c.Messages[1].Entry != kept.N {
		t.Errorf("got %s", outline(c))
	}
	if n := ContextTokens(&w.v); n != c.Tokens || c.PrefixHash != before {
		t.Errorf("ContextTokens %d, rendered %d", n, c.Tokens)
	}
}

func TestBudgetTooSmall(t *testing.T) {
	w := newWorld(200_000)
	w.play("U")
	for _, o := range []Options{{Window: 10_000}, {Overhead: 190_000}} {
		if _, err := Render(&w.v, w.body, o); err == nil || !strings.Contains(err.Error(), "12000") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	w.v.Settings = events.Settings{}
	if _, err := Render(&w.v, w.body, Options{}); err == nil {
		t.Error("a session without a window has a context")
	}
}

var errBody = errors.New("body lost")

func TestBodyErrors(t *testing.T) {
	w := newWorld(16_000)
	w.pin("system")
	for range 60 {
		w.text(events.RoleUser, strings.Repeat("many words ", 150))
	}
	for _, o := range []Options{{}, {Emergency: true}} {
		fail := func(n uint64) (*events.TurnAppended, error) { return nil, errBody }
		if _, err := Render(&w.v, fail, o); !errors.Is(err, errBody) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
