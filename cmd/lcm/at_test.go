package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

// answers are what the reads said at one position.
type answers map[string]string

// readsAt asks everything that takes --at, without what tells when it was asked.
func readsAt(t *testing.T, data, at string) answers {
	t.Helper()
	out := answers{}
	for _, args := range [][]string{
		{"context", "work"},
		{"context", "work", "--format", "anthropic"},
		{"show", "work"},
		{"describe", "work"},
		{"describe", "work/n1"},
		{"describe", "work/n2"},
		{"describe", "work/e3"},
		{"sessions"},
	} {
		name := strings.Join(args, " ")
		if args = append(args, "--json"); at != "" {
			args = append(args, "--at", at)
		}
		r := lcm(t, data, args...)
		if r.code != 0 {
			out[name] = fmt.Sprintf("exit %d", r.code)
			continue
		}
		var lasting []string
		for _, v := range lines[map[string]any](t, r.out) {
			delete(v, "token")
			if row, ok := v["row"].(map[string]any); ok {
				delete(row, "updated") // moves and settings leave no trace of their time
			}
			delete(v, "until")
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			lasting = append(lasting, string(b))
		}
		out[name] = strings.Join(lasting, "\n")
	}
	return out
}

// settled reads once nothing more happens, and says at which position.
func settled(t *testing.T, data string) (string, answers) {
	t.Helper()
	token := func() string {
		p, err := events.ParsePosition(decode[api.ContextOut](t, ok(t, data, "context", "work", "--json")).Token)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("@%d", p.Seq)
	}
	for {
		before := token()
		a := readsAt(t, data, "")
		if token() == before {
			return before, a
		}
	}
}

// TestTimeTravel: whatever was answered once is answered again for that
// position, byte for byte, after cuts, branch moves and other settings, and
// after the projections were made anew.
func TestTimeTravel(t *testing.T) {
	data := t.TempDir()
	serve(t, data) // one process for some hundred commands
	say := func(session string, from, n, words int) {
		var in strings.Builder
		for i := from; i < from+n; i++ {
			fmt.Fprintf(&in, `{"id":"m%d","role":%q,"content":"turn %d: %s"}`+"\n", i, []string{"user", "assistant"}[i%2], i, strings.Repeat("the parser fails on nested lists ", words))
		}
		if r := lcmIn(t, data, in.String(), "append", session); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	then := map[string]answers{}
	keep := func() {
		at, a := settled(t, data)
		then[at] = a
	}
	say("work", 0, 6, 10)
	keep()
	ok(t, data, "configure", "work", "--set", "window=16000")
	say("work", 6, 60, 40)
	ok(t, data, "condense", "work")
	keep()
	say("other", 0, 3, 5)
	if r := lcmIn(t, data, `{"id":"fork","parent":"m60","role":"user","content":"or rather the lexer"}`, "append", "work"); r.code != 0 {
		t.Fatal(r.err)
	}
	keep()
	ok(t, data, "configure", "work", "--set", "window=20000")
	say("work", 100, 80, 40)
	ok(t, data, "condense", "work")
	keep()
	if len(then) != 4 {
		t.Fatalf("%d positions, want 4", len(then))
	}
	same := func(when string) {
		for at, want := range then {
			got := readsAt(t, data, at)
			for name := range want {
				if got[name] != want[name] {
					t.Errorf("%s, lcm %s --at %s:\n%.1500s\nwas\n%.1500s", when, name, at, got[name], want[name])
				}
			}
		}
	}
	same("later")
	ok(t, data, "rebuild")
	same("after a rebuild")
}
