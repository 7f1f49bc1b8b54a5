package toolsvc

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
	"lcm/tokens"
)

func sizeOf(t interface{ Fatal(...any) }, v any) int {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return tokens.Count(string(b))
}

var texts = rapid.OneOf(
	rapid.String(),
	rapid.Map(rapid.IntRange(0, 1000), func(n int) string { return strings.Repeat("line of words\n\t\"quoted\" \\ ", n) }),
	rapid.Map(rapid.IntRange(0, 1000), func(n int) string { return strings.Repeat("文字列🦄\x00é", n) }),
	rapid.Map(rapid.IntRange(0, 2000), func(n int) string { return strings.Repeat("e\u0301\u0301\u0301", n) }),
)

// Pages of turns hold their bound, and together they are the turns, word for
// word.
func TestBoundTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4000).Draw(t, "most")
		var turns []api.TurnOut
		for i := range rapid.IntRange(1, 6).Draw(t, "turns") {
			turns = append(turns, api.TurnOut{Entry: fmt.Sprintf("e%d", i+1), Text: texts.Draw(t, "text"), Blocks: []events.Block{}, Files: []events.File{}})
		}
		got := make([]string, len(turns))
		at := place{}
		for pages := 0; ; pages++ {
			if pages > 3000 {
				t.Fatalf("the pages do not end: %v", at)
			}
			out := &api.TurnsOut{Session: "s", Turns: append([]api.TurnOut{}, turns[at[0]:]...)}
			r := &api.TurnsReply{}
			for i := range out.Turns {
				r.Turns = append(r.Turns, api.StoredTurn{Entry: session.Entry{N: uint64(at[0] + i + 1)}})
			}
			next := boundTurns(out, r, at, most)
			if n := sizeOf(t, out); n > max(most, minAnswerTokens) {
				t.Fatalf("a page of %d tokens, at most %d", n, most)
			}
			for _, turn := range out.Turns {
				var i int
				_, _ = fmt.Sscanf(turn.Entry, "e%d", &i)
				got[i-1] += turn.Text
			}
			if at = next; at == (place{}) {
				break
			}
		}
		for i := range turns {
			if got[i] != turns[i].Text {
				t.Fatalf("e%d comes back as %.80q, want %.80q", i+1, got[i], turns[i].Text)
			}
		}
	})
}

// Pages of a description hold their bound and leave nothing out.
func TestBoundDescription(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4000).Draw(t, "most")
		whole := api.DescribeOut{Session: "s", ID: "#1", Kind: "node", Text: texts.Draw(t, "text"), Tiers: []api.TierOut{}, Parents: []string{}}
		for i := range rapid.IntRange(0, 40).Draw(t, "children") {
			whole.Children = append(whole.Children, api.ChildOut{ID: fmt.Sprintf("#%d", i), Line: strings.Repeat("word ", 40)})
		}
		for i := range rapid.IntRange(0, 40).Draw(t, "files") {
			whole.Files = append(whole.Files, api.FileOut{ID: fmt.Sprintf("file:%d", i), Path: strings.Repeat("p/", rapid.IntRange(0, 2000).Draw(t, "path")), Summary: "s"})
		}
		text, children, files := "", 0, 0
		at := place{}
		for pages := 0; ; pages++ {
			if pages > 3000 {
				t.Fatalf("the pages do not end: %v", at)
			}
			out := whole
			next := boundDescription(&out, at, most)
			if n := sizeOf(t, &out); n > max(most, minAnswerTokens) {
				t.Fatalf("a page of %d tokens, at most %d", n, most)
			}
			text, children, files = text+out.Text, children+len(out.Children), files+len(out.Files)
			if at = next; at == (place{}) {
				break
			}
		}
		if text != whole.Text || children != len(whole.Children) || files != len(whole.Files) {
			t.Fatalf("%d bytes of %d, %d children of %d, %d files of %d", len(text), len(whole.Text), children, len(whole.Children), files, len(whole.Files))
		}
	})
}
