package boltstore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lcm/internal/api"
)

// TestCompareBesideReads: a file whose comparison takes long is read meanwhile;
// the first write waits for the result, and damage found late closes the store
// and moves the file aside.
func TestCompareBesideReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lcm.bolt")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{done: make(chan struct{})}
	if c.within(time.Millisecond) != nil {
		t.Error("a result before there is one")
	}
	s.compared = c
	nothing := func(api.StoreTx) error { return nil }
	if err := s.View(nothing); err != nil {
		t.Errorf("a read beside the comparison: %v", err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- s.Update(nothing) }()
	select {
	case err := <-wrote:
		t.Errorf("a write did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.err = damaged("the file changed")
	close(c.done)
	if err := <-wrote; !errors.Is(err, ErrDamaged) {
		t.Errorf("the write: %v", err)
	}
	if err := s.View(nothing); !errors.Is(err, ErrDamaged) {
		t.Errorf("a later read: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".damaged-1"); err != nil {
		t.Errorf("moved aside: %v", err)
	}
	if _, err := os.Stat(path + sumsSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a damaged file has sums: %v", err)
	}
}
