package condense

import (
	"context"
	"time"

	"lcm/chat"
)

// Line is one line of a summariser's input: who said what, when.
type Line struct {
	Ref    string    // "e12" or "#7": the entry or node the line comes from
	Role   string    // system, developer, user, assistant, tool, or "summary" for a child node
	Sender string    // author's or tool's name, "" where unknown
	Time   time.Time // author time, else ingest time; zero where unknown
	Text   string    // derived text; files stand in it as descriptors
	Error  bool      // a tool result that reports a failure
	// Injected: text its author did not write (reminders, command output).
	Injected bool
}

// Request asks for one summary.
type Request struct {
	Tenant string // whose spending it is
	// Continues: a node whose making was begun is finished; no spending limit
	// stops that.
	Continues bool
	Depth     int // 0 = from turns, 1 and up = from summaries
	Level     int // 1 = preserve details, 2 = bullets
	Target    int // tokens the text should have
	Limit     int // output tokens allowed
	Lines     []Line
	// System and User are the rendered prompt, for summarisers that are models.
	System, User string
}

// Stop is why a summariser ended its answer. Only StopEnd is a real stop; a
// text that ended otherwise is never accepted as a summary.
type Stop = chat.Stop

// Stop reasons.
const (
	StopEnd    = chat.StopEnd
	StopLength = chat.StopLength
	StopOther  = chat.StopOther
)

// Response of a summariser. Text is untrusted.
type Response struct {
	Text         string
	Stop         Stop
	Model        string // who wrote it, as recorded on the node
	InputTokens  int    // as the provider reported, 0 = unknown
	OutputTokens int
}

// Errors a Summarizer returns; anything else counts as ErrUnavailable.
var (
	// ErrUnavailable: the provider is down, overloaded or out of reach. The
	// work stays pending; only the blocking regime climbs to level 3.
	ErrUnavailable = chat.ErrUnavailable
	// ErrRefused: authentication or configuration is wrong. Nothing is stored.
	ErrRefused = chat.ErrRefused
	// ErrTooLong: the input does not fit the model; the ladder splits or clips.
	ErrTooLong = chat.ErrTooLong
)

// Summarizer turns lines into a shorter text. Implementations may be called
// concurrently; they retry transient faults themselves and return when ctx ends.
type Summarizer interface {
	Summarize(ctx context.Context, r Request) (Response, error)
}
