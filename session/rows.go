package session

import (
	"encoding"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lcm/events"
)

// SchemaVersion of the rows below. A store that holds another version is
// rebuilt from the log, never migrated in place.
const SchemaVersion = 5

// RowKind names a kind of row; it is the first part of a row's key.
type RowKind byte

// The kinds of row. Numbers in keys are 8 bytes big-endian.
const (
	RowHead       RowKind = 'h' // () → Head
	RowPath       RowKind = 'w' // () → the current path without its last range
	RowEntry      RowKind = 'e' // entry → Entry
	RowBody       RowKind = 'b' // entry → payload of its TurnAppended, at most MaxBodyBytes
	RowTurn       RowKind = 'i' // turn id → entry
	RowRun        RowKind = 'r' // first entry of a run → Run
	RowMove       RowKind = 'm' // stream sequence → Move
	RowConfig     RowKind = 's' // stream sequence → events.Settings
	RowNode       RowKind = 'n' // node → Node
	RowNodeKey    RowKind = 'k' // node key → node
	RowCovering   RowKind = 'v' // entry → leaf nodes that cover it, ascending
	RowParents    RowKind = 'p' // node → nodes made of it, ascending
	RowSupersede  RowKind = 'x' // node → node that replaced it
	RowCut        RowKind = 'c' // cut → Cut
	RowCompaction RowKind = 'o' // stream sequence → events.HistoryCompacted
	RowFile       RowKind = 'f' // file id → entry that holds its newest body
	RowStall      RowKind = 't' // stream sequence → events.PassStalled
	RowRejected   RowKind = 'j' // stream sequence → Rejected
	RowLost       RowKind = 'l' // stream sequence → Lost
)

// MaxBodyBytes: larger payloads stay in the log only; their Entry says Big.
const MaxBodyBytes = 64 << 10

// Rows is the port the fold works through: the rows of one session. It is
// used by one goroutine at a time, inside one transaction of the store: all
// of an event's rows become durable together with the store's position, or
// none. Keys sort as bytes. Returned slices are valid until the next call.
type Rows interface {
	// Get returns the row, nil where there is none.
	Get(kind RowKind, key []byte) ([]byte, error)
	// Floor returns the row with the greatest key at or below key, nil, nil
	// where there is none.
	Floor(kind RowKind, key []byte) (k, v []byte, err error)
	// Put writes the row; it does not keep key or value.
	Put(kind RowKind, key, value []byte) error
}

// ErrNoRow: a row that must exist does not. The store is damaged.
var ErrNoRow = errors.New("row missing")

// Head is the state of a session that every event touches.
type Head struct {
	Timeline LaneHead `json:"timeline"`
	Derived  LaneHead `json:"derived"`

	Entries  uint64 `json:"entries"` // accepted turns, all branches
	Nodes    uint64 `json:"nodes"`   // accepted nodes, all branches
	Cuts     uint64 `json:"cuts"`    // accepted cuts, all branches
	Rejected uint64 `json:"rejected"`
	Lost     uint64 `json:"lost,omitempty"` // positions that could not be recovered

	Leaf uint64         `json:"leaf"`           // newest entry of the current path, 0 = none
	Path []events.Range `json:"path,omitempty"` // the current path, root to leaf
	// Pinned: the path's entries up to this one are leading system and
	// developer turns.
	Pinned uint64 `json:"pinned,omitempty"`

	Settings   events.Settings `json:"settings"`
	Configured bool            `json:"configured"`

	// Tokens of all entries, all branches, and of the active context.
	Tokens        int       `json:"tokens"`
	ContextTokens int       `json:"context_tokens"`
	ActiveCut     uint64    `json:"active_cut,omitempty"` // 0 = none
	Started       time.Time `json:"started"`              // ingest time of the first event
	Time          time.Time `json:"time"`                 // ingest time of the last event
}

// LaneHead is where one subject of a session stands.
type LaneHead struct {
	events.Link
	// LastSeq is the stream sequence of the subject's last message, valid or
	// not: the expectation of the next append.
	LastSeq uint64 `json:"last_seq,omitempty"`
}

// Entry is one accepted turn, without its body.
type Entry struct {
	N           uint64      `json:"n"`
	Seq         uint64      `json:"seq"`
	ID          string      `json:"id"`
	Parent      uint64      `json:"parent,omitempty"` // effective parent, 0 = root
	Role        events.Role `json:"role"`
	Sender      string      `json:"sender,omitempty"`
	MessageID   string      `json:"message_id,omitempty"`
	Tokens      int         `json:"tokens"`
	InputTokens int         `json:"input_tokens"`
	Calls       []string    `json:"calls,omitempty"`   // tool call ids made
	Results     []string    `json:"results,omitempty"` // tool call ids answered
	// CallEntries are the entries that make the answered calls, parallel to
	// Results: the newest on the path before this entry, 0 = none yet.
	CallEntries []uint64   `json:"call_entries,omitempty"`
	Files       []string   `json:"files,omitempty"` // file ids
	Injected    bool       `json:"injected,omitempty"`
	Big         bool       `json:"big,omitempty"` // body only in the log, at Seq
	Hash        string     `json:"hash"`          // content
	SourceHash  string     `json:"source_hash,omitempty"`
	Time        time.Time  `json:"time"` // ingest time
	AuthorTime  *time.Time `json:"author_time,omitempty"`
}

// When is the author's time where known, else the ingest time.
func (e Entry) When() time.Time {
	if e.AuthorTime != nil {
		return *e.AuthorTime
	}
	return e.Time
}

// Spoken: the user's own words, not a tool's answer or a reminder put in their
// mouth.
func (e *Entry) Spoken() bool {
	return e.Role == events.RoleUser && len(e.Results) == 0 && !e.Injected
}

// Run is a maximal stretch of entries each of which is the next one's parent.
// It starts at the key of its row and ends where the next run starts.
type Run struct {
	Parent uint64 `json:"parent"` // entry before the run, 0 = root
}

// Move records that the leaf moved without a turn.
type Move struct {
	Leaf uint64 `json:"leaf"`
}

// Node is an accepted summary.
type Node struct {
	N    uint64    `json:"n"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	events.NodeCommitted
	// Covered is the whole set of entries, at every depth.
	Covered []events.Range `json:"covered"`
	// ChildNodes are the numbers of Children, in order.
	ChildNodes []uint64 `json:"child_nodes,omitempty"`
	// SourceTokens of the covered entries; SummaryTokens of the primary tiers
	// of this node and all below it; Below is the number of those nodes.
	SourceTokens  int `json:"source_tokens"`
	SummaryTokens int `json:"summary_tokens"`
	Below         int `json:"below,omitempty"`
	// Truncated is how many of this node and all below it are of level 3: what
	// there is to repair when a summariser is back.
	Truncated int `json:"truncated,omitempty"`
	// FirstTime and LastTime of the covered entries (When).
	FirstTime time.Time `json:"first_time"`
	LastTime  time.Time `json:"last_time"`
}

// Cut is an accepted cut.
type Cut struct {
	N    uint64    `json:"n"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	events.CutCommitted
	// Nodes are the numbers of the frontier, in order.
	Nodes []uint64 `json:"nodes"`
	// Furthest is the greatest Through of this and all earlier cuts.
	Furthest uint64 `json:"furthest"`
}

// Rejected records an event that did not count, and why.
type Rejected struct {
	Seq    uint64      `json:"seq"`
	Type   events.Type `json:"type,omitempty"`
	Reason string      `json:"reason"`
}

// Num is a row key made of a number.
func Num(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// rows wraps the port with the codecs of its rows: their own where they have
// one, else JSON; plain numbers.
type rows struct{ Rows }

func (r rows) get(kind RowKind, key []byte, v any) (bool, error) {
	b, err := r.Get(kind, key)
	if err != nil || b == nil {
		return false, err
	}
	return true, decodeRow(kind, b, v)
}

func decodeRow(kind RowKind, b []byte, v any) error {
	var err error
	if own, ok := v.(encoding.BinaryUnmarshaler); ok {
		err = own.UnmarshalBinary(b)
	} else {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("row %c: %w", kind, err)
	}
	return nil
}

func (r rows) must(kind RowKind, n uint64, v any) error {
	ok, err := r.get(kind, Num(n), v)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %c %d", ErrNoRow, kind, n)
	}
	return err
}

// entry reads an entry in place: contexts read hundreds.
func (r rows) entry(n uint64, e *Entry) error {
	b, err := r.Get(RowEntry, Num(n))
	if err != nil {
		return err
	}
	if b == nil {
		return fmt.Errorf("%w: %c %d", ErrNoRow, RowEntry, n)
	}
	if err := e.UnmarshalBinary(b); err != nil {
		return fmt.Errorf("row %c %d: %w", RowEntry, n, err)
	}
	return nil
}

func (r rows) put(kind RowKind, key []byte, v any) error {
	var b []byte
	var err error
	if own, ok := v.(encoding.BinaryMarshaler); ok {
		b, err = own.MarshalBinary()
	} else {
		b, err = json.Marshal(v)
	}
	if err != nil {
		return fmt.Errorf("row %c %x: %w", kind, key, err)
	}
	return r.Put(kind, key, b)
}

func (r rows) number(kind RowKind, key []byte) (uint64, error) {
	b, err := r.Get(kind, key)
	if err != nil || b == nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("row %c %x: %d bytes, want 8", kind, key, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func (r rows) numbers(kind RowKind, n uint64) ([]uint64, error) { return r.list(kind, Num(n)) }

// list reads a row of numbers, ascending.
func (r rows) list(kind RowKind, key []byte) ([]uint64, error) {
	b, err := r.Get(kind, key)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, 0, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		out = append(out, binary.BigEndian.Uint64(b))
	}
	return out, nil
}

// extend adds a number to a row of them.
func (r rows) extend(kind RowKind, key []byte, add uint64) error {
	b, err := r.Get(kind, key)
	if err != nil {
		return err
	}
	return r.Put(kind, key, binary.BigEndian.AppendUint64(append([]byte(nil), b...), add))
}

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
