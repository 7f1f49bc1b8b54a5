package main

import (
	"os"
	"path/filepath"
	"testing"
)

// copyTree copies a data directory that nobody uses.
func copyTree(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func remove(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(elem...)); err != nil {
		t.Fatal(err)
	}
}

// move puts the directory of one data directory in the place of another's.
func move(t *testing.T, from, to, name string) {
	t.Helper()
	remove(t, to, name)
	if err := os.CopyFS(filepath.Join(to, name), os.DirFS(filepath.Join(from, name))); err != nil {
		t.Fatal(err)
	}
}

// TestNeverMakeItWorse: a log that is not the one that was seen here is refused
// with what was found and what to do, whichever projection is left to tell, and
// nothing is appended to it.
func TestNeverMakeItWorse(t *testing.T) {
	short := t.TempDir()
	appendLines(t, short, "s", `{"id":"a","role":"user","content":"one"}`)
	long := copyTree(t, short)
	appendLines(t, long, "s", `{"id":"b","role":"user","content":"two"}`)
	ok(t, long, "sessions") // what is projected is what can be known
	forked := copyTree(t, short)
	appendLines(t, forked, "s", `{"id":"c","role":"user","content":"another"}`)
	other := t.TempDir()
	appendLines(t, other, "s", `{"id":"a","role":"user","content":"one"}`)

	left := map[string]func(data string){ // what of the projections is left
		"all":     func(string) {},
		"rows":    func(data string) { remove(t, data, "projection", "witness.json") },
		"witness": func(data string) { remove(t, data, "projection", "lcm.bolt"); remove(t, data, "projection", "index") },
	}
	for name, keep := range left {
		for _, c := range []struct {
			what  string
			spoil func(data string)
			says  string
		}{
			{"the directory is gone", func(data string) { remove(t, data, "jetstream") }, "the log is missing"},
			{"the streams are gone", func(data string) { remove(t, data, "jetstream", "jetstream") }, "the log is missing"},
			{"the log's stream is gone", func(data string) { remove(t, data, "jetstream", "jetstream", "$G", "streams", "LCM") }, "the log is missing"},
			{"a shorter log", func(data string) { move(t, short, data, "jetstream") }, "shortened or replaced"},
			{"another epoch", func(data string) { move(t, other, data, "jetstream") }, "this log is"},
			{"another history", func(data string) { move(t, forked, data, "jetstream") }, "has hash"},
		} {
			t.Run(name+"/"+c.what, func(t *testing.T) {
				data := copyTree(t, long)
				keep(data)
				c.spoil(data)
				says := c.says
				if name == "witness" && c.what == "another epoch" {
					says = "what was seen here was the log"
				}
				oneError(t, lcm(t, data, "sessions"), 4, says)
				oneError(t, lcmIn(t, data, `{"id":"d","role":"user","content":"three"}`, "append", "s"), 4, says)
				oneError(t, lcm(t, data, "sessions"), 4, says) // still
			})
		}
	}
}

// TestWitnessUnreadable: a witness that is damaged proves nothing, and is
// written anew.
func TestWitnessUnreadable(t *testing.T) {
	data := t.TempDir()
	appendLines(t, data, "s", `{"id":"a","role":"user","content":"one"}`)
	ok(t, data, "sessions")
	path := filepath.Join(data, "projection", "witness.json")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, []byte("{}"), flip(whole, 12), whole[:10]} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		ok(t, data, "sessions")
		if now, err := os.ReadFile(path); err != nil || string(now) != string(whole) {
			t.Errorf("after %q: %q, %v", b, now, err)
		}
	}
}
