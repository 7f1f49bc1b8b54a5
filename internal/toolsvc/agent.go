package toolsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"lcm/chat"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// Bounds of the answers that models get, tokens by our counter. Claude Code
// refuses results above 25,000 of its own.
const (
	AgentTokens    = 8_000
	AgentTokensMax = 16_000
)

// AgentTool is a tool of the table as models are offered it.
type AgentTool struct {
	Tool
	AgentName string // lcm_grep
	Title     string
	Text      string // what a model is told of it
	// In and Out describe its parameters and answers strictly: closed objects,
	// one type each, no null.
	In, Out *jsonschema.Schema
	// Adds: it changes nothing that is there. Again: the same call again is the
	// same call. Open: it reaches models outside.
	Adds, Again, Open bool

	fixed map[string]any
	bound agentBound
}

// agentBound is what an answer holds at most, tokens: unasked, and on demand.
type agentBound struct{ tokens, most int }

// agentUse is how models are offered a tool of the table.
type agentUse struct {
	tool, name, title, text string
	in                      reflect.Type   // a narrower form of the tool's own parameters, nil = those
	hide                    []string       // parameters that are not a model's to set
	fixed                   map[string]any // what they are
	adds, again, open       bool
	bound                   agentBound // zero = AgentTokens, AgentTokensMax
}

var agentUses = []agentUse{
	{
		tool: "grep", title: "Search memory",
		text: "Search every turn, summary and file ever recorded, including what is no longer in your context. " +
			"All words must match; mode relevance takes a question in plain words, phrase keeps the order, regex is RE2, substring is exact. " +
			"Hits name the entry (e12) or summary (#12) and the summary that covers it.",
	},
	{
		tool: "describe", title: "Describe an id",
		text: "What a summary (#12), entry (e12), file (file:<id>) or session holds: text, children, files, and what reading it costs in tokens. " +
			"Put SESSION/ in front, or name the session; an empty id with a session describes the session.",
	},
	{
		tool: "expand", title: "Expand to verbatim turns",
		text: "The verbatim turns behind a summary, entry or file, word for word. It is for sub-agents: it needs the scope expand or a grant. " +
			"Otherwise describe first, and ask a sub-agent to read.",
	},
	{
		tool: "query", name: "lcm_expand_query", title: "Answer a question from memory",
		text: "Answer a question from a summary (node), sessions or everything you may read. A reader with a context of its own describes, opens and searches " +
			"within a token budget; what you get is its answer, which cites entries, or the best passages word for word where there is none.",
		open: true, bound: agentBound{answerTokens, maxAnswerTokens},
	},
	{
		tool: "context", title: "Active context", hide: []string{"format", "prefix_hash"}, fixed: map[string]any{"format": "plain"},
		text: "The active context of a session as plain messages: what its model sees now, or saw at an entry or time.",
	},
	{
		tool: "sessions", title: "List sessions", hide: []string{"limit"}, fixed: map[string]any{"limit": 20},
		text: "The sessions there are, by name, with their sizes; after = the answer's next goes on.",
	},
	{tool: "status", title: "Status", hide: []string{"session"}, text: "Whether the memory is healthy and up to date: positions, lag, counts and sizes."},
	{
		tool: "append", title: "Append turns", in: reflect.TypeFor[api.AgentAppendIn](), fixed: map[string]any{"format": "lcm"}, adds: true, again: true,
		text: "Record turns in a session. Give each an id of its own: the same id again is the same turn, so a repeated call stores nothing twice.",
	},
	{
		tool: "llm_map", name: "llm_map", title: "Map a prompt over rows", adds: true, open: true,
		text: "Run one prompt over every row of a JSONL file that stays outside your context: one model call per row, each result checked " +
			"against a JSON Schema. Answers a job's handle at once; lcm_map_status and lcm_map_aggregate tell the rest.",
	},
	{
		tool: "agentic_map", name: "agentic_map", title: "Map a sub-agent over rows", adds: true, open: true,
		text: "Like llm_map, with a sub-agent per row that may read the sessions or nodes you name, with tools. " +
			"Under a grant, say what you hand on (delegated_scope) and what work you keep (kept_work).",
	},
	{tool: "map-status", name: "lcm_map_status", title: "State of a map job", text: "Counts, failures by kind, first rows, tokens and cost of a map job."},
	{tool: "map-watch", name: "lcm_map_watch", title: "Wait for a map job", text: "Wait for the end of a map job and answer its last state; progress notifications tell its rows meanwhile."},
	{tool: "map-list", name: "lcm_map_list", title: "List map jobs", text: "Map jobs, newest first.", hide: []string{"limit"}, fixed: map[string]any{"limit": 20}},
	{tool: "map-output", name: "lcm_map_output", title: "Results of a map job", text: "A page of a map job's results, in the order of the input. They enter your context: prefer lcm_map_aggregate."},
	{
		tool: "map-aggregate", name: "lcm_map_aggregate", title: "Count a map job's results",
		text: "Count and measure the results of a map job by code, exactly. by and where take fields of the result, or row.FIELD of the input; row.date[0:7] is the month. " +
			"measures: sum:F, mean:F, min:F, max:F, most:F, least:F. where: F=V, F!=V, F>V, F^=V (begins with), F~=V (contains).",
	},
	{tool: "map-retry", name: "lcm_map_retry", title: "Retry failed rows", adds: true, open: true, text: "Work again on the rows of a map job that failed or were never begun."},
	{tool: "map-cancel", name: "lcm_map_cancel", title: "Cancel a map job", text: "Stop a map job; what it has is kept."},
}

// Specs are tools as a model that calls them is told of them.
func Specs(tools []AgentTool) []chat.ToolSpec {
	var out []chat.ToolSpec
	for _, t := range tools {
		schema, err := json.Marshal(t.In)
		if err != nil {
			continue // it was described to others already
		}
		out = append(out, chat.ToolSpec{Name: t.AgentName, Description: t.Text, Schema: schema})
	}
	return out
}

// Run calls the tool as a model does, for the caller in ctx. within bounds a
// tool that is not said to take long.
func (a AgentTool) Run(ctx context.Context, args json.RawMessage, within time.Duration) (json.RawMessage, error) {
	in, err := a.Parameters(args)
	if err != nil {
		return nil, err
	}
	if !a.Long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	out, err := a.Call(ctx, in)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return a.Answer(raw)
}

// answerMost is the largest answer a model is given, tokens by our counter.
const answerMost = AgentTokensMax + 4_000

// agentNever are parameters that no model sets: who asks decides the tenant,
// and an answer is as new as the log.
var agentNever = []string{"tenant", "token", "fresh"}

// AgentTools are those of the table that models are offered.
func (s *Service) AgentTools() ([]AgentTool, error) { return offered(s.Tools()) }

// offered are those of a table that models are offered.
func offered(table []Tool) ([]AgentTool, error) {
	var out []AgentTool
	for _, u := range agentUses {
		i := slices.IndexFunc(table, func(t Tool) bool { return t.Name == u.tool })
		if i < 0 {
			continue
		}
		t, err := agentTool(u, table[i])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

func agentTool(u agentUse, t Tool) (AgentTool, error) {
	a := AgentTool{Tool: t, AgentName: u.name, Title: u.title, Text: u.text, Adds: u.adds, Again: u.again || t.Reads, Open: u.open, fixed: u.fixed}
	if a.AgentName == "" {
		a.AgentName = "lcm_" + u.tool
	}
	if u.in != nil {
		t.in = u.in
	}
	in, out, err := t.Schema()
	if err != nil {
		return a, err
	}
	hide := append(slices.Clone(u.hide), agentNever...)
	if !t.Grantable {
		hide = append(hide, "grant")
	}
	for _, name := range hide {
		delete(in.Properties, name)
		in.PropertyOrder = slices.DeleteFunc(in.PropertyOrder, func(n string) bool { return n == name })
	}
	a.In, a.Out = strictSchema(in), strictSchema(out)
	a.bound = u.bound
	if a.bound == (agentBound{}) {
		a.bound = agentBound{AgentTokens, AgentTokensMax}
	}
	if p := a.In.Properties["max_tokens"]; p != nil && t.Reads {
		p.Default = json.RawMessage(strconv.Itoa(a.bound.tokens))
	}
	return a, nil
}

// strictSchema closes objects and leaves each value one type. Models and their
// clients stumble over unions, null and schemas that are no object.
func strictSchema(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.Types) > 0 {
		types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
		s.Type, s.Types = types[0], nil
	}
	if s.Type == "" {
		s.Type = "object"
	}
	for _, p := range s.Properties {
		strictSchema(p)
	}
	if s.Items != nil {
		strictSchema(s.Items)
	}
	return s
}

// Parameters completes what a model sent: what is not its to say, and the
// bound of the answer.
func (a AgentTool) Parameters(args json.RawMessage) (json.RawMessage, error) {
	in := map[string]any{}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, problem.New(problem.Invalid, "%s: %w", a.AgentName, inWords(err))
		}
	}
	for name := range in {
		if a.In.Properties[name] == nil {
			return nil, problem.New(problem.Invalid, "%s has no parameter %q", a.AgentName, name).
				WithHint("it has %s", strings.Join(a.parameters(), ", "))
		}
	}
	for name, v := range a.fixed {
		in[name] = v
	}
	if a.In.Properties["max_tokens"] != nil && a.Reads {
		switch n, ok := in["max_tokens"].(float64); {
		case in["max_tokens"] == nil, ok && n == 0:
			in["max_tokens"] = a.bound.tokens
		case ok && n > float64(a.bound.most):
			in["max_tokens"] = a.bound.most
		}
	}
	if a.Reads {
		in["fresh"] = true
	}
	return json.Marshal(in)
}

func (a AgentTool) parameters() []string {
	var names []string
	for name := range a.In.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Answer is an answer as the schema of the tool has it: a list without
// elements is [], and what is null is left out. An append of which nothing was
// stored is a failure.
func (a AgentTool) Answer(raw json.RawMessage) (json.RawMessage, error) {
	if a.Name == "append" {
		var r api.AppendOut
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, err
		}
		if p := nothingWritten(&r); p != nil {
			return nil, p
		}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(withoutNull(v, a.Out)); err != nil {
		return nil, err
	}
	if n := tokens.Count(b.String()); n > answerMost {
		return nil, problem.New(problem.TooLarge, "the answer of %s takes %d tokens", a.AgentName, n).WithHint("ask for less of it")
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func withoutNull(v any, s *jsonschema.Schema) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			p := s.Properties[name]
			switch {
			case e == nil && p != nil && p.Type == "array":
				v[name] = []any{}
			case e == nil && p != nil && p.Type == "object" && slices.Contains(s.Required, name):
				v[name] = map[string]any{}
			case e == nil:
				delete(v, name)
			case p != nil:
				v[name] = withoutNull(e, p)
			}
		}
		for _, name := range s.Required {
			if p := s.Properties[name]; v[name] == nil && p != nil && p.Type == "array" {
				v[name] = []any{}
			}
		}
	case []any:
		if s.Items != nil {
			for i := range v {
				v[i] = withoutNull(v[i], s.Items)
			}
		}
	}
	return v
}
