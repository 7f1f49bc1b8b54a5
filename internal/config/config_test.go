package config

import (
	"strings"
	"testing"
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

func TestLoadAccepts(t *testing.T) {
	for _, server := range []string{"", "http://127.0.0.1:8420", "https://lcm.example.org/"} {
		if _, err := Load("", nil, map[string]any{"data_dir": t.TempDir(), "server": server, "log_level": "warn"}); err != nil {
			t.Errorf("server %q: %v", server, err)
		}
	}
}
