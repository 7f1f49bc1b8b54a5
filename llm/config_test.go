package llm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	good := Config{Family: OpenAI, Model: "m"}
	hot := 3.0
	tests := []struct {
		name   string
		change func(*Config)
		want   string // "" = valid
	}{
		{"defaults", func(*Config) {}, ""},
		{"ollama", func(c *Config) { c.BaseURL = "http://localhost:11434/v1" }, ""},
		{"no family", func(c *Config) { c.Family = "" }, "family"},
		{"guessed family", func(c *Config) { c.Family = "gemini" }, "family"},
		{"no model", func(c *Config) { c.Model = "" }, "model"},
		{"no scheme", func(c *Config) { c.BaseURL = "localhost:11434" }, "base URL"},
		{"password in URL", func(c *Config) { c.BaseURL = "https://u:hunter2@host" }, "key_env"},
		{"key in query", func(c *Config) { c.BaseURL = "https://host/v1?key=hunter2" }, "key_env"},
		{"key as variable name", func(c *Config) { c.KeyEnv = "sk-hunter2" }, "key_env"},
		{"backoff", func(c *Config) { c.BackoffMin, c.BackoffMax = 2, 1 }, "backoff"},
		{"attempts", func(c *Config) { c.Attempts = -1 }, "attempts"},
		{"output field", func(c *Config) { c.OutputField = "n_predict" }, "output field"},
		{"temperature", func(c *Config) { c.Temperature = &hot }, "temperature"},
	}
	for _, tt := range tests {
		c := good
		tt.change(&c)
		err := c.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error holds a secret: %v", tt.name, err)
		}
	}
}

func TestKeyIsMissing(t *testing.T) {
	_, err := New(Config{Family: Anthropic, Model: "m", KeyEnv: "MY_KEY"}, Deps{Getenv: func(string) string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "MY_KEY") {
		t.Error(err)
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	for _, v := range []string{"two words", "new\nline", "ümlaut"} {
		if _, err := New(Config{Family: OpenAI, Model: "m", KeyEnv: "K"}, Deps{Getenv: func(string) string { return v }}); err == nil || strings.Contains(err.Error(), v) {
			t.Errorf("%q: %v", v, err)
		}
	}
	s := secret("hunter2")
	j, _ := json.Marshal(struct{ K secret }{s})
	if out := fmt.Sprintf("%v %s %q %#v %+v %s", s, s, s, s, struct{ k secret }{s}, j); strings.Count(out, "hunter2") > 1 {
		t.Error(out)
	}
}
