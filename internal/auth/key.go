package auth

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lcm/grant"
	"lcm/internal/problem"
)

// GrantKey reads the key that signs grants: 32 bytes in base64, readable by its
// owner alone. Where there is none it is made, if mayMake: replicas must
// share one, so a path that was configured is never filled by itself.
func GrantKey(path string, mayMake bool) (grant.Key, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && mayMake {
		b, err = newKey(path)
	}
	if err != nil {
		return grant.Key{}, problem.New(problem.Unavailable, "the key of grants: %w", err).WithHint("make one with `openssl rand -base64 32`, the same on every toolsvc: auth.grant_key")
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return grant.Key{}, problem.New(problem.Unavailable, "the key of grants in %s can be read by others (mode %v)", path, info.Mode().Perm()).WithHint("chmod 600 %s; make a new one if somebody has", path)
	}
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	if err != nil {
		return grant.Key{}, problem.New(problem.Unavailable, "the key of grants in %s is not base64", path)
	}
	k, err := grant.NewKey(seed)
	if err != nil {
		return k, problem.New(problem.Unavailable, "%s: %w", path, err)
	}
	return k, nil
}

// newKey makes a key that appears as a whole or not at all; of two processes
// that do so at once, one wins and both read its.
func newKey(path string) ([]byte, error) {
	seed := make([]byte, 32)
	_, _ = rand.Read(seed) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".grant-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(base64.StdEncoding.EncodeToString(seed) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.ReadFile(path)
}
