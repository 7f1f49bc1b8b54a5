package window

import (
	"strings"
	"testing"

	"lcm/events"
	"lcm/tokens"
)

func TestTurnTokens(t *testing.T) {
	const m = MessageTokens
	text := "Fix the parser, please. 修正してください。"
	n := tokens.Count(text)
	user, assistant, tool := events.RoleUser, events.RoleAssistant, events.RoleTool
	image := func(w, h int) events.Block {
		return events.Block{Type: events.BlockImage, Data: strings.Repeat("QUJD", 100_000), Width: w, Height: h}
	}
	for _, tt := range []struct {
		name string
		turn events.TurnAppended
		want int
	}{
		{"text", turnOf(user, textBlock(text)), m + n},
		{"text alone", events.TurnAppended{Role: user, Text: text}, m + n},
		{"derived text beside blocks is not counted", events.TurnAppended{Role: user, Text: "other", Blocks: []events.Block{textBlock(text)}}, m + n},
		{"nothing", turnOf(user), 0},
		{"blank", turnOf(user, textBlock(" \n\x1e")), 0},
		{"only a block nobody knows", turnOf(assistant, events.Block{Type: events.BlockUnknown, Raw: "{}"}), 0},
		{"thinking counts, its signature does not", turnOf(assistant, events.Block{Type: events.BlockThinking, Text: text, Signature: strings.Repeat("A", 9_000)}, textBlock("ok")), m + n + 1},
		{"a user does not think", turnOf(user, events.Block{Type: events.BlockThinking, Text: text}), 0},
		{"call", turnOf(assistant, callBlock("a")), m + callTokens + tokens.Count("read") + tokens.Count(`{"path":"a.go"}`)},
		{"result", turnOf(tool, resultBlock("a", text)), resultTokens + n},
		{"two results", turnOf(tool, resultBlock("a", text), resultBlock("b", text)), 2 * (resultTokens + n)},
		{"an empty result is told", turnOf(tool, resultBlock("a", "")), resultTokens + tokens.Count(emptyResult)},
		{"a result and words", turnOf(user, resultBlock("a", text), textBlock(text)), m + n + resultTokens + n},
		{"a tool's words without a call", turnOf(tool, textBlock(text)), m + n + tokens.Count(toolOutput)},
		{"image by its size", turnOf(user, image(750, 500)), m + mediaTokens + 500},
		{"a large one", turnOf(user, image(8_000, 8_000)), m + mediaTokens + 1_600},
		{"a tiny one", turnOf(user, image(1, 1)), m + mediaTokens + 85},
		{"of unknown size", turnOf(user, image(0, 0)), m + mediaTokens + 1_600},
		{"of an absurd size", turnOf(user, image(1<<62, 1<<62)), m + mediaTokens + 1_600},
		{"image in a result", turnOf(tool, events.Block{Type: events.BlockToolResult, CallID: "a", Content: []events.Block{image(750, 500)}}), resultTokens + mediaTokens + 500},
		{"document as text", turnOf(user, events.Block{Type: events.BlockDocument, Text: text}), m + mediaTokens + n},
		{"document as data", turnOf(user, events.Block{Type: events.BlockDocument, Data: strings.Repeat("QUJD", 50_000)}), m + mediaTokens + 3*1_600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := TurnTokens(&tt.turn); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
			tt.turn.Compact()
			if got := TurnTokens(&tt.turn); got != tt.want && tt.turn.Blocks == nil {
				t.Errorf("compacted: got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestUnknownBlocksWithPayload(t *testing.T) {
	raw := `{"type":"audio","data":"` + strings.Repeat("QUJD", 20_000) + `","note":"a few words"}`
	turn := turnOf(events.RoleUser, textBlock("hear"), events.Block{Type: events.BlockUnknown, Raw: raw})
	if n := TurnTokens(&turn); n > 60 || n < 15 {
		t.Errorf("counts %d", n)
	}
}
