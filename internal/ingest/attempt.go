package ingest

import (
	"context"
	"errors"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
)

// lagTries is how often a subject that looks shorter than the projection says
// is looked at again before it counts as damage: direct reads of a replicated
// log may lag behind what the projection has followed.
const lagTries = 5

// attempt looks a job's ids up, prepares its turns, hands it to the committer,
// and does it again while another writer or the log is in the way.
func (s *Service) attempt(ctx context.Context, j *job) ([]api.Written, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.c.AppendTimeout)
		defer cancel()
	}
	var reason error
	backoff := s.c.Backoff
	for try := 0; try < s.c.Tries; try++ {
		if err := s.look(ctx, j); err != nil {
			return nil, err
		}
		s.prepare(j)
		o, err := s.hand(ctx, j)
		if err != nil {
			return nil, err
		}
		switch reason = o.err; reason {
		case nil:
			return o.written, nil
		case errStale: // nothing was tried
			try--
		case errConflict, errUnknown:
		case errUnavailable:
			if err := await.Sleep(ctx, backoff); err != nil {
				return nil, gaveUp(j.ref, err)
			}
			backoff *= 2
		default:
			return nil, reason
		}
	}
	return nil, problem.New(problem.Unavailable, "append to %s gave up after %d tries: %w", j.ref, s.c.Tries, reason)
}

// hand gives a copy of the job to the committer and waits. The copy is the
// committer's until it answers, also when nobody waits any more.
func (s *Service) hand(ctx context.Context, j *job) (outcome, error) {
	c := *j
	c.outcome = make(chan outcome, 1)
	if !s.queue.push(&c) {
		return outcome{}, errClosed()
	}
	select {
	case o := <-c.outcome:
		j.tried, j.results, j.now = c.tried, c.results, c.now
		return o, nil
	case <-ctx.Done():
		return outcome{}, gaveUp(j.ref, ctx.Err())
	}
}

func gaveUp(ref events.Ref, err error) error {
	return problem.New(problem.Unavailable, "append to %s not confirmed: %w", ref, err).
		WithHint("the turns may be stored or not; send them again with the same ids")
}

// look asks the projection what it knows of the job's ids and where the
// session stands. Without a lane, and after every drop of one, it waits for
// the projection to have seen the subject's last event. A lane that knows all
// of its session is not asked about for headEvery.
func (s *Service) look(ctx context.Context, j *job) error {
	lane := s.lanes.state(j.ref, s.c.LaneIDs, s.c.Unprojected, s.d.Clock())
	j.limit = s.settingsOf(j, lane.known && lane.settings.LargeFileChars > 0, lane.settings).LargeFileChars
	calls := s.unknownCalls(j, j.limit)
	if lane.whole && !lane.head && len(calls) == 0 {
		j.looked, j.headless = &api.LookupReply{Watermark: events.Position{Epoch: s.epoch, Seq: lane.base}}, true
		return nil
	}
	r := api.LookupRequest{Ref: j.ref, Calls: calls, Token: events.Position{Epoch: s.epoch, Seq: max(lane.base, lane.wait)}, SkipHead: !lane.head}
	r.IDs, r.Compactions = j.ids()
	last := uint64(0)
	subject := events.Subject(events.LaneTimeline, j.ref, s.partitions)
	if !lane.known {
		var err error
		if last, err = s.d.Log.LastOf(ctx, subject); err != nil {
			return problem.New(problem.Unavailable, "append to %s: %w", j.ref, err)
		}
		r.Token.Seq = max(r.Token.Seq, last)
	}
	reply, err := s.lookup(ctx, r)
	if err != nil {
		return err
	}
	if !lane.known {
		if err := s.compare(ctx, j.ref, subject, last, reply); err != nil {
			return err
		}
	}
	j.looked, j.headless = reply, r.SkipHead
	if !j.headless {
		j.limit = s.settingsOf(j, reply.Head.Configured, reply.Head.Settings).LargeFileChars
	}
	s.learnCalls(j.ref, reply)
	return nil
}

func (s *Service) lookup(ctx context.Context, r api.LookupRequest) (*api.LookupReply, error) {
	reply, err := s.d.Lookup(ctx, r)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, gaveUp(r.Ref, ctx.Err())
	case err != nil && problem.IsCode(err, problem.Damaged):
		return nil, err
	case err != nil:
		return nil, problem.New(problem.Unavailable, "append to %s: the projection cannot be asked: %w", r.Ref, err).
			WithHint("a projector must run and follow the log; retry")
	case reply.Watermark.Epoch != s.epoch:
		return nil, problem.New(problem.Damaged, "the projection follows the log %s, this is %s", reply.Watermark.Epoch, s.epoch).
			WithHint("the log was restored or replaced: run `lcm rebuild`")
	case reply.Watermark.Seq < r.Token.Seq:
		return nil, problem.New(problem.Unavailable, "the projection answered at %d, position %d was asked for", reply.Watermark.Seq, r.Token.Seq)
	}
	return reply, nil
}

// errLost: the one kind of damage that a rebuild of the projection cannot mend.
var errLost = errors.New("the log has lost events of it")

// compare refuses a session whose subject ends before what the projection has
// seen of it: damage can make the log deny events, and accept a fork.
func (s *Service) compare(ctx context.Context, ref events.Ref, subject string, last uint64, r *api.LookupReply) error {
	seen := r.Head.Timeline.LastSeq
	if last > seen {
		return problem.New(problem.Unavailable, "the projection at %d does not hold the event at %d of %s", r.Watermark.Seq, last, ref).
			WithHint("it may not be responsible for this session's partition; see `lcm status`")
	}
	for range lagTries {
		if last >= seen {
			return nil
		}
		if err := await.Sleep(ctx, s.c.Backoff); err != nil {
			return gaveUp(ref, err)
		}
		var err error
		if last, err = s.d.Log.LastOf(ctx, subject); err != nil {
			return problem.New(problem.Unavailable, "append to %s: %w", ref, err)
		}
	}
	if last >= seen {
		return nil
	}
	return problem.New(problem.Damaged, "session %s ends at %d in the log, the projection has seen %d: %w", ref, last, seen, errLost).
		WithHint("the session is closed for writing; repair the log from a backup with `lcm doctor --repair --from DIR`")
}

// prepare fills in what the job's turns lack, once, for its limit.
func (s *Service) prepare(j *job) {
	defer func() { j.preparedFor = j.limit }()
	j.bytes = 0
	batch := map[string]string{} // calls of this request
	path := func(id string) string {
		if p, ok := batch[id]; ok {
			return p
		}
		p, _ := s.calls.path(j.ref, id)
		return p
	}
	for i := range j.writes {
		w := &j.writes[i]
		if w.Turn == nil || j.refused[i] != nil {
			continue
		}
		t := &w.Turn.Turn
		for _, b := range t.Blocks {
			if b.Type == events.BlockToolUse && b.CallID != "" {
				batch[b.CallID] = callPath(b)
			}
		}
		var err error
		if j.preparedFor != 0 && j.preparedFor != j.limit { // by one who did not know the session
			w.Turn.Prepared, w.Turn.Made = false, nil
		}
		switch {
		case !w.Turn.Prepared:
			err = Prepare(w.Turn, j.limit, s.d.Measures, path)
		case w.Turn.Made == nil:
			err = made(w.Turn)
		}
		if err != nil {
			j.refused[i] = err
			continue
		}
		s.calls.note(j.ref, t)
		j.bytes += w.Turn.Made.Bytes()
	}
}

func (s *Service) settingsOf(j *job, configured bool, have events.Settings) events.Settings {
	if configured {
		return have
	}
	return *j.settings
}

// unknownCalls are calls answered with large bodies that neither the request
// nor the memory holds.
func (s *Service) unknownCalls(j *job, limit int) []string {
	var out []string
	batch := map[string]bool{}
	for _, w := range j.writes {
		if w.Turn == nil || w.Turn.Prepared && (j.preparedFor == 0 || j.preparedFor == limit) {
			continue
		}
		for _, id := range w.Turn.Turn.Calls() {
			batch[id] = true
		}
		for _, id := range largeCalls(&w.Turn.Turn, limit) {
			if _, ok := s.calls.path(j.ref, id); !ok && !batch[id] {
				out = append(out, id)
			}
		}
	}
	return out
}

func (s *Service) learnCalls(ref events.Ref, r *api.LookupReply) {
	for id, b := range r.Calls {
		s.calls.put(callKey{ref, id}, callPath(b))
	}
}
