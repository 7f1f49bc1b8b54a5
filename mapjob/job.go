package mapjob

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"lcm/events"
)

// Op is what is done with each row.
type Op string

// The operators.
const (
	LLMMap     Op = "llm_map"     // one stateless call per row
	AgenticMap Op = "agentic_map" // a sub-agent with tools per row
)

// Ref names a job. Its id is unique; the tenant says whose it is.
type Ref struct {
	Tenant string `json:"tenant"`
	Job    string `json:"job"`
}

func (r Ref) String() string { return r.Tenant + "/" + r.Job }

// Subject of the job's events: one a job, whatever it has of rows.
func (r Ref) Subject() string {
	return "lcm.job." + events.EncodeToken(r.Tenant) + "." + events.EncodeToken(r.Job)
}

// ParseSubject reverses Subject.
func ParseSubject(s string) (Ref, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 4 || parts[0] != "lcm" || parts[1] != "job" {
		return Ref{}, fmt.Errorf("subject %q is not one of a job", s)
	}
	tenant, err1 := events.DecodeToken(parts[2])
	job, err2 := events.DecodeToken(parts[3])
	return Ref{tenant, job}, errors.Join(err1, err2)
}

// Input is where the rows are: an object, immutable from the definition on.
type Input struct {
	Object string `json:"object"`
	Name   string `json:"name"` // what people called it: a path, a file's name
	Rows   uint64 `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Limits of a job. Durations in seconds, so that people can write them.
type Limits struct {
	// Concurrency is how many rows are worked on at once, over all workers.
	// Default 16.
	Concurrency int `json:"concurrency"`
	// Attempts for one row, the first included. Default 3.
	Attempts int `json:"attempts"`
	// TimeoutSeconds of one attempt at a row. Default 120, of a sub-agent 900.
	TimeoutSeconds int `json:"timeout_seconds"`
	// Batch is how many rows of an llm_map are asked for in one call. 0 or 1:
	// each row has its own.
	Batch int `json:"batch,omitempty"`
	// MaxOutputTokens of one answer, or of each row's part of a batch's. Default
	// 1,024.
	MaxOutputTokens int `json:"max_output_tokens"`
	// RowsPerSecond at most, 0 = no limit.
	RowsPerSecond float64 `json:"rows_per_second,omitempty"`
	// MaxTokens of the whole job, in and out, 0 = no limit. A row is not begun
	// where its worst case might exceed what is left.
	MaxTokens int64 `json:"max_tokens,omitempty"`
	// MaxCost of the whole job in the currency of the configured prices, 0 = no
	// limit.
	MaxCost float64 `json:"max_cost,omitempty"`
	// MaxTurns of one sub-agent. Default 20.
	MaxTurns int `json:"max_turns,omitempty"`
	// RowTokens of one sub-agent, in and out. Default 200,000.
	RowTokens int `json:"row_tokens,omitempty"`
}

// Definition of a job, complete: nobody reads a default anywhere else.
type Definition struct {
	Op     Op     `json:"op"`
	Prompt string `json:"prompt"`
	// Schema is the JSON Schema (2020-12) of a row's result.
	Schema json.RawMessage `json:"schema"`
	Model  string          `json:"model,omitempty"` // "" = the configured one
	Input  Input           `json:"input"`
	// Output is a path the results are written to at the end, "" = nowhere.
	Output string `json:"output,omitempty"`
	// Dedupe lets identical rows share one call.
	Dedupe bool   `json:"dedupe"`
	Limits Limits `json:"limits"`
	// Scope of a sub-agent, nil for llm_map.
	Scope *Scope `json:"scope,omitempty"`
}

// Scope is what the sub-agents of a job may reach.
type Scope struct {
	Sessions []string `json:"sessions,omitempty"`
	Nodes    []Node   `json:"nodes,omitempty"`
	// ReadOnly: only tools that say they change nothing.
	ReadOnly bool `json:"read_only"`
	// Parent are the claims of the grant that the job was begun under, "" =
	// none: what a sub-agent reads is charged to it and its ancestors.
	Parent json.RawMessage `json:"parent,omitempty"`
	// Depth is how many generations of maps the sub-agents may begin below
	// themselves. 0 = none.
	Depth int `json:"depth,omitempty"`
	// Delegated is what was handed on, Kept what the caller goes on doing.
	Delegated string `json:"delegated_scope,omitempty"`
	Kept      string `json:"kept_work,omitempty"`
}

// Node is a summary of a session, with everything below it.
type Node struct {
	Session string `json:"session"`
	N       uint64 `json:"n"`
}

// Bounds of a definition.
const (
	MaxPromptBytes = 256 << 10
	MaxConcurrency = 1024
	MaxAttempts    = 20
	MaxBatch       = 100
	maxSeconds     = 24 * 60 * 60
)

// WithDefaults fills in what was left open.
func (d Definition) WithDefaults() Definition {
	if d.Op == "" {
		d.Op = LLMMap
	}
	def := func(v *int, n int) {
		if *v == 0 {
			*v = n
		}
	}
	l := &d.Limits
	def(&l.Concurrency, 16)
	def(&l.Attempts, 3)
	def(&l.MaxOutputTokens, 1024)
	if d.Op == AgenticMap {
		def(&l.TimeoutSeconds, 900)
		def(&l.MaxTurns, 20)
		def(&l.RowTokens, 200_000)
	}
	def(&l.TimeoutSeconds, 120)
	return d
}

// Validate says what is wrong with a definition, if anything. It compiles the
// schema.
func (d Definition) Validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if d.Op != LLMMap && d.Op != AgenticMap {
		bad("operator %q: %s or %s", d.Op, LLMMap, AgenticMap)
	}
	switch {
	case strings.TrimSpace(d.Prompt) == "":
		bad("the prompt is empty")
	case len(d.Prompt) > MaxPromptBytes:
		bad("the prompt has %d bytes, at most %d are allowed", len(d.Prompt), MaxPromptBytes)
	case !utf8.ValidString(d.Prompt):
		bad("the prompt is not valid UTF-8")
	}
	if (d.Op == AgenticMap) != (d.Scope != nil) || d.Scope != nil && len(d.Scope.Sessions)+len(d.Scope.Nodes) == 0 {
		bad("%s: sub-agents need sessions or nodes they may reach, and only they do", d.Op)
	}
	if _, err := CompileSchema(d.Schema); err != nil {
		errs = append(errs, err)
	}
	l := d.Limits
	for _, b := range []struct {
		name      string
		n, lo, hi int
	}{
		{"concurrency", l.Concurrency, 1, MaxConcurrency},
		{"attempts", l.Attempts, 1, MaxAttempts},
		{"timeout_seconds", l.TimeoutSeconds, 1, maxSeconds},
		{"max_output_tokens", l.MaxOutputTokens, 1, 1 << 20},
		{"batch", l.Batch, 0, MaxBatch},
	} {
		if b.n < b.lo || b.n > b.hi {
			bad("%s is %d: %d to %d", b.name, b.n, b.lo, b.hi)
		}
	}
	if d.Op == AgenticMap && l.Batch > 1 {
		bad("batch is %d: a sub-agent works on one row", l.Batch)
	}
	if !(l.RowsPerSecond >= 0) || l.MaxTokens < 0 || !(l.MaxCost >= 0) || l.MaxTurns < 0 || l.RowTokens < 0 {
		bad("rows_per_second, max_tokens, max_cost, max_turns and row_tokens cannot be negative")
	}
	return errors.Join(errs...)
}

// RowsPerCall at most.
func (l Limits) RowsPerCall() int { return max(1, l.Batch) }

// Timeout of one attempt.
func (l Limits) Timeout() time.Duration { return time.Duration(l.TimeoutSeconds) * time.Second }
