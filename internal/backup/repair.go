package backup

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// Repaired says where the events of a repaired log come from.
type Repaired struct {
	Epoch      string   `json:"epoch"` // of the damaged log
	Last       uint64   `json:"last"`
	FromLog    uint64   `json:"from_log"`
	FromBackup uint64   `json:"from_backup"` // the log could not give them, or gave others
	Lost       uint64   `json:"lost"`        // neither has them
	LostAt     []uint64 `json:"lost_at,omitempty"`
	// Needed: the log lacks something that a repair gives, or that it says.
	Needed bool `json:"needed"`
	// Notes on what else could not be read.
	Notes []string `json:"notes,omitempty"`
}

// maxLostAt positions are listed.
const maxLostAt = 100

// Repair is a damaged log and a backup of it, merged. Log may be nil: nothing of
// the log can be read.
type Repair struct {
	Backup *Dir
	Sum    Summary // of its Check
	Log    Source
	// Unopened: the log as a whole does not open, only parts of it.
	Unopened bool
	// Known is a position that the log is known to have reached.
	Known uint64

	last uint64 // of the log
}

// Compare goes through both copies and says what a repair would do. Where they
// disagree about an event that both have whole, it refuses and names it.
func (r *Repair) Compare(ctx context.Context) (Repaired, error) {
	out := Repaired{Epoch: r.Sum.Epoch}
	if r.Log != nil {
		if e := r.Log.Epoch(); e != r.Sum.Epoch {
			return out, problem.New(problem.Conflict, "the backup is of the log %s, this log is %s", r.Sum.Epoch, e).
				WithHint("name a backup of this log with --from")
		}
		var err error
		if _, r.last, _, err = r.Log.Extent(ctx); err != nil {
			return out, err
		}
	}
	m := &merge{ctx: ctx, r: r, links: map[string]events.Link{}, out: &out}
	if err := m.run(func(Frame) error { return nil }); err != nil {
		return out, err
	}
	out.Last = r.until()
	out.Needed = out.FromBackup > 0 || out.Lost > 0 || r.Unopened || r.Log == nil
	return out, nil
}

func (r *Repair) until() uint64 { return max(r.last, r.Sum.Last, r.Known) }

// Build writes the merged log into an empty store. What Compare said holds.
func (r *Repair) Build(ctx context.Context, said *Repaired, target Target, progress func(Progress)) error {
	after, err := target.Begin(ctx, r.Sum.Epoch, r.Sum.Partitions)
	if err != nil {
		return err
	}
	w := &restore{ctx: ctx, target: target, after: after, partitions: r.Sum.Partitions, until: r.until(), progress: progress}
	err = w.run(func(visit func(Frame) error) error {
		m := &merge{ctx: ctx, r: r, links: map[string]events.Link{}, out: new(Repaired)}
		return m.run(visit)
	}, said.Lost > 0)
	if err != nil {
		return err
	}
	if err := r.sides(ctx, said, target); err != nil {
		return err
	}
	for _, stream := range mapStreams {
		if err := r.maps(ctx, said, target, stream); err != nil {
			return err
		}
	}
	return target.Finish(ctx)
}

// sides restores what the side streams hold now, and from the backup what they
// do not: a message that was handled meanwhile is recognised.
func (r *Repair) sides(ctx context.Context, said *Repaired, target Target) error {
	if r.Log == nil {
		return r.Backup.sides(ctx, target)
	}
	note := func(what string, err error) {
		if err != nil {
			said.Notes = append(said.Notes, fmt.Sprintf("the %s cannot be read, the backup's are restored: %v", what, err))
		}
	}
	var failed error
	write := func(err error) error {
		failed = errors.Join(failed, err)
		return err
	}
	note("dead letters", r.Log.DeadLetters(ctx, func(m Message) error { return write(target.Bury(ctx, m)) }))
	if failed != nil {
		return failed
	}
	there := map[string]bool{}
	note("messages of the inbox", r.Log.Inbox(ctx, func(m Message) error {
		o := origin(m, r.Sum.Epoch)
		there[o] = true
		return write(target.Deliver(ctx, m, o))
	}))
	if failed != nil {
		return failed
	}
	return r.Backup.sidesBut(ctx, target, there)
}

// maps restores a stream of map jobs as it is now, as far as it can be read;
// where nothing of it can, the backup's.
func (r *Repair) maps(ctx context.Context, said *Repaired, target Target, stream string) error {
	if r.Log == nil {
		return r.Backup.maps(ctx, target, stream)
	}
	n := 0
	var failed error
	err := r.Log.Maps(ctx, stream, func(m Message) error {
		n++
		failed = target.Map(ctx, stream, m)
		return failed
	})
	switch {
	case failed != nil || err == nil:
		return failed
	case n > 0:
		said.Notes = append(said.Notes, fmt.Sprintf("the stream %s cannot be read behind its first %d messages: %v", stream, n, err))
		return nil
	}
	said.Notes = append(said.Notes, fmt.Sprintf("the stream %s cannot be read, the backup's is restored: %v", stream, err))
	return r.Backup.maps(ctx, target, stream)
}

// merge goes through both copies once.
type merge struct {
	ctx   context.Context
	r     *Repair
	links map[string]events.Link // by subject, behind the last event that counts
	out   *Repaired

	joiner events.Joiner
	log    chan []events.Record // what the log gives
	held   []events.Record      // of it, not used yet
	seq    uint64               // position that was handed over last
}

func (m *merge) run(visit func(Frame) error) error {
	ctx, cancel := context.WithCancel(m.ctx)
	m.log = make(chan []events.Record)
	ended := make(chan error, 1)
	go func() {
		defer close(m.log)
		ended <- m.read(ctx)
	}()
	err := m.r.Backup.frames(func(f Frame) error { return m.frame(f, visit) })
	for err == nil && m.seq < m.r.until() { // behind the backup
		err = m.frame(Frame{Message: Message{Seq: m.seq + 1}, Lost: true, Reason: "neither the log nor the backup has it"}, visit)
	}
	cancel()
	if rerr := <-ended; err == nil && !errors.Is(rerr, context.Canceled) {
		err = rerr
	}
	return err
}

func (m *merge) read(ctx context.Context) error {
	if m.r.Log == nil {
		return nil
	}
	return m.r.Log.Scan(ctx, 0, m.r.last, func(ctx context.Context, records []events.Record) error {
		select {
		case m.log <- records:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// at is what the log has at a position.
func (m *merge) at(seq uint64) (rec events.Record, ok bool) {
	for {
		for len(m.held) > 0 && m.held[0].Seq < seq {
			m.held = m.held[1:]
		}
		if len(m.held) > 0 {
			return m.held[0], m.held[0].Seq == seq
		}
		if m.held, ok = <-m.log; !ok {
			return rec, false
		}
	}
}

// frame chooses what stands at the position of a frame of the backup.
func (m *merge) frame(f Frame, visit func(Frame) error) error {
	m.seq = f.Message.Seq
	rec, ok := m.at(m.seq)
	switch {
	case ok && f.Lost:
		m.out.FromLog++
		f = Frame{Message: rec}
	case ok && Witness(rec) != Witness(f.Message):
		log, err := m.choose(rec, f.Message)
		if err != nil {
			return err
		}
		if log {
			m.out.FromLog++
			f.Message = rec
		} else {
			m.out.FromBackup++
		}
	case ok:
		m.out.FromLog++
	case f.Lost:
		if m.out.Lost++; len(m.out.LostAt) < maxLostAt {
			m.out.LostAt = append(m.out.LostAt, m.seq)
		}
	default:
		m.out.FromBackup++
	}
	if !f.Lost {
		for _, r := range m.joiner.Add(f.Message, nil) {
			m.follow(r)
		}
	}
	return visit(f)
}

// choose between two events of one position: the one that continues its chain.
// Of two chunks in the same place of one event it is the backup's, which has
// checksums: by itself a chunk cannot be told from a damaged one.
func (m *merge) choose(log, backup Message) (useLog bool, err error) {
	if _, chunk := backup.Header[events.HeaderChunk]; chunk && log.Subject == backup.Subject && maps.Equal(log.Header, backup.Header) {
		return false, nil
	}
	_, a := m.next(log)
	_, b := m.next(backup)
	if a == b {
		return false, problem.New(problem.Conflict, "the log and the backup have different events at position %d: %s and %s", log.Seq, describe(log), describe(backup)).
			WithHint("one of them went its own way behind that position: nothing was changed; restore the backup into another directory with `lcm restore`, and compare")
	}
	return a, nil
}

func describe(m Message) string {
	d, err := session.DecodeLink(m)
	if err != nil || d.Envelope.Type == "" {
		return "one that cannot be read on " + m.Subject
	}
	return fmt.Sprintf("%s, version %d of %s", d.Envelope.Type, d.Envelope.Version, d.Ref)
}

// next is the link behind an event, if it continues its chain.
func (m *merge) next(msg Message) (events.Link, bool) {
	d, err := session.Decode(msg)
	if err != nil {
		return events.Link{}, false
	}
	link, err := d.Follow(m.links[msg.Subject])
	return link, err == nil
}

// follow moves the chain on; behind a gap it begins anew.
func (m *merge) follow(msg Message) {
	link, ok := m.next(msg)
	if !ok {
		d, err := session.DecodeLink(msg)
		if err != nil || m.out.Lost == 0 || d.Envelope.Version <= m.links[msg.Subject].Version+1 {
			return
		}
		if link, err = d.Follow(events.Link{Version: d.Envelope.Version - 1, Hash: d.Envelope.Prev}); err != nil {
			return
		}
	}
	m.links[msg.Subject] = link
}

// origin is the identity that turns without ids of an inbox message have.
func origin(m Message, epoch string) string {
	if o := m.Header[api.HeaderInboxOrigin]; o != "" {
		return o
	}
	return fmt.Sprintf("in:%s:%d", epoch, m.Seq)
}
