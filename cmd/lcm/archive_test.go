package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/internal/backup"
)

// filled makes a data directory with a session of ours, condensed, and a dead
// letter.
func filled(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	ok(t, data, "import", "--session", "s", demoFile(t))
	ok(t, data, "condense", "s", "--window", fmt.Sprint(smallWindow))
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte(`{"id":"x","role":"user","content":"fine"}`+"\n"+`{"id":"y","role":`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, data, "import", "--format", "lcm", "--session", "bad", bad)
	return data
}

func digest(t *testing.T, data string) string {
	t.Helper()
	r := decode[api.RebuildReply](t, ok(t, data, "rebuild", "--json"))
	if r.Digest != r.Live || r.Digest == "" {
		t.Fatalf("the rebuild differs from the live store: %+v", r)
	}
	return r.Digest
}

func verified(t *testing.T, data string) api.VerifyReply {
	t.Helper()
	return decode[api.VerifyReply](t, ok(t, data, "verify", "--json"))
}

func TestVerifyCommand(t *testing.T) {
	data := filled(t)
	embedded := verified(t, data)
	if !embedded.OK || embedded.Events != embedded.Last || embedded.Events == 0 || embedded.Sessions != 2 || embedded.Valid != embedded.Events {
		t.Errorf("embedded: %+v", embedded)
	}
	serve(t, data)
	served := verified(t, data)
	if served.Events != embedded.Events || served.Epoch != embedded.Epoch || !served.OK {
		t.Errorf("served: %+v", served)
	}
	oneError(t, lcm(t, t.TempDir(), "verify"), 3, "there is no log")
}

// TestBackupRestore: what is restored is the same log, byte for byte in its
// projections, and goes on from there.
func TestBackupRestore(t *testing.T) {
	data, dir := filled(t), filepath.Join(t.TempDir(), "copy")
	first := decode[backup.Summary](t, ok(t, data, "backup", "--json", dir))
	if first.Added == 0 || first.Dead != 1 || first.Segments != 1 || first.Last != first.Added {
		t.Errorf("first backup: %+v", first)
	}
	again := decode[backup.Summary](t, ok(t, data, "backup", "--json", dir))
	if again.Added != 0 || again.Last != first.Last {
		t.Errorf("nothing new: %+v", again)
	}
	appendLines(t, data, "s", `{"id":"later","role":"user","content":"after the first backup"}`)
	server := serve(t, data) // beside a server
	second := decode[backup.Summary](t, ok(t, data, "backup", "--json", dir))
	if second.Added != 1 || second.Last != first.Last+1 {
		t.Errorf("second backup: %+v", second)
	}
	whole := decode[backup.Summary](t, ok(t, data, "backup", "--check", "--json", dir))
	if whole.Events != second.Last || !whole.Whole || whole.Segments != 2 {
		t.Errorf("check: %+v", whole)
	}
	want := digest(t, data)
	_ = server.Process.Kill()
	_ = server.Wait()

	copied := t.TempDir()
	ok(t, copied, "restore", dir)
	if got := digest(t, copied); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	v := verified(t, copied)
	if !v.OK || v.Epoch == first.Epoch || v.Last != second.Last {
		t.Errorf("restored: %+v", v)
	}
	if out := ok(t, copied, "dead", "list"); !strings.Contains(out, "bad.jsonl") {
		t.Errorf("dead letters: %s", out)
	}
	appendLines(t, copied, "s", `{"id":"later","role":"user","content":"after the first backup"}`, `{"id":"new","role":"user","content":"in the copy"}`)
	if got := verified(t, copied); got.Last != v.Last+1 || !got.OK {
		t.Errorf("after an append: %+v", got)
	}
	oneError(t, lcm(t, copied, "restore", dir), 1, "empty")
	oneError(t, lcm(t, copied, "backup", dir), 1, "this log is")
}

func appendLines(t *testing.T, data, session string, turns ...string) {
	t.Helper()
	if r := lcmIn(t, data, strings.Join(turns, "\n"), "append", session); r.code != 0 {
		t.Fatalf("append: exit %d %s", r.code, r.err)
	}
}

// TestDamagedBackup: a damaged or missing segment is named, and nothing is
// restored from it.
func TestDamagedBackup(t *testing.T) {
	data, dir := filled(t), filepath.Join(t.TempDir(), "copy")
	ok(t, data, "backup", dir)
	appendLines(t, data, "s", `{"id":"later","role":"user","content":"x"}`)
	ok(t, data, "backup", dir)
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(names) != 6 {
		t.Fatalf("%v %v", names, err)
	}
	for _, name := range names {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for what, spoiled := range map[string][]byte{
			"a bit":   flip(whole, len(whole)/2),
			"the end": whole[:len(whole)-3],
			"all":     nil,
			"more":    append(append([]byte{}, whole...), 'x'),
		} {
			if err := os.WriteFile(name, spoiled, 0o600); err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(t.TempDir(), "d")
			r := lcm(t, target, "restore", dir)
			oneError(t, r, 4, filepath.Base(name))
			if _, err := os.Stat(target); err == nil {
				t.Errorf("%s of %s: something was restored", what, name)
			}
			oneError(t, lcm(t, data, "backup", "--check", dir), 4, filepath.Base(name))
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, data, "backup", "--check", dir)
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	oneError(t, lcm(t, t.TempDir(), "restore", dir), 4, "no segment with the positions 1 to")
}

func flip(b []byte, at int) []byte {
	out := append([]byte{}, b...)
	out[at] ^= 0x10
	return out
}
