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
	reply, err := s.forwards.send(fctx, holder, q, s.sendForwards)
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
	// The message has a deadline of its own, which may be noticed before ctx's.
	late := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	if nobody || late || problem.IsCode(err, problem.Unavailable) {
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

// AppendForwarded appends what other ingestors have prepared and forward
// because this one commits; it is never forwarded again. The requests run
// beside each other.
func (s *Service) AppendForwarded(ctx context.Context, requests []api.AppendRequest) ([]api.Forwarded, error) {
	out := make([]api.Forwarded, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			reply, err := s.append(ctx, r, false)
			if out[i].Reply = reply; err != nil {
				p := problem.From(err)
				out[i] = api.Forwarded{Error: p.Error(), Code: string(p.Code)}
			}
		})
	}
	wg.Wait()
	return out, nil
}

const (
	// forwardMessages under way at once: while one is committed the next one
	// gathers.
	forwardMessages = 2
	// What one message carries at most.
	forwardRequests = 512
	forwardBytes    = 512 << 10
)

// forwards gathers requests into messages. Safe for concurrent use.
type forwards struct {
	mu    sync.Mutex
	queue []*forwarded
	// leads is held by those who send a message, for all that wait.
	leads chan struct{}
}

// forwarded is a request that waits for its answer.
type forwarded struct {
	ctx    context.Context
	q      api.AppendRequest
	bytes  int
	answer chan forwardAnswer // takes one
}

type forwardAnswer struct {
	reply *api.AppendReply
	err   error
}

func newForwards() *forwards { return &forwards{leads: make(chan struct{}, forwardMessages)} }

// send returns the answer to a request. Whoever finds that few messages are
// under way sends what has gathered.
func (f *forwards) send(ctx context.Context, holder string, q api.AppendRequest, message func(context.Context, string, []*forwarded)) (*api.AppendReply, error) {
	mine := &forwarded{ctx: ctx, q: q, answer: make(chan forwardAnswer, 1)}
	for _, w := range q.Writes {
		if w.Turn != nil && w.Turn.Made != nil {
			mine.bytes += w.Turn.Made.Bytes()
		}
	}
	f.mu.Lock()
	f.queue = append(f.queue, mine)
	f.mu.Unlock()
	for {
		select {
		case a := <-mine.answer:
			return a.reply, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case f.leads <- struct{}{}:
			if batch := f.take(); len(batch) > 0 {
				message(ctx, holder, batch)
			}
			<-f.leads
		}
		select { // where it is under way with another one's message
		case a := <-mine.answer:
			return a.reply, a.err
		default:
		}
		if !f.waiting(mine) {
			select {
			case a := <-mine.answer:
				return a.reply, a.err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func (f *forwards) waiting(one *forwarded) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.queue, one)
}

// take what one message carries; those who have given up are left out.
func (f *forwards) take() (out []*forwarded) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, bytes := 0, 0
	for ; n < len(f.queue) && len(out) < forwardRequests; n++ {
		one := f.queue[n]
		if one.ctx.Err() != nil {
			continue
		}
		if bytes += one.bytes; len(out) > 0 && bytes > forwardBytes {
			break
		}
		out = append(out, one)
	}
	f.queue = slices.Clone(f.queue[n:])
	return out
}

// sendForwards sends a message and answers everyone in it. It is not the
// leader's alone: it does not end with the leader's context.
func (s *Service) sendForwards(ctx context.Context, holder string, batch []*forwarded) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.c.ForwardTimeout)
	defer cancel()
	requests := make([]api.AppendRequest, len(batch))
	for i, one := range batch {
		requests[i] = one.q
	}
	replies, err := s.d.Forward(ctx, holder, requests)
	if err == nil && len(replies) != len(batch) {
		err = problem.New(problem.Internal, "%d requests were answered by %d", len(batch), len(replies))
	}
	for i, one := range batch {
		a := forwardAnswer{err: err}
		if err == nil {
			if a.reply = replies[i].Reply; a.reply == nil {
				a.err = problem.New(problem.Code(replies[i].Code), "%s", replies[i].Error)
			}
		}
		one.answer <- a
	}
}

// replyOf answers with the greatest position of all writes.
func replyOf(written []api.Written) *api.AppendReply {
	reply := &api.AppendReply{Written: written}
	if len(written) > 0 {
		reply.Token = slices.MaxFunc(written, func(a, b api.Written) int { return cmp.Compare(a.Token.Seq, b.Token.Seq) }).Token
	}
	return reply
}
