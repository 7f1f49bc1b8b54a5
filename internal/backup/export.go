package backup

import (
	"context"
	"encoding/json"
	"io"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// segmentBytes ends a segment of the log: as much as an interrupted backup
// reads again.
const segmentBytes = 64 << 20

// Source is the log to copy, with its inbox and dead letters.
type Source interface {
	Epoch() string
	Partitions() int
	// Extent is the first and last position and the number of messages held.
	Extent(ctx context.Context) (first, last, held uint64, err error)
	// Message returns the message at a position.
	Message(ctx context.Context, seq uint64) (events.Record, error)
	// Scan hands over the messages behind after up to until in order; positions
	// that cannot be read are left out. It ends with the error of handle.
	Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error
	// Inbox and DeadLetters hand over what these streams hold now, in order.
	Inbox(ctx context.Context, each func(Message) error) error
	DeadLetters(ctx context.Context, each func(Message) error) error
	// Maps does for StreamJobs or StreamInputs.
	Maps(ctx context.Context, stream string, each func(Message) error) error
}

// Export writes what the source holds behind a position as segments one after
// another: the inbox, the dead letters, the log, and a mark that this is all.
func Export(ctx context.Context, src Source, in api.ExportIn, w io.Writer) error {
	e := &export{ctx: ctx, src: src, w: w, header: Header{Epoch: src.Epoch(), Partitions: src.Partitions()}}
	e.after, e.hash = uint64(max(in.After, 0)), in.Hash
	if err := e.compare(in); err != nil {
		return err
	}
	err := e.run()
	if err == nil {
		return e.mark(streamEnd, nil)
	}
	if ctx.Err() != nil {
		return err
	}
	text, merr := json.Marshal(problem.From(err))
	if merr != nil {
		return merr
	}
	return e.mark(streamError, text)
}

// export is one run of Export.
type export struct {
	ctx    context.Context
	src    Source
	w      io.Writer
	header Header
	after  uint64 // position written last, and its witness
	hash   string
	out    *Writer // open segment of the log
}

// compare makes sure that this log is the one the caller has a part of.
func (e *export) compare(in api.ExportIn) error {
	if in.Epoch == "" {
		return nil
	}
	if in.Epoch != e.header.Epoch {
		return problem.New(problem.Conflict, "the backup is of the log %s, this log is %s", in.Epoch, e.header.Epoch).
			WithHint("back this log up into another directory; a restore begins a new log")
	}
	_, last, _, err := e.src.Extent(e.ctx)
	if err != nil {
		return err
	}
	if last < e.after {
		return problem.New(problem.Damaged, "the log ends at %d, the backup at %d: the log has lost events", last, e.after).
			WithHint("keep the backup: restore from it with `lcm restore`")
	}
	if e.after == 0 || in.Hash == "" {
		return nil
	}
	rec, err := e.src.Message(e.ctx, e.after)
	if err != nil {
		return err
	}
	if got := Witness(rec); got != in.Hash {
		return problem.New(problem.Damaged, "position %d of the log has hash %s, the backup holds %s", e.after, got, in.Hash).
			WithHint("the log was changed: keep the backup, and run `lcm verify`")
	}
	return nil
}

func (e *export) run() error {
	if err := e.side(StreamInbox, e.src.Inbox); err != nil {
		return err
	}
	if err := e.side(StreamDead, e.src.DeadLetters); err != nil {
		return err
	}
	for _, stream := range mapStreams {
		err := e.side(stream, func(ctx context.Context, each func(Message) error) error { return e.src.Maps(ctx, stream, each) })
		if err != nil {
			return err
		}
	}
	_, last, _, err := e.src.Extent(e.ctx)
	if err != nil {
		return err
	}
	e.header.Until = last
	err = e.src.Scan(e.ctx, e.after, last, func(_ context.Context, records []events.Record) error {
		for _, r := range records {
			if err := e.event(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = e.lost(last + 1)
	}
	if err == nil {
		err = e.closeSegment()
	}
	return err
}

// side writes a stream that is copied whole.
func (e *export) side(stream string, read func(context.Context, func(Message) error) error) error {
	h := e.header
	h.Stream = stream
	w, err := NewWriter(e.w, h)
	if err != nil {
		return err
	}
	if err := read(e.ctx, w.Message); err != nil {
		return err
	}
	_, err = w.Close()
	return err
}

func (e *export) event(r events.Record) error {
	if err := e.lost(r.Seq); err != nil {
		return err
	}
	w, err := e.segment()
	if err != nil {
		return err
	}
	if err := w.Message(r); err != nil {
		return err
	}
	e.after, e.hash = w.Last()
	return nil
}

// lost writes the positions up to before that did not come.
func (e *export) lost(before uint64) error {
	for e.after+1 < before {
		w, err := e.segment()
		if err != nil {
			return err
		}
		if err := w.Lost(e.after+1, "the log could not give it"); err != nil {
			return err
		}
		e.after, e.hash = w.Last()
	}
	return nil
}

// segment is the open segment, a new one where that is full.
func (e *export) segment() (*Writer, error) {
	if e.out != nil && e.out.Bytes() >= segmentBytes {
		if err := e.closeSegment(); err != nil {
			return nil, err
		}
	}
	if e.out == nil {
		h := e.header
		h.Stream, h.After, h.AfterHash = StreamLog, e.after, e.hash
		var err error
		if e.out, err = NewWriter(e.w, h); err != nil {
			return nil, err
		}
	}
	return e.out, nil
}

func (e *export) closeSegment() error {
	if e.out == nil {
		return nil
	}
	_, err := e.out.Close()
	e.out = nil
	return err
}

// mark ends the export.
func (e *export) mark(stream string, text json.RawMessage) error {
	h := e.header
	h.Stream, h.Error = stream, text
	w, err := NewWriter(e.w, h)
	if err != nil {
		return err
	}
	_, err = w.Close()
	return err
}
