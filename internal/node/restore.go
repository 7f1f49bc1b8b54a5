package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"lcm/internal/backup"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/natslog"
)

// Restore writes a backup into the store that the configuration names, which
// must be empty, under a new epoch.
func Restore(ctx context.Context, c config.Config, dir *backup.Dir, log *slog.Logger, progress func(backup.Progress)) (backup.Summary, error) {
	var none backup.Summary
	if c.Server != "" {
		return none, problem.New(problem.Invalid, "a running server cannot be restored into").WithHint("stop it and name an empty --data-dir, or an external server with --nats")
	}
	sum, err := dir.Check(ctx) // before anything is made
	if err != nil {
		return none, err
	}
	o := natslog.Options{Replicas: c.Replicas, Logger: log}
	if c.NATS != "" {
		nc, err := dial(c)
		if err != nil {
			return none, err
		}
		defer nc.Close()
		t, err := natslog.NewRestoration(nc, o)
		if err != nil {
			return none, err
		}
		return dir.Restore(ctx, sum, t, progress)
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return none, err
	}
	if owner != nil {
		return none, problem.New(problem.Conflict, "data directory %s is served by process %d", c.DataDir, owner.PID).WithHint("stop it, and restore into an empty directory")
	}
	defer lock.release()
	rows := (&Node{cfg: c}).rowsPath()
	if _, err := os.Stat(rows); !errors.Is(err, fs.ErrNotExist) {
		return none, problem.New(problem.Conflict, "there are projections of another log in %s", c.DataDir).
			WithHint("restore into an empty directory; or, if that log is lost, move %s/projection away first", c.DataDir)
	}
	s, nc, err := startEmbedded(logDir(c), log)
	if err != nil {
		return none, err
	}
	defer s.Stop()
	t, err := natslog.NewRestoration(nc, o)
	if err != nil {
		return none, err
	}
	return dir.Restore(ctx, sum, t, progress)
}
