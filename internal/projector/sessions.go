package projector

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/window"
)

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// View answers what planning and rendering need of a session.
func (s *Service) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	out := &api.ViewReply{}
	token, err := s.reach(ctx, q.Token, q.At)
	if err != nil {
		return out, err
	}
	err = s.read(ctx, token, func(tx api.StoreTx, at events.Position) error {
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		st, err := state(r, q.At)
		if err != nil {
			return err
		}
		out.Watermark = at
		if out.View, err = r.View(q.Ref, st); err == nil && q.Changed {
			out.Changed, err = r.LastChange(st.Seq)
		}
		if err == nil && q.Compactions {
			out.Compactions, err = r.Compactions(st.Seq)
		}
		return err
	})
	return out, err
}

const (
	defaultSessions = 100
	maxSessions     = 1_000
)

// Sessions lists sessions of a tenant by name.
func (s *Service) Sessions(ctx context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	if q.At != "" {
		return s.sessionsAt(ctx, q)
	}
	out := &api.SessionsReply{Sessions: []api.SessionRow{}}
	limit := limitOf(q.Limit, defaultSessions, maxSessions)
	err := s.read(ctx, q.Token, func(tx api.StoreTx, at events.Position) error {
		out.Watermark = at
		names, err := tx.Sessions(q.Tenant, q.Prefix, q.After, limit+1)
		if err != nil {
			return err
		}
		if len(names) > limit {
			names = names[:limit]
			out.Next = names[limit-1]
		}
		for _, name := range names {
			row, err := sessionRow(tx, events.Ref{Tenant: q.Tenant, Session: name})
			if err != nil {
				return err
			}
			out.Sessions = append(out.Sessions, row)
		}
		return nil
	})
	return out, err
}

func limitOf(n, standard, most int) int {
	if n <= 0 {
		return standard
	}
	return min(n, most)
}

func sessionRow(tx api.StoreTx, ref events.Ref) (api.SessionRow, error) {
	rows, err := tx.Rows(ref)
	if err != nil {
		return api.SessionRow{}, err
	}
	h, err := session.NewReader(rows).Head()
	return rowOf(ref, h), err
}

func rowOf(ref events.Ref, h session.Head) api.SessionRow {
	return api.SessionRow{
		Session: ref.Session, Entries: h.Entries, Tokens: h.Tokens, ContextTokens: h.ContextTokens,
		Nodes: h.Nodes, Cut: h.ActiveCut, Regime: regime(h), Removed: int(h.Entries) - session.Count(h.Path),
		Rejected: h.Rejected, Started: h.Started, Updated: h.Time, Settings: h.Settings,
	}
}

// regime by occupancy.
func regime(h session.Head) events.Regime {
	if !h.Configured {
		return events.RegimePassive
	}
	return window.RegimeOf(h.ContextTokens, h.Settings)
}

// Resolve turns a position people write into a stream sequence.
func (s *Service) Resolve(ctx context.Context, q api.ResolveRequest) (*api.ResolveReply, error) {
	out := &api.ResolveReply{}
	text := strings.TrimSpace(q.At)
	if rest, ok := strings.CutPrefix(text, "@"); ok {
		seq, err := strconv.ParseUint(rest, 10, 64)
		if err != nil || seq == 0 {
			return out, badPosition(q.At)
		}
		token, err := s.reach(ctx, q.Token, seq)
		if err != nil {
			return out, err
		}
		out.Seq = seq
		err = s.read(ctx, token, func(tx api.StoreTx, _ events.Position) error {
			_, err := s.reader(tx, q.Ref)
			return err
		})
		return out, err
	}
	if rest, ok := strings.CutPrefix(text, "e"); ok {
		n, err := strconv.ParseUint(rest, 10, 64)
		if err != nil || n == 0 {
			return out, badPosition(q.At)
		}
		return s.resolveEntry(ctx, q, n)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return out, badPosition(q.At)
	}
	return s.resolveTime(ctx, q, at)
}

func badPosition(at string) error {
	return problem.New(problem.Invalid, "position %q is none of e12, @4711 or an RFC 3339 time", at)
}

func (s *Service) resolveEntry(ctx context.Context, q api.ResolveRequest, n uint64) (*api.ResolveReply, error) {
	out := &api.ResolveReply{}
	err := s.read(ctx, q.Token, func(tx api.StoreTx, _ events.Position) error {
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		h, err := r.Head()
		if err != nil {
			return err
		}
		if n > h.Entries {
			return problem.New(problem.NotFound, "session %s has no entry e%d: it has %d", q.Ref, n, h.Entries)
		}
		e, err := r.Entry(n)
		out.Seq = e.Seq
		return err
	})
	return out, err
}

// resolveTime finds the last event of the session at or before a time.
// Entries, nodes and cuts carry their times; the few moves, settings and
// compactions between the two nearest of them are looked up in the log.
func (s *Service) resolveTime(ctx context.Context, q api.ResolveRequest, t time.Time) (*api.ResolveReply, error) {
	out := &api.ResolveReply{}
	var between []uint64
	err := s.read(ctx, q.Token, func(tx api.StoreTx, _ events.Position) error {
		r, err := s.reader(tx, q.Ref)
		if err != nil {
			return err
		}
		var next uint64
		if out.Seq, next, err = around(r, t); err != nil {
			return err
		}
		rows, err := tx.Rows(q.Ref)
		if err != nil {
			return err
		}
		between, err = unstamped(rows, out.Seq, next)
		return err
	})
	if err != nil {
		return out, err
	}
	for _, seq := range between {
		rec, err := s.deps.Log.Read(ctx, seq)
		if err != nil {
			return out, fmt.Errorf("time of position %d: %w", seq, err)
		}
		env, err := rec.Envelope()
		if err == nil && env.Time.After(t) {
			break
		}
		out.Seq = seq
	}
	if out.Seq == 0 {
		return out, problem.New(problem.NotFound, "session %s did not exist at %s", q.Ref, t.Format(time.RFC3339))
	}
	return out, nil
}

// around returns the last stamped position at or before t, and the first one
// after it.
func around(r session.Reader, t time.Time) (last, next uint64, err error) {
	h, err := r.Head()
	if err != nil {
		return 0, 0, err
	}
	next = max(h.Timeline.LastSeq, h.Derived.LastSeq) + 1
	stamps := []struct {
		n  uint64
		at func(uint64) (uint64, time.Time, error)
	}{
		{h.Entries, func(n uint64) (uint64, time.Time, error) { e, err := r.Entry(n); return e.Seq, e.Time, err }},
		{h.Nodes, func(n uint64) (uint64, time.Time, error) { d, err := r.Node(n); return d.Seq, d.Time, err }},
		{h.Cuts, func(n uint64) (uint64, time.Time, error) { c, err := r.Cut(n); return c.Seq, c.Time, err }},
	}
	for _, k := range stamps {
		lo, hi := uint64(0), k.n // rows 1..lo are at or before t, rows above hi after it
		for lo < hi {
			mid := (lo + hi + 1) / 2
			_, at, err := k.at(mid)
			if err != nil {
				return 0, 0, err
			}
			if at.After(t) {
				hi = mid - 1
			} else {
				lo = mid
			}
		}
		if lo > 0 {
			seq, _, err := k.at(lo)
			if err != nil {
				return 0, 0, err
			}
			last = max(last, seq)
		}
		if lo < k.n {
			seq, _, err := k.at(lo + 1)
			if err != nil {
				return 0, 0, err
			}
			next = min(next, seq)
		}
	}
	return last, next, nil
}

// maxUnstamped bounds how many positions a time is looked up for.
const maxUnstamped = 64

// unstamped lists the moves, settings and compactions between two positions,
// ascending.
func unstamped(rows session.Rows, after, before uint64) ([]uint64, error) {
	var out []uint64
	for _, kind := range []session.RowKind{session.RowMove, session.RowConfig, session.RowCompaction} {
		for at := before; at > after+1 && len(out) < maxUnstamped; {
			k, _, err := rows.Floor(kind, session.Num(at-1))
			if err != nil {
				return nil, err
			}
			if k == nil || be64(k) <= after {
				break
			}
			at = be64(k)
			out = append(out, at)
		}
	}
	sortSeqs(out)
	return out, nil
}

// Status tells how far everything has got.
func (s *Service) Status(ctx context.Context) (*api.StatusReply, error) {
	out := &api.StatusReply{Epoch: s.deps.Log.Epoch(), Partitions: s.held(), Scrub: s.scrubbed()}
	if _, err := s.Wait(ctx, events.Position{}); err != nil {
		return out, err
	}
	last, err := s.deps.Log.LastSeq(ctx)
	if err != nil {
		return out, fmt.Errorf("end of the log: %w", err)
	}
	err = s.use(func(store api.Store, index api.Index) error {
		out.StoreBytes, out.IndexBytes = store.SizeBytes(), index.SizeBytes()
		return store.View(func(tx api.StoreTx) error {
			at, err := s.at(tx)
			if err != nil {
				return err
			}
			out.Applied = at.Seq
			hot, err := tx.Hot()
			if err != nil {
				return err
			}
			c, err := tx.Counts()
			out.Due, out.Sessions, out.Entries, out.Nodes = len(hot), c.Sessions, c.Entries, c.Nodes
			out.Rejected, out.Unknown, out.Lost = c.Rejected, c.Unknown, c.Lost
			return err
		})
	})
	if since := s.Progress().OldestDue; !since.IsZero() {
		out.OldestDue = &since
	}
	out.Indexed = s.indexed.Seq()
	out.LogSeq = max(last, out.Applied)
	out.Lag = out.LogSeq - out.Applied
	if out.Indexed < out.Applied {
		out.IndexLag = out.Applied - out.Indexed
	}
	return out, err
}

// scrubbed is the background walk over this log; nil where there is none.
func (s *Service) scrubbed() *api.ScrubStatus {
	if s.deps.Scrub == nil {
		return nil
	}
	st := s.deps.Scrub()
	if st.Epoch != "" && st.Epoch != s.deps.Log.Epoch() { // remembered of another log
		return &api.ScrubStatus{Running: st.Running, Position: st.Position, Last: st.Last}
	}
	return st
}

// held lists the partitions held here.
func (s *Service) held() []int {
	if s.cfg.Partitions != nil {
		return s.cfg.Partitions
	}
	all := make([]int, s.deps.Log.Partitions())
	for i := range all {
		all[i] = i
	}
	return all
}

// Digest is the hash over the canonical dump of all rows.
func (s *Service) Digest(ctx context.Context, token events.Position) (string, events.Position, error) {
	var out string
	var at events.Position
	err := s.read(ctx, token, func(tx api.StoreTx, here events.Position) (err error) {
		at = here
		out, err = tx.Digest()
		return err
	})
	return out, at, err
}
