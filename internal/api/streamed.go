package api

import "encoding/json"

// Streamed is one line of an answer that takes a while: progress, at the end
// the reply, or the error that stopped it.
type Streamed[P, R any] struct {
	Progress *P              `json:"progress,omitempty"`
	Reply    *R              `json:"reply,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
}
