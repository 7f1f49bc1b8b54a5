package api

import "time"

// EventsIn follows a session.
type EventsIn struct {
	Scope
	// After is where to begin: a token, as the id of an event and the answer of
	// an append are; "start" = the session's first turn; "" = now.
	After string `json:"after,omitempty" jsonschema:"a token to go on behind, or start; default now"`
}

// SessionEvent is something that happened to a session. One of Turn, Node and
// Cut is set; none where the stream opens.
type SessionEvent struct {
	Session string     `json:"session"`
	Token   string     `json:"token"` // to go on behind
	Turn    *TurnEvent `json:"turn,omitempty"`
	Node    *NodeEvent `json:"node,omitempty"`
	Cut     *CutEvent  `json:"cut,omitempty"`
}

// TurnEvent is a turn that was appended.
type TurnEvent struct {
	Entry  string    `json:"entry"`
	ID     string    `json:"id"`
	Role   string    `json:"role"`
	Sender string    `json:"sender,omitempty"`
	Tokens int       `json:"tokens"`
	Time   time.Time `json:"time"`
	// Text is its beginning; Truncated: there is more.
	Text      string `json:"text"`
	Truncated bool   `json:"truncated"`
}

// NodeEvent is a summary that was made.
type NodeEvent struct {
	ID           string `json:"id"`
	Depth        int    `json:"depth"`
	Span         string `json:"span"`
	Tokens       int    `json:"tokens"`
	SourceTokens int    `json:"source_tokens"`
	Level        int    `json:"level"`
	Line         string `json:"line"`
}

// CutEvent says that another cut decides what the model sees.
type CutEvent struct {
	Cut          uint64   `json:"cut"`
	Kind         string   `json:"kind"`
	Through      string   `json:"through"`
	TokensBefore int      `json:"tokens_before"`
	TokensAfter  int      `json:"tokens_after"`
	Nodes        []string `json:"nodes"`
}
