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
