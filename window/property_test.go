package window

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lcm/events"
)

// Every context of any session is valid, and counts what ContextTokens says.
func TestAnySession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.SampledFrom([]int{16_000, 32_000, 200_000}).Draw(t, "window"))
		if rapid.Bool().Draw(t, "pinned") {
			w.pin("You are a careful agent.")
		}
		var ids []string
		for range rapid.IntRange(0, 60).Draw(t, "turns") {
			w.randomTurn(t, &ids, false)
			if rapid.IntRange(0, 25).Draw(t, "cut") == 0 {
				shrinkWorld(w, t)
			}
			if rapid.IntRange(0, 25).Draw(t, "clip") == 0 && w.v.Cut != nil {
				w.v.Cut.Clips = append(w.v.Cut.Clips, ClipPlan(&w.v, rapid.IntRange(0, 5_000).Draw(t, "over"))...)
			}
		}
		c := w.render(t, Options{})
		if n := ContextTokens(&w.v); n != c.Tokens {
			t.Fatalf("ContextTokens %d, rendered %d", n, c.Tokens)
		}
	})
}

// Between two cuts a context is the one before and what came after. What is
// behind an assistant message that waits for results is not promised.
func TestContextsExtend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(200_000)
		w.pin("system")
		var ids []string
		var before []string
		stable := 0
		prefix := ""
		for range rapid.IntRange(1, 50).Draw(t, "turns") {
			w.randomTurn(t, &ids, false)
			if rapid.IntRange(0, 15).Draw(t, "cut") == 0 {
				shrinkWorld(w, t)
				before, stable, prefix = nil, 0, ""
			}
			c := w.render(t, Options{})
			parts := partBytes(c)
			mustExtend(t, before, parts, stable)
			if prefix != "" && c.PrefixHash != prefix {
				t.Fatalf("prefix hash changed without a cut")
			}
			before, stable, prefix = parts, c.Stable, c.PrefixHash
		}
	})
}

// Where an agent asks for its context in order to answer, all of it is stable:
// the answer and everything behind it are appended.
func TestAnsweredContextsExtendWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(200_000)
		var before []string
		id := 0
		for step := range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "user") || step == 0 {
				w.text(events.RoleUser, rapid.SampledFrom(prose).Draw(t, "said"))
			}
			c := w.render(t, Options{})
			parts := partBytes(c)
			mustExtend(t, before, parts, len(before))
			before = parts

			message := rapid.SampledFrom([]string{"", "m"}).Draw(t, "message")
			if message != "" {
				message += string(rune('a' + step))
			}
			var open []string
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				id++
				open = append(open, "call"+string(rune('0'+id%10)))
			}
			if len(open) == 0 {
				w.text(events.RoleAssistant, "done")
				continue
			}
			if rapid.Bool().Draw(t, "apart") {
				for _, c := range open {
					w.call(message, c)
				}
			} else {
				w.call(message, open...)
			}
			for _, c := range rapid.Permutation(open).Draw(t, "order") {
				switch rapid.IntRange(0, 9).Draw(t, "fate") {
				case 0: // never answered
				case 1:
					w.text(events.RoleUser, "meanwhile")
					fallthrough
				default:
					w.result(c)
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "late") == 0 && id > 3 {
				w.text(events.RoleUser, "and now?")
				w.result("call" + string(rune('0'+(id-3)%10)))
			}
		}
	})
}

// An emergency view is never over B, whatever the session is made of.
func TestEmergencyNeverOverBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(16_000) // B = 12,000
		if n := rapid.SampledFrom([]int{0, 1, 3, 400}).Draw(t, "pinned"); n > 0 {
			for range n {
				w.pin(strings.Repeat("Rule: be careful. ", rapid.SampledFrom([]int{1, 5, 4_000 / n}).Draw(t, "rule")))
			}
		}
		for range rapid.SampledFrom([]int{0, 0, 3, 200}).Draw(t, "compactions") {
			w.v.Compactions = append(w.v.Compactions, events.HistoryCompacted{Text: rapid.SampledFrom(prose).Draw(t, "compaction")})
		}
		var ids []string
		turns := rapid.IntRange(1, 60).Draw(t, "turns")
		for range turns {
			w.randomTurn(t, &ids, true)
			if rapid.IntRange(0, 30).Draw(t, "cut") == 0 {
				shrinkWorld(w, t)
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "many calls") == 0 {
			var calls []string
			for i := range 400 {
				calls = append(calls, "x"+strings.Repeat("y", i%7)+string(rune('a'+i%26)))
			}
			w.call("big", calls...)
			w.result(calls...)
		}
		c := w.render(t, Options{Emergency: true})
		if c.Tokens > c.Budget {
			t.Fatalf("%d tokens, B is %d", c.Tokens, c.Budget)
		}
		if n := recount(c); n > c.Budget {
			t.Fatalf("counted again: %d tokens, B is %d", n, c.Budget)
		}
		if !c.Degraded && ContextTokens(&w.v) != c.Tokens {
			t.Fatalf("not degraded, but not the active context")
		}
	})
}
