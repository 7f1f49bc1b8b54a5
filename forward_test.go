package lcm_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lcm"
	"lcm/client"
)

func opened(t *testing.T) *lcm.Store {
	t.Helper()
	s, err := lcm.Open(t.Context(), t.TempDir(), lcm.Options{})
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

// chat is a request of OpenAI's whose messages say these things, in turns.
func chat(said ...string) []byte {
	messages := []map[string]any{{"role": "system", "content": "be brief"}}
	for i, text := range said {
		messages = append(messages, map[string]any{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	b, _ := json.Marshal(map[string]any{"model": "gpt-x", "temperature": 0.25, "messages": messages, "tools": []any{}})
	return append([]byte(" "), b...) // bytes that no encoder would write
}

// path is what the session shows of its current branch.
func path(t *testing.T, s *lcm.Store, session string) (on []string, all int) {
	t.Helper()
	for turn, err := range s.Turns(t.Context(), client.ShowIn{Scope: client.Scope{Session: session, Fresh: true}}) {
		if err != nil {
			t.Fatal(err)
		}
		if all++; !turn.Removed {
			on = append(on, turn.Text)
		}
	}
	return on, all
}

// A caller that rewinds, edits, repeats and goes on is followed: the session's
// path is always the history it sent last, and nothing is stored twice.
func TestForwardedHistoriesBranch(t *testing.T) {
	s := opened(t)
	for i, tt := range []struct {
		said []string
		all  int // turns stored, with the instructions
	}{
		{[]string{"a"}, 2},
		{[]string{"a", "b", "ok", "c", "ok"}, 6},                          // equal texts are two turns
		{[]string{"a", "b", "ok", "c", "ok"}, 6},                          // sent again
		{[]string{"a", "b", "ok"}, 6},                                     // an earlier request, tried again
		{[]string{"a", "b", "ok", "c", "ok", "d", "e"}, 8},                // and on
		{[]string{"a", "B", "ok"}, 10},                                    // edited: "ok" is said anew behind it
		{[]string{"a", "B", "ok"}, 10},                                    // sent again
		{[]string{"a", "b", "ok", "c", "ok", "d", "e"}, 10},               // back to the first branch
		{[]string{"a", "b", "ok", "c", "ok", "d", "e", "f", "ok"}, 12},    // and on
		{[]string{"a", "B", "ok", "new", "last"}, 14},                     // on the other branch
		{[]string{"a", "b", "ok", "c", "ok", "d", "e", "f", "ok"}, 14},    // and back
		{[]string{"x", "b", "ok", "c", "ok", "d", "e", "f", "ok"}, 23},    // another beginning
		{[]string{"a", "B", "ok", "new", "last", "more", "and more"}, 25}, // and back
	} {
		body := chat(tt.said...)
		got := s.Forward(t.Context(), client.ForwardIn{Session: "s"}, body)
		if got.Failure != nil || got.Context != "untouched" || string(got.Body) != string(body) {
			t.Fatalf("%d: %s, %v\n%s", i, got.Context, got.Failure, got.Body)
		}
		on, all := path(t, s, "s")
		if want := append([]string{"be brief"}, tt.said...); !slices.Equal(on, want) || all != tt.all {
			t.Fatalf("%d: %d turns, want %d; the path is %q, want %q", i, all, tt.all, on, want)
		}
	}
}

// Whatever is wrong, the caller gets its bytes back, and is told why.
func TestForwardFailsOpen(t *testing.T) {
	s := opened(t)
	for _, body := range []string{
		`{"model":"m","messages":[`, `no JSON`, `{"model":"m","messages":[]}`, `{"model":"m","messages":[{"role":"critic","content":"x"}]}`,
		`{"model":"m","messages":[5]}`, `{"messages":"x"}`,
	} {
		got := s.Forward(t.Context(), client.ForwardIn{Session: "s"}, []byte(body))
		if string(got.Body) != body || got.Context != "passed" || got.Failure == nil || got.Header.Get("Lcm-Passthrough") == "" {
			t.Errorf("%s: %s %v %q", body, got.Context, got.Failure, got.Body)
		}
	}
	// A window that is too small for anything.
	body := chat("hello")
	if got := s.Forward(t.Context(), client.ForwardIn{Session: "s", Window: 100}, body); string(got.Body) != string(body) || got.Failure == nil {
		t.Errorf("%+v", got)
	}
	// Nobody there.
	got := client.New("http://127.0.0.1:1").Forward(t.Context(), client.ForwardIn{Session: "s"}, body)
	if string(got.Body) != string(body) || got.Failure == nil {
		t.Errorf("%+v", got)
	}
}

// Above the threshold the aged part is summaries, and everything else is the
// caller's own bytes: vendor fields, cache marks, tools.
func TestForwardProjects(t *testing.T) {
	s := opened(t)
	var messages []json.RawMessage
	var last client.Forwarded
	for i := range 60 {
		messages = append(messages,
			json.RawMessage(fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"question %d %s","cache_control":{"type":"ephemeral"}}]}`, i, strings.Repeat("word ", 300))),
			json.RawMessage(fmt.Sprintf(`{ "role":"assistant","content":"answer %d","odd":[%d] }`, i, i)))
	}
	messages = append(messages, json.RawMessage(`{"role":"user","content":"and now?"}`))
	body := []byte(`{"model":"claude-x","max_tokens":10,"system":"be brief","messages":[`)
	for i, m := range messages {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, m...)
	}
	body = append(body, `],"metadata":{"user_id":"é"}}`...)
	last = s.Forward(t.Context(), client.ForwardIn{Session: "s", Window: 18_000}, body)
	if last.Failure != nil || last.Context != "projected" {
		t.Fatalf("%s %v %v", last.Context, last.Failure, last.Header)
	}
	text := string(last.Body)
	for _, want := range []string{
		`{"model":"claude-x","max_tokens":10,"system":"be brief","messages":[`, `],"metadata":{"user_id":"é"}}`,
		`[lcm:summary #`, `{ "role":"assistant","content":"answer 59","odd":[59] }`, `"cache_control":{"type":"ephemeral"}`, `{"role":"user","content":"and now?"}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%.600s", want, text)
		}
	}
	if strings.Contains(text, "question 3 ") && strings.Contains(text, `"answer 3"`) {
		t.Error("the aged part is still there")
	}
	// Between two cuts the bodies only grow at the end of the messages.

	next := s.Forward(t.Context(), client.ForwardIn{Session: "s", Window: 18_000},
		[]byte(strings.Replace(string(body), `{"role":"user","content":"and now?"}`, `{"role":"user","content":"and now?"},{"role":"assistant","content":"then"},{"role":"user","content":"more"}`, 1)))
	if next.Header.Get("Lcm-Cut") == last.Header.Get("Lcm-Cut") {
		prefix := text[:strings.Index(text, `],"metadata"`)]
		if !strings.HasPrefix(string(next.Body), prefix) {
			t.Error("the prefix changed without a cut")
		}
	}
}
