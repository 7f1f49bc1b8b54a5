package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/internal/backup"
)

// lose rewrites the only log segment of a backup as one made of a log that
// could not give these positions.
func lose(t *testing.T, dir string, seqs ...uint64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "LCM-*.seg"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	r, err := backup.NewReader(bufio.NewReader(bytes.NewReader(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := backup.NewWriter(&out, r.Header)
	if err != nil {
		t.Fatal(err)
	}
	for {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && slices.Contains(seqs, f.Message.Seq) {
			err = w.Lost(f.Message.Seq, "the block cannot be read")
		} else if err == nil {
			err = w.Message(f.Message)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(names[0], out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreWithALostPosition: a lost turn reads as lost under its number, all
// others as before; the session goes on, and verify, doctor and status name what
// is lost.
func TestRestoreWithALostPosition(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	appendLines(t, data, "a", `{"id":"a1","role":"user","content":"one"}`, `{"id":"a2","role":"assistant","content":"two"}`, `{"id":"a3","role":"user","content":"three"}`)
	appendLines(t, data, "b", `{"id":"b1","role":"user","content":"other"}`)
	ok(t, data, "backup", dir)
	lose(t, dir, 3) // 1 configures a, 2 to 4 are its turns, 5 configures b
	copied := t.TempDir()
	r := lcm(t, copied, "restore", dir)
	if r.code != 4 || !strings.Contains(r.out, "could not be read") {
		t.Fatalf("exit %d %s%s", r.code, r.out, r.err)
	}
	appendLines(t, copied, "a", `{"id":"a4","role":"user","content":"four"}`)
	turns := lines[api.TurnOut](t, ok(t, copied, "show", "--json", "--raw", "a"))
	var got []string
	for _, turn := range turns {
		got = append(got, turn.Entry+" "+turn.ID)
	}
	if want := []string{"e1 a1", "e2 lcm:lost:3", "e3 a3", "e4 a4"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if l := turns[1]; !l.Lost || !strings.Contains(l.Text, "lost to damage") || turns[0].Lost {
		t.Errorf("the lost turn: %+v", l)
	}
	if out := ok(t, copied, "context", "a"); !strings.Contains(out, "[lcm:lost e2]") || !strings.Contains(out, "three") {
		t.Errorf("context: %s", out)
	}
	v := verified(t, copied)
	if !v.OK || v.Lost != 1 || len(v.Faults) != 1 || v.Faults[0].Session != "a" || v.Faults[0].Version != 3 {
		t.Errorf("verify: %+v", v)
	}
	if out := ok(t, copied, "doctor", "--deep"); !strings.Contains(out, "position 3 of session default/a, its turn e2") {
		t.Errorf("doctor: %s", out)
	}
	if out := ok(t, copied, "status"); !strings.Contains(out, "1 lost for good") {
		t.Errorf("status: %s", out)
	}
	digest(t, copied)
	// A backup of it is whole: what is lost is said in the log itself.
	again := filepath.Join(t.TempDir(), "again")
	ok(t, copied, "backup", again)
	third := t.TempDir()
	ok(t, third, "restore", again)
	if a, b := digest(t, copied), digest(t, third); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}
