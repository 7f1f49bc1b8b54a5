package projector

import (
	"context"
	"errors"
	"fmt"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// view runs fn on one state of the rows. Damage to them, a missing row
// included, is mended in the background; the read that met it fails.
func (s *Service) view(fn func(api.StoreTx) error) error {
	err := s.look(fn)
	if damage(err) {
		s.suspect(err)
		return problem.New(problem.Damaged, "%w", err).WithHint("the rows are being made anew from the log: retry in a moment")
	}
	return err
}

// look is view for who judges damage himself.
func (s *Service) look(fn func(api.StoreTx) error) error {
	return s.use(func(store api.Store, _ api.Index) error { return store.View(fn) })
}

// at is the position a transaction sees.
func (s *Service) at(tx api.StoreTx) (events.Position, error) {
	c, err := tx.Checkpoint()
	return events.Position{Epoch: s.deps.Log.Epoch(), Seq: c.Seq}, err
}

// read waits for the token and runs fn on one state, at one watermark.
func (s *Service) read(ctx context.Context, token events.Position, fn func(tx api.StoreTx, at events.Position) error) error {
	if _, err := s.Wait(ctx, token); err != nil {
		return err
	}
	return s.view(func(tx api.StoreTx) error {
		at, err := s.at(tx)
		if err != nil {
			return err
		}
		return fn(tx, at)
	})
}

// Wait returns the watermark as soon as the rows have reached a position, and
// problem.Stale, with the watermark, at the deadline.
func (s *Service) Wait(ctx context.Context, token events.Position) (events.Position, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.ReadWait)
		defer cancel()
	}
	here := events.Position{Epoch: s.deps.Log.Epoch()}
	select {
	case <-s.opened:
	case <-ctx.Done():
		return here, waitError(ctx, here, token)
	}
	if token.Epoch != "" && token.Epoch != here.Epoch {
		return here, problem.New(problem.Invalid, "the token %s belongs to another log, this one is %s", token, here.Epoch).
			WithHint("the log was restored or replaced: read again without the token")
	}
	err := s.applied.demand(ctx, token.Seq)
	here.Seq = s.applied.Seq()
	if err != nil {
		return here, waitError(ctx, here, token)
	}
	return here, nil
}

func waitError(ctx context.Context, here, token events.Position) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("wait for position %d: %w", token.Seq, ctx.Err())
	}
	return problem.New(problem.Stale, "the projection has reached position %d, the read needs %d: %w", here.Seq, token.Seq, ctx.Err())
}

// holds refuses a session of a partition that is not held here.
func (s *Service) holds(ref events.Ref) error {
	if p := s.partition(ref); s.decoder.held != nil && !s.decoder.held[p] {
		return problem.New(problem.Unavailable, "partition %d, which holds session %s, is not held here", p, ref)
	}
	return nil
}

// reader returns the reader of a session that must exist.
func (s *Service) reader(tx api.StoreTx, ref events.Ref) (session.Reader, error) {
	if err := ref.Validate(); err != nil {
		return session.Reader{}, problem.New(problem.Invalid, "%w", err)
	}
	if !tx.Known(ref) {
		if err := s.holds(ref); err != nil {
			return session.Reader{}, err
		}
		return session.Reader{}, problem.New(problem.NotFound, "session %s does not exist", ref)
	}
	rows, err := tx.Rows(ref)
	return session.NewReader(rows), err
}

func (s *Service) partition(ref events.Ref) int {
	return events.Partition(events.EncodeToken(ref.Tenant), events.EncodeToken(ref.Session), s.deps.Log.Partitions())
}

// state of a session at a position, 0 = now. The caller has waited for it.
func state(r session.Reader, at uint64) (session.State, error) {
	if at == 0 {
		return r.Now()
	}
	return r.At(at)
}

// reach is the token to wait for where a read names a position: positions
// beyond the end of the log are an error, not a wait.
func (s *Service) reach(ctx context.Context, token events.Position, at uint64) (events.Position, error) {
	if at <= token.Seq || at <= s.applied.Seq() {
		return token, nil
	}
	last, err := s.deps.Log.LastSeq(ctx)
	if err != nil {
		return token, fmt.Errorf("end of the log: %w", err)
	}
	if at > last {
		return token, problem.New(problem.Invalid, "position %d lies beyond the end of the log, %d", at, last)
	}
	return events.Position{Epoch: token.Epoch, Seq: at}, nil
}

// Lookup answers what is known of ids and calls, and where the lanes stand. An
// unknown session has the zero head.
func (s *Service) Lookup(ctx context.Context, q api.LookupRequest) (*api.LookupReply, error) {
	out := &api.LookupReply{Known: map[string]api.Known{}, Calls: map[string]events.Block{}, Compactions: map[string]uint64{}}
	if err := q.Ref.Validate(); err != nil {
		return out, problem.New(problem.Invalid, "%w", err)
	}
	if err := s.holds(q.Ref); err != nil {
		return out, err // not "unknown": another projector may know it
	}
	var calls []source
	err := s.read(ctx, q.Token, func(tx api.StoreTx, at events.Position) error {
		out.Watermark = at
		rows, err := tx.Rows(q.Ref)
		if err != nil {
			return err
		}
		l := lookup{r: session.NewReader(rows), out: out}
		if !q.SkipHead {
			if out.Head, err = l.r.Head(); err != nil {
				return err
			}
		}
		if err := l.ids(q); err != nil {
			return err
		}
		calls, err = l.calls(q)
		return err
	})
	if err != nil {
		return out, err
	}
	for _, src := range calls {
		t, err := s.turnOf(ctx, q.Ref, src.entry, src.body)
		if err != nil {
			return out, err
		}
		for _, b := range t.Blocks {
			if b.Type == events.BlockToolUse {
				if asked(q.Calls, b.CallID) {
					out.Calls[b.CallID] = b
				}
			}
		}
	}
	return out, nil
}

func asked(ids []string, id string) bool {
	for _, a := range ids {
		if a == id {
			return true
		}
	}
	return false
}

type lookup struct {
	r   session.Reader
	out *api.LookupReply
}

func (l lookup) ids(q api.LookupRequest) error {
	for _, id := range q.IDs {
		n, err := l.r.EntryOf(id)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		e, err := l.r.Entry(n)
		if err != nil {
			return err
		}
		l.out.Known[id] = api.Known{Entry: n, Seq: e.Seq, Hash: e.Hash, SourceHash: e.SourceHash}
	}
	for _, id := range q.Compactions {
		seq, err := l.r.CompactionSeq(id)
		if err != nil {
			return err
		}
		if seq != 0 {
			l.out.Compactions[id] = seq
		}
	}
	return nil
}

// calls finds the turns that make the calls.
func (l lookup) calls(q api.LookupRequest) ([]source, error) {
	var out []source
	seen := map[uint64]bool{}
	for _, id := range q.Calls {
		n, err := l.r.CallEntry(id)
		if err != nil {
			return nil, err
		}
		if n == 0 || seen[n] {
			continue
		}
		seen[n] = true
		src, err := readEntry(l.r, q.Ref, n)
		if err != nil {
			return nil, err
		}
		out = append(out, src)
	}
	return out, nil
}
