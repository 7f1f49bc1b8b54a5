package llm

import (
	"encoding/json"
	"net/http"

	"lcm/chat"
)

// anthropic speaks messages.
type anthropic struct{}

func (anthropic) path() string { return "/v1/messages" }

func (anthropic) header(h http.Header, key secret) {
	h.Set("Anthropic-Version", anthropicVersion)
	if key != "" {
		h.Set("X-Api-Key", string(key))
	}
}

// answerTool is called by a model that is held to a schema: its arguments are
// the answer.
const answerTool = "give_answer"

func (anthropic) body(_ Config, r chat.Request, limit int) map[string]any {
	m := map[string]any{"messages": messagesOf(r.Messages), "max_tokens": limit}
	if r.System != "" {
		m["system"] = r.System
	}
	var tools []map[string]any
	for _, t := range r.Tools {
		tools = append(tools, map[string]any{"name": t.Name, "description": t.Description, "input_schema": t.Schema})
	}
	choice := map[chat.Choice]string{chat.ChoiceNone: "none", chat.ChoiceRequired: "any"}[r.Choice]
	if describesObject(r.Answer) {
		tools = append(tools, map[string]any{"name": answerTool, "description": "Gives the final answer.", "input_schema": r.Answer})
		choice = "any"
		if len(r.Tools) == 0 || r.Choice == chat.ChoiceNone {
			m["tool_choice"] = map[string]any{"type": "tool", "name": answerTool}
			choice = ""
		}
	}
	if len(tools) > 0 {
		m["tools"] = tools
	}
	if len(tools) > 0 && choice != "" {
		m["tool_choice"] = map[string]any{"type": choice}
	}
	return m
}

// describesObject: arguments of a tool are an object, so only such an answer
// can be asked for through one.
func describesObject(schema json.RawMessage) bool {
	var s struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}

// anthropicMessage is one message with blocks as its content.
type anthropicMessage struct {
	Role    chat.Role `json:"role"`
	Content any       `json:"content"` // blocks, or what the provider sent
}

// messagesOf makes messages: results of tools stand in the user's turn, all of
// one round together and in front of what the user says.
func messagesOf(in []chat.Message) []anthropicMessage {
	var out []anthropicMessage
	var users []any // blocks of the user's turn that is being collected
	flush := func() {
		if users != nil {
			out = append(out, anthropicMessage{chat.User, users})
			users = nil
		}
	}
	for _, m := range in {
		switch m.Role {
		case chat.User:
			users = append(users, textBlock(m.Text))
		case chat.Tool:
			users = append(users, resultBlock(m))
		default:
			flush()
			if m.Native != nil && m.Family == string(Anthropic) {
				out = append(out, anthropicMessage{chat.Assistant, m.Native})
			} else {
				out = append(out, anthropicMessage{chat.Assistant, assistantBlocks(m)})
			}
		}
	}
	flush()
	return out
}

func textBlock(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func resultBlock(m chat.Message) map[string]any {
	b := map[string]any{"type": "tool_result", "tool_use_id": m.CallID}
	if m.Text != "" {
		b["content"] = m.Text
	}
	if m.Error {
		b["is_error"] = true
	}
	return b
}

func assistantBlocks(m chat.Message) []any {
	var out []any
	if m.Text != "" {
		out = append(out, textBlock(m.Text))
	}
	for _, c := range m.Calls {
		var input map[string]any
		if json.Unmarshal([]byte(c.Arguments), &input) != nil || input == nil {
			input = map[string]any{"arguments": c.Arguments}
		}
		out = append(out, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": input})
	}
	return out
}

// messagesAnswer is the part of the answer that counts: of its content the text
// and the calls, never thinking.
type messagesAnswer struct {
	Type       string          `json:"type"`
	Model      string          `json:"model"`
	Content    json.RawMessage `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      struct {
		Input       int `json:"input_tokens"`
		CacheMade   int `json:"cache_creation_input_tokens"`
		CacheRead   int `json:"cache_read_input_tokens"`
		OutputTotal int `json:"output_tokens"`
	} `json:"usage"`
}

func (anthropic) read(body []byte) (chat.Response, bool) {
	var m messagesAnswer
	var blocks []struct {
		part
		ID    string          `json:"id"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &m) != nil || m.Type != "message" || json.Unmarshal(m.Content, &blocks) != nil {
		return chat.Response{}, false
	}
	u := m.Usage
	a := chat.Response{
		Stop: messagesStop(m.StopReason), Model: m.Model,
		Usage: chat.Usage{Input: u.Input + u.CacheMade + u.CacheRead, Output: u.OutputTotal},
	}
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			a.Text += b.Text
		case b.Type == "tool_use" && b.Name == answerTool:
			a.Text, a.Calls = string(b.Input), nil
			if a.Stop == chat.StopTools {
				a.Stop = chat.StopEnd
			}
			return a, true
		case b.Type == "tool_use":
			a.Calls = append(a.Calls, chat.Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
		}
	}
	return a.WithNative(string(Anthropic), m.Content), true
}

// messagesStop reads stop_reason. No stop sequence is ever asked for, so that
// one is no real stop either.
func messagesStop(s string) chat.Stop {
	switch s {
	case "end_turn":
		return chat.StopEnd
	case "tool_use":
		return chat.StopTools
	case "max_tokens", "model_context_window_exceeded":
		return chat.StopLength
	}
	return chat.StopOther
}
