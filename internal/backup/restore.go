package backup

import (
	"context"
	"time"

	"lcm/events"
	"lcm/internal/problem"
)

// Target is an empty store that becomes a copy.
type Target interface {
	// Begin makes a log under a new epoch, or goes on with the restore of this
	// origin (the epoch of the log that was copied) that was interrupted; it
	// answers the position up to which that has come. Anything else that holds
	// events is refused.
	Begin(ctx context.Context, origin string, partitions int) (after uint64, err error)
	// Store stores messages behind position after, each at its own position.
	Store(ctx context.Context, after uint64, messages []events.Message) error
	// Deliver puts a message back into the inbox. Origin is the identity that
	// its turns without ids have: in:<epoch>:<position>.
	Deliver(ctx context.Context, m Message, origin string) error
	// Bury puts a dead letter back.
	Bury(ctx context.Context, m Message) error
	// Map puts a message of StreamJobs or StreamInputs back. A restore that goes
	// on hands over the same ones in the same order.
	Map(ctx context.Context, stream string, m Message) error
	// Finish makes the log usable. Until then nobody can open it.
	Finish(ctx context.Context) error
}

const (
	storeEvents = 1000 // the server's limit of an atomic batch
	storeBytes  = 8 << 20
)

// Restore writes the backup, which was checked with the result s, into target.
func (d *Dir) Restore(ctx context.Context, s Summary, target Target, progress func(Progress)) (Summary, error) {
	after, err := target.Begin(ctx, s.Epoch, s.Partitions)
	if err != nil {
		return s, err
	}
	if after > s.Last {
		return s, problem.New(problem.Conflict, "the restored log ends at %d, the backup at %d", after, s.Last)
	}
	r := &restore{ctx: ctx, target: target, after: after, partitions: s.Partitions, until: s.Last, progress: progress}
	if err := r.run(d.frames, s.Lost > 0); err != nil {
		return s, err
	}
	s.Added = r.stored
	if err := d.sides(ctx, target); err != nil {
		return s, err
	}
	for _, stream := range mapStreams {
		if err := d.maps(ctx, target, stream); err != nil {
			return s, err
		}
	}
	return s, target.Finish(ctx)
}

// frames hands over the log's frames in order.
func (d *Dir) frames(visit func(Frame) error) error {
	files, err := d.files()
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := d.each(f.name, visit); err != nil {
			return err
		}
	}
	return nil
}

// maps restores a stream of map jobs, where the backup has it.
func (d *Dir) maps(ctx context.Context, target Target, stream string) error {
	name := d.sideName(stream)
	if name == "" {
		return nil
	}
	_, err := d.each(name, func(f Frame) error { return target.Map(ctx, stream, f.Message) })
	return err
}

// sides restores dead letters, then the inbox: what is in both was refused
// while the backup was made, and is refused again into the same letter.
func (d *Dir) sides(ctx context.Context, target Target) error {
	return d.sidesBut(ctx, target, nil)
}

// sidesBut leaves out messages of the inbox that are there already.
func (d *Dir) sidesBut(ctx context.Context, target Target, there map[string]bool) error {
	if name := d.sideName(StreamDead); name != "" {
		_, err := d.each(name, func(f Frame) error { return target.Bury(ctx, f.Message) })
		if err != nil {
			return err
		}
	}
	name := d.sideName(StreamInbox)
	if name == "" {
		return nil
	}
	r, err := d.each(name, nil)
	if err != nil {
		return err
	}
	_, err = d.each(name, func(f Frame) error {
		o := origin(f.Message, r.Header.Epoch)
		if there[o] {
			return nil
		}
		return target.Deliver(ctx, f.Message, o)
	})
	return err
}

// restore collects batches.
type restore struct {
	ctx        context.Context
	target     Target
	partitions int
	after      uint64 // position stored last
	until      uint64
	batch      []events.Message
	bytes      int
	stored     uint64
	lost       map[uint64]events.Message // what stands at lost positions
	progress   func(Progress)
}

// run stores what frames hands over. With lost positions among it, it goes over
// it twice: what they held follows from what stands around them.
func (r *restore) run(frames func(func(Frame) error) error, lost bool) error {
	if lost {
		l := newLosses(r.partitions)
		if err := frames(l.add); err != nil {
			return err
		}
		var err error
		if r.lost, err = l.events(); err != nil {
			return err
		}
	}
	if err := frames(r.frame); err != nil {
		return err
	}
	return r.flush()
}

func (r *restore) frame(f Frame) error {
	if f.Message.Seq <= r.after { // stored before an interruption
		return nil
	}
	m := f.Message.Message
	if f.Lost {
		var ok bool
		if m, ok = r.lost[f.Message.Seq]; !ok {
			return problem.New(problem.Damaged, "position %d is lost and was not when the backup was checked", f.Message.Seq)
		}
	}
	r.batch, r.bytes = append(r.batch, m), r.bytes+len(m.Data)
	if len(r.batch) >= storeEvents || r.bytes >= storeBytes {
		return r.flush()
	}
	return nil
}

func (r *restore) flush() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if len(r.batch) == 0 {
		return nil
	}
	if err := r.target.Store(r.ctx, r.after, r.batch); err != nil {
		return err
	}
	r.after += uint64(len(r.batch))
	r.stored += uint64(len(r.batch))
	r.batch, r.bytes = r.batch[:0], 0
	if r.progress != nil {
		r.progress(Progress{r.after, r.until})
	}
	return nil
}

// unknownTime of a lost event.
var unknownTime = time.Unix(0, 0)
