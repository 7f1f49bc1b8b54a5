package api

import (
	"encoding/json"
	"time"

	"lcm/events"
)

// The tools, as HTTP, NATS micro and the command line know them. Field names
// are both the JSON of a request body and the parameters of a query.

// Scope is where a tool looks.
type Scope struct {
	// Tenant is the caller's own; only an operator may name another.
	Tenant  string `json:"tenant,omitempty"`
	Session string `json:"session,omitempty" jsonschema:"name of the session"`
	// Grant is a token to call under, in addition to the caller's own rights.
	Grant string `json:"grant,omitempty" jsonschema:"a capability token to call under"`
	// Token: answer only once this position is visible. Fresh asks for
	// everything the log holds at the time of the call.
	Token string `json:"token,omitempty"`
	Fresh bool   `json:"fresh,omitempty"`
}

// AppendIn describes the body that is posted beside it.
type AppendIn struct {
	Scope
	Format string `json:"format,omitempty"` // auto (default), lcm, openai, anthropic, …
	// Turns is the body where there is nothing beside the parameters (NATS).
	Turns json.RawMessage `json:"turns,omitempty"`
}

// AgentAppendIn is AppendIn as models are offered it.
type AgentAppendIn struct {
	Scope
	Turns []AgentTurn `json:"turns" jsonschema:"what was said, in order"`
}

// AgentTurn is a turn that a model records.
type AgentTurn struct {
	ID      string `json:"id" jsonschema:"names the turn in its session for ever"`
	Role    string `json:"role" jsonschema:"user, assistant, system, developer or tool"`
	Content string `json:"content"`
	Sender  string `json:"sender,omitempty" jsonschema:"who said it, where several share a role"`
	Time    string `json:"time,omitempty" jsonschema:"when it was said, RFC 3339"`
}

// AppendedTurn is the fate of one turn of an append.
type AppendedTurn struct {
	ID        string `json:"id"`
	Entry     string `json:"entry"` // e12, "" where it was refused
	Duplicate bool   `json:"duplicate"`
	Token     string `json:"token"`
	// Error says why the turn was refused, with its problem code.
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"`
}

// AppendOut answers turn for turn.
type AppendOut struct {
	Turns []AppendedTurn `json:"turns"`
	Token string         `json:"token"` // the greatest position of all
}

// ImportIn describes the file that is posted beside it.
type ImportIn struct {
	Scope
	File   string `json:"file"` // its name, for reports and the session's name
	Format string `json:"format,omitempty"`
}

// ImportReport is the fate of one conversation of a file.
type ImportReport struct {
	File       string         `json:"file"`
	Session    string         `json:"session"`
	Format     string         `json:"format"`
	Turns      int            `json:"turns"`
	Appended   int            `json:"appended"`
	Duplicates int            `json:"duplicates"`
	Rejected   int            `json:"rejected"`
	Skipped    map[string]int `json:"skipped"`
	// Compactions and moves recorded beside the turns.
	Facts int    `json:"facts"`
	Token string `json:"token"`
	// Problems are the first rejected records, with line and reason.
	Problems []string `json:"problems,omitempty"`
}

// ImportEvent is one line of an import's answer: progress, the reports at the
// end, or the error that stopped it.
type ImportEvent struct {
	Progress *ImportProgress `json:"progress,omitempty"`
	Reports  []ImportReport  `json:"reports,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
}

// ImportProgress says how far an import is.
type ImportProgress struct {
	Bytes int64 `json:"bytes"`
	Turns int   `json:"turns"`
}

// SessionsIn lists sessions.
type SessionsIn struct {
	Scope
	Prefix string `json:"prefix,omitempty" jsonschema:"names that begin with this"`
	After  string `json:"after,omitempty" jsonschema:"go on behind this name"`
	Limit  int    `json:"limit,omitempty"`
	At     string `json:"at,omitempty"`
}

// ContextIn asks for the active context.
type ContextIn struct {
	Scope
	Window   int    `json:"window,omitempty" jsonschema:"render for this window in tokens, without changing the session"`
	Overhead int    `json:"overhead,omitempty" jsonschema:"tokens of system prompt and tools outside of the session"`
	At       string `json:"at,omitempty" jsonschema:"as of e12, @<position> or an RFC 3339 time"`
	Format   string `json:"format,omitempty" jsonschema:"openai (default), anthropic, plain"`
	// PrefixHash is the caller's last one; a change is explained.
	PrefixHash string `json:"prefix_hash,omitempty"`
	// WaitSeconds bounds the wait for condensation when over B; 0 = 30.
	WaitSeconds int `json:"wait_seconds,omitempty" jsonschema:"wait this long for condensation when over budget"`
	// MaxTokens bounds the answer, 0 = no bound; Cursor of an answer goes on.
	// Messages too large for one answer come in parts, in the plain format.
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"bounds the answer"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"go on where an earlier answer ended"`
}

// Pointer is a summary a context shows.
type Pointer struct {
	ID     string `json:"id"`
	Tier   string `json:"tier"`
	Tokens int    `json:"tokens"`
	Depth  int    `json:"depth"`
	First  string `json:"first"`
	Last   string `json:"last"`
}

// Values of ContextOut.PrefixChange beside "cut 3 (extend)" and those of degraded
// and hypothetical contexts.
const (
	PrefixMoved    = "the branch moved"
	PrefixSettings = "the settings changed"
	PrefixUnknown  = "this prefix hash is not known: no recent context of the session began with it, unless a degraded or hypothetical one"
)

// ContextOut is what to send to the model.
type ContextOut struct {
	Session      string            `json:"session"`
	Tokens       int               `json:"tokens"`
	Budget       int               `json:"budget"`
	Soft         int               `json:"soft"`
	Regime       string            `json:"regime"`
	Degraded     bool              `json:"degraded"`
	Hypothetical bool              `json:"hypothetical"`
	PrefixHash   string            `json:"prefix_hash"`
	PrefixChange string            `json:"prefix_change,omitempty"`
	Cut          uint64            `json:"cut"`
	Leaf         string            `json:"leaf"`
	EndsWith     string            `json:"ends_with"`
	Pointers     []Pointer         `json:"pointers"`
	BlockTokens  int               `json:"block_tokens"`
	Format       string            `json:"format"`
	System       json.RawMessage   `json:"system,omitempty"` // Anthropic only
	Messages     []json.RawMessage `json:"messages"`
	// Cursor goes on where max_tokens ended the answer, "" = it is whole.
	Cursor string `json:"cursor,omitempty"`
	Token  string `json:"token"`
}

// MoveIn makes another turn the leaf of a session.
type MoveIn struct {
	Scope
	To string `json:"to" jsonschema:"the entry (e12) or turn id that is the leaf now"`
}

// MoveOut is where the leaf is.
type MoveOut struct {
	Session string `json:"session"`
	Leaf    string `json:"leaf"`
	Token   string `json:"token"`
}

// ConfigureIn changes settings; Set holds names of events.Settings fields.
type ConfigureIn struct {
	Scope
	Set map[string]any `json:"set,omitempty"`
	// Usage calibrates the session's token_factor.
	Usage *Usage `json:"usage,omitempty"`
}

// ConfigureOut is the settings in force.
type ConfigureOut struct {
	Session  string          `json:"session"`
	Budget   int             `json:"budget"`
	Settings events.Settings `json:"settings"`
	Token    string          `json:"token"`
}

// CondenseIn asks to condense a session now.
type CondenseIn struct {
	Scope
	Window int `json:"window,omitempty"` // configured first, 0 = unchanged
}

// CondenseOut reports what a condensation did.
type CondenseOut struct {
	Session      string `json:"session"`
	Compacted    bool   `json:"compacted"`
	Nodes        int    `json:"nodes"`
	Cut          uint64 `json:"cut"`
	TokensBefore int    `json:"tokens_before"`
	TokensAfter  int    `json:"tokens_after"`
	Stop         string `json:"stop"`
}

// ShowIn asks for turns.
type ShowIn struct {
	Scope
	Range  string `json:"range,omitempty"` // e1..e9, e5, or empty for all
	At     string `json:"at,omitempty"`
	Raw    bool   `json:"raw,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	// MaxTokens bounds the answer, 0 = no bound: turns then come as their text,
	// without blocks, and one that is too large in parts.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// TurnOut is a turn as people and tools see it.
type TurnOut struct {
	Entry   string         `json:"entry"`
	ID      string         `json:"id"`
	Role    string         `json:"role"`
	Sender  string         `json:"sender,omitempty"`
	Text    string         `json:"text"`
	Blocks  []events.Block `json:"blocks"`
	Tokens  int            `json:"tokens"`
	Time    time.Time      `json:"time"`
	Removed bool           `json:"removed"`
	// Lost: the turn could not be recovered from a damaged log; Text says so.
	Lost  bool          `json:"lost,omitempty"`
	Files []events.File `json:"files"`
	// Compactions are those that follow the turn, and with the first one those
	// before all; show gives them where max_tokens does not bound it.
	Compactions []CompactionOut `json:"compactions,omitempty"`
	// LargeInline: a body over the large-file limit stands in the turn, since
	// its call named no path.
	LargeInline bool `json:"large_inline,omitempty"`
	// Raw is the verbatim original, where asked for.
	Raw string `json:"raw,omitempty"`
	// Part says which bytes of the turn's text these are, where it is too large
	// for one answer: "0-4000 of 91000".
	Part string `json:"part,omitempty"`
}

// CompactionOut is a compaction that a foreign agent made of its own session: a
// fact beside the turns, which stay.
type CompactionOut struct {
	After  string    `json:"after"` // the entry it follows, "" = it stands before all
	Format string    `json:"format,omitempty"`
	Time   time.Time `json:"time,omitzero"`
	Text   string    `json:"text"` // in a description its first line
}

// TurnsOut is one page of turns.
type TurnsOut struct {
	Session string    `json:"session"`
	Turns   []TurnOut `json:"turns"`
	Cursor  string    `json:"cursor,omitempty"`
	Token   string    `json:"token"`
}

// GrepIn searches; see GrepRequest.
type GrepIn struct {
	Scope
	Pattern string `json:"pattern" jsonschema:"what to look for"`
	// Mode: words (default), phrase, relevance, regex, substring. Regex and
	// Phrase are short for the mode of that name.
	Mode           string   `json:"mode,omitempty" jsonschema:"words (default), phrase, relevance, regex, substring"`
	Regex          bool     `json:"regex,omitempty" jsonschema:"short for mode regex"`
	Phrase         bool     `json:"phrase,omitempty" jsonschema:"short for mode phrase"`
	IgnoreCase     bool     `json:"ignore_case,omitempty" jsonschema:"of regex and substring; words never regard case"`
	Multiline      bool     `json:"multiline,omitempty" jsonschema:"of regex: ^ and $ match at line breaks too"`
	Sessions       []string `json:"sessions,omitempty" jsonschema:"only in these sessions"`
	Node           string   `json:"node,omitempty" jsonschema:"only in what this summary covers"`
	Roles          []string `json:"roles,omitempty" jsonschema:"only turns of these roles"`
	Kinds          []string `json:"kinds,omitempty" jsonschema:"turn, summary, file; default turn and summary"`
	Depths         []int    `json:"depths,omitempty" jsonschema:"only summaries of these depths"`
	Since          string   `json:"since,omitempty" jsonschema:"not before this time, RFC 3339"`
	Until          string   `json:"until,omitempty" jsonschema:"before this time, RFC 3339"`
	IncludeRemoved bool     `json:"include_removed,omitempty" jsonschema:"also turns of abandoned branches"`
	Sort           string   `json:"sort,omitempty" jsonschema:"recency (default), relevance, or hybrid"`
	Neighbours     int      `json:"neighbours,omitempty" jsonschema:"turns before and after each hit to give with it, at most 5"`
	Limit          int      `json:"limit,omitempty" jsonschema:"hits at most, default 20"`
	MaxTokens      int      `json:"max_tokens,omitempty" jsonschema:"bounds the answer"`
	Cursor         string   `json:"cursor,omitempty" jsonschema:"go on where an earlier answer ended"`
}

// IDIn names a node, file, entry or session: #12, n12, e12, file:<id>, with
// SESSION/ in front where Session is empty; session:NAME is the session.
type IDIn struct {
	Scope
	ID     string `json:"id" jsonschema:"#12 or n12, e12, file:<id>, with SESSION/ in front where no session is named; session:NAME"`
	At     string `json:"at,omitempty" jsonschema:"as of e12, @<position> or an RFC 3339 time"`
	Cursor string `json:"cursor,omitempty" jsonschema:"go on where an earlier answer ended"`
	// MaxTokens bounds the answer, 0 = no bound; Cursor of an answer goes on.
	MaxTokens int `json:"max_tokens,omitempty" jsonschema:"bounds the answer"`
}

// Price is what reading a subtree costs, in tokens.
type Price struct {
	Summary int `json:"summary"` // all summaries of the subtree
	Source  int `json:"source"`  // all turns it covers
	Nodes   int `json:"nodes"`   // summaries in it
	Entries int `json:"entries"`
}

// TierOut is a text of a node and its size.
type TierOut struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	Level  int    `json:"level"`
}

// ChildOut is a child in a description.
type ChildOut struct {
	ID    string `json:"id"`
	Span  string `json:"span"`
	Line  string `json:"line"` // first line of its text
	Price Price  `json:"price"`
}

// FileOut is a file in a description.
type FileOut struct {
	ID      string `json:"id"`
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Bytes   int    `json:"bytes"`
	Summary string `json:"summary"`
	Entry   string `json:"entry,omitempty"`
	Head    string `json:"head,omitempty"`
}

// DescribeOut describes one thing; which fields are set depends on Kind.
type DescribeOut struct {
	Session string `json:"session"`
	ID      string `json:"id"`
	Kind    string `json:"kind"` // node, file, entry, session
	Depth   int    `json:"depth"`
	Span    string `json:"span,omitempty"`
	Text    string `json:"text"`
	// Truncated: Text goes on behind the cursor.
	Truncated    bool        `json:"truncated"`
	Tiers        []TierOut   `json:"tiers"`
	Price        Price       `json:"price"`
	Children     []ChildOut  `json:"children"`
	Parents      []string    `json:"parents"` // lineage, nearest first
	CoveredBy    string      `json:"covered_by,omitempty"`
	SupersededBy string      `json:"superseded_by,omitempty"`
	Files        []FileOut   `json:"files"`
	Model        string      `json:"model,omitempty"`
	Prompt       string      `json:"prompt_version,omitempty"`
	OnPath       bool        `json:"on_path"`
	Time         time.Time   `json:"time"`
	Until        time.Time   `json:"until"`
	Row          *SessionRow `json:"row,omitempty"`
	// Compactions of a session, where max_tokens does not bound the answer.
	Compactions []CompactionOut `json:"compactions,omitempty"`
	// FilesMore: a session's files beyond the newest, which Files holds.
	FilesMore int `json:"files_more,omitempty"`
	// LargeInline of an entry: a body over the large-file limit without a path.
	LargeInline bool `json:"large_inline,omitempty"`
	// Cursor goes on where max_tokens ended the answer, "" = it is whole.
	Cursor string `json:"cursor,omitempty"`
	Token  string `json:"token"`
}

// StatusIn asks for health and lag.
type StatusIn struct{ Scope }

// DoctorIn asks for integrity checks.
type DoctorIn struct {
	Scope
	Deep   bool `json:"deep,omitempty"`
	Repair bool `json:"repair,omitempty"`
}

// RebuildIn asks for a rebuild.
type RebuildIn struct {
	Scope
	Store bool `json:"store,omitempty"`
	Index bool `json:"index,omitempty"`
}

// DeadIn lists, shows or retries dead letters.
type DeadIn struct {
	Scope
	ID    string `json:"id,omitempty"` // one of them; empty = all of the scope
	Limit int    `json:"limit,omitempty"`
	After string `json:"after,omitempty" jsonschema:"next of an earlier answer: go on behind it"`
}

// DeadOut lists dead letters.
type DeadOut struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty"`
}

// RetryOut reports a retry of dead letters.
type RetryOut struct {
	Retried int `json:"retried"`
	Still   int `json:"still"` // refused again, and kept
	// Problems say why, one line each.
	Problems []string `json:"problems"`
}
