package mapper

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lcm/internal/problem"
	"lcm/mapjob"
)

// within finds the allowed directory a path lies in, opened so that nothing
// outside it is reached: not by "..", not by a link.
func (s *Service) within(path string) (*os.Root, string, error) {
	if len(s.c.Roots) == 0 {
		return nil, "", problem.New(problem.Forbidden, "path %s: no directory is allowed for maps", path).
			WithHint("upload the file, or list its directory in map.roots")
	}
	for _, dir := range s.c.Roots {
		rel := path
		if filepath.IsAbs(path) {
			r, err := filepath.Rel(dir, path)
			if err != nil || !filepath.IsLocal(r) {
				continue
			}
			rel = r
		}
		if !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, "", problem.New(problem.Unavailable, "map.roots: %w", err)
		}
		return root, rel, nil
	}
	return nil, "", problem.New(problem.Forbidden, "path %s is in none of the allowed directories %s", path, strings.Join(s.c.Roots, ", ")).
		WithHint("upload the file, or list its directory in map.roots")
}

// openInput opens a regular file below the roots.
func (s *Service) openInput(path string) (io.ReadCloser, error) {
	root, rel, err := s.within(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem.New(problem.NotFound, "there is no file %s", path)
	case err != nil:
		return nil, problem.New(problem.Forbidden, "input %s: %w", path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = problem.New(problem.Invalid, "input %s is no regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkOutput refuses a path that cannot become a new file.
func (s *Service) checkOutput(path string) error {
	root, rel, err := s.within(path)
	if err != nil {
		return err
	}
	defer root.Close()
	_, err = root.Lstat(rel)
	switch {
	case err == nil:
		return problem.New(problem.Conflict, "output %s exists", path).WithHint("name a new file: nothing is overwritten")
	case !errors.Is(err, fs.ErrNotExist):
		return problem.New(problem.Forbidden, "output %s: %w", path, err)
	}
	if info, err := root.Stat(filepath.Dir(rel)); err != nil || !info.IsDir() {
		return problem.New(problem.NotFound, "output %s: there is no directory for it", path)
	}
	return nil
}

// writeOutput writes a finished job's output to its path.
func (s *Service) writeOutput(ctx context.Context, j *mapjob.Job) error {
	root, rel, err := s.within(j.Definition.Output)
	if err != nil {
		return err
	}
	defer root.Close()
	return WriteWhole(root, rel, func(w io.Writer) error { return s.WriteRows(ctx, j.Ref, w) })
}

// WriteWhole makes a new file of what write writes: whole, or not at all. A
// file of that name is not overwritten.
func WriteWhole(root *os.Root, name string, write func(io.Writer) error) (err error) {
	if _, err := root.Lstat(name); err == nil {
		return problem.New(problem.Conflict, "output %s exists", name).WithHint("name a new file: nothing is overwritten")
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	part := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+hex.EncodeToString(random[:])+".part")
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return problem.New(problem.From(err).Code, "output %s: %w", name, err)
	}
	defer func() { _ = root.Remove(part) }()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link fails where a file of the name has come up meanwhile.
	if err := root.Link(part, name); errors.Is(err, fs.ErrExist) {
		return problem.New(problem.Conflict, "output %s exists", name).WithHint("name a new file: nothing is overwritten")
	} else if err != nil {
		return problem.New(problem.Unavailable, "output %s: %w", name, err)
	}
	d, err := root.Open(filepath.Dir(name))
	if err != nil {
		return problem.New(problem.Unavailable, "output %s: %w", name, err)
	}
	return errors.Join(d.Sync(), d.Close())
}
