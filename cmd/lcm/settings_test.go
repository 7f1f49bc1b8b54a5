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
