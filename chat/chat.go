// Package chat holds the words of a conversation with a model, whoever serves
// it: what is asked, what comes back, and what went wrong. Who needs a model
// declares a port of one method over them,
//
//	Chat(ctx context.Context, r chat.Request) (chat.Response, error)
//
// which package llm implements for OpenAI-compatible servers and Anthropic.
//
// It is pure and imports nothing of the module.
package chat

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Role of a message's author.
type Role string

// The roles. Instructions of the system stand in Request.System.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool" // the result of one call
)

// Message of a conversation.
type Message struct {
	Role Role
	Text string
	// Calls of an assistant.
	Calls []Call
	// CallID names the call that a tool's message answers; Error: it failed.
	CallID string
	Error  bool
	// Native is an assistant's message as its provider wrote it. It is sent
	// back to the same family of providers in place of Text and Calls, which
	// some insist on (signatures of thoughts and calls). Opaque; see
	// Response.Message.
	Native json.RawMessage
	// Family of providers that Native belongs to.
	Family string
}

// Call of a tool, as the model wrote it: untrusted.
type Call struct {
	ID, Name string
	// Arguments should be a JSON object; a model may write anything.
	Arguments string
}

// ToolSpec is a tool the model may call.
type ToolSpec struct {
	Name, Description string
	// Schema of the arguments: a JSON Schema of an object.
	Schema json.RawMessage
}

// Choice says whether tools are called.
type Choice string

// The choices.
const (
	ChoiceAuto     Choice = "" // the model decides
	ChoiceNone     Choice = "none"
	ChoiceRequired Choice = "required" // some tool must be called
)

// Request asks for the next message of a conversation.
type Request struct {
	// Tenant whose spending this is; "" is nobody's.
	Tenant string
	// Continues: it finishes what was begun and paid for in part, so that a
	// spending limit lets it through.
	Continues bool
	// Model as the provider names it; "" = the configured one.
	Model    string
	System   string
	Messages []Message // at least one; the last is of the user or a tool
	Tools    []ToolSpec
	Choice   Choice
	// Answer is a JSON Schema that the final text should fulfil, nil = free
	// text. Providers enforce it as well as they can: check the answer. An
	// Anthropic model is held to it only where it describes an object.
	Answer json.RawMessage
	// MaxTokens of the answer; 0 = the provider's configured maximum.
	MaxTokens int
	// Temperature; nil = the configured one, or the provider's own.
	Temperature *float64
}

// Validate rejects what no provider accepts. Its errors wrap ErrRejected.
func (r Request) Validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrRejected}, a...)...)
	}
	if len(r.Messages) == 0 {
		return bad("no message")
	}
	open := map[string]bool{} // calls that wait for their result
	for i, m := range r.Messages {
		switch m.Role {
		case User, Assistant:
			if len(open) > 0 {
				return bad("message %d comes before the results of %d calls", i, len(open))
			}
			if m.Role == User && m.Text == "" {
				return bad("message %d is empty", i)
			}
			if m.Role == Assistant && m.Text == "" && len(m.Calls) == 0 && m.Native == nil {
				return bad("message %d is empty", i)
			}
			for _, c := range m.Calls {
				open[c.ID] = true
			}
		case Tool:
			if !open[m.CallID] {
				return bad("message %d answers the call %q, which nobody made", i, m.CallID)
			}
			delete(open, m.CallID)
		default:
			return bad("message %d has the role %q", i, m.Role)
		}
	}
	if len(open) > 0 {
		return bad("%d calls have no result", len(open))
	}
	if r.Messages[len(r.Messages)-1].Role == Assistant {
		return bad("the last message is the assistant's own")
	}
	for _, t := range r.Tools {
		if t.Name == "" || !isObject(t.Schema) {
			return bad("tool %q needs a name and an object as schema", t.Name)
		}
	}
	if r.Answer != nil && !isObject(r.Answer) {
		return bad("the schema of the answer is not an object")
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// Stop is why a model ended its answer.
type Stop string

// Stop reasons. A reason that is missing or unknown is StopOther.
const (
	StopEnd    Stop = "end"    // it was done
	StopTools  Stop = "tools"  // it waits for the results of its calls
	StopLength Stop = "length" // cut off: text and arguments may be incomplete
	StopOther  Stop = "other"  // refusal, filter, …
)

// Usage of one answer in tokens, as the provider reported; 0 = unknown.
type Usage struct{ Input, Output int }

// Response of a model. Its words are untrusted.
type Response struct {
	Text  string // without thoughts
	Calls []Call
	Stop  Stop
	// Model that answered: as the provider says, else as configured.
	Model string
	// Usage of this answer alone.
	Usage Usage

	native json.RawMessage
	family string
}

// WithNative keeps the message as the provider wrote it; for adapters.
func (r Response) WithNative(family string, native json.RawMessage) Response {
	r.family, r.native = family, native
	return r
}

// Message is the answer as the next request carries it.
func (r Response) Message() Message {
	return Message{Role: Assistant, Text: r.Text, Calls: r.Calls, Native: r.native, Family: r.family}
}

// Errors of a provider. An adapter retries transient faults itself, so that
// what it returns is its last word for now; ctx's own error comes bare.
var (
	// ErrUnavailable: the provider is down, overloaded, out of reach, or its
	// quota is used up. The same request may succeed later.
	ErrUnavailable = errors.New("model unavailable")
	// ErrSpent: the tenant has used up what it may spend for now. It is an
	// ErrUnavailable.
	ErrSpent = fmt.Errorf("%w: spending limit reached", ErrUnavailable)
	// ErrRefused: key, permission, model or URL is wrong: an operator must act.
	ErrRefused = errors.New("model refused the caller")
	// ErrTooLong: the input does not fit the model.
	ErrTooLong = errors.New("input too long for the model")
	// ErrRejected: this request is one the provider will not serve, now or
	// later; others are not affected.
	ErrRejected = errors.New("model rejected the request")
)
