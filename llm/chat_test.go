package llm

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lcm/chat"
)

// conversation has every kind of message: parallel calls, a failed result, an
// empty one, arguments that are no JSON.
func conversation() chat.Request {
	return chat.Request{
		Model: "m-2", System: "Be brief.", MaxTokens: 50,
		Messages: []chat.Message{
			{Role: chat.User, Text: "weather?"},
			{Role: chat.Assistant, Calls: []chat.Call{{ID: "c1", Name: "weather", Arguments: `{"at":"Oslo"}`}, {ID: "c2", Name: "weather", Arguments: "{"}}},
			{Role: chat.Tool, CallID: "c1", Text: "rain"},
			{Role: chat.Tool, CallID: "c2", Text: "no such place", Error: true},
			{Role: chat.User, Text: "go on"},
		},
		Tools: []chat.ToolSpec{{Name: "weather", Description: "Tells it.", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
}

var answerSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)

func TestChatRequests(t *testing.T) {
	const openAIRest = `"model":"m-2","stream":false,"max_tokens":50,
		"tools":[{"type":"function","function":{"name":"weather","description":"Tells it.","parameters":{"type":"object"}}}],
		"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"weather?"},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"at\":\"Oslo\"}"}},{"id":"c2","type":"function","function":{"name":"weather","arguments":"{"}}]},
		{"role":"tool","tool_call_id":"c1","content":"rain"},{"role":"tool","tool_call_id":"c2","content":"[error] no such place"},
		{"role":"user","content":"go on"}]`
	const anthropicRest = `"model":"m-2","stream":false,"max_tokens":50,"system":"Be brief.",
		"messages":[{"role":"user","content":[{"type":"text","text":"weather?"}]},
		{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"weather","input":{"at":"Oslo"}},{"type":"tool_use","id":"c2","name":"weather","input":{"arguments":"{"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"rain"},{"type":"tool_result","tool_use_id":"c2","content":"no such place","is_error":true},{"type":"text","text":"go on"}]}]`
	const weather = `{"name":"weather","description":"Tells it.","input_schema":{"type":"object"}}`
	answer := `{"name":"give_answer","description":"Gives the final answer.","input_schema":` + string(answerSchema) + `}`
	for _, tt := range []struct {
		name   string
		family Family
		change func(*chat.Request)
		body   string
	}{
		{"tools", OpenAI, func(*chat.Request) {}, `{` + openAIRest + `}`},
		{"required", OpenAI, func(r *chat.Request) { r.Choice = chat.ChoiceRequired }, `{"tool_choice":"required",` + openAIRest + `}`},
		{"answer", OpenAI, func(r *chat.Request) { r.Answer = answerSchema }, `{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":` + string(answerSchema) + `}},` + openAIRest + `}`},
		{"tools", Anthropic, func(*chat.Request) {}, `{"tools":[` + weather + `],` + anthropicRest + `}`},
		{"none", Anthropic, func(r *chat.Request) { r.Choice = chat.ChoiceNone }, `{"tool_choice":{"type":"none"},"tools":[` + weather + `],` + anthropicRest + `}`},
		{"answer beside tools", Anthropic, func(r *chat.Request) { r.Answer = answerSchema }, `{"tool_choice":{"type":"any"},"tools":[` + weather + `,` + answer + `],` + anthropicRest + `}`},
		{"answer alone", Anthropic, func(r *chat.Request) { r.Answer, r.Tools = answerSchema, nil }, `{"tool_choice":{"type":"tool","name":"give_answer"},"tools":[` + answer + `],` + anthropicRest + `}`},
		{"answer that is a list", Anthropic, func(r *chat.Request) { r.Answer = json.RawMessage(`{"type":"array"}`) }, `{"tools":[` + weather + `],` + anthropicRest + `}`},
	} {
		t.Run(string(tt.family)+"/"+tt.name, func(t *testing.T) {
			asked := false
			c := serve(t, tt.family, func(_ http.ResponseWriter, r *http.Request) {
				asked = true
				var got, want any
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				if err := json.Unmarshal([]byte(tt.body), &want); err != nil {
					t.Error(err)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
			}, func(c *Config) { c.Attempts = 1 })
			r := conversation()
			tt.change(&r)
			if _, _ = c.Chat(t.Context(), r); !asked {
				t.Error("not asked")
			}
		})
	}
}

func TestChatAnswers(t *testing.T) {
	call := func(name, args string) []chat.Call {
		return []chat.Call{{ID: "c1", Name: name, Arguments: args}}
	}
	for _, tt := range []struct {
		name   string
		family Family
		body   string
		want   chat.Response
	}{
		{"calls", OpenAI, `{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, chat.Response{Calls: call("f", `{"a":1}`), Stop: chat.StopTools, Usage: chat.Usage{Input: 3, Output: 2}}},
		{"calls that say stop", OpenAI, `{"choices":[{"finish_reason":"stop","message":{"content":"","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"x"}}]}}]}`, chat.Response{Calls: call("f", "x"), Stop: chat.StopTools}},
		{"object for arguments", OpenAI, `{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":{"a":1}}}]}}]}`, chat.Response{Calls: call("f", `{"a":1}`), Stop: chat.StopTools}},
		{"no id", OpenAI, `{"choices":[{"finish_reason":"tool_calls","message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}]}`, chat.Response{Calls: []chat.Call{{ID: "call_0", Name: "f", Arguments: "{}"}}, Stop: chat.StopTools}},
		{"cut in a call", OpenAI, `{"choices":[{"finish_reason":"length","message":{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"a"}}]}}]}`, chat.Response{Calls: call("f", `{"a`), Stop: chat.StopLength}},
		{"calls", Anthropic, `{"type":"message","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Let me."},{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}],"usage":{"input_tokens":3,"output_tokens":2}}`, chat.Response{Text: "Let me.", Calls: call("f", `{"a":1}`), Stop: chat.StopTools, Usage: chat.Usage{Input: 3, Output: 2}}},
		{"answer", Anthropic, `{"type":"message","stop_reason":"tool_use","content":[{"type":"text","text":"Here:"},{"type":"tool_use","id":"c1","name":"give_answer","input":{"n":1}}]}`, chat.Response{Text: `{"n":1}`, Stop: chat.StopEnd}},
		{"answer cut", Anthropic, `{"type":"message","stop_reason":"max_tokens","content":[{"type":"tool_use","id":"c1","name":"give_answer","input":{}}]}`, chat.Response{Text: `{}`, Stop: chat.StopLength}},
	} {
		t.Run(string(tt.family)+"/"+tt.name, func(t *testing.T) {
			got, err := serve(t, tt.family, reply(200, tt.body)).Chat(t.Context(), conversation())
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Model = "m-2"
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(chat.Response{})); d != "" {
				t.Error(d)
			}
		})
	}
}

// What a provider signs goes back to it as it came; to the other family goes
// what both understand.
func TestNativeMessages(t *testing.T) {
	bodies := map[Family]string{
		OpenAI:    `{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","reasoning_content":"hm","content":null,"tool_calls":[{"id":"c1","type":"function","extra_content":{"google":{"thought_signature":"s=="}},"function":{"name":"f","arguments":"{}"}}]}}]}`,
		Anthropic: `{"type":"message","stop_reason":"tool_use","content":[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"tool_use","id":"c1","name":"f","input":{}}]}`,
	}
	want := map[Family]string{
		OpenAI:    `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","extra_content":{"google":{"thought_signature":"s=="}},"function":{"name":"f","arguments":"{}"}}]}`,
		Anthropic: `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s=="},{"type":"tool_use","id":"c1","name":"f","input":{}}]}`,
	}
	plain := map[Family]string{
		OpenAI:    `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
		Anthropic: `{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]}`,
	}
	for from, body := range bodies {
		for to := range bodies {
			var sent json.RawMessage
			c := serve(t, from, reply(200, body))
			r := chat.Request{Messages: []chat.Message{{Role: chat.User, Text: "hi"}}}
			a, err := c.Chat(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			r.Messages = append(r.Messages, a.Message(), chat.Message{Role: chat.Tool, CallID: "c1", Text: "ok"})
			next := serve(t, to, func(w http.ResponseWriter, r *http.Request) {
				var m struct{ Messages []json.RawMessage }
				if err := json.NewDecoder(r.Body).Decode(&m); err != nil || len(m.Messages) != 3 {
					t.Error(err, m)
					return
				}
				sent = m.Messages[1]
			}, func(c *Config) { c.Attempts = 1 })
			_, _ = next.Chat(t.Context(), r)
			expected := plain[to]
			if from == to {
				expected = want[to]
			}
			var got, exp any
			_, _ = json.Unmarshal(sent, &got), json.Unmarshal([]byte(expected), &exp)
			if d := cmp.Diff(exp, got); d != "" {
				t.Errorf("%s to %s: %s", from, to, d)
			}
		}
	}
}

func TestChatErrors(t *testing.T) {
	calls := 0
	c := serve(t, OpenAI, func(w http.ResponseWriter, r *http.Request) {
		calls++
		reply(400, `{"error":{"message":"flagged by the content filter"}}`)(w, r)
	})
	if _, err := c.Chat(t.Context(), chat.Request{}); !errors.Is(err, chat.ErrRejected) || calls != 0 {
		t.Errorf("an empty conversation: %v after %d calls", err, calls)
	}
	if _, err := c.Chat(t.Context(), conversation()); !errors.Is(err, chat.ErrRejected) || calls != 1 {
		t.Errorf("a bad request: %v after %d calls", err, calls)
	}
}
