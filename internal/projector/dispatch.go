package projector

import (
	"context"
	"sync"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// judged remembers what Due said of a session at a position.
type judged struct {
	seq   uint64
	due   bool
	since time.Time // of due
}

// dispatchLoop publishes every due session, again and again until it is no
// longer due: a lost task, a condenser that died, a task refused because its
// predecessor was just being acknowledged all heal by themselves. It says
// nothing while the rows are behind the log: what looks due then may long be
// done.
func (s *Service) dispatchLoop(ctx context.Context) error {
	t := time.NewTicker(s.cfg.DispatchEvery)
	defer t.Stop()
	seen := map[events.Ref]judged{}
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		last, err := s.deps.Log.LastSeq(ctx)
		if err != nil {
			s.endTrouble.Met(s.log, "log", "end of the log unknown: nothing is dispatched", err)
			continue
		}
		s.endTrouble.Over(s.log, "log", "end of the log known again")
		if s.deps.Due == nil || s.applied.Seq() < last {
			continue
		}
		if err := s.dispatch(ctx, seen); err != nil && ctx.Err() == nil {
			s.log.Error("dispatch failed", "error", err)
		}
	}
}

func (s *Service) dispatch(ctx context.Context, seen map[events.Ref]judged) error {
	var refs []events.Ref
	err := s.view(func(tx api.StoreTx) (err error) {
		refs, err = tx.Hot()
		return err
	})
	if err != nil {
		return err
	}
	hot := make(map[events.Ref]bool, len(refs))
	for _, ref := range refs {
		hot[ref] = true
		j, err := s.judge(ref, seen[ref])
		if err != nil {
			s.log.Error("session cannot be judged", "session", ref.String(), "error", err)
			continue
		}
		seen[ref] = j
		if !j.due {
			continue
		}
		at := events.Position{Epoch: s.deps.Log.Epoch(), Seq: j.seq}
		if err := s.deps.Tasks.PublishTask(ctx, events.Normal, ref, at); err != nil {
			return err
		}
	}
	for ref := range seen {
		if !hot[ref] {
			delete(seen, ref)
		}
	}
	s.debt.set(seen)
	return nil
}

// debt is what dispatch found due the last time.
type debt struct {
	mu     sync.Mutex
	due    int
	oldest time.Time
}

func (d *debt) set(seen map[events.Ref]judged) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due, d.oldest = 0, time.Time{}
	for _, j := range seen {
		if !j.due {
			continue
		}
		d.due++
		if d.oldest.IsZero() || j.since.Before(d.oldest) {
			d.oldest = j.since
		}
	}
}

// Progress tells how far the projections are and what they owe. It costs
// nothing.
func (s *Service) Progress() api.Progress {
	s.debt.mu.Lock()
	defer s.debt.mu.Unlock()
	return api.Progress{Applied: s.applied.Seq(), Indexed: s.indexed.Seq(), Due: s.debt.due, OldestDue: s.debt.oldest}
}

// judge asks Due about a session, unless nothing happened to it since.
func (s *Service) judge(ref events.Ref, last judged) (judged, error) {
	err := s.view(func(tx api.StoreTx) error {
		rows, err := tx.Rows(ref)
		if err != nil {
			return err
		}
		r := session.NewReader(rows)
		h, err := r.Head()
		if err != nil {
			return err
		}
		seq := max(h.Timeline.LastSeq, h.Derived.LastSeq)
		if seq == last.seq {
			return nil
		}
		state, err := r.Now()
		if err != nil {
			return err
		}
		v, err := r.View(ref, state)
		if err != nil {
			return err
		}
		since := last.since
		if !last.due {
			since = time.Now()
		}
		last = judged{seq: seq, due: s.deps.Due(v), since: since}
		return nil
	})
	return last, err
}
