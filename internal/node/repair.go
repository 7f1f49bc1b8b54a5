package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"lcm/internal/backup"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/projector"
	"lcm/natslog"
)

// A repair builds the new log in repair/jetstream, marks it as whole, and then
// changes places. The damaged log is read in copies: a server that opens it
// changes it. It is kept as jetstream.damaged-N, the new one takes its name, the
// projections of the old one are moved aside. Killed before the damaged log has
// left its place, it begins anew; behind that, it goes on.
const (
	repairDir = "repair"
	wholeMark = "whole" // in repairDir: the new log is all there
)

// Repair makes a damaged log of the data directory anew from what it still has
// and a backup of it. kept is where the damaged one is now, "" where nothing was
// to be done.
func Repair(ctx context.Context, c config.Config, dir *backup.Dir, log *slog.Logger, progress func(backup.Progress)) (out backup.Repaired, kept string, err error) {
	if c.Server != "" || c.NATS != "" {
		return out, "", problem.New(problem.Invalid, "a log is repaired in the data directory of an embedded server").
			WithHint("stop the server and name its --data-dir; for a log on an external server, restore the backup into an empty server with `lcm restore --nats`")
	}
	lock, owner, err := waitLock(ctx, c.DataDir)
	if err != nil {
		return out, "", err
	}
	if owner != nil {
		return out, "", problem.New(problem.Conflict, "data directory %s is served by process %d", c.DataDir, owner.PID).WithHint("stop it first")
	}
	defer lock.release()
	r := &repairer{n: &Node{cfg: c, slog: log}, base: filepath.Join(c.DataDir, repairDir)}
	if r.half() {
		kept, err = r.swap()
		return backup.Repaired{Needed: true, Notes: []string{"the last repair was interrupted and is finished now"}}, kept, err
	}
	if err := os.RemoveAll(r.base); err != nil {
		return out, "", err
	}
	sum, err := dir.Check(ctx)
	if err != nil {
		return out, "", err
	}
	if out, err = r.build(ctx, dir, sum, progress); err != nil || !out.Needed {
		return out, "", errors.Join(err, os.RemoveAll(r.base))
	}
	kept, err = r.swap()
	return out, kept, err
}

type repairer struct {
	n    *Node
	base string
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// interruptedRepair: the log is not in its place because a repair was
// interrupted while it changed it.
func (n *Node) interruptedRepair() bool {
	r := &repairer{n: n, base: filepath.Join(n.cfg.DataDir, repairDir)}
	return r.half()
}

// half: a new log is whole, and the damaged one has left its place.
func (r *repairer) half() bool {
	return exists(filepath.Join(r.base, wholeMark)) && (!exists(r.n.logDir()) || !exists(r.newLog()))
}

func (r *repairer) newLog() string { return filepath.Join(r.base, "jetstream") }

// build makes the new log, where one is needed.
func (r *repairer) build(ctx context.Context, dir *backup.Dir, sum backup.Summary, progress func(backup.Progress)) (backup.Repaired, error) {
	rep := &backup.Repair{Backup: dir, Sum: sum}
	if epoch, seq := projector.Witnessed(r.n.witnessPath()); epoch == sum.Epoch {
		rep.Known = seq
	}
	if exists(r.n.logDir()) {
		src, done, err := r.damaged(ctx, max(sum.Last, rep.Known), sum)
		if err != nil {
			return backup.Repaired{}, err
		}
		defer done()
		_, whole := src.(source)
		rep.Log, rep.Unopened = src, !whole
	}
	out, err := rep.Compare(ctx)
	if err != nil || !out.Needed {
		return out, err
	}
	s, nc, err := startEmbedded(r.newLog(), r.n.slog)
	if err != nil {
		return out, err
	}
	stop := s.Stop
	defer func() { stop() }()
	t, err := natslog.NewRestoration(nc, natslog.Options{Logger: r.n.slog})
	if err != nil {
		return out, err
	}
	if err := rep.Build(ctx, &out, t, progress); err != nil {
		return out, err
	}
	s.Stop()
	stop = func() {}
	return out, writeMark(filepath.Join(r.base, wholeMark))
}

// damaged opens a copy of the log, which a server changes as it opens it. Where
// that does not give every position up to last, the log is read block by block.
func (r *repairer) damaged(ctx context.Context, last uint64, sum backup.Summary) (backup.Source, func(), error) {
	dir := filepath.Join(r.base, "damaged")
	if err := os.CopyFS(dir, os.DirFS(r.n.logDir())); err != nil {
		return nil, nil, err
	}
	s, nc, err := startEmbedded(dir, r.n.slog)
	if err != nil {
		return nil, nil, err
	}
	l, err := natslog.Inspect(ctx, nc, natslog.Options{Logger: r.n.slog})
	if err == nil {
		if first, end, held, err := l.Extent(ctx); err == nil && l.Epoch() != sum.Epoch || end >= last && first <= 1 && held == end {
			return source{l}, s.Stop, nil
		}
	}
	src, err := newSalvage(ctx, r.n.logDir(), filepath.Join(r.base, "salvage"), sum, l, r.n.slog)
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	return src, s.Stop, nil
}

func writeMark(path string) error {
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	return errors.Join(err, syncDir(filepath.Dir(path)))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// swap puts the new log in the place of the damaged one. It may be done again
// from any point at which it was interrupted.
func (r *repairer) swap() (kept string, err error) {
	for _, step := range r.steps(&kept) {
		if err := step(); err != nil {
			return kept, problem.New(problem.Unavailable, "put the repaired log in its place: %w", err).
				WithHint("run the repair again: it goes on where it stopped")
		}
	}
	return kept, nil
}

func (r *repairer) steps(kept *string) []func() error {
	log, data := r.n.logDir(), r.n.cfg.DataDir
	return []func() error{
		func() error { // the damaged log leaves its place
			if !exists(log) || !exists(r.newLog()) {
				*kept = lastAside(log)
				return nil
			}
			*kept = nextAside(log)
			return os.Rename(log, *kept)
		},
		func() error {
			if !exists(r.newLog()) {
				return nil
			}
			return os.Rename(r.newLog(), log)
		},
		func() error { return syncDir(data) },
		// Projections are of the old epoch, of the log or of map jobs.
		func() error { return moveAside(filepath.Dir(r.n.rowsPath())) },
		func() error { return moveAside(r.n.mapsDir()) },
		func() error { return os.RemoveAll(r.base) },
	}
}

func moveAside(dir string) error {
	if !exists(dir) {
		return nil
	}
	return os.Rename(dir, nextAside(dir))
}

func asideName(path string, i int) string { return fmt.Sprintf("%s.damaged-%d", path, i) }

func nextAside(path string) string {
	i := 1
	for exists(asideName(path, i)) {
		i++
	}
	return asideName(path, i)
}

func lastAside(path string) string {
	last := ""
	for i := 1; exists(asideName(path, i)); i++ {
		last = asideName(path, i)
	}
	return last
}
