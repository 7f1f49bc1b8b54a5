package bleveindex

import (
	"fmt"
	"os"

	"lcm/internal/api"
)

// Files opens and replaces the index in Dir. It implements api.Indexes.
type Files struct {
	Dir     string
	Options Options // Epoch is the caller's
}

var _ api.Indexes = Files{}

// Open implements api.Indexes.
func (f Files) Open(epoch string) (api.Index, error) {
	o := f.Options
	o.Epoch = epoch
	x, err := Open(f.Dir, o)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Create implements api.Indexes.
func (f Files) Create(epoch string) (api.Index, error) {
	return f.replace(epoch, func() error { return nil })
}

// replace moves the old directory aside while place puts another one there, or
// none. It is renamed first, so that a crash in between leaves no half-deleted
// index behind.
func (f Files) replace(epoch string, place func() error) (api.Index, error) {
	old := f.Dir + ".old"
	if err := Remove(old); err != nil {
		return nil, err
	}
	if err := os.Rename(f.Dir, old); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("index: %w", err)
	}
	if err := place(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	x, err := f.Open(epoch)
	if err != nil {
		return nil, err
	}
	return x, Remove(old)
}

// Beside implements api.Indexes.
func (f Files) Beside(epoch string) (api.Index, error) {
	next := Files{Dir: f.Dir + ".next", Options: f.Options}
	if err := Remove(next.Dir); err != nil {
		return nil, err
	}
	return next.Open(epoch)
}

// Promote implements api.Indexes. Bleve writes its files by their paths, so the
// index is closed while it moves: some milliseconds. A crash in between leaves
// no index, or the old one.
func (f Files) Promote(filled api.Index) (api.Index, error) {
	_, epoch := filled.Checkpoint()
	if err := filled.Close(); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return f.replace(epoch, func() error { return os.Rename(f.Dir+".next", f.Dir) })
}
