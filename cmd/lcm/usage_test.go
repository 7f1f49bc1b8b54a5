package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every wrong command line ends with one line on stderr, nothing on stdout,
// and the exit code of its kind.
func TestFailuresAreOneLine(t *testing.T) {
	dir := t.TempDir()
	lcmIn(t, dir, `{"id":"m1","role":"user","content":"hello zebra"}`, "append", "chat")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"nosuch", 2, "unknown command"},
		{"dead nosuch", 2, "unknown command"},
		{"completion nosuch", 2, "unknown command"},
		{"show", 2, "lcm show --help"},
		{"context chat --window x", 2, "--window"},
		{"context chat --window -1", 2, "negative"},
		{"context chat --wait -1", 2, "negative"},
		{"context chat --format codex", 2, "formats are"},
		{"context chat --at e99", 3, "no entry e99"},
		{"context chat --at @1x", 2, "none of e12"},
		{"context nosuch", 3, "does not exist"},
		{"show chat e9", 3, "no entry e9"},
		{"show chat e9..e12", 3, "no entry e9"},
		{"expand chat/e9", 3, "no entry e9"},
		{"expand chat/n9", 3, "no node"},
		{"describe n9", 2, "SESSION/n9"},
		{"describe #9", 2, "SESSION/n9"},
		{"condense chat --window -1", 2, "negative"},
		{"grep zebra --role robot", 2, "robot"},
		{"grep zebra --depth -1", 2, "depth -1"},
		{"grep zebra --session nosuch", 3, "nosuch"},
		{"configure chat --set window=NaN", 2, "NaN"},
		{"configure chat --set window=Inf", 2, "Inf"},
		{"configure chat --set window=32000.5", 2, "no whole number"},
		{"configure chat --set context_threshold=NaN", 2, "no number"},
		{"configure chat --set context_threshold=x", 2, "no number"},
		{"configure chat --set nosuch=1", 2, "no setting"},
		{"status --log-level loud", 2, "log_level"},
		{"status --server notaurl", 2, "server is"},
		{"status --server http://127.0.0.1:1", 1, "does not answer"},
		{"serve --http 127.0.0.1:99999", 2, "99999"},
		{"context a\xff", 2, "not valid UTF-8"},
		{"sessions --prefix a\xff", 2, "not valid UTF-8"},
		{"import nosuchfile", 3, "no file"},
	} {
		r := lcm(t, dir, append([]string{"--json"}, strings.Fields(tt.args)...)...)
		if r.code != tt.code || !strings.Contains(r.err, tt.says) || r.out != "" || strings.Count(r.err, "\n") != 1 {
			t.Errorf("lcm %s: exit %d, want %d with %q\nstdout %q\nstderr %q", tt.args, r.code, tt.code, tt.says, r.out, r.err)
		}
		for _, inside := range []string{"Go struct", "fault of lcm", "strconv.Atoi"} {
			if strings.Contains(r.err, inside) {
				t.Errorf("lcm %s talks of %s: %s", tt.args, inside, r.err)
			}
		}
	}
}

func TestConfigureByKind(t *testing.T) {
	dir := t.TempDir()
	out := ok(t, dir, "configure", "chat", "--set", "window=2e5", "--set", "model=5", "--set", "min_cut=0", "--json")
	got := decode[struct {
		Settings struct {
			Window int    `json:"window"`
			Model  string `json:"model"`
		} `json:"settings"`
	}](t, out)
	if got.Settings.Window != 200_000 || got.Settings.Model != "5" {
		t.Errorf("settings are %+v", got.Settings)
	}
}

// A log that is gone is never made anew beside what was made from it, whatever
// of that is left.
func TestMissingLogIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"all of it": func(string) error { return nil },
		"only the index left": func(dir string) error {
			return os.Remove(filepath.Join(dir, "projection", "lcm.bolt"))
		},
		"only the rows left": func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, "projection", "index"))
		},
		"an empty directory in its place": func(dir string) error {
			return os.Mkdir(filepath.Join(dir, "jetstream"), 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			lcmIn(t, dir, `{"id":"m1","role":"user","content":"hello"}`, "append", "chat")
			if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"sessions"}, {"serve", "--http", "127.0.0.1:0"}, {"rebuild"}} {
				if r := lcm(t, dir, args...); r.code != 4 || !strings.Contains(r.err, "the log is missing") {
					t.Errorf("lcm %v: exit %d\n%s", args, r.code, r.err)
				}
			}
		})
	}
}

// A projection that was made from another log is the whole message, not what a
// call met while the node stopped over it.
func TestProjectionOfAnotherLog(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for _, d := range []string{dir, other} {
		lcmIn(t, d, `{"id":"m1","role":"user","content":"hello"}`, "append", "chat")
		ok(t, d, "sessions") // the rows are up to date
	}
	if err := os.RemoveAll(filepath.Join(dir, "projection")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "projection"), os.DirFS(filepath.Join(other, "projection"))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"sessions"}, {"context", "chat"}, {"doctor"}} {
		r := lcm(t, dir, args...)
		if r.code != 4 || !strings.Contains(r.err, "made from log") || strings.Contains(r.err, "context canceled") {
			t.Errorf("lcm %v: exit %d\n%s", args, r.code, r.err)
		}
	}
	ok(t, dir, "rebuild") // as the message says
	if out := ok(t, dir, "show", "chat"); !strings.Contains(out, "hello") {
		t.Errorf("after a rebuild the session shows %q", out)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext 文 🦄": "plain\n\ttext 文 🦄",
		"\x1b[31mred\x07":   "␛[31mred␇",
		"a\rb\x00\x7f":      "a␍b␀␡",
		"\u009b31m":         "\uFFFD31m",
	} {
		if got := visible(in); got != want {
			t.Errorf("visible(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"a/b c": "a/b c", "a\nb": `"a\nb"`, "\x1b[2J": `"\x1b[2J"`, "会话": "会话"} {
		if got := name(in); got != want {
			t.Errorf("name(%q) = %s, want %s", in, got, want)
		}
	}
}
