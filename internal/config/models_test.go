package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func loadFile(t *testing.T, text string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lcm.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path, nil, map[string]any{"data_dir": t.TempDir()})
}

func TestModels(t *testing.T) {
	c, err := loadFile(t, `
[session]
model = "gpt-4.1"
min_cut = 0.2
[models."gpt-4.1"]
window = 1_000_000
max_context_tokens = 200_000
token_factor = 1.1
[models.small]
window = 32_000
`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.SessionDefaults()
	if err != nil || s.Window != 1_000_000 || s.Budget() != 181_818 || s.MinCut != 0.2 || s.Model != "gpt-4.1" {
		t.Errorf("%+v %v", s, err)
	}
	if c.Models["small"]["window"] == nil || len(c.Models) != 2 {
		t.Errorf("%v", c.Models)
	}
}

func TestModelsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"[models.small]\nwindow = 9_000":       `models."small"`,
		"[models.\"a.b\"]\nwindwo = 9_000":     "windwo",
		"[models.\"a.b\"]\nmodel = \"c\"":      "not a model's",
		"models = 3":                           "not a section",
		"[models]\nsmall = 3":                  "not a section",
		"[models.small]\nwindow = \"large\"":   `models."small"`,
		"[models.small]\ntoken_factor = 9.0":   "token_factor",
		"[models.small]\nsummary_budget = 0.4": "exceed 0.50",
		"[sessions]\nwindow = 1":               "no setting",
		"[models.small]\ncut_target = 0.8":     "cut_target 0.8",
		"[session]\nmin_cut = \"\"":            "session.min_cut is empty",
		"[models.small]\nwindow = \"\"":        `models."small"`,
		"[map]\ncalls = \"\"":                  "map.calls is empty",
	} {
		if _, err := loadFile(t, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want it to say %q", text, err, says)
		}
	}
}
