package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
)

// Settings come from file, environment and flags, in this order; a model's are
// written into the session that names it.
func TestSettingsOfASession(t *testing.T) {
	data := t.TempDir()
	file := "[session]\nfresh_tail_count = 8\nmin_cut = 0.2\n[models.\"big.one\"]\nwindow = 400_000\ntoken_factor = 1.25\n"
	if err := os.WriteFile(filepath.Join(data, "lcm.toml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := lcmIn(t, data, `{"role":"user","content":"hello"}`, "append", "s", "--option", "fresh_tail_count=16", "--option", "condenser.workers=1"); r.code != 0 {
		t.Fatal(r.err)
	}
	s := decode[api.ConfigureOut](t, ok(t, data, "configure", "s", "--json")).Settings
	if s.FreshTailCount != 16 || s.MinCut != 0.2 || s.Window != 200_000 {
		t.Errorf("%+v", s)
	}
	out := decode[api.ConfigureOut](t, ok(t, data, "configure", "s", "--set", "model=big.one", "--json"))
	if s := out.Settings; s.Window != 400_000 || s.Model != "big.one" || s.FreshTailCount != 16 || out.Budget != 304_000 {
		t.Errorf("%+v", out)
	}
	for _, args := range [][]string{{"--option", "windoww=3"}, {"--option", "window"}, {"--option", "window=9"}} {
		if r := lcm(t, data, append(args, "sessions")...); r.code != 2 || !strings.Contains(r.err, "window") {
			t.Errorf("%v: exit %d, %s", args, r.code, r.err)
		}
	}
}

// A setting that was left empty or misspelt does not become another one in
// silence.
func TestSettingsNobodyMeant(t *testing.T) {
	data := t.TempDir()
	t.Setenv("LCM_CONTEXT_THRESHOLD", "")
	t.Setenv("LCM_FRESH_TAIL_COUT", "3")
	r := lcmIn(t, data, `{"role":"user","content":"hello"}`, "append", "s")
	if r.code != 0 || !strings.Contains(r.err, "the nearest is LCM_FRESH_TAIL_COUNT") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	s := decode[api.ConfigureOut](t, ok(t, data, "configure", "s", "--json")).Settings
	if s.ContextThreshold != 0.75 || s.FreshTailCount != 32 {
		t.Errorf("%+v", s)
	}
	for option, says := range map[string]string{
		"context_threshold=": "session.context_threshold is empty", "min_cut=1": "min_cut 1", "recut_threshold=0": "recut_threshold 0",
	} {
		if r := lcm(t, data, "sessions", "--option", option); r.code != 2 || !strings.Contains(r.err, says) {
			t.Errorf("--option %s: exit %d, %s", option, r.code, r.err)
		}
	}
}

// Text says what was set, whatever it is; the rest it says in its own lines.
func TestConfigureShowsWhatIsSet(t *testing.T) {
	data := t.TempDir()
	if out := ok(t, data, "configure", "s", "--set", "overhead=0"); strings.Contains(out, "set:") {
		t.Errorf("nothing is set:\n%s", out)
	}
	out := ok(t, data, "configure", "s", "--usage", "80000:100000", "--set", "model=gpt", "--set", "max_context_tokens=90000",
		"--set", "leaf_input_max=50000", "--set", "open_group_entries=8")
	for _, line := range []string{`model = "gpt"`, "max_context_tokens = 90000", "token_factor = 1.25", "leaf_input_max = 50000", "open_group_entries = 8"} {
		if !strings.Contains(out, "  set: "+line+"\n") {
			t.Errorf("%s is missing:\n%s", line, out)
		}
	}
	if n := strings.Count(out, "set:"); n != 5 {
		t.Errorf("%d settings differ:\n%s", n, out)
	}
}

// The leaf goes back and forth by command; what is off the path is counted.
func TestMove(t *testing.T) {
	data := t.TempDir()
	turns := `{"id":"a","role":"user","content":"one","time":"2025-01-02T03:04:05Z"}
{"id":"b","role":"assistant","content":"two"}
{"id":"c","role":"user","content":"three","time":"2025-02-03T04:05:06Z"}`
	if r := lcmIn(t, data, turns, "append", "s"); r.code != 0 {
		t.Fatal(r.err)
	}
	if out := ok(t, data, "move", "s", "e1"); out != "session s: the leaf is e1\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, data, "sessions"); !strings.Contains(out, "REMOVED") || strings.Fields(strings.Split(out, "\n")[1])[2] != "2" {
		t.Errorf("two turns are off the path:\n%s", out)
	}
	if m := decode[api.MoveOut](t, ok(t, data, "move", "s", "c", "--json")); m.Leaf != "e3" || m.Session != "s" || m.Token == "" {
		t.Errorf("%+v", m)
	}
	if r := lcm(t, data, "move", "s", "e9"); r.code != 3 || !strings.Contains(r.err, "no entry e9") {
		t.Errorf("exit %d, %s", r.code, r.err)
	}
	out := ok(t, data, "describe", "s")
	if !strings.HasPrefix(out, "session s  e1..e3  2025-01-02 03:04 to 2025-02-03 04:05\n") {
		t.Errorf("it tells when the turns were said:\n%s", out)
	}
}

// A foreign agent's own compactions are read in their place, as no turns.
func TestForeignCompactionsAreRead(t *testing.T) {
	data := t.TempDir()
	transcript := `{"type":"session","version":3,"id":"s","timestamp":"2026-02-01T10:00:00.000Z","cwd":"/"}
{"type":"message","id":"p1","parentId":null,"timestamp":"2026-02-01T10:00:01.000Z","message":{"role":"user","content":"build a bridge"}}
{"type":"compaction","id":"p2","parentId":"p1","timestamp":"2026-02-01T10:00:02.000Z","summary":"A bridge is wanted.\nOf stone.","firstKeptEntryId":"p1","tokensBefore":90}
{"type":"message","id":"p3","parentId":"p2","timestamp":"2026-02-01T10:00:03.000Z","message":{"role":"user","content":"go on"}}
`
	file := filepath.Join(data, "pi.jsonl")
	if err := os.WriteFile(file, []byte(transcript), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, data, "import", "--session", "s", file)
	if out := ok(t, data, "describe", "s"); !strings.Contains(out, "compaction by pi, after e1  A bridge is wanted.\n") {
		t.Errorf("describe:\n%s", out)
	}
	out := ok(t, data, "show", "s")
	e1, compaction, e2 := strings.Index(out, "── e1"), strings.Index(out, "── [compaction by pi, no turn]\nA bridge is wanted.\nOf stone.\n"), strings.Index(out, "── e2")
	if e1 < 0 || compaction < e1 || e2 < compaction {
		t.Errorf("show:\n%s", out)
	}
	turns := lines[api.TurnOut](t, ok(t, data, "show", "s", "--json"))
	if len(turns) != 2 || len(turns[0].Compactions) != 1 || len(turns[1].Compactions) != 0 {
		t.Fatalf("%+v", turns)
	}
	if c := turns[0].Compactions[0]; c.After != "e1" || c.Format != "pi" || !strings.HasSuffix(c.Text, "Of stone.") || c.Time.Second() != 2 {
		t.Errorf("%+v", c)
	}
	if early := ok(t, data, "describe", "s", "--at", "e1"); strings.Contains(early, "compaction") {
		t.Errorf("before it was recorded:\n%s", early)
	}
}

// What a model counted beside us moves the session's factor, with the turns it
// answered or alone.
func TestReportedUsage(t *testing.T) {
	data := t.TempDir()
	if r := lcmIn(t, data, `{"id":"m1","role":"assistant","content":"hello"}`, "append", "s", "--usage", "80000:100000"); r.code != 0 {
		t.Fatal(r.err)
	}
	factor := func(args ...string) float64 {
		return decode[api.ConfigureOut](t, ok(t, data, append([]string{"configure", "s", "--json"}, args...)...)).Settings.TokenFactor
	}
	if f := factor(); f != 1.25 {
		t.Errorf("token_factor %v after a report of 1.25", f)
	}
	if f := factor("--usage", "100:150"); f != 1.3 {
		t.Errorf("token_factor %v after a report of 1.5", f)
	}
	for _, bad := range []string{"5", "5:", "0:7", "a:b"} {
		if r := lcmIn(t, data, `{"role":"user","content":"x"}`, "append", "s", "--usage", bad); r.code != 2 || !strings.Contains(r.err, "COUNTED:REPORTED") {
			t.Errorf("--usage %s: exit %d, %s", bad, r.code, r.err)
		}
	}
}
