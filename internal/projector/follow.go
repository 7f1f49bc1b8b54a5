package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/session"
)

// swap asks the follow loop for a pause: run gets the applier in use and
// returns the one to go on with.
type swap struct {
	run  func(ctx context.Context, old *applier) (*applier, error)
	done chan error
}

// followLoop follows the log for as long as ctx lasts, pausing for swaps.
func (s *Service) followLoop(ctx context.Context, a *applier) error {
	last, err := s.deps.Log.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	progress := s.reported(last, func(at uint64) {
		s.applied.Set(at)
		s.trouble.Over(s.log, "rows", "the rows follow the log again")
	})
	healedAt := forever // position of the last repair: one that does not last ends the service
	for {
		fctx, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- s.follow(fctx, a, forever, progress) }()
		select {
		case err := <-ended:
			cancel()
			if ctx.Err() == nil && diskFull(err) { // reads go on, and so do we once there is room
				s.trouble.Met(s.log, "rows", "the rows stand still: their disk takes no more", err)
				if err := await.Sleep(ctx, fullPause); err != nil {
					return err
				}
				continue
			}
			if ctx.Err() != nil || !storeDamaged(err) || a.at.Seq == healedAt {
				return err
			}
			s.log.Error("store damaged, rebuilding from the log", "applied", a.at.Seq, "error", err)
			if a, err = s.heal(ctx, a); err != nil {
				return err
			}
			healedAt = a.at.Seq
		case w := <-s.swaps:
			cancel()
			<-ended
			next, err := w.run(ctx, a)
			w.done <- err
			if err != nil && next == nil {
				return err
			}
			a = next
		}
	}
}

// fullPause between two attempts at a disk that takes no more.
const fullPause = time.Second

// diskFull: the rows cannot be written, and are as they were.
func diskFull(err error) bool {
	var f errFold
	return errors.As(err, &f) && problem.DiskFull(f.err)
}

// reportEvery is how often a catch-up that takes long says where it is.
const reportEvery = 5 * time.Second

// reported wraps a progress function: until the position last is reached it
// tells, now and then, how far it is.
func (s *Service) reported(last uint64, progress func(uint64)) func(uint64) {
	next := time.Now().Add(reportEvery)
	return func(at uint64) {
		progress(at)
		if at < last && time.Now().After(next) {
			s.log.Warn("rows catch up with the log", "applied", at, "of", last)
			next = time.Now().Add(reportEvery)
		}
	}
}

// forever is a position that no log reaches.
const forever = ^uint64(0)

// follow pumps the log into a store until ctx ends or the store has reached
// the position until. Records are decoded while the batch before
// them is folded and committed.
func (s *Service) follow(ctx context.Context, a *applier, until uint64, progress func(uint64)) error {
	if a.at.Seq >= until {
		return nil
	}
	after := a.at.Seq
	ahead := make(chan []item, 2)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		err := s.deps.Log.Follow(gctx, after, func(ctx context.Context, records []events.Record) error {
			if len(records) == 0 {
				return nil
			}
			s.hear(records[len(records)-1].Seq)
			select {
			case ahead <- s.decoder.all(records):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err == nil {
			err = errors.New("the log ended")
		}
		return fmt.Errorf("follow the log: %w", err)
	})
	g.Go(func() error { return s.pump(gctx, a, ahead, until, progress) })
	err := g.Wait()
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// hear notes how far events have come, into whichever store.
func (s *Service) hear(seq uint64) {
	for have := s.heard.Load(); seq > have; have = s.heard.Load() {
		if s.heard.CompareAndSwap(have, seq) {
			return
		}
	}
}

var errReached = errors.New("position reached")

// errFold marks a failure of the rows' side, so that a damaged store is told
// from a damaged log.
type errFold struct{ err error }

func (e errFold) Error() string { return e.err.Error() }
func (e errFold) Unwrap() error { return e.err }

func storeDamaged(err error) bool {
	var f errFold
	return errors.As(err, &f) && damage(f.err)
}

func damage(err error) bool {
	return problem.IsCode(err, problem.Damaged) || errors.Is(err, session.ErrNoRow)
}

// pump applies what is decoded, as much at a time as is there.
func (s *Service) pump(ctx context.Context, a *applier, ahead <-chan []item, until uint64, progress func(uint64)) error {
	for {
		var items []item
		select {
		case items = <-ahead:
		case <-ctx.Done():
			return ctx.Err()
		}
		items = upTo(s.gather(ctx, items, ahead, until), until)
		for len(items) > 0 {
			n := s.fits(items)
			if err := checkGap(a, items[:n]); err != nil {
				return err
			}
			if err := a.apply(items[:n]); err != nil {
				return errFold{fmt.Errorf("apply from position %d: %w", items[0].record.Seq, err)}
			}
			items = items[n:]
			if progress != nil {
				progress(a.at.Seq)
			}
		}
		if a.at.Seq >= until {
			return errReached
		}
	}
}

// upTo leaves out what stands behind a position.
func upTo(items []item, until uint64) []item {
	for len(items) > 0 && items[len(items)-1].record.Seq > until {
		items = items[:len(items)-1]
	}
	return items
}

// gather adds what is decoded already, and what arrives within CommitEvery
// unless a read waits for it: a transaction costs a sync however small it is.
// While events come fast it goes on for floodCommits times as long: of events
// of the same sessions, many are hardly more to write than few.
func (s *Service) gather(ctx context.Context, items []item, ahead <-chan []item, until uint64) []item {
	var late *time.Timer
	bytes, seen := bytesOf(items), 0
	for waits := 0; len(items) < s.cfg.BatchEvents && bytes < s.cfg.BatchBytes && items[len(items)-1].record.Seq < until; {
		select {
		case more := <-ahead:
			items, bytes = append(items, more...), bytes+bytesOf(more)
			continue
		default:
		}
		if s.applied.demanded(items[len(items)-1].record.Seq) {
			return items
		}
		if late == nil {
			late, seen = time.NewTimer(s.cfg.CommitEvery), len(items)
			defer late.Stop()
		}
		select {
		case more := <-ahead:
			items, bytes = append(items, more...), bytes+bytesOf(more)
		case <-s.applied.urgent:
		case <-late.C:
			if waits++; waits == floodCommits || uint64(len(items)-seen) < s.cfg.BusyEvents {
				return items
			}
			late.Reset(s.cfg.CommitEvery)
			seen = len(items)
		case <-ctx.Done():
			return items
		}
	}
	return items
}

const floodCommits = 5

func bytesOf(items []item) (n int) {
	for i := range items {
		n += len(items[i].record.Data)
	}
	return n
}

// fits is how many items make one transaction.
func (s *Service) fits(items []item) int {
	size := 0
	for i := range items {
		size += len(items[i].record.Data)
		if i > 0 && (size > s.cfg.BatchBytes || i == s.cfg.BatchEvents) {
			return i
		}
	}
	return len(items)
}

// checkGap looks before the transaction, so that a gap is the log's fault.
func checkGap(a *applier, items []item) error {
	at := a.at.Seq
	for i := range items {
		if first := items[i].record.First(); first != at+1 {
			return errGap(first, at+1)
		}
		at = items[i].record.Seq
	}
	return nil
}

// heal makes the store anew while nothing else follows.
func (s *Service) heal(ctx context.Context, old *applier) (*applier, error) {
	next, err := s.replay(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.follow(ctx, next, old.at.Seq, nil); err != nil {
		return nil, errors.Join(err, next.store.Close())
	}
	return s.install(next)
}

// replay makes a fresh store beside the one in use and fills it up to the
// present end of the log.
func (s *Service) replay(ctx context.Context) (*applier, error) {
	fresh, err := s.deps.Stores.Fresh()
	if err != nil {
		return nil, err
	}
	a, err := s.fill(ctx, fresh)
	if err != nil {
		return nil, errors.Join(err, fresh.Close())
	}
	return a, nil
}

func (s *Service) fill(ctx context.Context, fresh api.Store) (*applier, error) {
	a, err := newApplier(ctx, fresh, s.deps.Log, s.cfg.Partitions)
	if err != nil {
		return nil, err
	}
	last, err := s.deps.Log.LastSeq(ctx)
	if err != nil {
		return a, err
	}
	return a, s.follow(ctx, a, last, s.reported(last, func(uint64) {}))
}

// level brings both stores to one position, whichever is ahead, and answers
// the digest of the old one there, "" where it is too damaged to have one.
// Nothing else follows into old meanwhile.
func (s *Service) level(ctx context.Context, old, next *applier) (digest string, err error) {
	if err := s.follow(ctx, next, old.at.Seq, nil); err != nil {
		return "", err
	}
	err = s.follow(ctx, old, next.at.Seq, s.applied.Set)
	if err == nil {
		digest, err = digestOf(old.store)
	}
	if storeDamaged(err) || damage(err) {
		s.log.Error("the store that is replaced has no digest", "error", err)
		return "", nil
	}
	return digest, err
}

func digestOf(store api.Store) (digest string, err error) {
	err = store.View(func(tx api.StoreTx) error {
		digest, err = tx.Digest()
		return err
	})
	return digest, err
}

// install puts next in the place of the store in use.
func (s *Service) install(next *applier) (*applier, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.store.Close(); err != nil {
		s.log.Error("close the old store", "error", err)
	}
	s.store = next.store
	if err := s.deps.Stores.Promote(next.store); err != nil {
		return nil, err
	}
	s.applied.Set(next.at.Seq)
	return next, nil
}
