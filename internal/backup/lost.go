package backup

import (
	"cmp"
	"slices"
	"time"

	"lcm/events"
	"lcm/session"
)

// lostRef names the session that PositionLost events stand in where nothing
// tells whose the lost event was.
var lostRef = events.Ref{Tenant: "lcm", Session: "lost-positions"}

// losses finds out what lost positions held from the events around them: on
// every subject versions are contiguous, so that a gap of versions between two
// positions names the subject of what is lost between them, the event behind it
// carries the hash of the last lost one, and the turns behind it say how many
// turns are among them.
//
// It sees every frame once, in order, and then says what stands at each lost
// position.
type losses struct {
	partitions int
	lost       []Frame // in order
	chains     map[string]*chain
	refs       map[events.Ref]*referred
	joiner     events.Joiner
	taken      map[string]bool // subjects of lostRef that are in use
}

// chain is a subject as stretches of valid events with gaps between them. An
// event that links to an earlier stretch shows that the ones behind it are no
// part of the chain.
type chain struct {
	ref       events.Ref
	lane      events.Lane
	stretches []stretch
	events    int // that link
}

// stretch of events, each the next one's predecessor; the first one of a chain
// begins before its first event.
type stretch struct {
	version   uint64      // of its first event
	prev      events.Hash // that it links to
	first     uint64      // its position
	link      events.Link // behind its last event
	last      uint64      // its position
	time      time.Time   // of it
	firstTurn uint64      // number of its first turn, 0 = it has none
	entries   uint64      // turns up to its end
}

// referred is the greatest entry that summaries, cuts and moves of a session
// name, and the position of the first event that names it.
type referred struct{ entry, by uint64 }

// gap is what a chain lacks between two positions.
type gap struct {
	c      *chain
	from   stretch
	before uint64      // position of what follows; it begins behind from
	n      uint64      // events
	turns  uint64      // turns among them
	hash   events.Hash // of the last one, zero = not known
	at     []int       // places in lost
}

func newLosses(partitions int) *losses {
	return &losses{partitions: partitions, chains: map[string]*chain{}, refs: map[events.Ref]*referred{}, taken: map[string]bool{}}
}

// add sees the next frame.
func (l *losses) add(f Frame) error {
	if f.Lost {
		l.lost = append(l.lost, f)
		return nil
	}
	for _, r := range l.joiner.Add(f.Message, nil) {
		l.event(r)
	}
	return nil
}

func (l *losses) event(r events.Record) {
	d, err := session.Decode(r)
	if err != nil || d.Record.Subject != events.Subject(d.Lane, d.Ref, l.partitions) {
		return // of no session
	}
	if d.Ref.Tenant == lostRef.Tenant {
		l.taken[d.Record.Subject] = true
	}
	c := l.chains[d.Record.Subject]
	if c == nil {
		c = &chain{ref: d.Ref, lane: d.Lane, stretches: []stretch{{}}}
		l.chains[d.Record.Subject] = c
	}
	if c.extend(d) || l.begins(c, d) {
		c.events++
		l.refer(c, d)
	}
}

// extend adds an event that links to a stretch.
func (c *chain) extend(d session.Decoded) bool {
	for i := len(c.stretches) - 1; i >= 0; i-- {
		if link, err := d.Follow(c.stretches[i].link); err == nil {
			c.stretches = c.stretches[:i+1]
			c.stretches[i].take(d, link)
			return true
		}
	}
	return false
}

func (s *stretch) take(d session.Decoded, link events.Link) {
	s.link, s.last, s.time = link, d.Record.Seq, d.Envelope.Time
	n := uint64(0)
	switch p := d.Payload.(type) {
	case *events.TurnAppended:
		n = p.Entry
	case *events.PositionLost:
		n = p.Entry
	}
	if n == 0 {
		return
	}
	if s.firstTurn == 0 {
		s.firstTurn = n
	}
	s.entries = n
}

// begins: an event that stands behind a gap, if as much is lost before it.
func (l *losses) begins(c *chain, d session.Decoded) bool {
	link, err := d.Follow(events.Link{Version: d.Envelope.Version - 1, Hash: d.Envelope.Prev})
	from := c.stretches[len(c.stretches)-1]
	if err != nil || d.Envelope.Version <= from.link.Version+1 {
		return false
	}
	if uint64(l.between(from.last, d.Record.First())) < d.Envelope.Version-from.link.Version-1 {
		return false
	}
	s := stretch{version: d.Envelope.Version, prev: d.Envelope.Prev, first: d.Record.First(), entries: from.entries}
	s.take(d, link)
	c.stretches = append(c.stretches, s)
	return true
}

// between counts the lost positions between two others.
func (l *losses) between(after, before uint64) int {
	at := func(seq uint64) int {
		i, _ := slices.BinarySearchFunc(l.lost, seq, func(f Frame, seq uint64) int { return cmp.Compare(f.Message.Seq, seq) })
		return i
	}
	return at(before) - at(after)
}

// refer notes the entries that an event names.
func (l *losses) refer(c *chain, d session.Decoded) {
	n := uint64(0)
	switch p := d.Payload.(type) {
	case *events.LeafMoved:
		n = p.Entry
	case *events.HistoryCompacted:
		n = max(p.After, p.Kept)
	case *events.NodeCommitted:
		n = p.Last
	case *events.CutCommitted:
		n = max(p.Through, p.Kept)
	}
	if r := l.refs[c.ref]; r == nil {
		l.refs[c.ref] = &referred{n, d.Record.Seq}
	} else if n > r.entry {
		*r = referred{n, d.Record.Seq}
	}
}

// gaps of all chains, in the order of the positions they end before.
func (l *losses) gaps() []*gap {
	var out []*gap
	for _, c := range l.chains {
		for i := 1; i < len(c.stretches); i++ {
			from, to := c.stretches[i-1], c.stretches[i]
			g := &gap{c: c, from: from, before: to.first, n: to.version - from.link.Version - 1, hash: to.prev}
			if c.lane == events.LaneTimeline {
				g.turns = min(max(l.until(c, i), from.entries)-from.entries, g.n)
			}
			if to.firstTurn == 0 {
				c.stretches[i].entries = from.entries + g.turns
			}
			out = append(out, g)
		}
		if g := l.open(c); g != nil {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *gap) int {
		return cmp.Or(cmp.Compare(a.before, b.before), cmp.Compare(a.from.last, b.from.last), cmp.Compare(a.c.lane, b.c.lane))
	})
	return out
}

// until is the number of the last turn that stood before the first turn behind
// stretch i begins, or, where there is none, the last that any event names.
func (l *losses) until(c *chain, i int) uint64 {
	for _, s := range c.stretches[i:] {
		if s.firstTurn > 0 {
			return s.firstTurn - 1
		}
	}
	if r := l.refs[c.ref]; r != nil {
		return r.entry
	}
	return 0
}

// open is a gap at the end of a timeline: later events of the session name
// turns that it does not have.
func (l *losses) open(c *chain) *gap {
	r := l.refs[c.ref]
	end := c.stretches[len(c.stretches)-1]
	if c.lane != events.LaneTimeline || r == nil || r.entry <= end.entries || r.by < end.last {
		return nil
	}
	n := r.entry - end.entries
	return &gap{c: c, from: end, before: r.by, n: n, turns: n}
}

// match gives gaps their positions: those of the longest chains first, as long
// as all can be filled. A forged event may look like one behind a gap.
func (l *losses) match() []*gap {
	all := l.gaps()
	slices.SortStableFunc(all, func(a, b *gap) int { return cmp.Compare(b.c.events, a.c.events) })
	var chosen []*gap
	for _, g := range all {
		if more := append(slices.Clone(chosen), g); l.assign(more) {
			chosen = more
		}
	}
	l.assign(chosen)
	return chosen
}

// assign fills gaps, the earliest end first; it reports whether all are full.
func (l *losses) assign(gaps []*gap) bool {
	slices.SortStableFunc(gaps, func(a, b *gap) int { return cmp.Compare(a.before, b.before) })
	for _, g := range gaps {
		g.at = nil
	}
	for i, f := range l.lost {
		for _, g := range gaps {
			if g.from.last < f.Message.Seq && f.Message.Seq < g.before && uint64(len(g.at)) < g.n {
				g.at = append(g.at, i)
				break
			}
		}
	}
	return !slices.ContainsFunc(gaps, func(g *gap) bool { return uint64(len(g.at)) < g.n })
}

// events that stand at the lost positions.
func (l *losses) events() (map[uint64]events.Message, error) {
	out := make(map[uint64]events.Message, len(l.lost))
	for _, g := range l.match() {
		if err := l.fill(g, out); err != nil {
			return nil, err
		}
	}
	subject := l.unowned()
	link := events.Link{}
	for _, f := range l.lost {
		if _, ok := out[f.Message.Seq]; ok {
			continue
		}
		m, next, err := events.Encode(subject, &events.PositionLost{Seq: f.Message.Seq, Reason: f.Reason}, unknownTime, link)
		if err != nil {
			return nil, err
		}
		out[f.Message.Seq], link = m, next
	}
	return out, nil
}

// fill makes the events of a gap.
func (l *losses) fill(g *gap, out map[uint64]events.Message) error {
	subject := events.Subject(g.c.lane, g.c.ref, l.partitions)
	link, at := g.from.link, g.from.time
	if at.IsZero() {
		at = unknownTime
	}
	for i, place := range g.at {
		f := l.lost[place]
		p := &events.PositionLost{Seq: f.Message.Seq, Reason: f.Reason, Subject: subject, Version: link.Version + 1}
		if uint64(i) < g.turns {
			p.Type, p.Entry = events.TypeTurnAppended, g.from.entries+1+uint64(i)
		}
		last := i == len(g.at)-1
		if last {
			p.Hash = g.hash
		}
		m, next, err := events.Encode(subject, p, at, link)
		if err != nil {
			return err
		}
		if last && g.hash != (events.Hash{}) {
			next.Hash = g.hash
		}
		out[f.Message.Seq], link = m, next
	}
	return nil
}

// unowned is the subject of what nobody is known to own: one that no earlier
// restore has written to.
func (l *losses) unowned() string {
	for ref := lostRef; ; ref.Session += "-again" {
		if s := events.Subject(events.LaneTimeline, ref, l.partitions); !l.taken[s] {
			return s
		}
	}
}
