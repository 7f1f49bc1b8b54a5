package projector

import (
	"context"
	"errors"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Rebuild makes projections anew from the log, through the same code that
// follows live, while the service goes on. The rows are filled beside the old
// ones, which answer until the new ones have caught up; so is the index.
func (s *Service) Rebuild(ctx context.Context, q api.RebuildRequest) (*api.RebuildReply, error) {
	out := &api.RebuildReply{}
	if !q.Store && !q.Index {
		q.Store, q.Index = true, true
	}
	if !s.rebuilding.TryLock() {
		return out, problem.New(problem.Unavailable, "a rebuild is running")
	}
	defer s.rebuilding.Unlock()
	if _, err := s.Wait(ctx, events.Position{}); err != nil {
		return out, err
	}
	start := time.Now()
	s.log.Info("rebuild started", "store", q.Store, "index", q.Index)
	if q.Store {
		var err error
		if out.Live, out.Digest, err = s.rebuildStore(ctx); err != nil {
			return out, err
		}
	}
	if q.Index {
		if err := s.rebuildIndex(ctx); err != nil {
			return out, err
		}
	}
	err := s.view(func(tx api.StoreTx) error {
		c, err := tx.Counts()
		if err != nil {
			return err
		}
		out.Events, out.Turns, out.Nodes = c.Events, c.Entries, c.Nodes
		if !q.Store {
			out.Digest, err = tx.Digest()
			out.Live = out.Digest
		}
		return err
	})
	out.Seconds = time.Since(start).Seconds()
	s.log.Info("rebuild done", "events", out.Events, "seconds", out.Seconds, "digest", out.Digest)
	return out, err
}

// rebuildStore replaces the store. It answers the digests of the old and the
// new one at the position of the change.
func (s *Service) rebuildStore(ctx context.Context) (live, digest string, err error) {
	next, err := s.replay(ctx)
	if err != nil {
		return "", "", err
	}
	w := swap{done: make(chan error, 1), run: func(ctx context.Context, old *applier) (*applier, error) {
		var err error
		if live, err = s.level(ctx, old, next); err == nil {
			digest, err = digestOf(next.store)
		}
		if err != nil {
			return old, errors.Join(err, next.store.Close())
		}
		return s.install(next)
	}}
	select {
	case s.swaps <- w:
		err = <-w.done // the loop always answers: it is bound to its own context
	case <-s.ended:
		err = errors.Join(errClosed(), next.store.Close())
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), next.store.Close())
	}
	return live, digest, err
}

// rebuildIndex fills an index beside the live one, which answers meanwhile, and
// changes them when the new one is as far.
func (s *Service) rebuildIndex(ctx context.Context) error {
	next, err := s.deps.Indexes.Beside(s.indexLabel())
	if err != nil {
		return err
	}
	upto, err := s.fillIndex(ctx, next)
	if err != nil {
		return errors.Join(err, next.Close())
	}
	return s.promoteIndex(next, upto)
}

// fillIndex indexes all rows, until the index has what there is.
func (s *Service) fillIndex(ctx context.Context, index api.Index) (upto uint64, err error) {
	for upto < s.applied.Seq() {
		if ctx.Err() != nil {
			return upto, ctx.Err()
		}
		docs, next, err := s.docsBehind(ctx, upto)
		if err == nil {
			err = apply(index, docs, next)
		}
		if err != nil {
			return upto, err
		}
		upto = next
	}
	return upto, nil
}

// promoteIndex puts an index in the place of the live one. Where that fails, the
// loop makes a new one.
func (s *Service) promoteIndex(next api.Index, upto uint64) error {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(errClosed(), next.Close())
	}
	if err := s.index.Close(); err != nil {
		s.log.Warn("close the old index", "error", err)
	}
	index, err := s.deps.Indexes.Promote(next)
	if err != nil {
		s.log.Error("the new index cannot be put in its place, making one anew", "error", err)
		upto = 0
		if index, err = s.deps.Indexes.Create(s.indexLabel()); err != nil {
			return err
		}
	}
	s.index = index
	s.indexed.Set(upto)
	return nil
}
