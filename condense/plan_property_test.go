package condense

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lcm/events"
	"lcm/window"
)

// TestPlanProperties drives a session through random turns, branches, settings
// and summarisers; world holds every cut to its word and check() every state.
func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawSettings(t))
		m := &machine{w: w}
		if rapid.Bool().Draw(t, "system") {
			w.say(events.RoleSystem, words(rapid.IntRange(1, 600).Draw(t, "system tokens")))
		}
		t.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { w.check() },
			"chat":      m.chat,
			"tools":     m.tools,
			"burst":     m.burst,
			"move":      m.move,
			"configure": func(t *rapid.T) { w.emit(&events.SessionConfigured{Settings: drawSettings(t)}) },
			"crash":     m.crash,
			"condense":  m.condense,
			"condense2": m.condense,
			"repair":    m.repair,
		})
	})
}

type machine struct {
	w      *world
	calls  []string // ids in use
	wedged int
}

func drawSettings(t *rapid.T) events.Settings {
	s := events.DefaultSettings()
	s.Window = rapid.SampledFrom([]int{16_000, 20_000, 32_000}).Draw(t, "window")
	s.FreshTailCount = rapid.SampledFrom([]int{0, 4, 32}).Draw(t, "tail")
	if rapid.IntRange(0, 4).Draw(t, "drip") == 0 {
		s.ContextThreshold, s.MinCut = 0, 0
	}
	if rapid.IntRange(0, 4).Draw(t, "fan") == 0 {
		s.FanoutMin, s.FanoutMax = 2, 3
	}
	if rapid.IntRange(0, 4).Draw(t, "cap") == 0 {
		s.FreshTailMax = 0
	}
	if err := s.Validate(); err != nil {
		t.Fatalf("settings: %v", err)
	}
	return s
}

func words(n int) string { return strings.Repeat("word ", n) }

func drawSize(t *rapid.T) int {
	switch rapid.IntRange(0, 9).Draw(t, "size") {
	case 0:
		return 0
	case 1:
		return rapid.IntRange(2_000, 9_000).Draw(t, "large")
	case 2, 3:
		return rapid.IntRange(300, 2_000).Draw(t, "middle")
	}
	return rapid.IntRange(1, 200).Draw(t, "small")
}

func (m *machine) chat(t *rapid.T) {
	for i := range rapid.IntRange(1, 12).Draw(t, "turns") {
		role := events.RoleUser
		if i%2 == 1 {
			role = events.RoleAssistant
		}
		m.w.turn(&events.TurnAppended{
			Role: role, Text: words(drawSize(t)), Injected: rapid.IntRange(0, 9).Draw(t, "injected") == 0,
		})
	}
}

// tools: a message of several calls, and results in any order, some missing,
// some late, some for calls nobody made.
func (m *machine) tools(t *rapid.T) {
	var blocks []events.Block
	for range rapid.IntRange(1, 4).Draw(t, "calls") {
		id := fmt.Sprintf("c%d", rapid.IntRange(0, 40).Draw(t, "id"))
		m.calls = append(m.calls, id)
		blocks = append(blocks, events.Block{Type: events.BlockToolUse, CallID: id, Name: "run", Input: `{"command":"ls"}`})
	}
	if rapid.Bool().Draw(t, "thinks") {
		blocks = append([]events.Block{{Type: events.BlockThinking, Text: words(drawSize(t)), Signature: "s"}}, blocks...)
	}
	m.w.turn(&events.TurnAppended{Role: events.RoleAssistant, Blocks: blocks})
	for range rapid.IntRange(0, 5).Draw(t, "results") {
		id := rapid.SampledFrom(append(m.calls, "unknown")).Draw(t, "answers")
		b := events.Block{Type: events.BlockToolResult, CallID: id, Text: words(drawSize(t))}
		turn := &events.TurnAppended{Role: events.RoleTool, Blocks: []events.Block{b}}
		if n := len(b.Text); n > 8_000 {
			turn.Files = []events.File{{ID: fmt.Sprintf("f%d", n), Path: "a.go", Kind: "go", Summary: "func main", Bytes: n}}
		}
		m.w.turn(turn)
	}
}

// burst: a bulk import, many turns before anyone plans.
func (m *machine) burst(t *rapid.T) {
	size := rapid.IntRange(1, 400).Draw(t, "tokens")
	for i := range rapid.IntRange(20, 120).Draw(t, "turns") {
		role := events.RoleUser
		if i%3 > 0 {
			role = events.RoleAssistant
		}
		m.w.say(role, words(size))
	}
}

func (m *machine) move(t *rapid.T) {
	n := m.w.fold.Head().Entries
	if n == 0 {
		t.Skip("no entries")
	}
	m.w.emit(&events.LeafMoved{Entry: rapid.Uint64Range(max(1, n/2), n).Draw(t, "leaf")})
}

func drawLadder(t *rapid.T) (Ladder, string) {
	name := rapid.SampledFrom(slices.Sorted(maps.Keys(summarizers))).Draw(t, "summariser")
	return Ladder{Summarizer: summarizers[name]}, name
}

// crash: some nodes are committed, then the condenser dies.
func (m *machine) crash(t *rapid.T) {
	l, _ := drawLadder(t)
	m.w.rest(l, rapid.IntRange(1, 5).Draw(t, "committed"))
}

func (m *machine) condense(t *rapid.T) {
	l, name := drawLadder(t)
	a := m.w.rest(l, 0)
	if a.Stop == stopWedged {
		m.wedged++
		return
	}
	v := m.w.view()
	n := window.ContextTokens(v)
	if works(name) && n > v.Settings.Budget() && a.Stop != StopTail && a.Stop != StopNothing {
		t.Fatalf("%d tokens over B = %d and no reason: %+v", n, v.Settings.Budget(), a)
	}
	if name == "outage" && n > v.Settings.Budget() && a.Stop != StopTail && a.Stop != StopNothing {
		t.Fatalf("blocking did not converge without a provider: %d over %d, %+v", n, v.Settings.Budget(), a)
	}
}

func (m *machine) repair(t *rapid.T) {
	l := Ladder{Summarizer: summarizers["on target"]}
	for i := 0; ; i++ {
		a, err := PlanRepairs(m.w.view(), m.w.below, rapid.IntRange(0, 3).Draw(t, "limit"))
		if err != nil {
			t.Fatalf("repairs: %v", err)
		}
		if !a.Due() {
			break
		}
		if i > maxPlans {
			t.Fatalf("repairs do not end: %+v", a)
		}
		nodes, err := m.w.make(l, a)
		for _, n := range nodes {
			// Leaves that overlap after branch moves cannot both be repaired.
			if _, reason := m.w.try(n); reason != "" {
				if !overlaps(reason) {
					t.Fatalf("repair rejected: %s", reason)
				}
				return
			}
		}
		if errors.Is(err, ErrNotBetter) {
			return
		}
		if err != nil {
			t.Fatalf("repair: %v", err)
		}
	}
}
