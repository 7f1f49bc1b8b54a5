// Package fakemodel is a model provider for tests and benchmarks. It speaks
// OpenAI's chat completions and Anthropic's messages as the real ones do, the
// official clients accept it, and it can be slow, dead or mad when told to.
package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// Mode of a provider.
type Mode int32

// The modes.
const (
	Well       Mode = iota
	Slow            // answers after Delay
	Dead            // closes the connection
	Garbage         // answers something else each time: HTML, cut JSON, errors
	Overloaded      // answers 429 or 529
)

// Provider is an http.Handler. It is safe for concurrent use.
type Provider struct {
	// Delay of the mode Slow.
	Delay time.Duration
	// Text of an answer; nil = a few words about the length of the question.
	Text func(question string) string
	// Next, where it is set, decides every answer of the mode Well in place of
	// Text. It is called by many at once.
	Next func(Conversation) Step

	mode  atomic.Int32
	calls atomic.Int64
}

// Set changes the mode.
func (p *Provider) Set(m Mode) { p.mode.Store(int32(m)) }

// Calls is how many requests have come.
func (p *Provider) Calls() int64 { return p.calls.Load() }

// question is the part of a request, of either kind, that decides the answer.
type question struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		// OpenAI's calls and results.
		ToolCallID string                `json:"tool_call_id"`
		ToolCalls  []struct{ ID string } `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Name     string `json:"name"` // Anthropic
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Stream     bool            `json:"stream"`
	System     json.RawMessage `json:"system"` // Anthropic
	MaxTokens  int             `json:"max_tokens"`
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.calls.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	anthropic := strings.HasSuffix(r.URL.Path, "/messages")
	switch Mode(p.mode.Load()) {
	case Slow:
		select {
		case <-time.After(p.Delay):
		case <-r.Context().Done():
			return
		}
	case Dead:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	case Garbage:
		garbage(w)
		return
	case Overloaded:
		w.Header().Set("Retry-After-Ms", "20")
		if anthropic {
			reply(w, 529, map[string]any{"type": "error", "error": map[string]any{"type": "overloaded_error", "message": "Overloaded"}})
			return
		}
		refuse(w, http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached")
		return
	}
	var q question
	switch err := json.Unmarshal(body, &q); {
	case err != nil || len(q.Messages) == 0 || q.Model == "":
		refuse(w, http.StatusBadRequest, "invalid_request", "the request is not one of this API")
	case q.Stream:
		refuse(w, http.StatusBadRequest, "unsupported", "this provider does not stream")
	case p.Next != nil:
		p.converse(w, q, anthropic)
	case anthropic:
		reply(w, http.StatusOK, p.message(q))
	default:
		reply(w, http.StatusOK, p.completion(q))
	}
}

// tool is the one that is called: the first, unless a result has come already
// or none may be.
func (q question) tool() string {
	last := q.Messages[len(q.Messages)-1]
	if len(q.Tools) == 0 || last.Role == "tool" || strings.Contains(string(last.Content), "tool_result") || strings.Contains(string(q.ToolChoice), "none") {
		return ""
	}
	if n := q.Tools[0].Function.Name; n != "" {
		return n
	}
	return q.Tools[0].Name
}

func (q question) size() int {
	n := 0
	for _, m := range q.Messages {
		n += len(m.Content)
	}
	return n
}

func (p *Provider) text(q question) string {
	last := string(q.Messages[len(q.Messages)-1].Content)
	if p.Text != nil {
		return p.Text(last)
	}
	return fmt.Sprintf("## Done\n- %d bytes were read and nothing went wrong.\nExpand for: the bytes themselves", q.size())
}

func (p *Provider) completion(q question) any {
	step := Step{Text: p.text(q)}
	if name := q.tool(); name != "" {
		step = Step{Calls: []Call{{name, `{}`}}}
	}
	return q.completion(step)
}

func (p *Provider) message(q question) any {
	step := Step{Text: p.text(q)}
	if name := q.tool(); name != "" {
		step = Step{Calls: []Call{{name, `{}`}}}
	}
	return q.message(step)
}

// outTokens is what an answer is said to take.
const outTokens = 20

func (q question) completion(s Step) any {
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil, "annotations": []any{}}
	reason := "stop"
	if s.Text != "" {
		message["content"] = s.Text
	}
	var calls []any
	for i, c := range s.Calls {
		calls = append(calls, map[string]any{"id": callID(q, i), "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		reason, message["tool_calls"] = "tool_calls", calls
	}
	if s.Cut {
		reason = "length"
	}
	in := q.size() / 4
	return map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1767225600, "model": q.Model,
		"choices": []any{map[string]any{"index": 0, "message": message, "logprobs": nil, "finish_reason": reason}},
		"usage":   map[string]any{"prompt_tokens": in, "completion_tokens": outTokens, "total_tokens": in + outTokens},
	}
}

func (q question) message(s Step) any {
	blocks, reason := []any{}, "end_turn"
	if s.Text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": s.Text})
	}
	for i, c := range s.Calls {
		reason = "tool_use"
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": callID(q, i), "name": c.Name, "input": input(c.Arguments)})
	}
	if s.Cut {
		reason = "max_tokens"
	}
	return map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": blocks,
		"stop_reason": reason, "stop_sequence": nil, "usage": map[string]any{"input_tokens": q.size() / 4, "output_tokens": outTokens},
	}
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone: nobody to tell
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": nil, "code": code}})
}

// garbage is what stands in front of a provider, or a provider out of its mind.
func garbage(w http.ResponseWriter) {
	status, body := http.StatusOK, ""
	switch rand.N(6) {
	case 0:
		body = "<!DOCTYPE html><html><body>please sign in</body></html>"
	case 1:
		body = `{"id":"chatcmpl-1","choices":[{"message":{"content":"half a sen`
	case 2:
		status, body = http.StatusBadGateway, "<html>502 Bad Gateway</html>"
	case 3:
		body = `{"error":{"message":"Provider returned error","code":502}}`
	case 4:
		body = `{"choices":[{"finish_reason":"length","message":{"role":"assistant","content":"<think>hm"}}],"type":"message","stop_reason":"max_tokens","content":[]}`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
