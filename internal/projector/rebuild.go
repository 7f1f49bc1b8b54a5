package projector

import (
	"context"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Rebuild makes projections anew from the log, through the same code that
// follows live, while the service goes on. The rows are filled beside the old
// ones, which answer until the new ones have caught up; the index is dropped
// and filled from the rows, and answers say meanwhile how far it is behind.
func (s *Service) Rebuild(ctx context.Context, q api.RebuildRequest) (api.RebuildReply, error) {
	var out api.RebuildReply
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
		if err := s.rebuildStore(ctx); err != nil {
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
		out.Digest, err = tx.Digest()
		return err
	})
	out.Seconds = time.Since(start).Seconds()
	s.log.Info("rebuild done", "events", out.Events, "seconds", out.Seconds, "digest", out.Digest)
	return out, err
}

func (s *Service) rebuildStore(ctx context.Context) error {
	next, err := s.replay(ctx)
	if err != nil {
		return err
	}
	w := swap{done: make(chan error, 1), run: func(ctx context.Context, old *applier) (*applier, error) {
		return s.install(ctx, old, next)
	}}
	select {
	case s.swaps <- w:
	case <-s.ended:
		_ = next.store.Close()
		return errClosed()
	case <-ctx.Done():
		_ = next.store.Close()
		return ctx.Err()
	}
	return <-w.done // the loop always answers: it is bound to its own context
}

// rebuildIndex drops the index and waits until it has all rows again.
func (s *Service) rebuildIndex(ctx context.Context) error {
	goal := s.applied.get()
	if err := s.recreateIndex(); err != nil {
		return err
	}
	return s.indexed.wait(ctx, goal)
}
