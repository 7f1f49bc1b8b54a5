package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/wholefile"
)

// ownerFile tells how to reach the process that owns a data directory.
const ownerFile = "server.json"

// lockWait is how long a command waits for another command that holds the
// directory without serving it.
const lockWait = 20 * time.Second

// Owner is the process that owns a data directory.
type Owner struct {
	PID   int    `json:"pid"`
	URL   string `json:"url"`
	Token string `json:"token"` // bearer token, "" while none is needed
	Epoch string `json:"epoch"`
}

// dirLock is the truth of ownership: an exclusive flock on a file, which the
// kernel releases with the process.
type dirLock struct{ f *os.File }

// errHeld: another process holds the lock.
var errHeld = errors.New("held by another process")

// lockDir takes the directory, creating it where it is absent.
func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, problem.New(problem.Invalid, "data directory %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, problem.New(problem.Invalid, "data directory %s cannot be written: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errHeld
		}
		return nil, problem.New(problem.Invalid, "data directory %s: lock: %w", dir, err)
	}
	l := &dirLock{f}
	if err := l.sign(); err != nil {
		l.release()
		return nil, problem.New(problem.Invalid, "data directory %s cannot be written: %w", dir, err)
	}
	return l, nil
}

// sign writes the owner's pid, for people and for error messages.
func (l *dirLock) sign() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (l *dirLock) release() { _ = l.f.Close() }

// waitLock waits while another command holds the directory, unless a server
// owns it: then it returns that owner instead.
func waitLock(ctx context.Context, dir string) (*dirLock, *Owner, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(lockWait)
	defer deadline.Stop()
	for {
		l, err := lockDir(dir)
		if !errors.Is(err, errHeld) {
			return l, nil, err
		}
		owner, err := readOwner(dir)
		if err != nil || owner != nil && strconv.Itoa(owner.PID) == holder(dir) {
			return nil, owner, err // else a killed server left it, and somebody else holds the lock
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-deadline.C:
			return nil, nil, problem.New(problem.Unavailable, "data directory %s is in use by process %s", dir, holder(dir)).
				WithHint("wait for it to end, or use another --data-dir")
		}
	}
}

func holder(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "lock"))
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return pid
	}
	return "unknown"
}

// readOwner reads server.json; nil where no server says it owns the directory.
func readOwner(dir string) (*Owner, error) {
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, problem.New(problem.Invalid, "data directory %s: %w", dir, err)
	}
	o := new(Owner)
	if json.Unmarshal(b, o) != nil || o.URL == "" {
		return nil, nil // being written right now
	}
	return o, nil
}

// announce writes server.json; the returned function takes it back.
func announce(dir string, o Owner) (func(), error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, ownerFile)
	if err := wholefile.Write(path, append(b, '\n'), 0o600); err != nil {
		return nil, fmt.Errorf("announce the server: %w", err)
	}
	return func() { _ = os.Remove(path) }, nil
}

// RefusedProjection reports whether a node stopped because its projector will
// not work on the rows it found: of another log, or of another schema.
func RefusedProjection(err error) bool {
	var l *loopError
	return errors.As(err, &l) && l.name == projectorLoop && problem.IsCode(l.err, problem.Damaged)
}

// DropProjections moves rows, index and witness aside, to projection.old; the
// next node makes them anew from the log. What they knew of a log that was lost
// stays until the next time.
func DropProjections(ctx context.Context, c config.Config) error {
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return err
	}
	if owner != nil {
		return problem.New(problem.Unavailable, "data directory %s is served by process %d", c.DataDir, owner.PID).WithHint("end it first")
	}
	defer lock.release()
	dir := filepath.Dir((&Node{cfg: c}).rowsPath())
	if err := os.RemoveAll(dir + ".old"); err != nil {
		return err
	}
	if err := os.Rename(dir, dir+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
