package client

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/oklog/ulid/v2"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// The parameters and answers of the tools; their fields are the JSON of HTTP.
type (
	// Error is a failure with a code, a text and a hint.
	Error = problem.Error

	Scope        = api.Scope
	AppendOut    = api.AppendOut
	AppendedTurn = api.AppendedTurn
	ContextIn    = api.ContextIn
	ContextOut   = api.ContextOut
	GrepIn       = api.GrepIn
	GrepOut      = api.GrepReply
	Hit          = api.Hit
	IDIn         = api.IDIn
	DescribeOut  = api.DescribeOut
	QueryIn      = api.QueryIn
	QueryOut     = api.QueryOut
	Citation     = api.Citation
	Passage      = api.Passage
	ShowIn       = api.ShowIn
	TurnsOut     = api.TurnsOut
	TurnOut      = api.TurnOut
	SessionsIn   = api.SessionsIn
	SessionsOut  = api.SessionsReply
	StatusOut    = api.SystemStatus
	ConfigureIn  = api.ConfigureIn
	ConfigureOut = api.ConfigureOut
)

// Turn is a turn to append.
type Turn struct {
	// ID names the turn in its session for ever; "" = a new one is made, and
	// stands in the answer.
	ID string `json:"id,omitempty"`
	// Parent is the id of the turn this one follows; "" = the current leaf.
	Parent string `json:"parent,omitempty"`
	// Role: system, developer, user, assistant, tool.
	Role string `json:"role"`
	// Content is a string, or parts in the manner of OpenAI or Anthropic.
	Content any    `json:"content"`
	Sender  string `json:"sender,omitempty"`
	// Time is the author's; nil = unknown.
	Time *time.Time `json:"time,omitempty"`
	// ToolCalls as in OpenAI's messages; ToolCallID, Name and IsError are of a
	// tool's result.
	ToolCalls  any    `json:"tool_calls,omitempty"`
	ToolCallID string `json:"tool_call_id,omitempty"`
	Name       string `json:"name,omitempty"`
	IsError    bool   `json:"is_error,omitempty"`
}

// Append appends turns to a session. When it returns, those without an Error
// in their answer are durable. A passing failure is tried again: every turn has
// an id, so none is stored twice.
func (c *Client) Append(ctx context.Context, session string, turns ...Turn) (*AppendOut, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	for _, t := range turns {
		if t.ID == "" {
			t.ID = ulid.Make().String()
		}
		if err := enc.Encode(t); err != nil {
			return nil, problem.New(problem.Invalid, "turn %s cannot be written as JSON: %w", t.ID, err)
		}
	}
	in := api.AppendIn{Scope: Scope{Session: session}, Format: "lcm"}
	var out *AppendOut
	err := c.again(ctx, func() (err error) {
		out, err = c.AppendBody(ctx, in, body.Bytes())
		return err
	})
	return out, err
}

// Context answers with what to send to the model.
func (c *Client) Context(ctx context.Context, in ContextIn) (*ContextOut, error) {
	return read[ContextOut](ctx, c, "context", in)
}

// Grep searches turns, summaries and files; Cursor of the answer goes on.
func (c *Client) Grep(ctx context.Context, in GrepIn) (*GrepOut, error) {
	return read[GrepOut](ctx, c, "grep", in)
}

// Describe says what an id holds, and what reading it costs.
func (c *Client) Describe(ctx context.Context, in IDIn) (*DescribeOut, error) {
	return read[DescribeOut](ctx, c, "describe", in)
}

// Expand answers with one page of the turns a node covers.
func (c *Client) Expand(ctx context.Context, in IDIn) (*TurnsOut, error) {
	return read[TurnsOut](ctx, c, "expand", in)
}

// Query answers a question: in a reader's words with the entries it rests on,
// or, where NoAnswer says why there is none, with the passages that fit best. It
// may take minutes, and every call asks a model: it is not tried again.
func (c *Client) Query(ctx context.Context, in QueryIn) (*QueryOut, error) {
	out := new(QueryOut)
	if err := c.Call(ctx, "query", in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Show answers with one page of a session's turns.
func (c *Client) Show(ctx context.Context, in ShowIn) (*TurnsOut, error) {
	return read[TurnsOut](ctx, c, "show", in)
}

// Turns walks all turns that Show would page through. It ends after an error.
func (c *Client) Turns(ctx context.Context, in ShowIn) iter.Seq2[TurnOut, error] {
	return func(yield func(TurnOut, error) bool) {
		for {
			page, err := c.Show(ctx, in)
			if err != nil {
				yield(TurnOut{}, err)
				return
			}
			for _, t := range page.Turns {
				if !yield(t, nil) {
					return
				}
			}
			if page.Cursor == "" {
				return
			}
			in.Cursor = page.Cursor
		}
	}
}

// Sessions lists one page of the sessions.
func (c *Client) Sessions(ctx context.Context, in SessionsIn) (*SessionsOut, error) {
	return read[SessionsOut](ctx, c, "sessions", in)
}

// Status tells health, lag and sizes.
func (c *Client) Status(ctx context.Context) (*StatusOut, error) {
	return read[StatusOut](ctx, c, "status", Scope{})
}

// Configure changes the settings of a session. Setting them twice is setting
// them once; a usage report counts each time, so such a call is not repeated.
func (c *Client) Configure(ctx context.Context, in ConfigureIn) (*ConfigureOut, error) {
	if in.Usage == nil {
		return read[ConfigureOut](ctx, c, "configure", in)
	}
	out := new(ConfigureOut)
	if err := c.Call(ctx, "configure", in, out); err != nil {
		return nil, err
	}
	return out, nil
}
