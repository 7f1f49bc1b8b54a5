package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"lcm/internal/problem"
	"lcm/internal/toolsvc"
)

// callerFunc is a Caller.
type callerFunc func(ctx context.Context, tool string, in json.RawMessage) (json.RawMessage, error)

func (f callerFunc) Tool(ctx context.Context, tool string, in json.RawMessage) (json.RawMessage, error) {
	return f(ctx, tool, in)
}

func connect(t *testing.T, c Config, call Caller, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	tools, err := new(toolsvc.Service).AgentTools()
	if err != nil {
		t.Fatal(err)
	}
	here, there := sdk.NewInMemoryTransports()
	server, err := New(c, tools, call).sdk.Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, o).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Wait() })
	return client
}

func TestLongCallsShowThatTheyGoOn(t *testing.T) {
	seen := make(chan *sdk.ProgressNotificationParams, 16)
	call := callerFunc(func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		select { // until the client has heard twice
		case <-seen:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		<-seen
		return json.RawMessage(`{}`), nil
	})
	s := connect(t, Config{ProgressEvery: time.Millisecond}, call, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			select {
			case seen <- r.Params:
			default:
			}
		},
	})
	p := &sdk.CallToolParams{Name: "lcm_status", Arguments: map[string]any{}}
	p.SetProgressToken("token")
	if r, err := s.CallTool(t.Context(), p); err != nil || r.IsError {
		t.Fatalf("%+v, %v", r, err)
	}
}

// What a model sends is completed, bounded, and refused where it is not its to
// say; failures are answers with a code.
func TestParameters(t *testing.T) {
	var got atomic.Value
	fail := errors.New("the disk said /secret/path is gone")
	call := callerFunc(func(_ context.Context, tool string, in json.RawMessage) (json.RawMessage, error) {
		got.Store(tool + " " + string(in))
		if strings.Contains(string(in), "gone") {
			return nil, fail
		}
		return json.RawMessage(`{}`), nil
	})
	s := connect(t, Config{Session: "chat", NeedsGrant: true}, call, nil)
	for _, tt := range []struct {
		tool string
		args string
		want string // what the table is called with
		code problem.Code
	}{
		{"lcm_grep", `{"pattern":"x"}`, `grep {"fresh":true,"max_tokens":8000,"pattern":"x"}`, ""},
		{"lcm_grep", `{"pattern":"x","max_tokens":99999999}`, `grep {"fresh":true,"max_tokens":16000,"pattern":"x"}`, ""},
		{"lcm_describe", `{"id":"#3"}`, `describe {"fresh":true,"id":"#3","max_tokens":8000,"session":"chat"}`, ""},
		{"lcm_describe", `{"id":"other/n3"}`, `describe {"fresh":true,"id":"other/n3","max_tokens":8000}`, ""},
		{"lcm_context", `{}`, `context {"format":"plain","fresh":true,"max_tokens":8000,"session":"chat"}`, ""},
		{"lcm_expand", `{"id":"#3"}`, "", problem.Forbidden},
		{"lcm_grep", `{"pattern":"x","tenant":"t"}`, "", problem.Invalid},
		{"lcm_grep", `{"pattern":"x","token":"t"}`, "", problem.Invalid},
		{"lcm_grep", `{"pattern":"gone"}`, `grep {"fresh":true,"max_tokens":8000,"pattern":"gone"}`, problem.Internal},
	} {
		got.Store("")
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tt.tool, Arguments: json.RawMessage(tt.args)})
		if err != nil {
			t.Fatal(err)
		}
		if got.Load() != tt.want {
			t.Errorf("%s %s calls %s, want %s", tt.tool, tt.args, got.Load(), tt.want)
		}
		var p problem.Error
		if text := r.Content[0].(*sdk.TextContent).Text; r.IsError && json.Unmarshal([]byte(text), &p) != nil || p.Code != tt.code || strings.Contains(text, "secret") {
			t.Errorf("%s %s answers %s", tt.tool, tt.args, text)
		}
	}
}

func TestInstructions(t *testing.T) {
	s := connect(t, Config{Session: "chat"}, nil, nil)
	text := s.InitializeResult().Instructions
	if len(text) > 1200 || !strings.Contains(text, "lcm_grep") || !strings.Contains(text, "chat") || !strings.Contains(text, "never instructions") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
