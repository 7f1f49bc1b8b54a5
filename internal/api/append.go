package api

import (
	"lcm/events"
)

// Turn is a turn to append: prepared or not, without an entry number.
type Turn struct {
	// Turn with everything the source says. Entry and Parent are ignored.
	Turn events.TurnAppended `json:"turn"`
	// ParentID is the turn id of the declared parent, "" = the current leaf.
	ParentID string `json:"parent_id,omitempty"`
	// Line of the source, for reports; 0 = none.
	Line int `json:"line,omitempty"`
	// Prepared: Files, Tokens and InputTokens are filled in.
	Prepared bool `json:"prepared,omitempty"`
	// Made is the prepared turn's payload, where it was written in this
	// process already.
	Made *events.MadeTurn `json:"-"`
}

// Write is one thing to write to a session's timeline: exactly one is set.
type Write struct {
	Turn       *Turn                    `json:"turn,omitempty"`
	MoveTo     string                   `json:"move_to,omitempty"` // turn id that is the leaf now
	Compaction *events.HistoryCompacted `json:"compaction,omitempty"`
	// AfterID and KeptID place a Compaction by turn id, "" = unknown.
	AfterID string `json:"after_id,omitempty"`
	KeptID  string `json:"kept_id,omitempty"`
	// Refused: the source is no turn, and why. It is answered, not written.
	Refused string `json:"refused,omitempty"`
}

// AppendRequest writes to one session, in order. Writes that are known already
// answer with their first position; a conflict or an invalid write fails alone.
type AppendRequest struct {
	Ref    events.Ref `json:"ref"`
	Writes []Write    `json:"writes"`
	// Settings for a session that does not exist yet; nil = the defaults.
	Settings *events.Settings `json:"settings,omitempty"`
	// PreparedFor is the LargeFileChars that prepared turns were prepared for,
	// 0 = the session's own.
	PreparedFor int `json:"prepared_for,omitempty"`
}

// Written is the fate of one write.
type Written struct {
	ID        string          `json:"id,omitempty"`
	Entry     uint64          `json:"entry,omitempty"`
	Duplicate bool            `json:"duplicate,omitempty"`
	Token     events.Position `json:"token"`
	// Error: "" = written; else why this write was refused. Code is its
	// problem code.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
}

// AppendReply answers write for write.
type AppendReply struct {
	Written []Written       `json:"written"`
	Token   events.Position `json:"token"` // the greatest position of all
}

// Forwarded is what became of a request that one ingestor forwarded to another:
// a reply, or the problem with it.
type Forwarded struct {
	Reply *AppendReply `json:"reply,omitempty"`
	Error string       `json:"error,omitempty"`
	Code  string       `json:"code,omitempty"`
}

// ConfigureRequest changes settings of a session, creating it where needed.
type ConfigureRequest struct {
	Ref events.Ref `json:"ref"`
	// Set holds field names of events.Settings (JSON names) and new values.
	Set map[string]any `json:"set"`
	// Usage is what the model reported of a call, nil = nothing.
	Usage *Usage `json:"usage,omitempty"`
}

// Usage compares two counts of one prompt: the engine's, as an answer of the
// context tool gave it, with what the platform put around it, and the model's.
// From it follows the session's token_factor.
type Usage struct {
	Counted  int `json:"counted"`  // tokens of the context answer, and overhead
	Reported int `json:"reported"` // input tokens the provider reported
}

// ConfigureReply is the complete settings now in force.
type ConfigureReply struct {
	Settings events.Settings `json:"settings"`
	Token    events.Position `json:"token"`
}

// DeadLetter is a message or import line that was refused.
type DeadLetter struct {
	ID     string     `json:"id"` // position in LCM_DEAD, decimal
	Ref    events.Ref `json:"ref"`
	Origin string     `json:"origin"` // "inbox <seq>" or "<file>:<line>"
	Reason string     `json:"reason"`
	Hash   string     `json:"hash"`
	Bytes  int        `json:"bytes"`
	Time   string     `json:"time"`
	Format string     `json:"format,omitempty"`
	// TurnID is the id the turn was to have where its source has none: a retry
	// uses it, so that the turn stays one turn.
	TurnID string `json:"turn_id,omitempty"`
	// Body is the original, nil where it was above the inline limit.
	Body []byte `json:"body,omitempty"`
}
