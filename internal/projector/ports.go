package projector

import (
	"context"
	"log/slog"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// Log is the event log, read side.
type Log interface {
	// Follow hands over the records behind position after, in order and
	// without a gap, several at a time, until ctx ends or handle fails; it
	// returns that error. At the end of the log it waits for more. It retries
	// transient faults itself. Records are not changed afterwards: handle may
	// keep them.
	Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error
	// LastSeq is the last position of the log, 0 = empty.
	LastSeq(ctx context.Context) (uint64, error)
	// Read returns one record.
	Read(ctx context.Context, seq uint64) (events.Record, error)
	// Epoch names the log; Partitions is P. Both are fixed.
	Epoch() string
	Partitions() int
}

// Tasks asks for condensing. At most one task per session and urgency is
// pending: publishing one that is pending already does nothing, and is no error.
type Tasks interface {
	PublishTask(ctx context.Context, u events.Urgency, ref events.Ref, at events.Position) error
}

// Deps are what the service works through.
type Deps struct {
	Log     Log
	Tasks   Tasks
	Stores  api.Stores
	Indexes api.Indexes
	// Due reports whether a session needs condensing now; it is pure. nil =
	// this projector dispatches nothing.
	Due func(*session.View) bool
	// Scrub tells what the background walk over the log has found; nil = none
	// runs.
	Scrub func() *api.ScrubStatus
	// Verify reads and checks the whole log, for a deep run of the doctor; nil =
	// the log is not read.
	Verify func(context.Context) (*api.VerifyReply, error)
	// Logger of state changes; nil = silent.
	Logger *slog.Logger
}
