package projector

import (
	"context"
	"fmt"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// applier folds batches of records into one store. It is used by one
// goroutine; live following and a rebuild both go through it.
type applier struct {
	store  api.Store
	at     api.Checkpoint
	counts api.Counts
}

// newApplier reads where a store stands and makes sure that it belongs to this
// log and these partitions.
func newApplier(ctx context.Context, store api.Store, log Log, partitions []int) (*applier, error) {
	a := &applier{store: store}
	err := store.View(func(tx api.StoreTx) (err error) {
		if a.at, err = tx.Checkpoint(); err != nil {
			return err
		}
		a.counts, err = tx.Counts()
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.at.Epoch == "" {
		a.at.Epoch, a.at.Partitions = log.Epoch(), partitions
		return a, nil
	}
	return a, a.belongs(ctx, log, partitions)
}

// belongs compares the store's position with the log. A log that is another
// one, shorter or different at that position must never be followed.
func (a *applier) belongs(ctx context.Context, log Log, partitions []int) error {
	if a.at.Epoch != log.Epoch() {
		return problem.New(problem.Damaged, "the store was made from log %s, this log is %s", a.at.Epoch, log.Epoch()).
			WithHint("point it at the right log, or run `lcm rebuild` if this log replaces the other")
	}
	if !slices.Equal(a.at.Partitions, partitions) {
		return problem.New(problem.Damaged, "the store holds partitions %s, the configuration says %s", partitionNames(a.at.Partitions), partitionNames(partitions)).
			WithHint("give it the same partitions, or run `lcm rebuild`")
	}
	last, err := log.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	if last < a.at.Seq {
		return problem.New(problem.Damaged, "the log ends at %d, the store has applied %d: the log was shortened or replaced", last, a.at.Seq).
			WithHint("restore a backup into an empty directory with `lcm restore`; run `lcm rebuild` only if the shorter log is the one to keep")
	}
	if a.at.Seq == 0 {
		return nil
	}
	rec, err := log.Read(ctx, a.at.Seq)
	if err != nil {
		return fmt.Errorf("read position %d of the log: %w", a.at.Seq, err)
	}
	if have := witness(rec); have != a.at.Hash {
		return problem.New(problem.Damaged, "position %d of the log has hash %s, the store applied %s", a.at.Seq, have, a.at.Hash).
			WithHint("restore a backup into an empty directory with `lcm restore`, or run `lcm rebuild` if this log is right")
	}
	return nil
}

func partitionNames(p []int) string {
	if p == nil {
		return "all"
	}
	return fmt.Sprint(p)
}

// witness is the hash of a record that a checkpoint keeps.
func witness(rec events.Record) events.Hash { return rec.ChainHash(events.Hash{}) }

// apply folds a batch: rows and position together, or nothing.
func (a *applier) apply(items []item) error {
	if len(items) == 0 {
		return nil
	}
	b := batch{at: a.at, counts: a.counts, folds: map[events.Ref]*session.Fold{}}
	err := a.store.Update(func(tx api.StoreTx) error {
		b.tx = tx
		for i := range items {
			if err := b.add(&items[i]); err != nil {
				return err
			}
		}
		b.at.Hash = witness(items[len(items)-1].record)
		return b.finish()
	})
	if err != nil {
		return err
	}
	a.at, a.counts = b.at, b.counts
	return nil
}

// batch is the state of one transaction.
type batch struct {
	tx     api.StoreTx
	at     api.Checkpoint
	counts api.Counts
	folds  map[events.Ref]*session.Fold
	order  []events.Ref // of folds
}

// errGap: the log skipped positions. Nothing may be applied behind it.
func errGap(have, want uint64) error {
	return problem.New(problem.Damaged, "the log went from position %d to %d: events are missing", want-1, have).
		WithHint("the log is damaged: run `lcm verify`, restore it from a backup")
}

func (b *batch) add(it *item) error {
	if first := it.record.First(); first != b.at.Seq+1 {
		return errGap(first, b.at.Seq+1)
	}
	b.at.Seq = it.record.Seq
	if it.foreign {
		return nil
	}
	b.counts.Events++
	if it.err != nil {
		return b.reject(it, session.Outcome{Reason: it.err.Error()})
	}
	f, err := b.fold(it.decoded.Ref)
	if err != nil {
		return err
	}
	out, err := f.Apply(it.decoded)
	if err != nil {
		return err
	}
	return b.record(it, out)
}

func (b *batch) fold(ref events.Ref) (*session.Fold, error) {
	if f, ok := b.folds[ref]; ok {
		return f, nil
	}
	rows, err := b.tx.Rows(ref)
	if err != nil {
		return nil, err
	}
	f, err := session.NewFold(ref, rows)
	if err != nil {
		return nil, fmt.Errorf("session %s: %w", ref, err)
	}
	b.counts.Removed -= offPath(f.Head())
	b.folds[ref] = f
	b.order = append(b.order, ref)
	return f, nil
}

// record notes what became of an event.
func (b *batch) record(it *item, out session.Outcome) error {
	switch {
	case out.Unknown:
		b.counts.Unknown++
	case out.Reason != "":
		return b.reject(it, out)
	case out.Type == events.TypePositionLost:
		b.counts.Lost++
		if out.Number == 0 {
			return nil
		}
		b.counts.Entries++
		return b.feed(it, session.RowEntry, out.Number)
	case out.Type == events.TypeTurnAppended:
		b.counts.Entries++
		if t, ok := it.decoded.Payload.(*events.TurnAppended); ok {
			b.counts.Files += uint64(len(t.Files))
		}
		return b.feed(it, session.RowEntry, out.Number)
	case out.Type == events.TypeNodeCommitted:
		b.counts.Nodes++
		if d, ok := it.decoded.Payload.(*events.NodeCommitted); ok && d.Supersedes != "" {
			b.counts.Removed++
		}
		return b.feed(it, session.RowNode, out.Number)
	}
	return nil
}

func (b *batch) feed(it *item, kind session.RowKind, n uint64) error {
	return b.tx.PutFeed(api.FeedRow{Seq: it.record.Seq, Ref: it.decoded.Ref, Kind: kind, N: n})
}

func (b *batch) reject(it *item, out session.Outcome) error {
	b.counts.Rejected++
	return b.tx.PutRejected(api.RejectedEvent{
		Seq: it.record.Seq, Subject: it.record.Subject, Ref: it.decoded.Ref, Type: out.Type, Reason: out.Reason,
	})
}

// finish writes the heads, the hot set, the totals and the position.
func (b *batch) finish() error {
	for _, ref := range b.order {
		f := b.folds[ref]
		if err := f.Flush(); err != nil {
			return err
		}
		if err := b.tx.SetHot(ref, hot(f.Head())); err != nil {
			return err
		}
		b.counts.Removed += offPath(f.Head())
	}
	if err := b.tx.SetCounts(b.counts); err != nil {
		return err
	}
	return b.tx.SetCheckpoint(b.at)
}

// offPath is how many entries of a session are off its path.
func offPath(h session.Head) int64 { return int64(h.Entries) - int64(session.Count(h.Path)) }

// hot: the context may be over its soft threshold. The head counts turns and
// block; frames, stand-ins and quotes come on top when it is rendered, so that
// sessions a tenth below the threshold are judged too.
func hot(h session.Head) bool {
	return h.Configured && h.ContextTokens+h.ContextTokens/10 > h.Settings.Soft()
}
