package bleveindex

import (
	"errors"
	"path/filepath"
	"testing"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// TestOlderSchema: an index of another build is thrown away, and is not called
// damaged.
func TestOlderSchema(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "index")
	x, err := Open(dir, Options{Epoch: "E"})
	if err != nil {
		t.Fatal(err)
	}
	b := x.idx.NewBatch()
	old := x.state
	old.Schema--
	if err := errors.Join(x.putState(b, old), x.idx.Batch(b), x.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Epoch: "E"}); !errors.Is(err, api.ErrOutdated) || errors.Is(err, ErrDamaged) || !problem.IsCode(err, problem.Damaged) {
		t.Fatal(err)
	}
	y, err := Files{Dir: dir}.Create("E")
	if err != nil {
		t.Fatal(err)
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
}
