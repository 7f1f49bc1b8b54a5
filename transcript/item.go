package transcript

import (
	"time"

	"lcm/events"
)

// Format names a source or target format.
type Format string

// The formats. Auto asks Parse to recognise the source.
const (
	Auto       Format = "auto"
	ClaudeCode Format = "claude-code" // Claude Code session JSONL
	Pi         Format = "pi"          // Pi session JSONL, linear and tree
	OpenAI     Format = "openai"      // OpenAI chat completions messages
	Anthropic  Format = "anthropic"   // Anthropic messages
	Codex      Format = "codex"       // Codex CLI rollout JSONL
	Plain      Format = "plain"       // {role, content} with string contents
	LCM        Format = "lcm"         // this project's own JSON lines, see the package comment
)

// Kind says what an item of a transcript is.
type Kind string

// The kinds of item.
const (
	KindTurn       Kind = "turn"
	KindCompaction Kind = "compaction" // the foreign agent compacted its history
	KindMove       Kind = "move"       // the leaf moved without a turn saying so
	KindSkip       Kind = "skip"       // a record that is not a turn
	KindReject     Kind = "reject"     // a record that should have been one and is broken
)

// Item is one record of a transcript, in source order.
type Item struct {
	Kind Kind
	// Line is the source line, from 1; for a JSON array or document it is the
	// element's index, from 1; 0 there for what stands beside the elements.
	Line int
	// Conversation tells the conversations of one file apart: "" the only (or
	// main) one, "/<root uuid>" a sidechain, else "-<line or key>". It is
	// appended to the session's name.
	Conversation string

	// Turn of a KindTurn: everything but Entry, Parent, Tokens, InputTokens
	// and Files, which the ingestor fills in. ID is "" where the source has none.
	Turn *events.TurnAppended
	// ParentID is the turn id of the declared parent, resolved through records
	// that are not turns; "" = the current leaf. For a KindMove: the new leaf.
	ParentID string

	// Compaction of a KindCompaction, without After.
	Compaction *events.HistoryCompacted
	// KeptID is the turn id of the first entry the foreign agent kept, "" = unknown.
	KeptID string

	// Reason of a skip ("progress", "file-history-snapshot", …: the record's
	// kind) or of a reject (a sentence for people).
	Reason string
	// Source is the verbatim record, without its line end. Of a record over the
	// limit it is the first part only: see SourceBytes and SourceHash.
	Source []byte
	// Index is the element's place, from 1, where a line holds a whole
	// conversation; 0 where the line is the record.
	Index int
	// SourceBytes is the record's full size.
	SourceBytes int64
	// SourceHash is HashBytes of the whole record where Source is cut, else "".
	SourceHash string
}

// Message is one message of a context in neutral form.
type Message struct {
	Role   events.Role
	Sender string
	Blocks []events.Block
	// Entry the message shows, 0 for the pointer block.
	Entry uint64
	// MessageID of the provider's message the turn was a part of.
	MessageID string
	// Time is the author's, zero where unknown.
	Time time.Time
}
