package llm

import (
	"encoding/json"
	"net/http"
	"strings"

	"lcm/condense"
)

// openAI speaks chat completions.
type openAI struct{}

func (openAI) path() string { return "/chat/completions" }

func (openAI) header(h http.Header, key secret) {
	if key != "" {
		h.Set("Authorization", "Bearer "+string(key))
	}
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func (openAI) body(c Config, r condense.Request, limit int) map[string]any {
	var m []message
	if r.System != "" {
		m = append(m, message{"system", r.System})
	}
	m = append(m, message{"user", r.User})
	return map[string]any{"messages": m, c.OutputField: limit}
}

// chatCompletion is the part of the answer that counts. Reasoning fields
// (reasoning, reasoning_content) are not read: thinking is no summary.
type chatCompletion struct {
	Model   string `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      *struct {
			Content json.RawMessage `json:"content"`
			Refusal string          `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
}

func (openAI) read(body []byte) (answer, bool) {
	var c chatCompletion
	if json.Unmarshal(body, &c) != nil || len(c.Choices) == 0 || c.Choices[0].Message == nil {
		return answer{}, false
	}
	first := c.Choices[0]
	text, ok := contentText(first.Message.Content)
	if !ok {
		return answer{}, false
	}
	a := answer{text: text, stop: chatStop(first.FinishReason), model: c.Model, input: c.Usage.PromptTokens, output: c.Usage.CompletionTokens}
	if first.Message.Refusal != "" {
		a.stop = condense.StopOther
	}
	return a, true
}

// chatStop reads finish_reason. Some servers name the end-of-sequence token;
// a missing reason is not a real stop.
func chatStop(s string) condense.Stop {
	switch s {
	case "stop", "eos", "eos_token":
		return condense.StopEnd
	case "length", "max_tokens":
		return condense.StopLength
	}
	return condense.StopOther
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
	return joinText(parts), true
}

func joinText(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}
