package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
	"lcm/natsembed"
	"lcm/natslog"
)

// ConnectLog gives a client of the tools that need nothing but the log: of the
// server that is named or owns the data directory, else of the log opened
// here, however damaged, without any role. The function closes what was opened.
func ConnectLog(ctx context.Context, c config.Config, log *slog.Logger, version string) (*client.Client, func() error, error) {
	nothing := func() error { return nil }
	if c.Server != "" {
		return client.New(c.Server).WithToken(string(c.Token)), nothing, nil
	}
	if c.NATS != "" {
		nc, err := dial(c)
		if err != nil {
			return nil, nil, err
		}
		return inspect(ctx, nc, func() error { nc.Close(); return nil }, log, version)
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return nil, nil, err
	}
	if owner != nil {
		if err := alive(ctx, owner); err != nil {
			return nil, nil, problem.New(problem.Unavailable, "data directory %s is owned by process %d, which does not answer at %s: %w", c.DataDir, owner.PID, owner.URL, err).
				WithHint("wait for it, or end process %d", owner.PID)
		}
		return client.New(owner.URL).WithToken(owner.Token), nothing, nil
	}
	_ = os.Remove(filepath.Join(c.DataDir, ownerFile)) // of a server that was killed
	dir := logDir(c)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		lock.release()
		return nil, nil, problem.New(problem.NotFound, "there is no log in %s", c.DataDir).WithHint("name its directory with --data-dir, or restore a backup with `lcm restore`")
	}
	s, nc, err := startEmbedded(dir, log)
	if err != nil {
		lock.release()
		return nil, nil, err
	}
	return inspect(ctx, nc, func() error { s.Stop(); lock.release(); return nil }, log, version)
}

func inspect(ctx context.Context, nc *nats.Conn, done func() error, log *slog.Logger, version string) (*client.Client, func() error, error) {
	l, err := natslog.Inspect(ctx, nc, natslog.Options{Logger: log})
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	h, err := toolsvc.ArchiveHandler(archiveDeps(l), log, version)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return client.InProcess(auth.As(api.Operator(), h)), done, nil
}

func logDir(c config.Config) string { return filepath.Join(c.DataDir, "jetstream") }

func startEmbedded(dir string, log *slog.Logger) (*natsembed.Server, *nats.Conn, error) {
	s, err := natsembed.Start(natsembed.Options{Dir: dir, Logger: log})
	if err != nil {
		return nil, nil, problem.New(problem.Unavailable, "embedded server in %s: %w", dir, err)
	}
	nc, err := s.Conn()
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	return s, nc, nil
}

// archiveDeps are the tools over a log.
func archiveDeps(l *natslog.Log) toolsvc.Deps {
	return toolsvc.Deps{
		Verify: verifier(l),
		Export: exporter(l),
	}
}
