package boltstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"lcm/internal/api"
)

// Files opens and replaces the store at Path. It implements api.Stores.
type Files struct {
	Path    string
	Options Options
	Log     *slog.Logger // nil = silent
}

var _ api.Stores = Files{}

// Open opens the store. A damaged file, and one of an older schema, is moved
// aside and an empty store takes its place; one of a newer schema is refused and
// left alone.
func (f Files) Open() (api.Store, error) {
	s, err := Open(f.Path, f.Options)
	if err == nil {
		return s, nil
	}
	older := errors.Is(err, ErrOlder)
	if !older && !errors.Is(err, ErrDamaged) || f.Options.ReadOnly {
		return nil, err
	}
	suffix, level, what := "damaged", slog.LevelError, "store damaged, moved aside, rebuilding"
	if older {
		suffix, level, what = "older", slog.LevelWarn, "store of an older build moved aside, rebuilding from the log"
	}
	to, moveErr := MoveAside(f.Path, suffix)
	if moveErr != nil {
		return nil, errors.Join(err, moveErr)
	}
	if f.Log != nil {
		f.Log.Log(context.Background(), level, what, "path", f.Path, "moved_to", to, "error", err)
	}
	s, err = Open(f.Path, f.Options)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (f Files) freshPath() string { return f.Path + ".new" }

// Fresh makes an empty store beside the one in use.
func (f Files) Fresh() (api.Store, error) {
	dropSums(f.freshPath())
	if err := os.Remove(f.freshPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("fresh store: %w", err)
	}
	s, err := Open(f.freshPath(), Options{LockTimeout: f.Options.LockTimeout})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Promote renames an open fresh store over the old one. Whatever the crash
// point, Path is one whole store or the other.
func (f Files) Promote(fresh api.Store) error {
	s, ok := fresh.(*Store)
	if !ok || s.path != f.freshPath() {
		return fmt.Errorf("promote: not a fresh store of %s", f.Path)
	}
	dropSums(f.Path)
	if err := os.Rename(s.path, f.Path); err != nil {
		return fmt.Errorf("promote store: %w", err)
	}
	s.path = f.Path
	return syncDir(filepath.Dir(f.Path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("promote store: %w", err)
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
