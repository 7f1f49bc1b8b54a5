package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Request is the body of a request to a provider: chat completions of OpenAI
// or messages of Anthropic.
type Request struct {
	Format Format // OpenAI or Anthropic
	Model  string
	// Messages as they stand in the body, in order.
	Messages []json.RawMessage

	body     []byte
	from, to int // the array of messages within the body
}

// errNoRequest: there is nothing that a provider would take.
var errNoRequest = errors.New("the body is no request: a JSON object with messages is needed")

// ReadRequest reads the body of a request; f "" or Auto recognises whose.
func ReadRequest(body []byte, f Format) (*Request, error) {
	if err := validate(body); err != nil {
		return nil, err
	}
	r := &Request{Format: f, body: body}
	anthropic := false
	var messages []byte
	fields(body, func(key, val []byte) {
		switch string(key) {
		case "messages":
			messages = val
		case "model":
			r.Model = text(val)
		case "system", "stop_sequences", "thinking", "top_k", "anthropic_version":
			anthropic = true
		}
	})
	if !isArray(messages) {
		return nil, errNoRequest
	}
	r.from = cap(body) - cap(messages)
	r.to = r.from + len(messages)
	elements(messages, func(v []byte) { r.Messages = append(r.Messages, v[:len(v):len(v)]) })
	if f == "" || f == Auto {
		r.Format = OpenAI
		if kind, err := Detect(messages); anthropic || err == nil && kind == Anthropic || strings.Contains(r.Model, "claude") && kind != OpenAI {
			r.Format = Anthropic
		}
	}
	return r, nil
}

// Leading is how many messages at the front are instructions.
func (r *Request) Leading() int {
	for i, m := range r.Messages {
		if role, ok := foreignRole(text(member(m, "role"))); !ok || !role.Pinned() {
			return i
		}
	}
	return len(r.Messages)
}

// Around is the body without its messages: what a provider counts beside them.
func (r *Request) Around() []byte {
	return append(bytes.Clone(r.body[:r.from]), r.body[r.to:]...)
}

// With is the body with other messages in place of its own; everything around
// them stays as it is, byte for byte.
func (r *Request) With(messages []json.RawMessage) []byte {
	out := append(bytes.Clone(r.body[:r.from]), joinArray(messages)...)
	return append(out, r.body[r.to:]...)
}

// Joined puts messages behind others as they are. Where Anthropic would get two
// of a user in a row, their parts become one message.
func (r *Request) Joined(front, behind []json.RawMessage) []json.RawMessage {
	if len(front) == 0 || len(behind) == 0 || r.Format != Anthropic {
		return append(front, behind...)
	}
	last, next := front[len(front)-1], behind[0]
	role := member(last, "role")
	if !bytes.Equal(role, member(next, "role")) {
		return append(front, behind...)
	}
	parts := append(partsOf(last), partsOf(next)...)
	one := new(object).raw("role", role).array("content", parts).end()
	return append(append(front[:len(front)-1:len(front)-1], one), behind[1:]...)
}

// partsOf are the content parts of a message.
func partsOf(m json.RawMessage) []json.RawMessage {
	content := member(m, "content")
	if isString(content) {
		return []json.RawMessage{new(object).str("type", "text").raw("text", content).end()}
	}
	var out []json.RawMessage
	elements(content, func(v []byte) { out = append(out, v) })
	return out
}
