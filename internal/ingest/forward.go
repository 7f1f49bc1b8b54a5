package ingest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// forwarding knows who commits, and whether that one answers. Safe for
// concurrent use.
type forwarding struct {
	mu      sync.Mutex
	holder  string    // "" = nobody is known to
	shunned time.Time // until then it is not asked: it did not answer
}

// SetCommitter says who holds the lease to commit, by name; "" = nobody is
// known to. Requests go there, unless it is this ingestor.
func (s *Service) SetCommitter(name string) {
	s.forwarding.mu.Lock()
	defer s.forwarding.mu.Unlock()
	s.forwarding.holder, s.forwarding.shunned = name, time.Time{}
}

// committer to forward to, "" = this ingestor commits.
func (s *Service) committer() string {
	if s.d.Forward == nil {
		return ""
	}
	f := &s.forwarding
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == s.d.Name || s.d.Clock().Before(f.shunned) {
		return ""
	}
	return f.holder
}

// shun has the appends of the next while committed here: the holder of the
// lease does not answer, and each would wait for it anew.
func (s *Service) shun(holder string) {
	f := &s.forwarding
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.holder == holder {
		f.shunned = s.d.Clock().Add(s.c.Shun)
	}
}

// forward sends a job, prepared, to the one who commits. It answers false
// where this ingestor has to append by itself; what the other may have stored
// of the job is then found by its ids, and counts as the job's own.
func (s *Service) forward(ctx context.Context, holder string, j *job) ([]api.Written, bool) {
	// What a result's size means, and which path its call named, the committer
	// knows: here only the sessions that have their ingestor's default.
	j.limit = j.settings.LargeFileChars
	if len(s.unknownCalls(j, j.limit)) == 0 {
		s.prepare(j)
	}
	q := api.AppendRequest{Ref: j.ref, Settings: j.settings, PreparedFor: j.limit}
	var sent []int // places of the writes that are not refused already
	for i, w := range j.writes {
		if j.refused[i] == nil {
			q.Writes, sent = append(q.Writes, w), append(sent, i)
		}
	}
	out := make([]api.Written, len(j.writes))
	for i, w := range j.writes {
		if err := j.refused[i]; err != nil {
			out[i] = refusedWrite(w, err).written(s.epoch, nil)
		}
	}
	if len(sent) == 0 {
		return out, true
	}
	fctx, cancel := context.WithTimeout(ctx, s.c.ForwardTimeout)
	defer cancel()
	reply, err := s.d.Forward(fctx, holder, q)
	if err == nil && len(reply.Written) != len(sent) {
		err = problem.New(problem.Internal, "%d writes were answered by %d", len(sent), len(reply.Written))
	}
	if err != nil {
		s.notTaken(fctx, holder, j, q.Writes, err)
		return nil, false
	}
	for k, i := range sent {
		out[i] = reply.Written[k]
	}
	return out, true
}

// notTaken notes why an append has to be committed here after all.
func (s *Service) notTaken(ctx context.Context, holder string, j *job, writes []api.Write, err error) {
	nobody := errors.Is(err, api.ErrLogUnavailable)
	if nobody || ctx.Err() != nil || problem.IsCode(err, problem.Unavailable) {
		s.d.Logger.Warn("the ingestor that holds the lease does not answer: appends are committed here", "holder", holder, "error", err)
		s.shun(holder)
	}
	if nobody || problem.IsCode(err, problem.TooLarge) {
		return // it never had it
	}
	j.tried = map[string]bool{}
	for _, w := range writes {
		j.tried[writeID(w)] = true
	}
}

// writeID is the id by which a write is known, "" for a move.
func writeID(w api.Write) string {
	switch {
	case w.Turn != nil:
		return w.Turn.Turn.ID
	case w.Compaction != nil:
		return w.Compaction.ID
	}
	return ""
}

// AppendPrepared is Append of what another ingestor has prepared and forwards
// because this one commits: it is never forwarded again.
func (s *Service) AppendPrepared(ctx context.Context, r api.AppendRequest) (*api.AppendReply, error) {
	return s.append(ctx, r, false)
}

// replyOf answers with the greatest position of all writes.
func replyOf(written []api.Written) *api.AppendReply {
	reply := &api.AppendReply{Written: written}
	if len(written) > 0 {
		reply.Token = slices.MaxFunc(written, func(a, b api.Written) int { return cmp.Compare(a.Token.Seq, b.Token.Seq) }).Token
	}
	return reply
}
