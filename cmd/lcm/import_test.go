package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/internal/api"
)

// TestImportRealTranscripts imports every shared transcript, twice, and reads
// every accepted turn back in its original bytes.
func TestImportRealTranscripts(t *testing.T) {
	dir := shared(t, "transcripts")
	for _, want := range []struct {
		file                      string
		sessions, turns, rejected int
		skipped                   map[string]int
		facts                     int // foreign compactions
	}{
		{"claudecode__ccviewer_todo-app.jsonl", 6, 437, 0, map[string]int{"summary": 1}, 0},
		{"claudecode__representative_messages.jsonl", 1, 11, 0, map[string]int{"summary": 1}, 0},
		{"claudecode__edge_cases.jsonl", 1, 12, 6, map[string]int{"summary": 1}, 0},
		{"pi__before-compaction.jsonl", 1, 990, 0, map[string]int{"session": 1, "model_change": 5, "thinking_level_change": 5}, 2},
		{"openai__taubench_airline_gpt4o_subset.jsonl", 87, 2422, 0, map[string]int{"conversation": 87}, 0},
		{"codex__rollout_sample.jsonl", 1, 9, 0, map[string]int{"session_meta": 1, "turn_context": 1, "event_msg": 4}, 0},
		{"minisweagent__github_issue.traj.json", 1, 22, 0, map[string]int{}, 0},
	} {
		t.Run(want.file, func(t *testing.T) {
			data := t.TempDir()
			serve(t, data)
			file := filepath.Join(dir, want.file)
			first := lines[api.ImportReport](t, ok(t, data, "import", "--json", file))
			got := total(first)
			if len(first) != want.sessions || got.Turns != want.turns || got.Appended != want.turns || got.Duplicates != 0 ||
				got.Rejected != want.rejected || got.Facts != want.facts {
				t.Errorf("%d sessions, %+v\nwant %+v", len(first), got, want)
			}
			if diff := cmp.Diff(want.skipped, got.Skipped); diff != "" {
				t.Errorf("skipped: %s", diff)
			}
			again := total(lines[api.ImportReport](t, ok(t, data, "import", "--json", file)))
			if again.Appended != 0 || again.Facts != 0 || again.Duplicates != want.turns {
				t.Errorf("again: %+v", again)
			}
			dead := lines[api.DeadLetter](t, ok(t, data, "dead", "list", "--json"))
			if len(dead) != want.rejected {
				t.Errorf("%d dead letters, want %d: %+v", len(dead), want.rejected, dead)
			}
			sourceKept(t, data, file, first)
		})
	}
}

// total adds up the reports of a file; kinds are counted by their first part.
func total(reports []api.ImportReport) api.ImportReport {
	sum := api.ImportReport{Skipped: map[string]int{}}
	for _, r := range reports {
		sum.Turns += r.Turns
		sum.Appended += r.Appended
		sum.Duplicates += r.Duplicates
		sum.Rejected += r.Rejected
		sum.Facts += r.Facts
		for kind, n := range r.Skipped {
			kind, _, _ = strings.Cut(kind, "/")
			sum.Skipped[kind] += n
		}
	}
	return sum
}

// sourceKept holds the raw originals of every session against the file.
func sourceKept(t *testing.T, data, file string, reports []api.ImportReport) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		turns := lines[api.TurnOut](t, ok(t, data, "show", "--json", "--raw", r.Session))
		if len(turns) != r.Appended {
			t.Errorf("%s: %d turns stored, %d accepted", r.Session, len(turns), r.Appended)
		}
		for _, turn := range turns {
			if turn.Raw == "" || !bytes.Contains(src, []byte(turn.Raw)) {
				t.Fatalf("%s %s: its original is not in the file: %.200s", r.Session, turn.Entry, turn.Raw)
			}
		}
	}
}

func TestImportBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	huge, _ := json.Marshal(map[string]string{"role": "user", "content": strings.Repeat("x", 100<<20)})
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"missing file", []string{"import", filepath.Join(dir, "nowhere.jsonl")}, 3, "nowhere.jsonl"},
		{"directory", []string{"import", dir}, 2, "is a directory"},
		{"empty file", []string{"import", write("empty.jsonl", nil)}, 2, "empty.jsonl"},
		{"binary file", []string{"import", write("binary.jsonl", append([]byte{0x7f, 'E', 'L', 'F', 0, 0, 1}, bytes.Repeat([]byte{0, 0xfe}, 600)...))}, 2, "binary.jsonl"},
		{"unknown format", []string{"import", write("prose.txt", []byte("Once upon a time\nthere was a log.\n"))}, 2, "prose.txt"},
		{"misnamed format", []string{"import", "--format", "clawed", write("x.jsonl", []byte(`{"role":"user","content":"x"}`))}, 2, "clawed"},
		{"session name of 10 kB", []string{"import", "--session", strings.Repeat("s", 10_000), write("y.jsonl", []byte(`{"role":"user","content":"x"}`))}, 2, "at most 200"},
		{"unknown flag", []string{"import", "--fromat", "x", "y"}, 2, "fromat"},
		{"unknown command", []string{"imprt"}, 2, "imprt"},
		{"no argument", []string{"import"}, 2, "arg"},
		{"unknown session", []string{"show", "nobody"}, 3, "nobody"},
		{"unknown node", []string{"expand", "nobody/n1"}, 3, "nobody"},
		{"no id", []string{"describe", "#12"}, 2, "names no session"},
		{"bad pattern", []string{"grep", "--regex", "("}, 2, "regex"},
		{"bad position", []string{"show", "nobody", "--at", "yesterday"}, 2, "yesterday"},
		{"small window", []string{"condense", "nobody", "--window", "9000"}, 3, "nobody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := lcm(t, filepath.Join(dir, "data"), c.args...)
			oneError(t, r, c.code, c.says)
		})
	}
	t.Run("broken lines among good ones", func(t *testing.T) {
		good := `{"id":"a","role":"user","content":"hello"}` + "\n"
		file := write("mixed.jsonl", []byte(good+`{"id":"b","role":"user","content":`+"\n"+deep+"\n"+`{"id":"c","role":"user","content":"`+"\xff\xfe"+`"}`+"\n"+`{"id":"d","role":"user","content":"bye"}`+"\n"))
		data := filepath.Join(dir, "mixed")
		r := lines[api.ImportReport](t, ok(t, data, "import", "--json", "--format", "lcm", file))
		if len(r) != 1 || r[0].Appended != 2 || r[0].Rejected != 3 {
			t.Fatalf("reports %+v", r)
		}
		dead := lines[api.DeadLetter](t, ok(t, data, "dead", "list", "--json"))
		if len(dead) != 3 {
			t.Fatalf("%d dead letters: %+v", len(dead), dead)
		}
		for _, d := range dead {
			if d.Reason == "" || !strings.Contains(d.Origin, "mixed.jsonl:") {
				t.Errorf("dead letter %+v", d)
			}
		}
	})
	t.Run("line of 100 MB", func(t *testing.T) {
		file := write("huge.jsonl", append(append([]byte(`{"id":"a","role":"user","content":"x"}`+"\n"), huge...), '\n'))
		data := filepath.Join(dir, "huge")
		r := lines[api.ImportReport](t, ok(t, data, "import", "--json", "--format", "lcm", file))
		if len(r) != 1 || r[0].Appended != 1 || r[0].Rejected != 1 {
			t.Fatalf("reports %+v", r)
		}
		out := ok(t, data, "dead", "list")
		if !strings.Contains(out, "huge.jsonl:2") {
			t.Fatalf("dead letters: %s", out)
		}
	})
	t.Run("read-only data directory", func(t *testing.T) {
		if os.Getuid() == 0 {
			// Permissions do not stop root: a file in the directory's place does.
			oneError(t, lcm(t, write("file", nil), "sessions"), 2, "file")
			return
		}
		ro := filepath.Join(dir, "ro")
		if err := os.Mkdir(ro, 0o500); err != nil {
			t.Fatal(err)
		}
		oneError(t, lcm(t, filepath.Join(ro, "data"), "sessions"), 2, "ro")
	})
}

// oneError: one line that names the thing, the right exit code, no stack.
func oneError(t *testing.T, r result, code int, says string) {
	t.Helper()
	if r.code != code || strings.Count(r.err, "\n") != 1 || !strings.Contains(r.err, says) ||
		strings.Contains(r.err, "goroutine") || len(r.err) > 1000 {
		t.Fatalf("exit %d, want %d and one line with %q:\n%.3000s", r.code, code, says, r.err)
	}
}
