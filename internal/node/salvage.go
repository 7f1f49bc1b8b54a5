package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lcm/events"
	"lcm/internal/backup"
	"lcm/natslog"
)

// A server that opens a damaged stream may give up all of it for one block, or
// cut off what stands behind the damage. salvage reads the log's blocks one by
// one, each in a stream of its own, from copies: what is whole in any block is
// found.
type salvage struct {
	source
	dir    string // where to work
	blocks []string
	empty  string // a store with an empty log of this epoch
	epoch  string
	parts  int
	log    *slog.Logger
	last   uint64
}

// streamBlocks lists a stream's blocks in order.
func streamBlocks(jetstream, stream string) ([]string, error) {
	dir := filepath.Join(jetstream, "jetstream", "$G", "streams", stream, "msgs")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := func(path string) int {
		n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(path), ".blk"))
		return n
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".blk") && number(e.Name()) > 0 {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return out, nil
}

// newSalvage prepares to read the blocks of the log in jetstream; side, which
// may be nil, has the inbox and the dead letters.
func newSalvage(ctx context.Context, jetstream, dir string, sum backup.Summary, side *natslog.Log, log *slog.Logger) (*salvage, error) {
	s := &salvage{source: source{side}, dir: dir, empty: filepath.Join(dir, "empty"), epoch: sum.Epoch, parts: sum.Partitions, log: log}
	var err error
	if s.blocks, err = streamBlocks(jetstream, natslog.StreamLog); err != nil {
		return nil, err
	}
	srv, nc, err := startEmbedded(s.empty, log)
	if err != nil {
		return nil, err
	}
	defer srv.Stop()
	t, err := natslog.NewRestoration(nc, natslog.Options{Logger: log, Epoch: sum.Epoch})
	if err != nil {
		return nil, err
	}
	if _, err := t.Begin(ctx, sum.Epoch, sum.Partitions); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *salvage) Epoch() string   { return s.epoch }
func (s *salvage) Partitions() int { return s.parts }

// Extent implements backup.Source: how far the blocks reach.
func (s *salvage) Extent(ctx context.Context) (first, last, held uint64, err error) {
	if s.last == 0 {
		err = s.each(ctx, func(l *natslog.Log, last uint64) error { s.last = max(s.last, last); return nil })
	}
	return 1, s.last, s.last, err
}

// Scan implements backup.Source.
func (s *salvage) Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error {
	return s.each(ctx, func(l *natslog.Log, last uint64) error {
		from := after
		return l.Scan(ctx, from, min(last, until), func(ctx context.Context, records []events.Record) error {
			for len(records) > 0 && records[0].Seq <= after { // two blocks may hold one position
				records = records[1:]
			}
			if len(records) == 0 {
				return nil
			}
			after = records[len(records)-1].Seq
			return handle(ctx, records)
		})
	})
}

// Inbox implements backup.Source.
func (s *salvage) Inbox(ctx context.Context, each func(backup.Message) error) error {
	if s.Log == nil {
		return errors.New("the streams do not open")
	}
	return s.source.Inbox(ctx, each)
}

// DeadLetters implements backup.Source.
func (s *salvage) DeadLetters(ctx context.Context, each func(backup.Message) error) error {
	if s.Log == nil {
		return errors.New("the streams do not open")
	}
	return s.source.DeadLetters(ctx, each)
}

// Maps implements backup.Source.
func (s *salvage) Maps(ctx context.Context, stream string, each func(backup.Message) error) error {
	if s.Log == nil {
		return errors.New("the streams do not open")
	}
	return s.source.Maps(ctx, stream, each)
}

// each opens every block by itself.
func (s *salvage) each(ctx context.Context, visit func(l *natslog.Log, last uint64) error) error {
	for _, b := range s.blocks {
		if err := s.block(ctx, b, visit); err != nil {
			return err
		}
	}
	return nil
}

func (s *salvage) block(ctx context.Context, path string, visit func(l *natslog.Log, last uint64) error) error {
	dir := filepath.Join(s.dir, "block")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(s.empty)); err != nil {
		return err
	}
	msgs := filepath.Join(dir, "jetstream", "$G", "streams", natslog.StreamLog, "msgs")
	if err := errors.Join(os.RemoveAll(msgs), os.MkdirAll(msgs, 0o700)); err != nil {
		return err
	}
	whole, err := os.ReadFile(path)
	if err != nil { // a sector that cannot be read: this block is lost
		s.log.Error("block cannot be read", "block", path, "error", err)
		return nil
	}
	if err := os.WriteFile(filepath.Join(msgs, filepath.Base(path)), whole, 0o600); err != nil {
		return err
	}
	srv, nc, err := startEmbedded(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer srv.Stop()
	l, err := natslog.Inspect(ctx, nc, natslog.Options{Logger: s.log})
	if err != nil {
		s.log.Error("block does not open", "block", path, "error", err)
		return nil
	}
	_, last, held, err := l.Extent(ctx)
	if err != nil || held == 0 {
		return err
	}
	return visit(l, last)
}
