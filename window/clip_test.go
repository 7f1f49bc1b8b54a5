package window

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
)

func TestClipPlan(t *testing.T) {
	w := newWorld(200_000) // 0.05·B = 9,000
	w.play("U A.a R.a A.b R.b U")
	for i, n := range []int{20_000, 100, 15_000, 100, 30_000, 50_000} {
		w.v.Tail[i].Tokens = n
	}
	for _, tt := range []struct {
		over int
		want []events.Clip
	}{
		{0, nil},
		{1, []events.Clip{{Entry: 5, Tokens: 9_000}}},
		{21_001, []events.Clip{{Entry: 5, Tokens: 9_000}, {Entry: 3, Tokens: 9_000}}},
		{27_001, []events.Clip{{Entry: 5, Tokens: 9_000}, {Entry: 3, Tokens: 9_000}, {Entry: 6, Tokens: 9_000}}},
		{1 << 30, []events.Clip{{Entry: 5, Tokens: 9_000}, {Entry: 3, Tokens: 9_000}, {Entry: 6, Tokens: 9_000}, {Entry: 1, Tokens: 9_000}}},
	} {
		if d := cmp.Diff(tt.want, ClipPlan(&w.v, tt.over)); d != "" {
			t.Errorf("over %d: %s", tt.over, d)
		}
	}
	before := ContextTokens(&w.v)
	w.setCut(0, nil)
	w.v.Cut.Clips = ClipPlan(&w.v, 21_001)
	if n := ContextTokens(&w.v); n != before-27_000 {
		t.Errorf("%d tokens, before %d", n, before)
	}
	if d := cmp.Diff([]events.Clip{{Entry: 6, Tokens: 9_000}}, ClipPlan(&w.v, 1)); d != "" {
		t.Errorf("what is clipped already: %s", d)
	}
}

func TestClippedTurns(t *testing.T) {
	long := "HEAD " + strings.Repeat("filler text ", 30_000) + " TAIL"
	w := newWorld(200_000)
	w.text(events.RoleUser, long)
	call := callBlock("a")
	arg, _ := json.Marshal(map[string]string{"content": long})
	call.Input = string(arg)
	w.say(turnOf(events.RoleAssistant, events.Block{Type: events.BlockThinking, Text: long, Signature: "sig"}, textBlock("I write it."), call))
	res := resultBlock("a", long)
	res.IsError = true
	w.say(turnOf(events.RoleTool, res))
	w.setCut(0, nil)
	w.v.Cut.Clips = ClipPlan(&w.v, 1<<30)
	c := w.render(t, Options{})
	if c.Tokens > 3*9_000 || c.Tokens < 20_000 || ContextTokens(&w.v) != c.Tokens {
		t.Errorf("%d tokens, by metadata %d", c.Tokens, ContextTokens(&w.v))
	}
	if outline(c) != "U A.a R.a" {
		t.Fatalf("got %s", outline(c))
	}
	user := c.Messages[0].Blocks[0].Text
	for _, want := range []string{"HEAD", "TAIL", cutMark, "e1"} {
		if !strings.Contains(user, want) {
			t.Errorf("the user turn lacks %q", want)
		}
	}
	said := c.Messages[1].Blocks
	if len(said) != 2 || said[0].Text != "I write it." {
		t.Fatalf("got %d blocks", len(said))
	}
	var in struct {
		LcmTruncated string `json:"lcm_truncated"`
	}
	if err := json.Unmarshal([]byte(said[1].Input), &in); err != nil || !strings.Contains(in.LcmTruncated, "HEAD") {
		t.Errorf("input %.100q: %v", said[1].Input, err)
	}
	result := c.Messages[2].Blocks[0]
	if !result.IsError || !strings.Contains(result.Content[0].Text, "TAIL") || !strings.Contains(result.Content[0].Text, "e3") {
		t.Errorf("result %+.200v", result)
	}
}

// However a turn is made, clipped it counts at most what the clip says.
func TestClipTurnFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(200_000)
		tn := turnOf(rapid.SampledFrom([]events.Role{events.RoleAssistant, events.RoleUser, events.RoleTool}).Draw(t, "role"))
		blocks := rapid.SampledFrom([]int{1, 2, 5, 100}).Draw(t, "blocks")
		most := max(20_000/(blocks*blocks), 300)
		text := func() string {
			return strings.Repeat(rapid.SampledFrom([]string{"a ", "word ", "\"\\\n", "日本語", "👩‍👩‍👧", "e\u0301", "0123456789abcdef"}).Draw(t, "text"),
				min(most, rapid.SampledFrom([]int{0, 1, 10, 300, 20_000}).Draw(t, "times")))
		}
		for i := range blocks {
			id := string(rune('a'+i%26)) + string(rune('a'+i/26))
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0, 1:
				tn.Blocks = append(tn.Blocks, textBlock(text()))
			case 2:
				b := callBlock(id)
				b.Input, b.Name = text(), strings.Repeat("n", rapid.SampledFrom([]int{1, 64, 5_000}).Draw(t, "name"))
				tn.Blocks = append(tn.Blocks, b)
			case 3:
				tn.Blocks = append(tn.Blocks, resultBlock(id, text()))
			case 4:
				tn.Blocks = append(tn.Blocks, events.Block{Type: events.BlockImage, Data: "QUJD"})
			case 5:
				tn.Blocks = append(tn.Blocks, events.Block{Type: events.BlockThinking, Text: text(), Signature: "s"},
					events.Block{Type: events.BlockDocument, Text: text()}, events.Block{Type: events.BlockUnknown, Raw: `{"a":"` + text() + `"}`})
			}
		}
		e := w.entry(tn)
		size := max(rapid.SampledFrom([]int{0, 200, 600, 9_000}).Draw(t, "size"), leastClip(&e))
		main, results := decompose(w.bodies[e.N])
		m, r := clipTurn(&e, main, results, size)
		n := 0
		if len(m) > 0 {
			n = MessageTokens
		}
		for _, b := range append(m, r...) {
			n += blockTokens(&b)
			if b.Type == events.BlockText && blank(b.Text) {
				t.Fatalf("blank text")
			}
		}
		if n > size {
			t.Fatalf("%d tokens, size %d", n, size)
		}
		if len(r) != len(results) || len(m)+len(r) == 0 && e.Tokens > 0 {
			t.Fatalf("%d of %d results, %d blocks", len(r), len(results), len(m))
		}
	})
}
