package api

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lcm/events"
)

// Append is an event to be stored if its subject still ends where the writer
// believes it does.
type Append struct {
	Message events.Message
	// Expect is the stream sequence of the subject's last message, 0 = none.
	// Within one commit only the first event of a subject carries it; the
	// others follow in order.
	Expect uint64
}

// Outcomes of a commit that did not simply succeed.
var (
	// ErrUnknownOutcome: the commit timed out or the connection broke; the
	// events may be stored or not. Read forward before writing again.
	ErrUnknownOutcome = errors.New("outcome of the commit unknown")
	// ErrLogUnavailable: nothing was stored; try again later.
	ErrLogUnavailable = errors.New("log unavailable")
)

// ConflictError: these subjects do not end where the writer believed. Nothing
// of those subjects was stored by this commit; see Commit for the others.
type ConflictError struct{ Subjects []string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("other events were stored first on %s", strings.Join(e.Subjects, ", "))
}

// Task asks a condenser to look at a session.
type Task struct {
	Ref     events.Ref
	Urgency events.Urgency
	// Position the session must have reached in the projection.
	Position events.Position
}

// TaskResult says what becomes of a task.
type TaskResult struct {
	// Retry after this long; 0 = done.
	Retry time.Duration
}

// InboxMessage is what an agent published to the inbox.
type InboxMessage struct {
	Ref    events.Ref
	Seq    uint64 // in LCM_IN, stable over redelivery
	Data   []byte
	Format string // header Lcm-Format, "" = auto
	// Origin is what the ids of turns without one begin with, in a message that
	// a restore put back: header Lcm-Inbox-Origin; "" = in:<epoch>:<Seq>.
	Origin string
}

// HeaderInboxOrigin of a restored inbox message is its identity in the log it
// was published to, in:<epoch>:<position>: turns without ids keep theirs.
const HeaderInboxOrigin = "Lcm-Inbox-Origin"
