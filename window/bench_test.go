package window

import (
	"strings"
	"testing"

	"lcm/events"
	"lcm/transcript"
)

// benchWorld is a session of a coding agent near a 128k window: a block of
// sixteen pointers and some 400 turns behind it.
func benchWorld() *world {
	w := newWorld(128_000)
	w.pin(strings.Repeat("You are a careful agent. ", 100))
	var shown []events.Shown
	for i := range 16 {
		d := w.node(0, uint64(1000+10*i), uint64(1009+10*i), strings.Repeat("They changed the parser and ran the tests. ", 100), "")
		w.v.Frontier = append(w.v.Frontier, d)
		shown = append(shown, events.Shown{Key: d.Key, Tier: events.TierPrimary})
	}
	w.setCut(2000, shown)
	w.next = 2000
	for i := 0; ContextTokens(&w.v) < 105_000; i++ {
		id := "toolu_" + strings.Repeat("x", i%7) + string(rune('a'+i%26))
		w.play("U")
		w.call("", id)
		w.say(turnOf(events.RoleTool, resultBlock(id, strings.Repeat("func main() { fmt.Println(42) }\n", 80))))
		w.play("A")
	}
	return w
}

func BenchmarkRender(b *testing.B) {
	w := benchWorld()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Render(&w.v, w.body, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRenderEmergency(b *testing.B) {
	w := benchWorld()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Render(&w.v, w.body, Options{Window: 64_000}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContextTokens(b *testing.B) {
	w := benchWorld()
	for b.Loop() {
		ContextTokens(&w.v)
	}
}

func BenchmarkRenderAndEncode(b *testing.B) {
	w := benchWorld()
	for b.Loop() {
		c, err := Render(&w.v, w.body, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.Encode(transcript.Anthropic); err != nil {
			b.Fatal(err)
		}
	}
}

// A session that no cut ever reached, with one call id used again and again.
func BenchmarkContextTokensOfLongTail(b *testing.B) {
	w := newWorld(200_000)
	w.play("U A.a R.a")
	three := w.v.Tail
	for n := uint64(4); n < 20_000; n++ {
		e := three[(n-1)%3]
		e.N = n
		w.v.Tail = append(w.v.Tail, e)
	}
	for b.Loop() {
		ContextTokens(&w.v)
	}
}
