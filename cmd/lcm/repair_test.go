package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lcm/internal/api"
)

// spoilBlock changes a bit in the middle of a block of the log.
func spoilBlock(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, flip(b, len(b)/2), 0o600); err != nil {
		t.Fatal(err)
	}
}

func repaired(t *testing.T, data, dir string, code int) report {
	t.Helper()
	r := lcm(t, data, "doctor", "--repair", "--from", dir, "--json")
	if r.code != code {
		t.Fatalf("repair: exit %d %s%s", r.code, r.out, r.err)
	}
	return decode[report](t, r.out)
}

// TestRepair makes damaged logs whole from a backup that is older than they are:
// what one of the two copies has is there afterwards, under its position, and the
// digest is that of the undamaged log.
func TestRepair(t *testing.T) {
	base := filledForDamage(t)
	dir := filepath.Join(t.TempDir(), "copy")
	ok(t, base.dir, "backup", dir)
	for i := range 3 { // what only the log has
		appendLines(t, base.dir, damagedName(i), fmt.Sprintf(`{"id":"later%d","role":"user","content":"behind the backup"}`, i))
	}
	want, last := digest(t, base.dir), base.last+3
	for what, spoil := range map[string]func(data string){
		"a bit of the first block": func(data string) { spoilBlock(t, blocks(data)[0]) },
		"the first block is gone":  func(data string) { remove(t, blocks(data)[0]) },
		"a block and the index": func(data string) {
			spoilBlock(t, blocks(data)[1])
			remove(t, streamDir(data, "LCM"), "msgs", "index.db")
		},
		"the stream's metadata": func(data string) { remove(t, streamDir(data, "LCM"), "meta.inf") },
	} {
		t.Run(what, func(t *testing.T) {
			data := copyTree(t, base.dir)
			spoil(data)
			r := repaired(t, data, dir, 0)
			if r.Repair == nil || !r.Repair.Needed || r.Repair.Last != last || r.Repair.Lost != 0 || r.Repair.FromLog+r.Repair.FromBackup != last {
				t.Errorf("%+v", r.Repair)
			}
			if got := digest(t, data); got != want {
				t.Errorf("digest %s, want %s", got, want)
			}
			if v := verified(t, data); !v.OK || v.Last != last {
				t.Errorf("verify: %+v", v)
			}
			appendLines(t, data, "s0", `{"id":"new","role":"user","content":"goes on"}`)
			if kept, err := filepath.Glob(filepath.Join(data, "jetstream.damaged-*")); err != nil || len(kept) != 1 {
				t.Errorf("the damaged log: %v, %v", kept, err)
			}
		})
	}
	t.Run("nothing is wrong", func(t *testing.T) {
		data := copyTree(t, base.dir)
		if r := repaired(t, data, dir, 0); r.Repair.Needed || r.Repair.FromLog != last {
			t.Errorf("%+v", r.Repair)
		}
		if kept, _ := filepath.Glob(filepath.Join(data, "*.damaged-*")); kept != nil {
			t.Errorf("moved: %v", kept)
		}
		if got := digest(t, data); got != want {
			t.Errorf("digest %s, want %s", got, want)
		}
	})
}

// TestRepairOfWhatNeitherHas: such positions are lost, and said to be.
func TestRepairOfWhatNeitherHas(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	appendLines(t, data, "a", `{"id":"a1","role":"user","content":"one"}`, `{"id":"a2","role":"user","content":"two"}`, `{"id":"a3","role":"user","content":"three"}`)
	ok(t, data, "backup", dir)
	lose(t, dir, 3)
	remove(t, streamDir(data, "LCM"), "msgs")
	r := repaired(t, data, dir, 4)
	if r.Repair.Lost != 1 || !slices.Equal(r.Repair.LostAt, []uint64{3}) || r.Repair.FromBackup != 3 {
		t.Errorf("%+v", r.Repair)
	}
	turns := lines[api.TurnOut](t, ok(t, data, "show", "--json", "a"))
	if len(turns) != 3 || !turns[1].Lost || turns[2].ID != "a3" {
		t.Errorf("%+v", turns)
	}
}

// TestRepairKnowsTheWitness: positions that the log had come to, and neither copy
// has, are not given to other events.
func TestRepairKnowsTheWitness(t *testing.T) {
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	appendLines(t, data, "a", `{"id":"a1","role":"user","content":"one"}`)
	ok(t, data, "backup", dir)
	appendLines(t, data, "a", `{"id":"a2","role":"user","content":"two"}`)
	ok(t, data, "sessions")
	remove(t, streamDir(data, "LCM"), "msgs")
	r := repaired(t, data, dir, 4)
	if r.Repair.Last != 3 || r.Repair.Lost != 1 {
		t.Errorf("%+v", r.Repair)
	}
	appendLines(t, data, "a", `{"id":"a2","role":"user","content":"two"}`) // sent again
	if v := verified(t, data); v.Last != 4 || v.Lost != 1 || !v.OK {
		t.Errorf("%+v", v)
	}
}

// TestRepairRefuses what it cannot judge, and changes nothing.
func TestRepairRefuses(t *testing.T) {
	data := t.TempDir()
	appendLines(t, data, "s", `{"id":"a","role":"user","content":"one"}`)
	other, dir := copyTree(t, data), filepath.Join(t.TempDir(), "copy")
	appendLines(t, data, "s", `{"id":"b","role":"user","content":"two"}`)
	appendLines(t, other, "s", `{"id":"b","role":"user","content":"another"}`)
	ok(t, other, "backup", dir)
	before := treeHash(t, filepath.Join(data, "projection"))
	oneError(t, lcm(t, data, "doctor", "--repair", "--from", dir), 1, "different events at position 3")
	oneError(t, lcm(t, data, "doctor", "--from", dir), 2, "give both")
	third := filepath.Join(t.TempDir(), "third")
	appendLines(t, third, "s", `{"id":"a","role":"user","content":"one"}`)
	oneError(t, lcm(t, third, "doctor", "--repair", "--from", dir), 1, "the backup is of the log")
	oneError(t, lcm(t, data, "doctor", "--repair", "--from", filepath.Join(dir, "none")), 3, "no backup directory")
	if treeHash(t, filepath.Join(data, "projection")) != before {
		t.Error("the projections were touched")
	}
	serve(t, data)
	oneError(t, lcm(t, data, "doctor", "--repair", "--from", dir), 1, "served by process")
}

func treeHash(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	for _, f := range filesUnder(dir) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s %d %x\n", f, len(b), b[:min(len(b), 64)])
	}
	return out.String()
}

// TestRepairKilled: a repair that is killed again and again, each time later,
// ends in the log that one without interruption makes.
func TestRepairKilled(t *testing.T) {
	base := filledForDamage(t)
	dir := filepath.Join(t.TempDir(), "copy")
	ok(t, base.dir, "backup", dir)
	want := digest(t, base.dir)
	data := copyTree(t, base.dir)
	spoilBlock(t, blocks(data)[0])
	kills := 0
	for wait := 60 * time.Millisecond; ; wait += wait / 2 {
		c := command(t, "doctor", "--repair", "--from", dir, "--json", "--data-dir", data)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(wait):
			_ = c.Process.Kill()
			<-ended
			kills++
			continue
		}
		break
	}
	if kills < 3 {
		t.Errorf("killed %d times", kills)
	}
	if got := digest(t, data); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
	if v := verified(t, data); !v.OK || v.Last != base.last {
		t.Errorf("verify: %+v", v)
	}
	if _, err := os.Stat(filepath.Join(data, "repair")); err == nil {
		t.Error("the repair left its directory behind")
	}
}
