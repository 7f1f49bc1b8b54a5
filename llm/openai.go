package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"lcm/chat"
)

// openAI speaks chat completions.
type openAI struct{}

func (openAI) path() string { return "/chat/completions" }

func (openAI) header(h http.Header, key secret) {
	if key != "" {
		h.Set("Authorization", "Bearer "+string(key))
	}
}

func (openAI) body(c Config, r chat.Request, limit int) map[string]any {
	m := map[string]any{"messages": completionMessages(r), c.OutputField: limit}
	var tools []any
	for _, t := range r.Tools {
		tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
			"name": t.Name, "description": t.Description, "parameters": t.Schema,
		}})
	}
	if tools != nil {
		m["tools"] = tools
		if r.Choice != chat.ChoiceAuto {
			m["tool_choice"] = r.Choice // none, required: the same words
		}
	}
	if r.Answer != nil {
		m["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "answer", "schema": r.Answer}}
	}
	return m
}

type message struct {
	Role    chat.Role     `json:"role"`
	Content *string       `json:"content"` // null beside calls
	Calls   []messageCall `json:"tool_calls,omitempty"`
	CallID  string        `json:"tool_call_id,omitempty"`
}

type messageCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// errorMark stands in front of a failed result: this API has no field for it.
const errorMark = "[error] "

func completionMessages(r chat.Request) []any {
	var out []any
	if r.System != "" {
		out = append(out, message{Role: "system", Content: &r.System})
	}
	for _, m := range r.Messages {
		if m.Role == chat.Assistant && m.Native != nil && m.Family == string(OpenAI) {
			out = append(out, m.Native)
			continue
		}
		if m.Error {
			m.Text = errorMark + m.Text
		}
		w := message{Role: m.Role, Content: &m.Text, CallID: m.CallID}
		if m.Text == "" && len(m.Calls) > 0 {
			w.Content = nil
		}
		for _, c := range m.Calls {
			w.Calls = append(w.Calls, messageCall{c.ID, "function", calledByName{c.Name, c.Arguments}})
		}
		out = append(out, w)
	}
	return out
}

// chatCompletion is the part of the answer that counts. Reasoning fields
// (reasoning, reasoning_content) are not read: thinking is no answer.
type chatCompletion struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      *struct {
			Content json.RawMessage   `json:"content"`
			Refusal string            `json:"refusal"`
			Calls   []json.RawMessage `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

func (openAI) read(body []byte) (chat.Response, bool) {
	var c chatCompletion
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 || c.Choices[0].Message == nil {
		return chat.Response{}, false
	}
	first := c.Choices[0]
	text, ok := contentText(first.Message.Content)
	if !ok {
		return chat.Response{}, false
	}
	a := chat.Response{
		Text: text, Stop: completionStop(first.FinishReason), Model: c.Model,
		Usage: chat.Usage{Input: c.Usage.PromptTokens, Output: c.Usage.CompletionTokens},
	}
	for i, raw := range first.Message.Calls {
		call, ok := readCall(raw, i)
		if !ok {
			return chat.Response{}, false
		}
		a.Calls = append(a.Calls, call)
	}
	if len(a.Calls) > 0 && a.Stop == chat.StopEnd {
		a.Stop = chat.StopTools // some servers say "stop" beside calls
	}
	if first.Message.Refusal != "" {
		a.Stop = chat.StopOther
	}
	return a.WithNative(string(OpenAI), nativeCompletion(text, a.Calls, first.Message.Calls)), true
}

// readCall reads a call. Some servers send the arguments as an object, and some
// no id.
func readCall(raw json.RawMessage, i int) (chat.Call, bool) {
	var w struct {
		ID       string `json:"id"`
		Function struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &w) != nil || w.Function.Name == "" {
		return chat.Call{}, false
	}
	c := chat.Call{ID: w.ID, Name: w.Function.Name}
	if c.ID == "" {
		c.ID = fmt.Sprintf("call_%d", i)
	}
	if json.Unmarshal(w.Function.Arguments, &c.Arguments) != nil {
		c.Arguments = string(w.Function.Arguments)
	}
	return c, true
}

// nativeCompletion is the message to send back: the calls with every field that
// came with them, thinking left out. nil where our own form says the same.
func nativeCompletion(text string, calls []chat.Call, raw []json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	for i, r := range raw {
		var w messageCall
		if json.Unmarshal(r, &w) != nil || w.ID != calls[i].ID {
			return nil // without an id, or with an object for arguments
		}
	}
	m := map[string]any{"role": chat.Assistant, "content": nil, "tool_calls": raw}
	if text != "" {
		m["content"] = text
	}
	native, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return native
}

// completionStop reads finish_reason. Some servers name the end-of-sequence
// token; a missing reason is not a real stop.
func completionStop(s string) chat.Stop {
	switch s {
	case "stop", "eos", "eos_token":
		return chat.StopEnd
	case "tool_calls", "function_call":
		return chat.StopTools
	case "length", "max_tokens":
		return chat.StopLength
	}
	return chat.StopOther
}

// part of a message's content. Parts that are not text are left out.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// contentText reads a content that is a string, a list of parts, or null.
func contentText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", true
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	var parts []part
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String(), true
}
