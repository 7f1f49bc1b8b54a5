package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoadRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		environ []string
		flags   map[string]any
		says    string
	}{
		"log level":       {nil, map[string]any{"log_level": "loud"}, "log_level"},
		"server no URL":   {nil, map[string]any{"server": "notaurl"}, "server is"},
		"server bad URL":  {nil, map[string]any{"server": "http://[::bad"}, "server is"},
		"server no host":  {nil, map[string]any{"server": "http://"}, "server is"},
		"server scheme":   {nil, map[string]any{"server": "ftp://127.0.0.1"}, "server is"},
		"tenant empty":    {nil, map[string]any{"tenant": ""}, "tenant"},
		"tenant long":     {nil, map[string]any{"tenant": strings.Repeat("t", 201)}, "tenant"},
		"tenant not text": {nil, map[string]any{"tenant": "\xff"}, "tenant"},
		"a word":          {[]string{"LCM_WINDOW=abc"}, nil, "session.window"},
		"number empty":    {nil, map[string]any{"session.context_threshold": ""}, "session.context_threshold is empty"},
		"switch empty":    {nil, map[string]any{"tls.elsewhere": ""}, "tls.elsewhere is empty"},
		"number a switch": {nil, map[string]any{"session.min_cut": true}, "session.min_cut is true"},
		"half a turn":     {nil, map[string]any{"session.fresh_tail_count": 3.5}, "session.fresh_tail_count is 3.5"},
		"contradiction":   {[]string{"LCM_CONTEXT_THRESHOLD=0.2"}, nil, "cut_target 0.4"},
		"no pass":         {nil, map[string]any{"session.min_cut": "1"}, "min_cut 1"},
		"negative":        {[]string{"LCM_WINDOW=-5"}, nil, "window is -5"},
	} {
		flags := map[string]any{"data_dir": t.TempDir()}
		for k, v := range tt.flags {
			flags[k] = v
		}
		if _, err := Load("", tt.environ, flags); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}

// A variable that is empty is not set: it must not become the number 0.
func TestEmptyVariables(t *testing.T) {
	var environ []string
	for key := range knownKeys() {
		environ = append(environ, "LCM_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(key, "session."), ".", "_"))+"=")
	}
	c, err := Load("", append(environ, "LCM_CONFIG="), map[string]any{"data_dir": "/nowhere"})
	want := Default()
	want.DataDir = "/nowhere"
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestMisspelt(t *testing.T) {
	c := Default()
	c.Map.KeyEnv = "LCM_MAP_KEY_EV"
	for name, near := range map[string]string{
		"LCM_FRESH_TAIL_COUT":           "LCM_FRESH_TAIL_COUNT",
		"LCM_SUMARIZER_MODEL":           "LCM_SUMMARIZER_MODEL",
		"LCM_THRESHOLD":                 "LCM_RECUT_THRESHOLD",
		"LCM_FRESH_TAIL":                "LCM_FRESH_TAIL_MAX",
		"LCM_DATADIR":                   "LCM_DATA_DIR",
		"LCM_SESSION_FRESH_TAIL_COUNTS": "LCM_FRESH_TAIL_COUNT",
	} {
		got := Misspelt([]string{"HOME=/", name + "=3"}, c)
		if len(got) != 1 || !strings.HasPrefix(got[0], name+" is no setting") || !strings.HasSuffix(got[0], " "+near) {
			t.Errorf("%s: %q, want it to name %s", name, got, near)
		}
	}
	for _, name := range []string{
		"LCM_FRESH_TAIL_COUNT", "LCM_SESSION_FRESH_TAIL_COUNT", "LCM_MAP_KEY_EV", "LCM_CONFIG", "LCM_SEED", "LCM_SOAK", "LCM_STEPS",
		"LCM_SHARED", "LCM_NPM", "LCM_CYCLES", "LCM_MODEL_KEY", "LCM_NATS_NAME", "LCM_NATS_ROUTES", "LCM_NATS_AGENT_PASSWORD",
		"LCM_NATS_INGESTOR_PASSWORD", "LCM_NATS_ROUTE_PASSWORD", "LCM_TEST_AS_COMMAND", "LCM_AGENTS_FOR", "LCM_SEARCH_SEED", "LCM_SEARCH_QUERIES",
		"LCM_TRANSCRIPTS", "LCM_", "LCMX",
	} {
		if got := Misspelt([]string{name + "=3"}, c); got != nil {
			t.Errorf("%q", got)
		}
	}
}

func TestFallbackModels(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "lcm.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first := "[summarizer]\nkind = 'openai'\nmodel = 'a'\nwhen_down = 'extractive'\ntokens_per_hour = 1_000\n"
	c, err := Load(file(first+"[[summarizer.fallback]]\nkind = 'anthropic'\nmodel = 'b'\nkey_env = 'K'\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Provider{{Kind: "openai", Model: "a", TimeoutSeconds: 120}, {Kind: "anthropic", Model: "b", KeyEnv: "K"}}
	if got := c.Summarizer.Providers(); !slices.Equal(got, want) || c.Summarizer.TokensPerHour != 1000 {
		t.Errorf("%+v", c.Summarizer)
	}
	for text, says := range map[string]string{
		"[[summarizer.fallback]]\nkind = 'openai'\nmodel = 'b'\n":        "never fails",
		first + "[[summarizer.fallback]]\nkind = 'openai'\n":             "fallback 1",
		first + "[[summarizer.fallback]]\nkind = 'openai'\nmodell = 'x'": "modell",
		"[summarizer]\nwhen_down = 'panic'\n":                            "when_down",
		"[summarizer]\ntokens_per_hour = -1\n":                           "tokens_per_hour",
	} {
		if _, err := Load(file(text), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want it to say %q", text, err, says)
		}
	}
}

func TestLoadAccepts(t *testing.T) {
	for _, server := range []string{"", "http://127.0.0.1:8420", "https://lcm.example.org/"} {
		if _, err := Load("", nil, map[string]any{"data_dir": t.TempDir(), "server": server, "log_level": "warn"}); err != nil {
			t.Errorf("server %q: %v", server, err)
		}
	}
}

// A token decides the tenant, and shows itself to nobody.
func TestToken(t *testing.T) {
	c, err := Load("", []string{"LCM_TOKEN=lcm_1_topsecret"}, map[string]any{"data_dir": t.TempDir()})
	if err != nil || c.Token != "lcm_1_topsecret" || c.Tenant != "" {
		t.Fatalf("%q of tenant %q, %v", string(c.Token), c.Tenant, err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "config", c, "token", c.Token)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%#v %+v %q", c, c, c.Token), string(asJSON), log.String()} {
		if strings.Contains(text, "topsecret") {
			t.Errorf("it shows: %s", text)
		}
	}
	if c, err = Load("", []string{"LCM_TOKEN=x", "LCM_TENANT=acme"}, map[string]any{"data_dir": t.TempDir()}); err != nil || c.Tenant != "acme" {
		t.Errorf("tenant %q, %v", c.Tenant, err)
	}
}
