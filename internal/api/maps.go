package api

import (
	"encoding/json"
	"time"

	"lcm/grant"
	"lcm/mapjob"
)

// MapRunIn begins a map: one prompt over every row of an input that stays
// outside the context. Exactly one input is given.
type MapRunIn struct {
	Scope
	// InputPath is a JSONL file under a directory the operator allows.
	InputPath string `json:"input_path,omitempty"`
	// InputObject names what was uploaded, or stored in the bucket LCM_MAP.
	InputObject string `json:"input_object,omitempty"`
	// InputRows are the rows themselves, JSON lines, where they are few. It is
	// the only input under a grant: no other one lies within its scope.
	InputRows string `json:"input_rows,omitempty"`
	// Name of the input for people, where it is no file.
	Name string `json:"name,omitempty"`
	// Prompt with {{field}} for the row's fields; without any, the row follows.
	Prompt string `json:"prompt"`
	// OutputSchema is the JSON Schema of one row's result.
	OutputSchema json.RawMessage `json:"output_schema"`
	// OutputPath is a new file that gets a line per row at the end.
	OutputPath string `json:"output_path,omitempty"`
	Model      string `json:"model,omitempty"`
	// NoDedupe calls the model for every row, also for equal ones.
	NoDedupe        bool    `json:"no_dedupe,omitempty"`
	Concurrency     int     `json:"concurrency,omitempty"`       // 16
	Batch           int     `json:"batch,omitempty"`             // rows in one call, 1
	Attempts        int     `json:"attempts,omitempty"`          // 3
	TimeoutSeconds  int     `json:"timeout_seconds,omitempty"`   // 120, of one attempt
	MaxOutputTokens int     `json:"max_output_tokens,omitempty"` // 1,024, of one row's answer
	RowsPerSecond   float64 `json:"rows_per_second,omitempty"`
	MaxTokens       int     `json:"max_tokens,omitempty"` // of the whole job
	MaxCost         float64 `json:"max_cost,omitempty"`   // of the whole job
}

// MapAgentIn begins a map whose rows are worked on by a sub-agent each, with
// tools, under a grant of its own. Its attempts are corrections of the answer.
type MapAgentIn struct {
	MapRunIn
	// Sessions and Nodes that the sub-agents may reach; under a grant, those of
	// the grant where none are named. Nodes are SESSION/n12.
	Sessions []string `json:"sessions,omitempty"`
	Nodes    []string `json:"nodes,omitempty"`
	// MayWrite: also tools that change something; else only those that say
	// they do not.
	MayWrite bool `json:"may_write,omitempty"`
	// Depth is how many generations of agentic maps may be begun below this one.
	Depth     int `json:"depth,omitempty"`
	MaxTurns  int `json:"max_turns,omitempty"`  // of one sub-agent, 20
	RowTokens int `json:"row_tokens,omitempty"` // of one sub-agent, in and out, 200,000
	// DelegatedScope and KeptWork: a sub-agent that hands work on says what it
	// hands on and what it keeps doing itself.
	DelegatedScope string `json:"delegated_scope,omitempty"`
	KeptWork       string `json:"kept_work,omitempty"`
}

// MapAgentRequest is a MapAgentIn of a caller who was checked.
type MapAgentRequest struct {
	MapAgentIn
	// Parent is the grant the call is made under, nil = none.
	Parent *grant.Claims `json:"parent,omitempty"`
}

// MapIn names a job.
type MapIn struct {
	Scope
	Job string `json:"job"`
}

// MapRetryIn begins another round over the failed rows of a job. Limits that
// are 0 stay as they are.
type MapRetryIn struct {
	Scope
	Job             string  `json:"job"`
	Concurrency     int     `json:"concurrency,omitempty"`
	Batch           int     `json:"batch,omitempty"`
	Attempts        int     `json:"attempts,omitempty"`
	TimeoutSeconds  int     `json:"timeout_seconds,omitempty"`
	MaxOutputTokens int     `json:"max_output_tokens,omitempty"`
	RowsPerSecond   float64 `json:"rows_per_second,omitempty"`
	MaxTokens       int     `json:"max_tokens,omitempty"`
	MaxCost         float64 `json:"max_cost,omitempty"`
}

// MapOut is the state of a job: a handle and a summary, never the rows.
type MapOut struct {
	Job     string                 `json:"job"`
	Op      string                 `json:"op"`
	State   string                 `json:"state"` // running, done, cancelled
	Paused  string                 `json:"paused,omitempty"`
	Input   string                 `json:"input"`
	Rows    uint64                 `json:"rows"`
	OK      uint64                 `json:"ok"`
	Failed  uint64                 `json:"failed"`
	Pending uint64                 `json:"pending"`
	Kinds   map[mapjob.Kind]uint64 `json:"failures"` // by kind
	Round   int                    `json:"round"`    // of retries, from 0
	// First lines of the output, cut short.
	First        []string `json:"first"`
	Calls        int      `json:"calls"`
	InputTokens  int64    `json:"input_tokens"`
	OutputTokens int64    `json:"output_tokens"`
	Cost         float64  `json:"cost"` // by the configured prices
	// RowsPerSecond of the last seconds, and the time the rest will take at
	// that rate; 0 = unknown.
	RowsPerSecond float64 `json:"rows_per_second"`
	SecondsLeft   float64 `json:"seconds_left"`
	// Output that was written, or why it was not.
	Output      string    `json:"output,omitempty"`
	OutputError string    `json:"output_error,omitempty"`
	Started     time.Time `json:"started"`
	Updated     time.Time `json:"updated"`
	// Grant the job was begun under, "" = none.
	Grant string `json:"grant,omitempty"`
}

// MapRow is a line of a job's output.
type MapRow struct {
	Row      uint64           `json:"row"`
	OK       bool             `json:"ok"`
	Result   json.RawMessage  `json:"result,omitempty"`
	Error    *mapjob.RowError `json:"error,omitempty"`
	Attempts int              `json:"attempts"`
}

// MapListIn lists jobs, newest first.
type MapListIn struct {
	Scope
	Limit int `json:"limit,omitempty"` // 50
}

// MapListOut is the list.
type MapListOut struct {
	Jobs []MapOut `json:"jobs"`
}

// MapOutputIn reads a page of a job's output, also while it runs: the rows
// that have a result, in the order of the input.
type MapOutputIn struct {
	Scope
	Job string `json:"job"`
	// After this row, 0 = from the beginning.
	After int `json:"after,omitempty"`
	Limit int `json:"limit,omitempty"` // 100
	// Failed: only rows that failed.
	Failed bool `json:"failed,omitempty"`
}

// MapOutputOut is the page.
type MapOutputOut struct {
	Rows []MapRow `json:"rows"`
	// Next is where to go on, 0 = there is no more for now.
	Next uint64 `json:"next,omitempty"`
	// Whole: every row of the job has its result.
	Whole bool `json:"whole"`
}

// MapAggregateIn reduces a job's results by code. Fields are of the result, or
// with row. in front of the input; [0:7] takes the first seven characters.
type MapAggregateIn struct {
	Scope
	Job string `json:"job"`
	// By groups the rows: label, row.user, row.date[0:7].
	By []string `json:"by,omitempty"`
	// Measures: sum:F, mean:F, min:F, max:F, most:F, least:F.
	Measures []string `json:"measures,omitempty"`
	// Where: label=ham, score>=0.5, row.date^=2024-03, name~=smith.
	Where []string `json:"where,omitempty"`
	Limit int      `json:"limit,omitempty"` // groups answered, 100
}

// MapAggregateOut is the answer, the largest group first.
type MapAggregateOut struct {
	By       []string       `json:"by"`
	Measures []string       `json:"measures"`
	Groups   []mapjob.Group `json:"groups"`
	// More groups than were answered.
	More int `json:"more"`
	// Counted rows; those without a field of By; those without a result, which
	// an answer leaves out.
	Counted uint64 `json:"counted"`
	Skipped uint64 `json:"skipped"`
	Failed  uint64 `json:"failed"`
	Pending uint64 `json:"pending"`
}

// MapUploadOut names an uploaded input.
type MapUploadOut struct {
	Object string `json:"object"`
	Rows   uint64 `json:"rows"`
	Bytes  int64  `json:"bytes"`
}

// AgentOpenIn asks for the grant of one sub-agent of a job that runs.
type AgentOpenIn struct {
	Ref mapjob.Ref `json:"ref"`
	// Tools that the worker itself would offer, beside those of the memory.
	Tools []string `json:"tools,omitempty"`
}

// AgentGrant is what a sub-agent works under.
type AgentGrant struct {
	Token  string       `json:"token"`
	Claims grant.Claims `json:"claims"`
}

// AgentPayIn charges a sub-agent's grant, or gives back to it what is negative.
type AgentPayIn struct {
	Claims grant.Claims `json:"claims"`
	Tokens int          `json:"tokens"`
}
