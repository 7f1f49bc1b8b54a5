package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lcm/internal/config"
)

// TestSwapInterrupted: a repair that dies between any two steps of the change is
// finished by the next one; until then nothing is opened in its place.
func TestSwapInterrupted(t *testing.T) {
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for died := range 7 {
		t.Run(fmt.Sprint("behind step ", died), func(t *testing.T) {
			data := t.TempDir()
			c := config.Default()
			c.DataDir = data
			r := &repairer{n: &Node{cfg: c}, base: filepath.Join(data, repairDir)}
			write(filepath.Join(r.n.logDir(), "log"), "damaged")
			write(filepath.Join(r.newLog(), "log"), "new")
			write(filepath.Join(data, "projection", "rows"), "old")
			if err := writeMark(filepath.Join(r.base, wholeMark)); err != nil {
				t.Fatal(err)
			}
			var kept string
			steps := r.steps(&kept)
			if died > len(steps) {
				t.Skip("there are no more steps")
			}
			for _, step := range steps[:died] {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			if died > 0 && died < len(steps) {
				if !r.half() {
					t.Error("nobody knows that a repair was interrupted")
				}
				if may, err := r.n.mayCreate(); may || err == nil {
					t.Errorf("a new log may be made: %v, %v", may, err)
				}
			}
			kept, err := r.swap()
			if err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]string{
				filepath.Join(r.n.logDir(), "log"):                  "new",
				filepath.Join(data, "jetstream.damaged-1", "log"):   "damaged",
				filepath.Join(data, "projection.damaged-1", "rows"): "old",
			} {
				if b, err := os.ReadFile(path); err != nil || string(b) != want {
					t.Errorf("%s: %q, %v", path, b, err)
				}
			}
			if exists(r.base) || died < 2 && kept == "" {
				t.Errorf("kept %q; the repair's directory is there: %v", kept, exists(r.base))
			}
		})
	}
}
