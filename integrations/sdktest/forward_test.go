package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"lcm"
	"lcm/client"
	"lcm/internal/api"
	"lcm/transcript"
)

// provider refuses what a provider refuses.
func provider(t *testing.T) (url string, refused *atomic.Value) {
	t.Helper()
	refused = new(atomic.Value)
	refuse := func(w http.ResponseWriter, err error) {
		refused.Store(err.Error())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": err.Error()}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat/completions", func(w http.ResponseWriter, r *http.Request) {
		if err := accept(transcript.OpenAI, r.Body); err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"ok"}}]}`)
	})
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) {
		if err := accept(transcript.Anthropic, r.Body); err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"m","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"ok"}],"usage":{"input_tokens":1,"output_tokens":1}}`)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL, refused
}

// accept holds a request to the rules of its provider.
func accept(f transcript.Format, body io.Reader) error {
	var r struct {
		Model     string            `json:"model"`
		MaxTokens int               `json:"max_tokens"`
		System    json.RawMessage   `json:"system"`
		Messages  []json.RawMessage `json:"messages"`
	}
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return err
	}
	if r.Model == "" || f == transcript.Anthropic && r.MaxTokens == 0 {
		return fmt.Errorf("model %q, max_tokens %d", r.Model, r.MaxTokens)
	}
	return transcript.Check(f, transcript.Encoded{System: r.System, Messages: r.Messages})
}

// send puts a body through the provider's SDK.
func send(ctx context.Context, f transcript.Format, url string, body []byte) error {
	if f == transcript.OpenAI {
		var p openai.ChatCompletionNewParams
		if err := json.Unmarshal(body, &p); err != nil {
			return err
		}
		c := openai.NewClient(openaioption.WithBaseURL(url), openaioption.WithAPIKey("k"), openaioption.WithMaxRetries(0))
		_, err := c.Chat.Completions.New(ctx, p)
		return err
	}
	var p anthropic.MessageNewParams
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	c := anthropic.NewClient(anthropicoption.WithBaseURL(url), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
	_, err := c.Messages.New(ctx, p)
	return err
}

// histories are the sessions of a real transcript, as a caller would keep them.
type history struct {
	name     string
	system   json.RawMessage
	messages []json.RawMessage
}

func histories(t *testing.T, file string, f transcript.Format) []history {
	t.Helper()
	store := open(t, map[string]any{"session.window": 100_000_000})
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	reports, err := store.Import(t.Context(), api.ImportIn{File: filepath.Base(file)}, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []history
	for _, rep := range reports {
		c, err := store.Context(t.Context(), client.ContextIn{Scope: client.Scope{Session: rep.Session}, Format: string(f)})
		if err != nil {
			t.Fatalf("%s: %v", rep.Session, err)
		}
		out = append(out, history{rep.Session, c.System, c.Messages})
	}
	return out
}

func open(t *testing.T, settings map[string]any) *lcm.Store {
	t.Helper()
	s, err := lcm.Open(t.Context(), t.TempDir(), lcm.Options{Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// request is a body with the first n messages of a history.
func (h history) request(f transcript.Format, n int) []byte {
	body := map[string]any{"model": "test", "messages": h.messages[:n]}
	if f == transcript.Anthropic {
		body["model"], body["max_tokens"] = "claude-test", 1000
		if h.system != nil {
			body["system"] = h.system
		}
	}
	b, _ := json.Marshal(body)
	return b
}

// stops are lengths of the history at which a caller asks the model: behind
// what is not the model's.
func (h history) stops(most int) []int {
	var all []int
	for i, m := range h.messages {
		var r struct{ Role string }
		_ = json.Unmarshal(m, &r)
		last := i+1 == len(h.messages)
		next := struct{ Role string }{}
		if !last {
			_ = json.Unmarshal(h.messages[i+1], &next)
		}
		if r.Role != "assistant" && r.Role != "system" && (last || next.Role == "assistant") {
			all = append(all, i+1)
		}
	}
	var out []int
	for k := 1; k <= most && len(all) > 0; k++ {
		n := all[(len(all)-1)*k/most]
		if len(out) == 0 || out[len(out)-1] != n {
			out = append(out, n)
		}
	}
	return out
}

// Every real session, sent step by step through the projection and a provider's
// own SDK, is accepted by a server that enforces the provider's rules.
func TestSDKsAcceptWhatIsForwarded(t *testing.T) {
	dir := os.Getenv("LCM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	files, _ := filepath.Glob(filepath.Join(dir, "transcripts", "*.json*"))
	if len(files) == 0 {
		t.Skip("no shared transcripts here")
	}
	url, refused := provider(t)
	for _, f := range []transcript.Format{transcript.OpenAI, transcript.Anthropic} {
		for _, file := range files {
			all := histories(t, file, f)
			for _, window := range []int{32_000, 128_000, 200_000} {
				t.Run(fmt.Sprintf("%s/%s/%d", f, filepath.Base(file), window), func(t *testing.T) {
					store, seen := open(t, nil), map[string]int{}
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("the provider said: %v", refused.Load())
						}
					})
					for _, h := range all {
						forwardAll(t, store, url, f, h, window, seen)
					}
					t.Logf("%d sessions, answers %v", len(all), seen)
				})
			}
		}
	}
}

func forwardAll(t *testing.T, store *lcm.Store, url string, f transcript.Format, h history, window int, seen map[string]int) {
	t.Helper()
	in := client.ForwardIn{Session: h.name, Format: string(f), Window: window}
	for _, n := range h.stops(6) {
		body := h.request(f, n)
		for again := range 2 { // the same request once more is the same request
			got := store.Forward(t.Context(), in, body)
			if got.Failure != nil {
				t.Fatalf("%s, %d messages: passed back: %v", h.name, n, got.Failure)
			}
			seen[got.Context]++
			if appended := got.Header.Get("Lcm-Appended"); again == 1 && appended != "0" {
				t.Errorf("%s, %d messages: sent again, %s are new", h.name, n, appended)
			}
			if got.Context == "untouched" && string(got.Body) != string(body) {
				t.Errorf("%s, %d messages: untouched, and other bytes", h.name, n)
			}
			if got.Context == "projected" && len(got.Body) >= len(body) {
				t.Errorf("%s, %d messages: %d bytes of %d", h.name, n, len(got.Body), len(body))
			}
			if err := send(t.Context(), f, url, got.Body); err != nil {
				t.Fatalf("%s, %d messages, %s: %v", h.name, n, got.Context, err)
			}
		}
	}
	kept := 0
	for turn, err := range store.Turns(t.Context(), client.ShowIn{Scope: client.Scope{Session: h.name}}) {
		if err != nil {
			t.Fatal(err)
		}
		if !turn.Removed {
			kept++
		}
	}
	if want := len(h.messages[:h.stops(6)[len(h.stops(6))-1]]); f == transcript.OpenAI && kept != want {
		t.Errorf("%s: %d turns on the path, %d messages were sent", h.name, kept, want)
	}
}

// The strict server is strict: it refuses what a provider would.
func TestTheServerIsStrict(t *testing.T) {
	url, refused := provider(t)
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"tool","tool_call_id":"x","content":"r"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"q"}]}`,
		`{"model":"m","messages":[{"role":"user","content":""}]}`,
	} {
		if err := send(t.Context(), transcript.OpenAI, url, []byte(body)); err == nil || !strings.Contains(fmt.Sprint(refused.Load()), "not valid") {
			t.Errorf("%s: %v", body, err)
		}
	}
}
