package verify

import (
	"cmp"
	"fmt"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// check is the state of a verification: where every subject stands.
type check struct {
	out        *api.VerifyReply
	partitions int
	limit      int
	next       uint64 // position that comes next
	messages   uint64 // that were read
	subjects   map[string]*subject
	sessions   map[events.Ref]bool
	gaps       []gap  // of versions
	lostAt     []span // missing positions
	unread     int    // bytes of payloads that are kept unread
}

// maxUnread bounds the payloads kept until a later event vouches for them.
const maxUnread = 64 << 20

// subject is where a chain stands.
type subject struct {
	ref  events.Ref
	lane events.Lane
	// bad: the session's subject is another one.
	bad  string
	link events.Link // behind the last valid event
	seq  uint64      // of the last valid event
	// pending is that event while its payload is unread; before is the link in
	// front of it, and was the position of the event there.
	pending *session.Decoded
	before  events.Link
	was     uint64
	// stray: the link behind the last event that broke the chain, and its
	// place in the faults: what follows it is counted there.
	stray   events.Link
	strayAt int
}

// span of positions, both ends included.
type span struct{ first, last uint64 }

// gap: a subject skips versions between two positions.
type gap struct {
	ref           events.Ref
	lane          events.Lane
	after, before uint64 // positions
	version       uint64 // first missing
	n             uint64 // missing versions
}

func newCheck(log Log, limit int) *check {
	return &check{
		out:        &api.VerifyReply{Epoch: log.Epoch(), Faults: []api.VerifyFault{}},
		partitions: log.Partitions(), limit: limit, next: 1,
		subjects: map[string]*subject{}, sessions: map[events.Ref]bool{},
	}
}

// add checks the next event that could be read.
func (c *check) add(d *decoded) {
	seq := d.Record.Seq
	c.lost(c.next, d.Record.First())
	c.next = seq + 1
	c.out.Events++
	c.out.Bytes += uint64(len(d.Record.Data))
	c.messages += seq + 1 - d.Record.First()
	if d.err != nil {
		c.broken(nil, d, d.err.Error())
		return
	}
	s := c.subject(d)
	if s.bad != "" {
		c.broken(nil, d, s.bad)
		return
	}
	link, err := d.Follow(s.link)
	if err != nil && s.pending != nil {
		c.judge(s)
		link, err = d.Follow(s.link)
	}
	if err == nil {
		c.vouched(s)
		s.before, s.was = s.link, s.seq
		s.link, s.seq = link, seq
		c.out.Valid++
		if p, ok := d.Payload.(*events.PositionLost); ok {
			c.isLost(d, p)
		}
		if d.Unknown() {
			c.out.Unknown++
			return
		}
		s.pending = &d.Decoded
		if c.unread += len(d.Record.Data); c.unread > maxUnread {
			c.judge(s)
		}
		return
	}
	if s.strayAt >= 0 {
		if link, serr := d.Follow(s.stray); serr == nil {
			s.stray = link
			c.out.Broken++
			c.out.Faults[s.strayAt].Behind++
			return
		}
	}
	if d.Envelope.Version > s.link.Version+1 {
		c.gaps = append(c.gaps, gap{s.ref, s.lane, s.seq, seq, s.link.Version + 1, d.Envelope.Version - s.link.Version - 1})
	}
	c.broken(s, d, err.Error())
}

// vouched drops the event whose payload need not be read any more.
func (c *check) vouched(s *subject) {
	if s.pending != nil {
		c.unread -= len(s.pending.Record.Data)
		s.pending = nil
	}
}

// judge reads the payload of a subject's last event. One that cannot be read
// does not count: the chain ends before it.
func (c *check) judge(s *subject) {
	d := s.pending
	if d == nil {
		return
	}
	d.Judge()
	c.vouched(s)
	if _, err := d.Follow(s.before); err != nil {
		s.link, s.seq = s.before, s.was
		c.out.Valid--
		c.broken(s, &decoded{Decoded: *d}, err.Error())
	}
}

func (c *check) subject(d *decoded) *subject {
	s := c.subjects[d.Record.Subject]
	if s == nil {
		s = &subject{ref: d.Ref, lane: d.Lane, strayAt: -1}
		if want := events.Subject(d.Lane, d.Ref, c.partitions); want != d.Record.Subject {
			s.bad = fmt.Sprintf("the session's subject is %q", want)
		} else {
			c.sessions[d.Ref] = true
		}
		c.subjects[d.Record.Subject] = s
	}
	return s
}

// broken notes an event that is there and does not count.
func (c *check) broken(s *subject, d *decoded, reason string) {
	c.out.Broken++
	at := c.fault(api.VerifyFault{
		Seq: d.Record.Seq, Kind: api.FaultBroken, Tenant: d.Ref.Tenant, Session: d.Ref.Session, Lane: d.Lane,
		Type: d.Envelope.Type, Version: d.Envelope.Version, Reason: reason,
	})
	if s != nil {
		s.strayAt, s.stray = at, d.Link()
	}
}

// isLost names a position that a restore or repair could not recover.
func (c *check) isLost(d *decoded, p *events.PositionLost) {
	c.out.Lost++
	f := api.VerifyFault{Seq: p.Seq, Kind: api.FaultLost, Type: p.Type, Version: p.Version, Reason: "it could not be recovered: " + p.Reason}
	if p.Subject != "" {
		f.Tenant, f.Session, f.Lane = d.Ref.Tenant, d.Ref.Session, d.Lane
	}
	if p.Entry != 0 {
		f.Reason = fmt.Sprintf("the turn e%d could not be recovered: %s", p.Entry, p.Reason)
	}
	c.fault(f)
}

// lost notes the positions from first up to before.
func (c *check) lost(first, before uint64) {
	if first >= before {
		return
	}
	c.lostAt = append(c.lostAt, span{first, before - 1})
	c.out.Missing += before - first
}

// fault lists a fault; it answers its place, -1 where the list is full.
func (c *check) fault(f api.VerifyFault) int {
	if len(c.out.Faults) >= c.limit {
		c.out.More++
		return -1
	}
	c.out.Faults = append(c.out.Faults, f)
	return len(c.out.Faults) - 1
}

// finish names the missing positions and what they held, as far as the
// versions around them tell.
func (c *check) finish() {
	for _, s := range c.subjects {
		c.judge(s)
	}
	for _, s := range c.lostAt {
		for seq := s.first; seq <= s.last; seq++ {
			if len(c.out.Faults) >= c.limit {
				c.out.More += s.last - seq + 1
				break
			}
			c.fault(c.missing(seq))
		}
	}
	slices.SortStableFunc(c.out.Faults, func(a, b api.VerifyFault) int { return cmp.Compare(a.Seq, b.Seq) })
	c.out.Sessions = len(c.sessions)
	c.out.OK = c.out.Missing == 0 && c.out.Broken == 0 &&
		!slices.ContainsFunc(c.out.Faults, func(f api.VerifyFault) bool { return f.Kind != api.FaultLost })
}

// shownSessions of one missing position are named.
const shownSessions = 3

func (c *check) missing(seq uint64) api.VerifyFault {
	f := api.VerifyFault{Seq: seq, Kind: api.FaultMissing}
	var may []gap
	for _, g := range c.gaps {
		if g.after < seq && seq < g.before {
			may = append(may, g)
		}
	}
	if len(may) == 1 {
		g := may[0]
		f.Tenant, f.Session, f.Lane, f.Version = g.ref.Tenant, g.ref.Session, g.lane, g.version
		f.Reason = "the log cannot give this event"
		if n := c.missingBetween(g.after, g.before); n != g.n {
			f.Version = 0
			f.Reason = fmt.Sprintf("the log cannot give this event; versions %d to %d of the session are among %d that are lost", g.version, g.version+g.n-1, n)
		} else if n > 1 {
			f.Version = g.version + c.missingBetween(g.after, seq)
		}
		return f
	}
	f.Reason = "the log cannot give this event; no later event tells whose it was"
	for i, g := range may {
		switch {
		case i == 0:
			f.Reason = "the log cannot give this event; it was of the session " + g.ref.String()
		case i < shownSessions:
			f.Reason += " or " + g.ref.String()
		case i == shownSessions:
			f.Reason += fmt.Sprintf(" or %d others", len(may)-shownSessions)
		}
	}
	return f
}

// missingBetween counts missing positions between two others.
func (c *check) missingBetween(after, before uint64) (n uint64) {
	for _, s := range c.lostAt {
		if first, last := max(s.first, after+1), min(s.last, before-1); first <= last {
			n += last - first + 1
		}
	}
	return n
}
