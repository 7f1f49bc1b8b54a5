package llm

import (
	"encoding/json"
	"net/http"

	"lcm/condense"
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

func (anthropic) body(_ Config, r condense.Request, limit int) map[string]any {
	m := map[string]any{"messages": []message{{"user", r.User}}, "max_tokens": limit}
	if r.System != "" {
		m["system"] = r.System
	}
	return m
}

// messagesAnswer is the part of the answer that counts: of its content only
// the text blocks, never thinking.
type messagesAnswer struct {
	Type       string `json:"type"`
	Model      string `json:"model"`
	Content    []part `json:"content"`
	StopReason string `json:"stop_reason"`
	Usage      struct {
		Input       int `json:"input_tokens"`
		CacheMade   int `json:"cache_creation_input_tokens"`
		CacheRead   int `json:"cache_read_input_tokens"`
		OutputTotal int `json:"output_tokens"`
	} `json:"usage"`
}

func (anthropic) read(body []byte) (answer, bool) {
	var m messagesAnswer
	if json.Unmarshal(body, &m) != nil || m.Type != "message" {
		return answer{}, false
	}
	u := m.Usage
	return answer{
		text: joinText(m.Content), stop: messagesStop(m.StopReason), model: m.Model,
		input: u.Input + u.CacheMade + u.CacheRead, output: u.OutputTotal,
	}, true
}

// messagesStop reads stop_reason. No stop sequence is ever asked for, so that
// one is no real stop either.
func messagesStop(s string) condense.Stop {
	switch s {
	case "end_turn":
		return condense.StopEnd
	case "max_tokens", "model_context_window_exceeded":
		return condense.StopLength
	}
	return condense.StopOther
}
