package ingest

import (
	"maps"
	"slices"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// staging turns jobs into the events of one commit. The lanes themselves are
// not touched until the commit has been answered.
type staging struct {
	partitions int
	now        time.Time
	lanes      *lanes
	keep       int // ids a lane keeps

	events []api.Append
	turns  int
	// lanes with something staged, by session.
	staged map[events.Ref]*stagedLane
}

// stagedLane is a lane as it will be if the commit stores everything.
type stagedLane struct {
	lane *lane
	head laneHead
	jobs []*job
	// ids staged on top of the lane: their results, whose event is in the
	// commit, and their hashes.
	turns       map[string]stagedTurn
	compactions map[string]int
	order       []stagedID
	places      []int // of its events, in order
}

// stagedID is a staged id in the order of its event.
type stagedID struct {
	id         string
	event      int
	compaction bool
}

type stagedTurn struct {
	entry        uint64
	event        int
	hash, source string
}

func newStaging(partitions int, now time.Time, lanes *lanes, keep int) *staging {
	return &staging{partitions: partitions, now: now, lanes: lanes, keep: keep, staged: map[events.Ref]*stagedLane{}}
}

// add stages a job. It answers false where the job's lookup is too old.
func (st *staging) add(j *job) bool {
	s := st.staged[j.ref]
	if s == nil {
		l := st.lanes.get(j.ref)
		if l == nil {
			if j.headless { // the lane was dropped since
				return false
			}
			l = &lane{
				ref: j.ref, subject: events.Subject(events.LaneTimeline, j.ref, st.partitions),
				head: headOf(j.looked.Head), base: j.looked.Watermark.Seq,
				recent: map[string]api.Known{}, compactions: map[string]uint64{}, asked: st.now,
			}
			l.whole = l.head.lastSeq == 0
			st.lanes.put(l)
		}
		if !l.learn(j, st.keep) {
			return false
		}
		s = &stagedLane{lane: l, head: l.head, turns: map[string]stagedTurn{}, compactions: map[string]int{}}
		st.staged[j.ref] = s
	} else if j.looked.Watermark.Seq < s.lane.base {
		return false
	}
	s.jobs = append(s.jobs, j)
	b := &builder{st: st, s: s, j: j}
	if j.set != nil {
		j.results = []result{b.configure()}
		return true
	}
	j.results = make([]result, len(j.writes))
	for i, w := range j.writes {
		j.results[i] = b.write(i, w)
	}
	return true
}

// builder stages the writes of one job on its lane.
type builder struct {
	st *staging
	s  *stagedLane
	j  *job
	// last turn of the request so far: its entry, and whether it was new.
	lastTurn uint64
	turns    int
	fresh    bool
}

func (b *builder) write(i int, w api.Write) result {
	if err := b.j.refused[i]; err != nil {
		return refusedWrite(w, err)
	}
	switch {
	case w.Turn != nil:
		return b.turn(w.Turn)
	case w.Compaction != nil:
		return b.compaction(w)
	default:
		return b.move(w.MoveTo)
	}
}

// refusedWrite is the result of a write that failed before it came here.
func refusedWrite(w api.Write, err error) result {
	r := result{err: err}
	if w.Turn != nil {
		r.id = w.Turn.Turn.ID
	}
	return r
}

// find says where a turn id is, staged, in the lane or in the projection.
func (b *builder) find(id string) (k api.Known, event int, ok bool) {
	if id == "" {
		return k, 0, false
	}
	if t, ok := b.s.turns[id]; ok {
		return api.Known{Entry: t.entry, Hash: t.hash, SourceHash: t.source}, t.event, true
	}
	if k, ok = b.s.lane.recent[id]; ok {
		return k, 0, true
	}
	k, ok = b.j.looked.Known[id]
	return k, 0, ok
}

// entryOf resolves a turn id, 0 where it is unknown.
func (b *builder) entryOf(id string) uint64 {
	k, _, _ := b.find(id)
	return k.Entry
}

func (b *builder) turn(w *api.Turn) result {
	t := w.Turn
	hash, source := w.Made.Hash, w.Made.Source
	b.turns++
	if k, event, ok := b.find(t.ID); ok {
		b.lastTurn = k.Entry
		if k.Hash != hash && (source == "" || k.SourceHash != source) {
			return result{id: t.ID, err: problem.New(problem.Conflict,
				"turn %q of %s is entry e%d with other content", t.ID, b.j.ref, k.Entry)}
		}
		return result{id: t.ID, entry: k.Entry, seq: k.Seq, event: event, duplicate: true, named: true}
	}
	t.Entry = b.s.head.entries + 1
	parent := b.entryOf(w.ParentID)
	if err := b.settings(); err != nil {
		return result{id: t.ID, err: err}
	}
	event := b.put(events.TypeTurnAppended, w.Made.Payload(t.Entry, parent))
	b.fresh, b.lastTurn = true, t.Entry
	b.st.turns++
	b.s.head.entries, b.s.head.leaf = t.Entry, t.Entry
	b.s.turns[t.ID] = stagedTurn{entry: t.Entry, event: event, hash: hash, source: source}
	b.s.order = append(b.s.order, stagedID{id: t.ID, event: event})
	return result{id: t.ID, entry: t.Entry, event: event, named: true}
}

func (b *builder) compaction(w api.Write) result {
	c := *w.Compaction
	if seq, ok := b.s.lane.compactions[c.ID]; ok {
		return result{id: c.ID, seq: seq, duplicate: true, named: true}
	}
	if seq, ok := b.j.looked.Compactions[c.ID]; ok {
		return result{id: c.ID, seq: seq, duplicate: true, named: true}
	}
	if event, ok := b.s.compactions[c.ID]; ok {
		return result{id: c.ID, event: event, duplicate: true, named: true}
	}
	c.After, c.Kept = b.s.head.leaf, b.entryOf(w.KeptID)
	if w.AfterID != "" { // else it stands behind all that was written before it
		c.After = b.entryOf(w.AfterID)
	}
	event, err := b.emit(&c)
	if err != nil {
		return result{id: c.ID, err: err}
	}
	b.s.compactions[c.ID] = event
	b.s.order = append(b.s.order, stagedID{id: c.ID, event: event, compaction: true})
	return result{id: c.ID, event: event, named: true}
}

// move stages a LeafMoved, unless the leaf is there. A move has no id, so one
// that comes again behind turns that are all known counts only if the leaf is
// still where those turns left it: then it was lost, else it is history.
func (b *builder) move(to string) result {
	k, _, ok := b.find(to)
	if !ok {
		return result{id: to, err: problem.New(problem.NotFound, "the leaf of %s cannot move to %q: there is no such turn", b.j.ref, to)}
	}
	again := b.turns > 0 && !b.fresh && b.s.head.leaf != b.lastTurn
	if k.Entry == b.s.head.leaf || again {
		r := result{id: to, entry: k.Entry, duplicate: true, seq: b.s.head.lastSeq}
		if n := len(b.s.places); n > 0 { // behind what is staged
			r.seq, r.event = 0, b.s.places[n-1]
		}
		return r
	}
	event, err := b.emit(&events.LeafMoved{Entry: k.Entry})
	if err != nil {
		return result{id: to, err: err}
	}
	b.s.head.leaf = k.Entry
	return result{id: to, entry: k.Entry, event: event}
}

// emit stages an event, and the settings before the first one of a session.
func (b *builder) emit(p events.Payload) (int, error) {
	data, err := events.PayloadJSON(p)
	if err != nil {
		return 0, problem.New(problem.Invalid, "%w", err)
	}
	if err := checkSize(len(data)); err != nil { // and no session is made for it
		return 0, err
	}
	if p.EventType() != events.TypeSessionConfigured {
		if err := b.settings(); err != nil {
			return 0, err
		}
	}
	return b.put(p.EventType(), data), nil
}

// settings stages those of a session that has none yet.
func (b *builder) settings() error {
	if b.s.head.configured {
		return nil
	}
	if _, err := b.emit(&events.SessionConfigured{Settings: *b.j.settings}); err != nil {
		return err
	}
	b.s.head.settings, b.s.head.configured = *b.j.settings, true
	return nil
}

// put stages an event behind the lane's last one.
func (b *builder) put(t events.Type, data []byte) int {
	h := &b.s.head
	at := b.st.now
	if at.Before(h.time) {
		at = h.time // monotone within a session, whatever the clock does
	}
	m, link := events.Seal(b.s.lane.subject, t, data, at, h.link)
	event := len(b.st.events)
	b.st.events = append(b.st.events, api.Append{Message: m, Expect: h.lastSeq})
	b.s.places = append(b.s.places, event)
	h.link, h.time = link, at
	return event
}

// settle takes the answer of the commit into the lanes and answers the jobs.
// failed says why events at 0 of a session's subject were not stored.
func (st *staging) settle(epoch string, seqs []uint64, failed func(subject string) error) {
	for ref, s := range st.staged {
		stored := !slices.ContainsFunc(s.places, func(i int) bool { return seqs[i] == 0 })
		if stored {
			s.adopt(seqs)
		} else {
			st.lanes.drop(ref)
		}
		for _, j := range s.jobs {
			j.settle(epoch, seqs, func() error { return failed(s.lane.subject) })
		}
	}
}

// adopt makes the lane what was staged.
func (s *stagedLane) adopt(seqs []uint64) {
	if n := len(s.places); n > 0 {
		s.head.lastSeq = seqs[s.places[n-1]]
	}
	s.lane.head = s.head
	for _, o := range s.order {
		seq := seqs[o.event]
		s.lane.order = append(s.lane.order, laneID{id: o.id, seq: seq, compaction: o.compaction})
		if o.compaction {
			s.lane.compactions[o.id] = seq
			continue
		}
		t := s.turns[o.id]
		s.lane.recent[o.id] = api.Known{Entry: t.entry, Seq: seq, Hash: t.hash, SourceHash: t.source}
	}
}

// settle answers a job whose every write has its place; else it is to be
// judged anew.
func (j *job) settle(epoch string, seqs []uint64, failed func() error) {
	missing := slices.ContainsFunc(j.results, func(r result) bool {
		return r.err == nil && r.seq == 0 && (r.event >= len(seqs) || seqs[r.event] == 0)
	})
	if missing {
		err := failed()
		j.remember(seqs, err)
		j.answer(outcome{err: err})
		return
	}
	out := make([]api.Written, len(j.results))
	claimed := map[string]bool{}
	for i, r := range j.results {
		out[i] = r.written(epoch, seqs)
		if r.named && j.tried[r.id] && !claimed[r.id] { // stored by an earlier try
			claimed[r.id], out[i].Duplicate = true, false
		}
	}
	j.answer(outcome{written: out})
}

// remember the ids that are, or may be, in the log through this job.
func (j *job) remember(seqs []uint64, err error) {
	tried := maps.Clone(j.tried)
	if tried == nil {
		tried = map[string]bool{}
	}
	for _, r := range j.results {
		mine := r.err == nil && r.named && r.seq == 0 && !r.duplicate
		if mine && (err == errUnknown || seqs[r.event] != 0) {
			tried[r.id] = true
		}
	}
	j.tried = tried
}
