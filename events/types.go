package events

import "time"

// Type names an event. Names are past tense: an event is a fact.
type Type string

// The events of the log. Timeline events are published on a session's "ev"
// subject, derived ones on its "dag" subject.
const (
	TypeTurnAppended      Type = "TurnAppended"
	TypeLeafMoved         Type = "LeafMoved"
	TypeSessionConfigured Type = "SessionConfigured"
	TypeHistoryCompacted  Type = "HistoryCompacted"
	TypeNodeCommitted     Type = "NodeCommitted"
	TypeCutCommitted      Type = "CutCommitted"
	TypePassStalled       Type = "PassStalled"
	TypePositionLost      Type = "PositionLost"
)

// Role of a turn. Foreign roles are mapped on import.
type Role string

// The accepted roles.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Valid reports whether r is one of the accepted roles.
func (r Role) Valid() bool {
	switch r {
	case RoleSystem, RoleDeveloper, RoleUser, RoleAssistant, RoleTool:
		return true
	}
	return false
}

// Pinned reports whether leading turns of this role stand in front of every
// context, never chunked and never removed.
func (r Role) Pinned() bool { return r == RoleSystem || r == RoleDeveloper }

// BlockType names a typed part of a turn.
type BlockType string

// The block types the engine understands. Any other value is kept raw.
const (
	BlockText       BlockType = "text"
	BlockThinking   BlockType = "thinking" // reasoning, with its signature
	BlockToolUse    BlockType = "tool_use"
	BlockToolResult BlockType = "tool_result"
	BlockImage      BlockType = "image"
	BlockDocument   BlockType = "document"
	BlockUnknown    BlockType = "unknown" // kept in Raw, never interpreted
)

// Block is one typed part of a turn. Which fields are set depends on Type.
type Block struct {
	Type BlockType `json:"type"`

	// Text of a text or thinking block, or of a document given as text.
	Text string `json:"text,omitempty"`
	// Signature of a thinking block, byte-exact; never altered.
	Signature string `json:"signature,omitempty"`

	// CallID is the tool call's id: of the call itself (tool_use) or of the
	// call that is answered (tool_result).
	CallID string `json:"call_id,omitempty"`
	// Name of the called tool (tool_use; tool_result where the source says).
	Name string `json:"name,omitempty"`
	// Input is the call's arguments as the source wrote them: JSON text, or
	// whatever a provider put there in its place.
	Input string `json:"input,omitempty"`
	// Content of a tool_result: text, image, document or unknown blocks.
	Content []Block `json:"content,omitempty"`
	// IsError marks a tool_result that reports a failure.
	IsError bool `json:"is_error,omitempty"`

	// MediaType, Data (base64) or URL, Width and Height (pixels, 0 = unknown)
	// of an image or document.
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	Width     int    `json:"width,omitempty"`
	Height    int    `json:"height,omitempty"`

	// Raw is the block's original JSON text, kept for unknown types and for
	// known ones that carry fields of their vendor's.
	Raw string `json:"raw,omitempty"`
}

// Range is a run of consecutive entries, both ends included.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// File describes a large tool result whose call named a path. Its body stays
// in the turn; nodes and the summariser use the descriptor.
type File struct {
	ID      string `json:"id"`      // first 16 hex digits of the body's SHA-256
	Path    string `json:"path"`    // as the call named it
	Kind    string `json:"kind"`    // what the body turned out to be: "go", "json", "text", …
	Summary string `json:"summary"` // exploration summary, made by rule
	Head    string `json:"head"`    // bounded head of the body
	Bytes   int    `json:"bytes"`   // size of the body
	Block   int    `json:"block"`   // index of the block that holds the body
}

// TurnAppended v1: one turn of an agent, verbatim.
type TurnAppended struct {
	ID    string `json:"id"`    // turn id, unique within the session for ever
	Entry uint64 `json:"entry"` // the committer's claim; the fold rejects a mismatch
	// Parent is the declared parent entry; 0 = the current leaf.
	Parent uint64 `json:"parent,omitempty"`
	Role   Role   `json:"role"`
	Sender string `json:"sender,omitempty"` // name the source gave the author
	// MessageID is the provider's id of the API message this turn is a part
	// of; consecutive turns with the same one form one message.
	MessageID string `json:"message_id,omitempty"`
	// Blocks; omitted where the turn is a single text block equal to Text.
	Blocks []Block `json:"blocks,omitempty"`
	// Text is the derived text: what is indexed and summarised. Omitted where
	// it is DeriveText(Blocks).
	Text string `json:"text,omitempty"`
	// Tokens counts the neutral rendering; InputTokens the summariser's line.
	Tokens      int `json:"tokens"`
	InputTokens int `json:"input_tokens"`
	// Injected marks text the author did not write: reminders, command
	// output, an agent's own bookkeeping.
	Injected bool   `json:"injected,omitempty"`
	Files    []File `json:"files,omitempty"`
	// LargeInline: a body over the large-file limit whose call named no path.
	LargeInline bool   `json:"large_inline,omitempty"`
	Format      string `json:"format,omitempty"` // source format
	// Original is the verbatim source of the turn. Empty with Exact set where
	// encoding the blocks in Format gives the same bytes.
	Original string `json:"original,omitempty"`
	Exact    bool   `json:"exact,omitempty"`
	// RawHash is HashBytes of the verbatim source where Original is omitted.
	RawHash string `json:"raw_hash,omitempty"`
	// AuthorTime is the source's own time of the turn, nil = unknown. The
	// ingest time is the envelope's.
	AuthorTime *time.Time `json:"author_time,omitempty"`
}

// LeafMoved v1: the entry that is now the leaf of the session tree. Entries
// off its path are removed from the context, their bytes are kept.
type LeafMoved struct {
	Entry  uint64 `json:"entry"`
	Reason string `json:"reason,omitempty"`
}

// SessionConfigured v1: the complete settings of a session from here on.
type SessionConfigured struct {
	Settings Settings `json:"settings"`
}

// HistoryCompacted v1: a compaction the foreign agent did itself. A fact, not
// a turn: shown only where the originals it replaced are not in the log.
type HistoryCompacted struct {
	ID     string `json:"id"`
	After  uint64 `json:"after"`          // the last entry before the marker, 0 = none
	Kept   uint64 `json:"kept,omitempty"` // first entry the foreign agent kept, 0 = unknown
	Text   string `json:"text"`
	Format string `json:"format,omitempty"`
	// Original is the verbatim source of the marker.
	Original   string     `json:"original,omitempty"`
	AuthorTime *time.Time `json:"author_time,omitempty"`
}

// Tier is one text of a node, from thorough to terse.
type Tier struct {
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
	Level  int    `json:"level"` // rung of the ladder that made it: 1, 2 or 3
}

// Bounds are the limits a node was made under; the fold checks the node
// against them, never against configuration.
type Bounds struct {
	Target  int `json:"target"`   // tokens aimed at
	HardCap int `json:"hard_cap"` // no tier is larger
	MaxFan  int `json:"max_fan"`  // children at most
}

// NodeCommitted v1: one summary of the DAG. A leaf (depth 0) covers Entries,
// a condensed node covers Children (keys of adjacent nodes of one depth).
type NodeCommitted struct {
	Key      string   `json:"key"`
	Depth    int      `json:"depth"`
	First    uint64   `json:"first"` // span: first and last covered entry
	Last     uint64   `json:"last"`
	Entries  []Range  `json:"entries,omitempty"`
	Children []string `json:"children,omitempty"`
	// Primary is the tier shown by default; Rich, where present, the thorough
	// text kept beside it.
	Primary Tier  `json:"primary"`
	Rich    *Tier `json:"rich,omitempty"`
	// InputTokens is what the summariser read.
	InputTokens   int      `json:"input_tokens"`
	Model         string   `json:"model"`
	PromptVersion string   `json:"prompt_version"`
	Files         []string `json:"files,omitempty"` // file ids, in order of first mention
	Bounds        Bounds   `json:"bounds"`
	// Supersedes is the key of the node this one replaces (a repair).
	Supersedes string `json:"supersedes,omitempty"`
}

// TierName says which text of a node a cut shows.
type TierName string

// The tiers, richest first.
const (
	TierRich    TierName = "rich"
	TierPrimary TierName = "primary"
	TierStub    TierName = "stub"   // header, a 200-character slice, a note
	TierHeader  TierName = "header" // bare header
)

// Shown is a node of a frontier and the tier chosen for it.
type Shown struct {
	Key  string   `json:"key"`
	Tier TierName `json:"tier"`
}

// Clip names an entry that a context shows only the head and tail of.
type Clip struct {
	Entry  uint64 `json:"entry"`
	Tokens int    `json:"tokens"` // tokens of head plus tail that remain
}

// CutKind says how a cut changed the pointer block.
type CutKind string

// The kinds of cut.
const (
	CutExtend CutKind = "extend" // pointers appended behind the old block
	CutRecut  CutKind = "recut"  // the block condensed and re-tiered
)

// Regime is the state a session's context was in.
type Regime string

// The regimes, by occupancy.
const (
	RegimePassive  Regime = "passive"
	RegimeAsync    Regime = "async"
	RegimeBlocking Regime = "blocking"
)

// CutCommitted v1: what the active context became.
type CutCommitted struct {
	// Through is the last entry the frontier covers. A cut that only clips
	// may have no frontier and Through 0.
	Through  uint64  `json:"through"`
	Frontier []Shown `json:"frontier"`
	// Kept is the newest user turn shown verbatim at the end of the block
	// where it fell out of the tail; 0 = none.
	Kept  uint64 `json:"kept,omitempty"`
	Clips []Clip `json:"clips,omitempty"`

	Budget       int     `json:"budget"` // B
	Window       int     `json:"window"`
	Overhead     int     `json:"overhead"`
	Renderer     string  `json:"renderer"`
	TokensBefore int     `json:"tokens_before"`
	TokensAfter  int     `json:"tokens_after"`
	BlockTokens  int     `json:"block_tokens"` // frame and pointers
	Kind         CutKind `json:"kind"`
	Regime       Regime  `json:"regime"`
}

// PassStalled v1: why a pass could not meet its budget.
type PassStalled struct {
	Reason string `json:"reason"` // "condensation-stalled", "nothing-eligible", "tail-over-target"
	Detail string `json:"detail,omitempty"`
	Tokens int    `json:"tokens"` // context tokens at the time
	Target int    `json:"target"`
	Leaf   uint64 `json:"leaf"` // leaf of the path it was judged on
}

// PositionLost v2: stands where an event could not be recovered, with what is
// known of it. On the subject of the lost event it takes that one's place in
// the chain.
type PositionLost struct {
	Seq    uint64 `json:"seq"`            // its position in the damaged log
	Type   Type   `json:"type,omitempty"` // "" = not known, as everything below
	Reason string `json:"reason,omitempty"`
	// Since v2: subject and version of the lost event, and its chain hash: what the
	// event behind it links to.
	Subject string `json:"subject,omitempty"`
	Version uint64 `json:"version,omitempty"`
	Hash    Hash   `json:"hash,omitzero"`
	// Entry of a lost turn: the turns behind it are numbered from there.
	Entry uint64 `json:"entry,omitempty"`
}
