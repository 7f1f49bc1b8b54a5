package api

import (
	"encoding/json"
	"time"

	"lcm/events"
	"lcm/session"
)

// Every read waits, up to its context's deadline, until the projection has
// reached Token; the zero Position does not wait. A projection that is still
// behind then is the problem "stale". At is a stream sequence, 0 = now.

// LookupRequest asks what the projection knows of turn ids and tool calls, and
// where the session's lanes stand.
type LookupRequest struct {
	Ref   events.Ref `json:"ref"`
	IDs   []string   `json:"ids,omitempty"`
	Calls []string   `json:"calls,omitempty"` // tool call ids
	// Compactions are ids of foreign compactions.
	Compactions []string        `json:"compactions,omitempty"`
	Token       events.Position `json:"token"`
	// SkipHead leaves Head out of the answer: it is most of the work, and who
	// has appended a moment ago knows it.
	SkipHead bool `json:"skip_head,omitempty"`
}

// Known is what is known of a turn id.
type Known struct {
	Entry      uint64 `json:"entry"`
	Seq        uint64 `json:"seq"`
	Hash       string `json:"hash"`
	SourceHash string `json:"source_hash,omitempty"`
}

// LookupReply answers at one watermark.
type LookupReply struct {
	Watermark events.Position  `json:"watermark"`
	Head      session.Head     `json:"head"`
	Known     map[string]Known `json:"known,omitempty"`
	// Calls: call id → the block that makes the call.
	Calls map[string]events.Block `json:"calls,omitempty"`
	// Compactions: id → position of those that are recorded.
	Compactions map[string]uint64 `json:"compactions,omitempty"`
}

// ViewRequest asks for what planning and rendering need.
type ViewRequest struct {
	Ref   events.Ref      `json:"ref"`
	At    uint64          `json:"at,omitempty"`
	Token events.Position `json:"token"`
	// Changed asks also for the newest change of what a context begins with.
	Changed bool `json:"changed,omitempty"`
	// Compactions asks also for every foreign compaction.
	Compactions bool `json:"compactions,omitempty"`
}

// ViewReply carries the view at a watermark. An unknown session is not_found.
type ViewReply struct {
	Watermark events.Position `json:"watermark"`
	View      *session.View   `json:"view"`
	Changed   session.Change  `json:"changed,omitzero"`
	// Compactions of any branch, in the order of the log, without originals.
	Compactions []events.HistoryCompacted `json:"compactions,omitempty"`
}

// TurnsRequest asks for turns of a session by entry ranges.
type TurnsRequest struct {
	Ref    events.Ref      `json:"ref"`
	Ranges []events.Range  `json:"ranges,omitempty"` // nil = all
	At     uint64          `json:"at,omitempty"`
	Token  events.Position `json:"token"`
	// Limit of turns and of payload bytes in one answer; 0 = the server's.
	// At least one turn is answered.
	Limit    int `json:"limit,omitempty"`
	MaxBytes int `json:"max_bytes,omitempty"`
	// After: only entries greater than this one (the previous answer's Next).
	After uint64 `json:"after,omitempty"`
}

// StoredTurn is an entry with its body.
type StoredTurn struct {
	Entry   session.Entry   `json:"entry"`
	Payload json.RawMessage `json:"payload"` // of its TurnAppended
	Removed bool            `json:"removed,omitempty"`
}

// TurnsReply is one page, in entry order.
type TurnsReply struct {
	Watermark events.Position `json:"watermark"`
	Turns     []StoredTurn    `json:"turns"`
	Next      uint64          `json:"next,omitempty"` // After of the next page, 0 = no more
}

// NodeRequest asks for nodes by number; 0 asks by key.
type NodeRequest struct {
	Ref     events.Ref      `json:"ref"`
	Numbers []uint64        `json:"numbers,omitempty"`
	Keys    []string        `json:"keys,omitempty"`
	All     bool            `json:"all,omitempty"` // every node of the session, in order
	At      uint64          `json:"at,omitempty"`
	Token   events.Position `json:"token"`
}

// StoredNode is a node with its place in the DAG.
type StoredNode struct {
	Node         session.Node `json:"node"`
	Parents      []uint64     `json:"parents,omitempty"`
	SupersededBy uint64       `json:"superseded_by,omitempty"`
	OnPath       bool         `json:"on_path"`
}

// NodeReply answers in the order asked; an unknown one is not_found.
type NodeReply struct {
	Watermark events.Position `json:"watermark"`
	Nodes     []StoredNode    `json:"nodes"`
}

// FileRequest asks for a file of a session by its id.
type FileRequest struct {
	Ref   events.Ref      `json:"ref"`
	ID    string          `json:"id"`
	At    uint64          `json:"at,omitempty"`
	Token events.Position `json:"token"`
}

// FileReply is the newest descriptor and where the body stands.
type FileReply struct {
	Entry uint64      `json:"entry"`
	File  events.File `json:"file"`
	Body  string      `json:"body"`
}

// SessionsRequest lists sessions of a tenant by name.
type SessionsRequest struct {
	Tenant string `json:"tenant"`
	Prefix string `json:"prefix,omitempty"`
	After  string `json:"after,omitempty"` // name after which to go on
	Limit  int    `json:"limit,omitempty"`
	// At answers with the sessions that existed then, as they were: "@4711" or
	// RFC 3339, "" = now. A page may then hold fewer rows than its limit.
	At    string          `json:"at,omitempty"`
	Token events.Position `json:"token"`
}

// SessionRow is a session in a list.
type SessionRow struct {
	Session       string          `json:"session"`
	Entries       uint64          `json:"entries"`
	Tokens        int             `json:"tokens"`
	ContextTokens int             `json:"context_tokens"`
	Nodes         uint64          `json:"nodes"`
	Cut           uint64          `json:"cut"` // number of the active cut, 0 = none
	Regime        events.Regime   `json:"regime"`
	Removed       int             `json:"removed"` // entries off the path
	Rejected      uint64          `json:"rejected"`
	Started       time.Time       `json:"started"`
	Updated       time.Time       `json:"updated"`
	Settings      events.Settings `json:"settings"`
}

// SessionsReply is one page, ordered by name.
type SessionsReply struct {
	Watermark events.Position `json:"watermark"`
	Sessions  []SessionRow    `json:"sessions"`
	Next      string          `json:"next,omitempty"`
}

// ResolveRequest turns a position people write into a stream sequence:
// "e12", "@4711" or RFC 3339.
type ResolveRequest struct {
	Ref   events.Ref      `json:"ref"`
	At    string          `json:"at"`
	Token events.Position `json:"token"`
}

// ResolveReply is the sequence; reads with it answer what held then.
type ResolveReply struct {
	Seq uint64 `json:"seq"`
}

// GrepRequest searches. Scope always comes from the authenticated caller.
type GrepRequest struct {
	Tenant  string `json:"tenant"`
	Pattern string `json:"pattern"`
	// Mode: words (default), phrase, relevance, regex, substring. All of the
	// pattern must match but in mode relevance, where words may be missing.
	Mode string `json:"mode,omitempty"`
	// IgnoreCase is for regex and substring, which are exact otherwise; in
	// Multiline, ^ and $ of a regex match at line breaks too.
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Multiline  bool     `json:"multiline,omitempty"`
	Sessions   []string `json:"sessions,omitempty"`
	Node       uint64   `json:"node,omitempty"` // inside a node; needs one session
	Roles      []string `json:"roles,omitempty"`
	Kinds      []string `json:"kinds,omitempty"` // turn, summary, file; default turn and summary
	Depths     []int    `json:"depths,omitempty"`
	// Since and Until bound the time, RFC 3339, "" = open.
	Since          string `json:"since,omitempty"`
	Until          string `json:"until,omitempty"`
	IncludeRemoved bool   `json:"include_removed,omitempty"`
	// Sort: recency, relevance, or hybrid, which fuses the two by rank. The
	// default is recency, in mode relevance relevance.
	Sort string `json:"sort,omitempty"`
	// Neighbours: so many turns of the path before and after each turn found
	// come with it, at most 5.
	Neighbours int `json:"neighbours,omitempty"`
	Limit      int `json:"limit,omitempty"`
	// MaxTokens bounds the answer as JSON, by the counter that contexts are
	// measured with; one hit is always given. 0 = no bound.
	MaxTokens int             `json:"max_tokens,omitempty"`
	Cursor    string          `json:"cursor,omitempty"`
	Token     events.Position `json:"token"`
}

// Hit is one match.
type Hit struct {
	Session   string    `json:"session"`
	Kind      string    `json:"kind"` // turn, summary, file
	Entry     string    `json:"entry,omitempty"`
	Node      string    `json:"node,omitempty"`
	Depth     int       `json:"depth"`
	CoveredBy string    `json:"covered_by,omitempty"` // the shallowest shown node over the entry, else its leaf
	Role      string    `json:"role,omitempty"`
	Time      time.Time `json:"time"`
	Removed   bool      `json:"removed"`
	Snippet   string    `json:"snippet"`
	// Matches are byte ranges of the snippet, on grapheme boundaries.
	Matches [][2]int `json:"matches"`
	// Before and After are the turns beside it, where asked for.
	Before []Beside `json:"before,omitempty"`
	After  []Beside `json:"after,omitempty"`
	// Seq orders hits of equal rank.
	Seq uint64 `json:"seq"`
}

// Beside is the beginning of a turn beside a hit.
type Beside struct {
	Entry string `json:"entry"`
	Role  string `json:"role"`
	Text  string `json:"text"`
}

// GrepReply is one page of hits.
type GrepReply struct {
	Hits  []Hit `json:"hits"`
	Total int   `json:"total"` // matches found, this page or not
	// TotalEstimated: not every match was looked at to count it.
	TotalEstimated bool   `json:"total_estimated,omitempty"`
	Cursor         string `json:"cursor,omitempty"`
	// NotSearched says what a limit, a deadline or an index that lags left
	// out, one sentence each; empty = everything was searched.
	NotSearched []string        `json:"not_searched"`
	Watermark   events.Position `json:"watermark"`
}

// StatusReply is the state of one projector.
type StatusReply struct {
	Epoch      string `json:"epoch"`
	Partitions []int  `json:"partitions"`
	LogSeq     uint64 `json:"log_seq"` // last position of the log
	Applied    uint64 `json:"applied"` // rows
	Indexed    uint64 `json:"indexed"` // documents
	Lag        uint64 `json:"lag"`     // events behind
	IndexLag   uint64 `json:"index_lag"`
	Sessions   int    `json:"sessions"`
	Entries    uint64 `json:"entries"`
	Nodes      uint64 `json:"nodes"`
	Due        int    `json:"due"` // sessions over soft
	// OldestDue is since when the first of the sessions that could be condensed
	// waits for it, as far as its projector has seen; nil where none does.
	OldestDue *time.Time `json:"oldest_due,omitempty"`
	Rejected  uint64     `json:"rejected"`
	Unknown   uint64     `json:"unknown"` // events of a later build
	Lost      uint64     `json:"lost"`    // positions that a restore or repair could not recover
	// Scrub is the background walk over the log, nil where none runs here.
	Scrub      *ScrubStatus `json:"scrub,omitempty"`
	StoreBytes int64        `json:"store_bytes"`
	IndexBytes int64        `json:"index_bytes"`
}

// SystemStatus is the state of everything: of the projectors, of the log's
// streams, and of the models, process by process.
type SystemStatus struct {
	StatusReply
	Log    *LogState      `json:"log,omitempty"` // nil where it could not be read
	Models []ModelProcess `json:"models"`
}

// LogState is what the streams hold.
type LogState struct {
	LogBytes uint64 `json:"log_bytes"`
	// InboxWaiting are messages that were acknowledged to their publisher and
	// are in no session yet; InboxFirst is the position of the oldest in the
	// inbox, InboxOldest its time, nil where none waits.
	InboxWaiting uint64     `json:"inbox_waiting"`
	InboxFirst   uint64     `json:"inbox_first,omitempty"`
	InboxOldest  *time.Time `json:"inbox_oldest,omitempty"`
	Tasks        uint64     `json:"tasks"` // pending and in flight
	Dead         uint64     `json:"dead"`
}

// Check is one line of a doctor's report.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// DoctorRequest asks for the checks; Deep reads every row and document.
type DoctorRequest struct {
	Deep   bool `json:"deep,omitempty"`
	Repair bool `json:"repair,omitempty"`
}

// DoctorReply lists the checks; OK is their conjunction.
type DoctorReply struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// RebuildRequest drops projections and makes them anew from the log. Neither
// set means both.
type RebuildRequest struct {
	Store bool `json:"store,omitempty"`
	Index bool `json:"index,omitempty"`
}

// RebuildReply reports a rebuild. Digest is a hash over the canonical dump of
// all rows: equal logs give equal digests.
type RebuildReply struct {
	Events  uint64  `json:"events"`
	Turns   uint64  `json:"turns"`
	Nodes   uint64  `json:"nodes"`
	Seconds float64 `json:"seconds"`
	Digest  string  `json:"digest"`
	// Live is the digest of the store that was replaced, at the same position.
	Live string `json:"live"`
}
