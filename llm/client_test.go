package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lcm/condense"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-test-0123456789abcdef"

// serve starts a provider and a client of it with quick retries.
func serve(t *testing.T, f Family, h http.HandlerFunc, change ...func(*Config)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	cfg := Config{
		Family: f, BaseURL: s.URL, Model: "m-1", KeyEnv: "TEST_KEY", Timeout: 5 * time.Second,
		BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond,
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := New(cfg, Deps{Getenv: func(n string) string {
		if n != "TEST_KEY" {
			t.Errorf("read variable %s", n)
		}
		return testKey + "\n"
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func reply(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func request() condense.Request {
	return condense.Request{System: "Summarise <all> of it.", User: "user: hello", Target: 100, Limit: 300}
}

const chatBody = `{"id":"chatcmpl-9","object":"chat.completion","created":1741569952,"model":"gpt-4.1-2025-04-14",
"choices":[{"index":0,"message":{"role":"assistant","content":%s,"refusal":null,"reasoning_content":"secret musings","annotations":[]},"logprobs":null,"finish_reason":%q}],
"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"completion_tokens_details":{"reasoning_tokens":4}},"service_tier":"default"}`

const messageBody = `{"id":"msg_01X","type":"message","role":"assistant","model":"claude-sonnet-4-5",
"content":[{"type":"thinking","thinking":"secret musings","signature":"Eq=="},%s],"stop_reason":%q,"stop_sequence":null,
"usage":{"input_tokens":12,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":10}}`

func TestAnswers(t *testing.T) {
	text := `{"type":"text","text":"A summary."}`
	tests := []struct {
		name   string
		family Family
		body   string
		want   condense.Response
	}{
		{"stop", OpenAI, fmt.Sprintf(chatBody, `"A summary."`, "stop"), condense.Response{Text: "A summary.", Stop: condense.StopEnd, Model: "gpt-4.1-2025-04-14", InputTokens: 19, OutputTokens: 10}},
		{"length", OpenAI, fmt.Sprintf(chatBody, `"A sum"`, "length"), condense.Response{Text: "A sum", Stop: condense.StopLength, Model: "gpt-4.1-2025-04-14", InputTokens: 19, OutputTokens: 10}},
		{"filter", OpenAI, fmt.Sprintf(chatBody, `""`, "content_filter"), condense.Response{Stop: condense.StopOther, Model: "gpt-4.1-2025-04-14", InputTokens: 19, OutputTokens: 10}},
		{"thinking only", OpenAI, fmt.Sprintf(chatBody, `null`, "stop"), condense.Response{Stop: condense.StopEnd, Model: "gpt-4.1-2025-04-14", InputTokens: 19, OutputTokens: 10}},
		{"parts", OpenAI, fmt.Sprintf(chatBody, `[{"type":"text","text":"A "},{"type":"x","text":"no"},{"type":"text","text":"b"}]`, "stop"), condense.Response{Text: "A b", Stop: condense.StopEnd, Model: "gpt-4.1-2025-04-14", InputTokens: 19, OutputTokens: 10}},
		{"ollama", OpenAI, `{"choices":[{"message":{"role":"assistant","content":"x","reasoning":"hm"},"finish_reason":"stop"}]}`, condense.Response{Text: "x", Stop: condense.StopEnd, Model: "m-1"}},
		{"no reason", OpenAI, `{"choices":[{"message":{"content":"x"}}]}`, condense.Response{Text: "x", Stop: condense.StopOther, Model: "m-1"}},
		{"refusal", OpenAI, `{"choices":[{"message":{"content":null,"refusal":"I cannot"},"finish_reason":"stop"}]}`, condense.Response{Stop: condense.StopOther, Model: "m-1"}},
		{"null error", OpenAI, `{"error":null,"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`, condense.Response{Text: "x", Stop: condense.StopEnd, Model: "m-1"}},
		{"end_turn", Anthropic, fmt.Sprintf(messageBody, text, "end_turn"), condense.Response{Text: "A summary.", Stop: condense.StopEnd, Model: "claude-sonnet-4-5", InputTokens: 19, OutputTokens: 10}},
		{"max_tokens", Anthropic, fmt.Sprintf(messageBody, text, "max_tokens"), condense.Response{Text: "A summary.", Stop: condense.StopLength, Model: "claude-sonnet-4-5", InputTokens: 19, OutputTokens: 10}},
		{"refusal", Anthropic, fmt.Sprintf(messageBody, text, "refusal"), condense.Response{Text: "A summary.", Stop: condense.StopOther, Model: "claude-sonnet-4-5", InputTokens: 19, OutputTokens: 10}},
		{"odd model name", Anthropic, `{"type":"message","model":"a\nb","content":[],"stop_reason":"end_turn"}`, condense.Response{Stop: condense.StopEnd, Model: "m-1"}},
	}
	for _, tt := range tests {
		t.Run(string(tt.family)+"/"+tt.name, func(t *testing.T) {
			got, err := serve(t, tt.family, reply(200, tt.body)).Summarize(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	half := 0.5
	tests := []struct {
		family Family
		change func(*Config)
		path   string
		header map[string]string
		body   string
	}{
		{
			OpenAI, func(*Config) {}, "/chat/completions",
			map[string]string{"Authorization": "Bearer " + testKey},
			`{"model":"m-1","stream":false,"max_tokens":300,"messages":[{"role":"system","content":"Summarise <all> of it."},{"role":"user","content":"user: hello"}]}`,
		},
		{
			OpenAI, func(c *Config) {
				c.OutputField, c.ReasoningTokens, c.Temperature = "max_completion_tokens", 1000, &half
				c.Extra = map[string]any{"reasoning_effort": "low", "model": "forged", "stream": true}
			}, "/chat/completions", nil,
			`{"model":"m-1","stream":false,"max_completion_tokens":1300,"temperature":0.5,"reasoning_effort":"low","messages":[{"role":"system","content":"Summarise <all> of it."},{"role":"user","content":"user: hello"}]}`,
		},
		{
			Anthropic, func(*Config) {}, "/v1/messages",
			map[string]string{"X-Api-Key": testKey, "Anthropic-Version": "2023-06-01", "Authorization": ""},
			`{"model":"m-1","stream":false,"max_tokens":300,"system":"Summarise <all> of it.","messages":[{"role":"user","content":[{"type":"text","text":"user: hello"}]}]}`,
		},
	}
	for _, tt := range tests {
		c := serve(t, tt.family, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != tt.path || r.Method != http.MethodPost {
				t.Errorf("%s %s", r.Method, r.URL.Path)
			}
			for k, v := range tt.header {
				if r.Header.Get(k) != v {
					t.Errorf("%s: %q", k, r.Header.Get(k))
				}
			}
			var got, want any
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
			_ = json.Unmarshal([]byte(tt.body), &want)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		}, tt.change)
		_, _ = c.Summarize(t.Context(), request())
	}
}

// Error bodies as providers and the servers before them send them.
var failures = []struct {
	name   string
	family Family
	status int
	body   string
	want   error
	calls  int32 // with two attempts allowed
}{
	{"openai key", OpenAI, 401, `{"error":{"message":"Incorrect API key provided: ` + testKey + `. You can find your API key at https://platform.openai.com/account/api-keys.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, condense.ErrRefused, 1},
	{"openai region", OpenAI, 403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, condense.ErrRefused, 1},
	{"openai too long", OpenAI, 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 140012 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, condense.ErrTooLong, 1},
	{"vllm too long", OpenAI, 400, `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5096 tokens","type":"BadRequestError","param":null,"code":400}`, condense.ErrTooLong, 1},
	{"llama.cpp too long", OpenAI, 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`, condense.ErrTooLong, 1},
	{"200 too long", OpenAI, 200, `{"error":{"message":"input is too long for requested model","code":null}}`, condense.ErrTooLong, 1},
	{"openai bad field", OpenAI, 400, `{"error":{"message":"Unsupported parameter: 'max_tokens'","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, condense.ErrUnavailable, 1},
	{"ollama no model", OpenAI, 404, `{"error":{"message":"model \"m-1\" not found, try pulling it first","type":"not_found_error","param":null,"code":null}}`, condense.ErrRefused, 1},
	{"quota", OpenAI, 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, condense.ErrUnavailable, 1},
	{"rate", OpenAI, 429, `{"error":{"message":"Rate limit reached for gpt-4.1","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, condense.ErrUnavailable, 2},
	{"string error", OpenAI, 500, `{"error":"llama runner process has terminated"}`, condense.ErrUnavailable, 2},
	{"html", OpenAI, 502, `<html><head><title>502 Bad Gateway</title></head><body>` + testKey + `</body></html>`, condense.ErrUnavailable, 2},
	{"200 html", OpenAI, 200, `<!DOCTYPE html><html>please sign in</html>`, condense.ErrUnavailable, 2},
	{"200 error", OpenAI, 200, `{"error":{"message":"Provider returned error","code":502,"metadata":{}}}`, condense.ErrUnavailable, 2},
	{"200 empty", OpenAI, 200, ``, condense.ErrUnavailable, 2},
	{"200 no choices", OpenAI, 200, `{"id":"x","choices":[]}`, condense.ErrUnavailable, 2},
	{"200 content object", OpenAI, 200, `{"choices":[{"message":{"content":{"a":1}},"finish_reason":"stop"}]}`, condense.ErrUnavailable, 2},
	{"200 cut json", OpenAI, 200, chatBody[:120], condense.ErrUnavailable, 2},
	{"redirect", OpenAI, 308, ``, condense.ErrRefused, 1},
	{"anthropic key", Anthropic, 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}`, condense.ErrRefused, 1},
	{"anthropic permission", Anthropic, 403, `{"type":"error","error":{"type":"permission_error","message":"no access"}}`, condense.ErrRefused, 1},
	{"anthropic too long", Anthropic, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}`, condense.ErrTooLong, 1},
	{"anthropic with output too long", Anthropic, 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 199000 + 4096 > 200000\"}}", condense.ErrTooLong, 1},
	{"anthropic bytes", Anthropic, 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`, condense.ErrTooLong, 1},
	{"anthropic billing", Anthropic, 402, `{"type":"error","error":{"type":"billing_error","message":"credit balance is too low"}}`, condense.ErrUnavailable, 1},
	{"anthropic overloaded", Anthropic, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, condense.ErrUnavailable, 2},
	{"anthropic 200 error", Anthropic, 200, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, condense.ErrUnavailable, 2},
	{"anthropic of the other family", Anthropic, 200, fmt.Sprintf(chatBody, `"x"`, "stop"), condense.ErrUnavailable, 2},
	{"conflict", Anthropic, 409, `{}`, condense.ErrUnavailable, 2},
	{"timeout", Anthropic, 408, ``, condense.ErrUnavailable, 2},
}

func TestFailures(t *testing.T) {
	for _, tt := range failures {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int32
			c := serve(t, tt.family, func(w http.ResponseWriter, r *http.Request) {
				calls.Add(1)
				reply(tt.status, tt.body, "Location", "/elsewhere")(w, r)
			}, func(c *Config) { c.Attempts = 2 })
			got, err := c.Summarize(t.Context(), request())
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if got != (condense.Response{}) {
				t.Errorf("an error came with %+v", got)
			}
			if calls.Load() != tt.calls {
				t.Errorf("%d calls, want %d", calls.Load(), tt.calls)
			}
			if s := err.Error(); strings.Contains(s, testKey) || strings.Contains(s, "<html") || len(s) > 600 {
				t.Errorf("error text: %s", s)
			}
		})
	}
}

func TestTruncatedAndSlow(t *testing.T) {
	full := fmt.Sprintf(chatBody, `"fine"`, "stop")
	t.Run("cut in mid-body, then whole", func(t *testing.T) {
		var calls atomic.Int32
		c := serve(t, OpenAI, func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				w.Header().Set("Content-Length", fmt.Sprint(len(full)))
				io.WriteString(w, full[:len(full)/2])
				return
			}
			reply(200, full)(w, r)
		})
		got, err := c.Summarize(t.Context(), request())
		if err != nil || got.Text != "fine" || calls.Load() != 2 {
			t.Errorf("%v %+v after %d calls", err, got, calls.Load())
		}
	})
	hang := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	t.Run("no end: the attempt's time-out", func(t *testing.T) {
		c := serve(t, OpenAI, hang, func(c *Config) { c.Timeout, c.Attempts = 20*time.Millisecond, 2 })
		_, err := c.Summarize(t.Context(), request())
		if !errors.Is(err, condense.ErrUnavailable) || !strings.Contains(err.Error(), "20ms") {
			t.Error(err)
		}
	})
	t.Run("no end: the caller's context", func(t *testing.T) {
		c := serve(t, OpenAI, hang)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := c.Summarize(ctx, request()); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, condense.ErrUnavailable) {
			t.Error(err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		c := serve(t, OpenAI, reply(200, full), func(c *Config) { c.MaxAnswerBytes, c.Attempts = 100, 1 })
		if _, err := c.Summarize(t.Context(), request()); !errors.Is(err, condense.ErrUnavailable) || !strings.Contains(err.Error(), "100 bytes") {
			t.Error(err)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		c := serve(t, OpenAI, reply(200, full), func(c *Config) { c.BaseURL, c.Attempts = "http://127.0.0.1:1", 1 })
		if _, err := c.Summarize(t.Context(), request()); !errors.Is(err, condense.ErrUnavailable) {
			t.Error(err)
		}
	})
}

func TestCallsAreReported(t *testing.T) {
	s := httptest.NewServer(reply(200, fmt.Sprintf(chatBody, `"x"`, "stop")))
	defer s.Close()
	var calls []Call
	c, err := New(Config{Family: OpenAI, BaseURL: s.URL + "/", Model: "m-1"}, Deps{OnCall: func(c Call) { calls = append(calls, c) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Summarize(t.Context(), request()); err != nil {
		t.Fatal(err)
	}
	if len(calls) != 1 || calls[0].Code != 200 || calls[0].InputTokens != 19 || calls[0].OutputTokens != 10 || calls[0].Duration <= 0 {
		t.Errorf("%+v", calls)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(chatBody, `"x"`, "stop")))
	f.Add([]byte(fmt.Sprintf(messageBody, `{"type":"text","text":"x"}`, "end_turn")))
	for _, tt := range failures {
		f.Add([]byte(tt.body))
	}
	var clients []*Client
	for _, family := range []Family{OpenAI, Anthropic} {
		c, err := New(Config{Family: family, Model: "m"}, Deps{Transport: http.NewFileTransport(http.Dir("."))})
		if err != nil {
			f.Fatal(err)
		}
		clients = append(clients, c)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range clients {
			a, fault := c.read(body)
			if fault != nil && (a.Text != "" || a.Calls != nil || fault.err == nil) {
				t.Errorf("fault %+v with answer %+v", fault, a)
			}
			c.httpFault(400, http.Header{}, body)
		}
	})
}
