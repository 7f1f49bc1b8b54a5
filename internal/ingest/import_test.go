package ingest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lcm/events"
	"lcm/internal/api"
	"lcm/transcript"
)

func (w *world) importText(t *testing.T, text string, o ImportOptions) []api.ImportReport {
	t.Helper()
	o.Tenant, o.Measures, o.Bury = "t", quickMeasures, w.log.Bury
	r, err := Import(context.Background(), strings.NewReader(text), o, w.svc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var noToken = cmpopts.IgnoreFields(api.ImportReport{}, "Token", "Format", "File", "Problems", "Facts")

func TestImportSidechainsAndSkips(t *testing.T) {
	w := start(t)
	line := func(uuid, parent, more, text string) string {
		return fmt.Sprintf(`{"type":"user","uuid":%q,"parentUuid":%q%s,"sessionId":"S","message":{"role":"user","content":%q}}`, uuid, parent, more, text)
	}
	text := strings.Join([]string{
		line("u1", "", "", "main"),
		line("u2", "", `,"isSidechain":true`, "side"),
		`{"type":"progress","uuid":"p"}`,
		line("u3", "u1", "", "main again"),
		line("u4", "u2", `,"isSidechain":true`, "side again"),
		`not json`,
	}, "\n")
	got := w.importText(t, text, ImportOptions{File: "x/main.jsonl", Format: transcript.ClaudeCode})
	want := []api.ImportReport{
		{Session: "main", Turns: 2, Appended: 2, Rejected: 1, Skipped: map[string]int{"progress": 1}},
		{Session: "main/u2", Turns: 2, Appended: 2, Skipped: map[string]int{}},
	}
	if diff := cmp.Diff(want, got, noToken); diff != "" {
		t.Error(diff)
	}
	if h := w.head(t, "main/u2"); h.Settings.ParentSession != "main" {
		t.Errorf("parent session %q", h.Settings.ParentSession)
	}
	if len(w.log.letters) != 1 || w.log.letters[0].Origin != "x/main.jsonl:6" || string(w.log.letters[0].Body) != "not json" {
		t.Errorf("%+v", w.log.letters)
	}
	before := len(w.log.all())
	w.open(t, Config{})
	w.importText(t, text, ImportOptions{File: "x/main.jsonl", Format: transcript.ClaudeCode})
	if n := len(w.log.all()); n != before || len(w.log.letters) != 1 {
		t.Errorf("a second import stored %d events, %d letters", n-before, len(w.log.letters))
	}
	edited := strings.Replace(text, `"main again"`, `"edited"`, 1)
	got = w.importText(t, edited, ImportOptions{File: "x/main.jsonl", Format: transcript.ClaudeCode})
	if got[0].Rejected != 2 || got[0].Duplicates != 1 || len(w.log.all()) != before || len(w.log.letters) != 2 {
		t.Errorf("edited: %+v, %d letters", got[0], len(w.log.letters))
	}
}

func TestImportConversations(t *testing.T) {
	w := start(t)
	text := `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"a"}]}
`
	names := func(r []api.ImportReport) (out []string) {
		for _, s := range r {
			out = append(out, s.Session)
		}
		return out
	}
	if diff := cmp.Diff([]string{"f-1", "f-2"}, names(w.importText(t, text, ImportOptions{File: "f.jsonl"}))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"S-1", "S-2"}, names(w.importText(t, text, ImportOptions{File: "f.jsonl", Session: "S"}))); diff != "" {
		t.Error(diff)
	}
}

// A leaf that moved at the end of a file moves with the turns before it, once.
func TestImportMove(t *testing.T) {
	w := start(t)
	text := strings.Join([]string{
		`{"type":"session","version":3,"id":"S","timestamp":"2026-01-01T00:00:00Z","cwd":"/"}`,
		`{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01Z","message":{"role":"user","content":"a"}}`,
		`{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-01T00:00:02Z","message":{"role":"user","content":"b"}}`,
		`{"type":"label","id":"l","parentId":"a","timestamp":"2026-01-01T00:00:03Z","targetId":"b","label":"x"}`,
	}, "\n")
	w.importText(t, text, ImportOptions{File: "p.jsonl", Format: transcript.Pi})
	if h := w.head(t, "p"); h.Leaf != 1 || h.Entries != 2 {
		t.Fatalf("leaf %d of %d", h.Leaf, h.Entries)
	}
	n := len(w.log.all())
	w.importText(t, text, ImportOptions{File: "p.jsonl", Format: transcript.Pi})
	if len(w.log.all()) != n {
		t.Error("a second import moved again")
	}
	w.append(t, "p", said("c", "c"))
	w.importText(t, text, ImportOptions{File: "p.jsonl", Format: transcript.Pi})
	if h := w.head(t, "p"); h.Leaf != 3 {
		t.Errorf("an old import moved the leaf to %d", h.Leaf)
	}
}

func TestImportWholeFileErrors(t *testing.T) {
	w := start(t)
	for _, text := range []string{"", "\x00\x01\x02", "prose"} {
		if _, err := Import(context.Background(), strings.NewReader(text), ImportOptions{Tenant: "t", File: "f"}, w.svc); err == nil {
			t.Errorf("%q imported", text)
		}
	}
	if _, err := Import(context.Background(), strings.NewReader("{}"), ImportOptions{}, w.svc); err == nil {
		t.Error("imported without a tenant")
	}
}

func TestHandleInbox(t *testing.T) {
	w := start(t)
	msg := api.InboxMessage{Ref: ref("s"), Seq: 7, Data: []byte(`[{"role":"user","content":"a"},{"role":"robot"},{"role":"user","content":"a"}]`)}
	for range 2 { // redelivered
		if err := w.svc.HandleInbox(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
		w.open(t, Config{})
	}
	if h := w.head(t, "s"); h.Entries != 2 {
		t.Errorf("%d entries", h.Entries)
	}
	if len(w.log.letters) != 1 {
		t.Errorf("letters: %+v", w.log.letters)
	}
	w.proj.fail = func() error { return api.ErrLogUnavailable }
	if err := w.svc.HandleInbox(context.Background(), msg); err == nil {
		t.Error("a projection that is away was taken for bad input")
	}
}

// The shared transcripts import, and import again as nothing.
func TestImportSharedTranscripts(t *testing.T) {
	dir := os.Getenv("LCM_TRANSCRIPTS")
	if dir == "" {
		dir = "../../../shared/transcripts"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Skip("no shared transcripts here")
	}
	w := start(t)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, ".md") {
			continue
		}
		var counts [2]map[string]int
		for round := range counts {
			r, err := Import(context.Background(), strings.NewReader(string(data)), ImportOptions{
				Tenant: "t", File: file, Measures: quickMeasures, Bury: w.log.Bury,
			}, w.svc)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				break
			}
			c := map[string]int{}
			for _, s := range r {
				c["sessions"]++
				c["turns"] += s.Turns
				c["appended"] += s.Appended
				c["duplicates"] += s.Duplicates
				c["rejected"] += s.Rejected
			}
			counts[round] = c
			w.open(t, Config{})
		}
		if counts[1]["appended"] != 0 {
			t.Errorf("%s: %v, then %v", file, counts[0], counts[1])
		}
		t.Logf("%s: %v, then %v", filepath.Base(file), counts[0], counts[1])
	}
	w.head(t, "any")
}

// TestImportTakesTheSessionsLimit: what is a file is for the session to say, not
// for the importer.
func TestImportTakesTheSessionsLimit(t *testing.T) {
	for limit, one := range map[int]struct{ lines, files int }{
		2_000:   {1_000, 1}, // the default makes no file of 5,000 characters
		100_000: {8_000, 0}, // and one of 40,000
	} {
		w := start(t)
		if _, err := w.svc.Configure(context.Background(), api.ConfigureRequest{Ref: ref("s"), Set: map[string]any{"large_file_chars": limit}}); err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat(`line\n`, one.lines)
		w.importText(t, `{"type":"assistant","uuid":"u1","message":{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Read","input":{"file_path":"a.txt"}}]}}
{"type":"user","uuid":"u2","parentUuid":"u1","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"`+body+`"}]}}
`, ImportOptions{File: "s.jsonl", Format: transcript.ClaudeCode})
		recs := w.log.all()
		turn, err := events.DecodeTurn(recs[len(recs)-1].Data)
		if err != nil || turn.ID != "u2" || len(turn.Files) != one.files || turn.LargeInline {
			t.Errorf("limit %d: turn %s has files %+v, large inline %v, %v", limit, turn.ID, turn.Files, turn.LargeInline, err)
		}
	}
}
