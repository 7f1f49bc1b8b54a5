package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/transcript"
)

const smallWindow = 32_000

// TestCondenseRealSessions condenses every session of two real transcripts for
// a small window and holds the outcome against everything a context promises.
func TestCondenseRealSessions(t *testing.T) {
	for _, file := range []string{"pi__before-compaction.jsonl", "claudecode__ccviewer_todo-app.jsonl"} {
		t.Run(file, func(t *testing.T) {
			path := shared(t, "transcripts", file)
			data := t.TempDir()
			serve(t, data) // one process for some hundred commands
			reports := lines[api.ImportReport](t, ok(t, data, "import", "--json", path))
			deepest := 0
			for _, r := range reports {
				deepest = max(deepest, condenseAndCheck(t, data, r.Session))
			}
			if strings.HasPrefix(file, "pi") && deepest < 1 {
				t.Errorf("no pointer of depth 1 or more")
			}
			if out := lcm(t, data, "doctor", "--deep"); out.code != 0 {
				t.Errorf("doctor: exit %d\n%s%s", out.code, out.out, out.err)
			}
		})
	}
}

// condenseAndCheck returns the depth of the deepest pointer shown.
func condenseAndCheck(t *testing.T, data, session string) int {
	t.Helper()
	ok(t, data, "condense", session, "--window", fmt.Sprint(smallWindow))
	deepest := 0
	var reached map[string]bool
	for _, format := range []transcript.Format{transcript.OpenAI, transcript.Anthropic, transcript.Plain} {
		c := decode[api.ContextOut](t, ok(t, data, "context", session, "--json", "--format", string(format)))
		if c.Tokens > c.Budget || c.Degraded || c.Hypothetical {
			t.Errorf("%s %s: %d of %d tokens, degraded %v", session, format, c.Tokens, c.Budget, c.Degraded)
		}
		if err := transcript.Check(format, transcript.Encoded{System: c.System, Messages: c.Messages}); err != nil {
			t.Errorf("%s as %s: %v", session, format, err)
		}
		endsInTail(t, data, session, c)
		if format != transcript.OpenAI {
			continue
		}
		reached = map[string]bool{}
		for _, p := range c.Pointers {
			deepest = max(deepest, p.Depth)
			for _, turn := range expandAll(t, data, session, p.ID) {
				reached[turn] = true
			}
		}
	}
	everyTurnIsReached(t, data, session, reached)
	return deepest
}

// expandAll opens a node and all nodes below it: each gives exactly the turns
// of its span on the path, and children give what their parent gives.
func expandAll(t *testing.T, data, session, id string) []string {
	t.Helper()
	d := decode[api.DescribeOut](t, ok(t, data, "describe", "--json", session+"/"+id))
	var turns []string
	for _, turn := range lines[api.TurnOut](t, ok(t, data, "expand", "--json", session+"/"+id)) {
		turns = append(turns, turn.Entry)
		if turn.Raw == "" {
			t.Errorf("%s %s has no original", id, turn.Entry)
		}
	}
	if len(turns) != d.Price.Entries || turns[0]+".."+turns[len(turns)-1] != d.Span {
		t.Errorf("%s %s: %d turns, it covers %d", session, id, len(turns), d.Price.Entries)
	}
	var below []string
	for _, c := range d.Children {
		below = append(below, expandAll(t, data, session, c.ID)...)
	}
	if len(d.Children) > 0 && strings.Join(below, " ") != strings.Join(turns, " ") {
		t.Errorf("%s %s: its children expand to other turns than it does", session, id)
	}
	return turns
}

// endsInTail: the last message says, word for word, what the last turn says,
// or names it where no window of this size can hold it.
func endsInTail(t *testing.T, data, session string, c api.ContextOut) {
	t.Helper()
	last := lines[api.TurnOut](t, ok(t, data, "show", "--json", session, c.Leaf))
	if len(last) != 1 {
		t.Fatalf("%s: leaf %s is no turn", session, c.Leaf)
	}
	var said string
	for _, b := range last[0].Blocks {
		if len(b.Text) > len(said) && b.Type == "text" {
			said = b.Text
		}
	}
	tail := string(c.Messages[len(c.Messages)-1])
	if last[0].Tokens > c.Budget-c.BlockTokens {
		if !strings.Contains(tail, c.Leaf) || c.Tokens < c.Budget/10 {
			t.Errorf("%s: %s has %d tokens and is not named in a context of %d: %.300s", session, c.Leaf, last[0].Tokens, c.Tokens, tail)
		}
		return
	}
	quoted, _ := json.Marshal(said)
	if said != "" && !strings.Contains(unescapeHTML(tail), unescapeHTML(string(quoted[1:len(quoted)-1]))) {
		t.Errorf("%s: the context does not end in %s: %.300s", session, c.Leaf, tail)
	}
}

func unescapeHTML(s string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(s)
}

// everyTurnIsReached: a turn on the path is under a pointer or in the tail.
func everyTurnIsReached(t *testing.T, data, session string, reached map[string]bool) {
	t.Helper()
	turns := lines[api.TurnOut](t, ok(t, data, "show", "--json", session))
	tail := false
	for _, turn := range turns {
		if turn.Removed || turn.Role == "system" || turn.Role == "developer" {
			continue
		}
		switch {
		case !reached[turn.Entry]:
			tail = true
		case tail:
			t.Errorf("%s: %s is under a pointer behind raw turns", session, turn.Entry)
		}
	}
}

// TestRebuildIsTheLiveStore: whatever happens to the projections, they come
// back the same.
func TestRebuildIsTheLiveStore(t *testing.T) {
	path := shared(t, "transcripts", "claudecode__ccviewer_todo-app.jsonl")
	data := t.TempDir()
	for _, r := range lines[api.ImportReport](t, ok(t, data, "import", "--json", path)) {
		ok(t, data, "condense", r.Session, "--window", fmt.Sprint(smallWindow))
	}
	first := decode[api.RebuildReply](t, ok(t, data, "rebuild", "--json"))
	if first.Live != first.Digest || first.Digest == "" || first.Turns == 0 || first.Nodes == 0 {
		t.Fatalf("the rebuild is not the live store: %+v", first)
	}
	for name, spoil := range map[string]func() error{
		"nothing":     func() error { return nil },
		"bbolt file":  func() error { return os.Remove(filepath.Join(data, "projection", "lcm.bolt")) },
		"index":       func() error { return os.RemoveAll(filepath.Join(data, "projection", "index")) },
		"projections": func() error { return os.RemoveAll(filepath.Join(data, "projection")) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		again := decode[api.RebuildReply](t, ok(t, data, "rebuild", "--json"))
		if again.Digest != first.Digest || again.Live != first.Digest {
			t.Errorf("after losing %s: %+v, want digest %s", name, again, first.Digest)
		}
		if out := lcm(t, data, "doctor", "--deep"); out.code != 0 {
			t.Errorf("after losing %s: doctor: %s%s", name, out.out, out.err)
		}
	}
}

// A caller whose prefix no longer holds is told what changed since it did.
func TestPrefixChangeSaysWhy(t *testing.T) {
	data := t.TempDir()
	var turns strings.Builder
	for i := range 60 {
		role := []string{"user", "assistant"}[i%2]
		fmt.Fprintf(&turns, `{"id":"m%d","role":%q,"content":%q}`+"\n", i, role, strings.Repeat(fmt.Sprintf("step %d was taken and it went well. ", i), 40))
	}
	if r := lcmIn(t, data, turns.String(), "append", "s", "--option", "window=16000", "--option", "fresh_tail_count=4"); r.code != 0 {
		t.Fatal(r.err)
	}
	ask := func(hash string) api.ContextOut {
		return decode[api.ContextOut](t, ok(t, data, "context", "s", "--json", "--prefix-hash", hash))
	}
	ok(t, data, "move", "s", "e3")
	early := ask("").PrefixHash
	ok(t, data, "move", "s", "e60")
	ok(t, data, "condense", "s")
	whole := ask(early)
	if whole.Cut != 1 || !strings.HasPrefix(whole.PrefixChange, "cut 1 (") {
		t.Errorf("after a cut: cut %d, %q", whole.Cut, whole.PrefixChange)
	}
	for _, garbage := range []string{"xxx", strings.Repeat("0", 32)} {
		if c := ask(garbage); c.PrefixChange != api.PrefixUnknown {
			t.Errorf("%s: %q", garbage, c.PrefixChange)
		}
	}
	ok(t, data, "move", "s", "e3")
	if c := ask(whole.PrefixHash); c.PrefixHash != early || c.PrefixChange != api.PrefixMoved {
		t.Errorf("after the caller's own way back: %q", c.PrefixChange)
	}
	ok(t, data, "move", "s", "e60")
	if c := ask(early); c.PrefixHash != whole.PrefixHash || c.PrefixChange != api.PrefixMoved {
		t.Errorf("there and back again: %q", c.PrefixChange)
	}
	if c := ask(whole.PrefixHash); c.PrefixChange != "" {
		t.Errorf("the same prefix: %q", c.PrefixChange)
	}
}
