package projector

import (
	"context"
	"strconv"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// sessionsAt lists the sessions that existed at a position or time, as they
// were. A time is looked up session by session: each has its own.
func (s *Service) sessionsAt(ctx context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	out := &api.SessionsReply{Sessions: []api.SessionRow{}}
	seq, when, err := listPosition(q.At)
	if err != nil {
		return out, err
	}
	token, err := s.reach(ctx, q.Token, seq)
	if err != nil {
		return out, err
	}
	names, err := s.sessionNames(ctx, q, token, out)
	if err != nil {
		return out, err
	}
	for _, name := range names {
		ref := events.Ref{Tenant: q.Tenant, Session: name}
		at := seq
		if at == 0 {
			r, err := s.resolveTime(ctx, api.ResolveRequest{Ref: ref, At: q.At, Token: token}, when)
			if problem.IsCode(err, problem.NotFound) {
				continue
			}
			if err != nil {
				return out, err
			}
			at = r.Seq
		}
		row, existed, err := s.rowAt(ctx, ref, at, token)
		if err != nil {
			return out, err
		}
		if existed {
			out.Sessions = append(out.Sessions, row)
		}
	}
	return out, nil
}

// listPosition reads "@4711" or RFC 3339; an entry is one session's only.
func listPosition(at string) (seq uint64, when time.Time, err error) {
	text := strings.TrimSpace(at)
	if rest, ok := strings.CutPrefix(text, "@"); ok {
		if seq, err = strconv.ParseUint(rest, 10, 64); err != nil || seq == 0 {
			return 0, when, badPosition(at)
		}
		return seq, when, nil
	}
	if when, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return 0, when, problem.New(problem.Invalid, "position %q of a list is neither @4711 nor an RFC 3339 time", at)
	}
	return 0, when, nil
}

// sessionNames is one page of names; it says in out where the next begins.
func (s *Service) sessionNames(ctx context.Context, q api.SessionsRequest, token events.Position, out *api.SessionsReply) ([]string, error) {
	limit := limitOf(q.Limit, defaultSessions, maxSessions)
	var names []string
	err := s.read(ctx, token, func(tx api.StoreTx, at events.Position) (err error) {
		out.Watermark = at
		names, err = tx.Sessions(q.Tenant, q.Prefix, q.After, limit+1)
		return err
	})
	if len(names) > limit {
		names = names[:limit]
		out.Next = names[limit-1]
	}
	return names, err
}

// rowAt is a session's row as it was right after a position.
func (s *Service) rowAt(ctx context.Context, ref events.Ref, seq uint64, token events.Position) (row api.SessionRow, existed bool, err error) {
	err = s.read(ctx, token, func(tx api.StoreTx, _ events.Position) error {
		rows, err := tx.Rows(ref)
		if err != nil {
			return err
		}
		h, err := session.NewReader(rows).HeadAt(seq)
		row, existed = rowOf(ref, h), h.Configured || h.Entries > 0
		return err
	})
	return row, existed, err
}
