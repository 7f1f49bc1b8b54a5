package sdktest

import (
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"lcm/chat"
	"lcm/internal/fakemodel"
	"lcm/llm"
)

// The provider that our clients of models are tested against is one for the
// official clients too, and both read the same out of its answers.
func TestProviderIsReal(t *testing.T) {
	p := &fakemodel.Provider{}
	srv := httptest.NewServer(p)
	defer srv.Close()
	tools := []chat.ToolSpec{{Name: "weather", Description: "Tells it.", Schema: []byte(`{"type":"object","properties":{}}`)}}

	ours := func(f llm.Family, base string, tools []chat.ToolSpec) chat.Response {
		t.Helper()
		c, err := llm.New(llm.Config{Family: f, BaseURL: base, Model: "m"}, llm.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r, err := c.Chat(t.Context(), chat.Request{Messages: []chat.Message{{Role: chat.User, Text: "hello"}}, Tools: tools, MaxTokens: 50})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	o := openai.NewClient(openaioption.WithBaseURL(srv.URL+"/v1"), openaioption.WithAPIKey("k"), openaioption.WithMaxRetries(0))
	askOpenAI := func(tools bool) *openai.ChatCompletion {
		t.Helper()
		in := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hello")}}
		if tools {
			in.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{Name: "weather"})}
		}
		r, err := o.Chat.Completions.New(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	text, called := askOpenAI(false), askOpenAI(true)
	if got := ours(llm.OpenAI, srv.URL+"/v1", nil); got.Text == "" || got.Text != text.Choices[0].Message.Content || got.Stop != chat.StopEnd || text.Choices[0].FinishReason != "stop" || int64(got.Usage.Output) != text.Usage.CompletionTokens {
		t.Errorf("text: %+v and %s", got, text.RawJSON())
	}
	theirs := called.Choices[0].Message.ToolCalls
	if got := ours(llm.OpenAI, srv.URL+"/v1", tools); len(theirs) != 1 || len(got.Calls) != 1 || got.Stop != chat.StopTools ||
		got.Calls[0] != (chat.Call{ID: theirs[0].ID, Name: theirs[0].Function.Name, Arguments: theirs[0].Function.Arguments}) {
		t.Errorf("calls: %+v and %s", got, called.RawJSON())
	}

	a := anthropic.NewClient(anthropicoption.WithBaseURL(srv.URL), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0))
	askAnthropic := func(tools bool) (*anthropic.Message, error) {
		in := anthropic.MessageNewParams{Model: "m", MaxTokens: 50, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hello"))}}
		if tools {
			in.Tools = []anthropic.ToolUnionParam{{OfTool: &anthropic.ToolParam{Name: "weather"}}}
		}
		return a.Messages.New(t.Context(), in)
	}
	m, err := askAnthropic(false)
	if err != nil {
		t.Fatal(err)
	}
	if got := ours(llm.Anthropic, srv.URL, nil); got.Text == "" || got.Text != m.Content[0].Text || got.Stop != chat.StopEnd || m.StopReason != anthropic.StopReasonEndTurn {
		t.Errorf("text: %+v and %s", got, m.RawJSON())
	}
	if m, err = askAnthropic(true); err != nil {
		t.Fatal(err)
	}
	if got := ours(llm.Anthropic, srv.URL, tools); len(got.Calls) != 1 || got.Stop != chat.StopTools || m.StopReason != anthropic.StopReasonToolUse ||
		got.Calls[0] != (chat.Call{ID: m.Content[0].ID, Name: m.Content[0].Name, Arguments: string(m.Content[0].Input)}) {
		t.Errorf("calls: %+v and %s", got, m.RawJSON())
	}

	// What it refuses with is read as that by both.
	p.Set(fakemodel.Overloaded)
	_, err = askAnthropic(false)
	var ae *anthropic.Error
	if !errors.As(err, &ae) || ae.StatusCode != 529 {
		t.Errorf("overloaded: %v", err)
	}
	c, err := llm.New(llm.Config{Family: llm.Anthropic, BaseURL: srv.URL, Model: "m", Attempts: 3}, llm.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.AfterFunc(10*time.Millisecond, func() { p.Set(fakemodel.Well) })
	if _, err := c.Chat(t.Context(), chat.Request{Messages: []chat.Message{{Role: chat.User, Text: "hello"}}}); err != nil {
		t.Errorf("overloaded for a moment: %v", err)
	}
}
