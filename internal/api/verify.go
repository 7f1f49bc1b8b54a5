package api

import (
	"time"

	"lcm/events"
)

// VerifyIn asks to read the whole log and check it.
type VerifyIn struct {
	Scope
	// Limit of the faults that are listed; 0 = 1,000. All are counted.
	Limit int `json:"limit,omitempty"`
}

// Kinds of fault that a verification finds.
const (
	FaultMissing = "missing" // a position that the log cannot give
	FaultBroken  = "broken"  // an event that does not link, or cannot be read
	FaultLost    = "lost"    // a position that a restore or repair could not recover: said, and no fault of the log as it is
)

// VerifyFault is one damaged or missing position.
type VerifyFault struct {
	Seq  uint64 `json:"seq"`
	Kind string `json:"kind"`
	// Tenant and Session it belongs to; of a missing position as far as the
	// versions around it tell, "" where they do not.
	Tenant  string      `json:"tenant,omitempty"`
	Session string      `json:"session,omitempty"`
	Lane    events.Lane `json:"lane,omitempty"`
	Type    events.Type `json:"type,omitempty"`
	Version uint64      `json:"version,omitempty"`
	Reason  string      `json:"reason"`
	// Behind are later events of the subject that link to this one: whole by
	// themselves, but not part of the chain.
	Behind uint64 `json:"behind,omitempty"`
}

// VerifyReply is the outcome of a verification.
type VerifyReply struct {
	OK       bool          `json:"ok"`
	Epoch    string        `json:"epoch"`
	First    uint64        `json:"first"` // first and last position of the log
	Last     uint64        `json:"last"`
	Events   uint64        `json:"events"`  // read
	Bytes    uint64        `json:"bytes"`   // of their payloads
	Valid    uint64        `json:"valid"`   // that link
	Unknown  uint64        `json:"unknown"` // of a later build, among the valid
	Sessions int           `json:"sessions"`
	Missing  uint64        `json:"missing"`
	Broken   uint64        `json:"broken"`
	Lost     uint64        `json:"lost,omitempty"` // positions that a restore or repair could not recover
	Faults   []VerifyFault `json:"faults"`
	// More faults than are listed.
	More    uint64  `json:"more,omitempty"`
	Seconds float64 `json:"seconds"`
}

// VerifyProgress says how far a verification is.
type VerifyProgress struct {
	Seq  uint64 `json:"seq"`
	Last uint64 `json:"last"`
}

// VerifyEvent is one line of a verification's answer over HTTP: progress, the
// reply at the end, or the error that stopped it.
type VerifyEvent = Streamed[VerifyProgress, VerifyReply]

// ScrubStatus is what the background walk over the log does and has found.
type ScrubStatus struct {
	Running  bool   `json:"running"`
	Position uint64 `json:"position"` // of the walk that runs, else the end of the last one
	Last     uint64 `json:"last"`
	// Started and Ended of the last walk that came to its end, and what it found.
	Started time.Time     `json:"started,omitzero"`
	Ended   time.Time     `json:"ended,omitzero"`
	Epoch   string        `json:"epoch,omitempty"`
	Missing uint64        `json:"missing"`
	Broken  uint64        `json:"broken"`
	Lost    uint64        `json:"lost"`
	Faults  []VerifyFault `json:"faults,omitempty"` // the first ones
}

// ExportIn asks for what the log holds behind a position.
type ExportIn struct {
	After int `json:"after,omitempty"`
	// Epoch that the caller has a part of already, "" = none: another log is
	// refused. Hash is the witness of the event at After.
	Epoch string `json:"epoch,omitempty"`
	Hash  string `json:"hash,omitempty"`
}
