package api

import (
	"context"
	"time"

	"lcm/mapjob"
)

// RowMessage is a row on its way to a worker.
type RowMessage struct {
	N     uint64
	Round int
	Text  []byte // the line; nil where it is oversized
	Size  int64  // bytes of the line in the input
}

// RowQueue is a job's part of the work queue, as workers see it.
type RowQueue struct {
	Ref mapjob.Ref
	// Definition is the position of the job's definition.
	Definition uint64
	Round      int
	Limits     mapjob.Limits // of the round
}

// RowLease is a worker's claim of a row: nobody else works on it while the
// worker gives signs of life.
type RowLease struct {
	Row RowMessage
	// Again: the row was handed out before, to a worker that fell silent or
	// gave it back.
	Again bool
	Alive func() error
	// Done takes the row out of the queue.
	Done func(context.Context) error
	// Release gives it back, to be handed out again after a delay.
	Release func(delay time.Duration) error
}

// QueueState of a job.
type QueueState struct {
	Waiting uint64 // rows that nobody has claimed
	Leased  int    // rows that workers hold
}

// JobTx is a transaction of the store of map jobs.
type JobTx interface {
	mapjob.Rows
	Checkpoint() (Checkpoint, error)
	SetCheckpoint(Checkpoint) error
	// Jobs visits the jobs, newest first, until visit says no.
	Jobs(visit func(*mapjob.Job) (bool, error)) error
	// RowsFrom visits the rows of a job that have a result, from one on, in
	// order, until visit says no.
	RowsFrom(ref mapjob.Ref, row uint64, visit func(*mapjob.Row) (bool, error)) error
}
