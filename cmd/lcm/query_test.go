package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/tokens"
)

// A question to 20,000 tokens costs its caller 800 at most, cites turns that
// are there, word for word, and says what the budgets left out; a grant's
// question stays in its sessions.
func TestQuery(t *testing.T) {
	data := t.TempDir()
	for _, s := range []string{"work", "other"} {
		var turns strings.Builder
		for i := range 100 {
			fmt.Fprintf(&turns, `{"id":"m%d","role":"user","content":"step %d of %s: %s the proxy of rack %d listens on port %d."}`+"\n", i, i, s, strings.Repeat("we looked at the logs of the gateway once more, ", 18), i, 9000+i)
		}
		file := filepath.Join(t.TempDir(), s+".jsonl")
		if err := os.WriteFile(file, []byte(turns.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, data, "import", "--session", s, file)
	}
	if n := decode[api.DescribeOut](t, ok(t, data, "--json", "describe", "work")).Price.Source; n < 20_000 {
		t.Fatalf("the session has %d tokens: the test shows nothing", n)
	}
	text := ok(t, data, "--json", "query", "which port does the proxy of rack 42 listen on?", "--session", "work")
	if n := tokens.Count(text); n > 800 {
		t.Errorf("the answer takes %d tokens", n)
	}
	out := decode[api.QueryOut](t, text)
	if len(out.Passages) == 0 || out.Explored > 4000 || !out.Truncated || out.Why == "" {
		t.Fatalf("%+v", out)
	}
	for _, p := range out.Passages {
		shown := ok(t, data, "--json", "show", p.Session, p.Entry)
		if p.Session != "work" || !strings.Contains(decode[api.TurnOut](t, shown).Text, p.Text) {
			t.Errorf("%s/%s does not say %q", p.Session, p.Entry, p.Text)
		}
	}
	oneError(t, lcm(t, data, "query", " "), 2, "empty")
	oneError(t, lcm(t, data, "query", "x", "--max-tokens", "5000"), 2, "max_tokens")
}
