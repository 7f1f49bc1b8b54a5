package ingest

import (
	"container/list"
	"sync"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// lane is where a session's timeline stands, as far as the committer knows,
// with the ids it has seen since the watermark base. Only the committer
// changes it.
type lane struct {
	ref     events.Ref
	subject string
	head    laneHead
	// base: an id that a lookup at or above this watermark does not know, and
	// that is not in recent, is new.
	base        uint64
	recent      map[string]api.Known
	compactions map[string]uint64 // likewise, of foreign compactions
	// order of both by position: what is forgotten first.
	order []laneID
	// whole: these are all ids of the session, so that nobody else has to be
	// asked about one.
	whole bool

	// asked is when the projection was last asked where the session stands.
	asked time.Time

	place *list.Element // in lanes.order
}

// headEvery: an active lane learns this often what the fold made of its
// events. It knows by itself what it wrote, and a conflict tells it of others.
const headEvery = time.Second

type laneID struct {
	id         string
	seq        uint64
	compaction bool
}

// laneHead is what the next event is built on; it is copied freely.
type laneHead struct {
	link       events.Link
	lastSeq    uint64
	entries    uint64
	leaf       uint64
	time       time.Time
	settings   events.Settings
	configured bool
}

func headOf(h session.Head) laneHead {
	return laneHead{
		link: h.Timeline.Link, lastSeq: h.Timeline.LastSeq, entries: h.Entries, leaf: h.Leaf,
		time: h.Time, settings: h.Settings, configured: h.Configured,
	}
}

// lanes is the bounded set of lanes, least recently used first out.
type lanes struct {
	mu    sync.Mutex
	max   int
	byRef map[events.Ref]*lane
	order *list.List // of *lane, most recent first
}

func newLanes(max int) *lanes {
	return &lanes{max: max, byRef: map[events.Ref]*lane{}, order: list.New()}
}

// laneState is what an append must know of a lane before it looks things up.
type laneState struct {
	known bool
	base  uint64
	// wait for the projection to reach this before going on: 0 = no need.
	wait     uint64
	settings events.Settings
	// head: it is time to ask where the session stands.
	head bool
	// whole: the lane knows every id, and is not about to forget any.
	whole bool
}

// state of a session's lane that keeps some ids. Where too much of it is ahead
// of the projection it says how far to wait.
func (t *lanes) state(ref events.Ref, keep, unprojected int, now time.Time) laneState {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.byRef[ref]
	if l == nil {
		return laneState{head: true}
	}
	s := laneState{known: true, base: l.base, settings: l.head.settings, whole: l.whole && len(l.order) < keep}
	if s.head = now.Sub(l.asked) >= headEvery; s.head {
		l.asked = now
	}
	if len(l.order) > unprojected {
		s.wait = l.head.lastSeq
	}
	return s
}

// lock gives the committer the lanes for as long as it stages or settles.
func (t *lanes) lock() func() { t.mu.Lock(); return t.mu.Unlock }

// get returns the lane, nil where there is none, and marks it used. Locked.
func (t *lanes) get(ref events.Ref) *lane {
	l := t.byRef[ref]
	if l != nil {
		t.order.MoveToFront(l.place)
	}
	return l
}

// put adds a lane and lets the least recently used one go. Locked.
func (t *lanes) put(l *lane) {
	t.byRef[l.ref] = l
	l.place = t.order.PushFront(l)
	if len(t.byRef) > t.max {
		t.drop(t.order.Back().Value.(*lane).ref)
	}
}

// drop forgets a lane: the next append asks the projection again. Locked.
func (t *lanes) drop(ref events.Ref) {
	if l := t.byRef[ref]; l != nil {
		t.order.Remove(l.place)
		delete(t.byRef, ref)
	}
}

// learn takes what a lookup says into the lane. It reports false where the
// lookup is too old to judge ids by: the lane has forgotten ids since.
func (l *lane) learn(j *job, keep int) bool {
	r := j.looked
	w := r.Watermark.Seq
	if w < l.base {
		return false
	}
	// A projection that has seen all of the lane is the truth about it: other
	// writers' events, and what became of ours in the fold.
	if w >= l.head.lastSeq && !j.headless {
		if r.Head.Timeline.LastSeq > l.head.lastSeq { // with ids that are not here
			l.whole, l.base = false, w
		}
		l.head = headOf(r.Head)
	}
	l.forget(w, keep)
	return true
}

// forget drops the oldest ids, down to keep, that the projection knows at a
// watermark.
func (l *lane) forget(watermark uint64, keep int) {
	n := 0
	for ; len(l.order)-n > keep && l.order[n].seq <= watermark; n++ {
		id := l.order[n]
		l.base, l.whole = id.seq, false
		if id.compaction {
			delete(l.compactions, id.id)
		} else {
			delete(l.recent, id.id)
		}
	}
	l.order = l.order[n:]
}
