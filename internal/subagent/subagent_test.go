package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/chat"
	"lcm/internal/problem"
)

type shelf struct{ calls []string }

func (s *shelf) Specs() []chat.ToolSpec {
	return []chat.ToolSpec{{Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object"}`)}}
}

func (s *shelf) Call(_ context.Context, name, args string) (string, error) {
	s.calls = append(s.calls, name+args)
	if name != "read" {
		return "", problem.New(problem.NotFound, "there is no tool %s", name).WithHint("")
	}
	return "page", nil
}

// The model sees every call with its result, failures as such, and what was
// wrong with its answer; the conversation ends with one that holds, with one
// call too many, or with an error.
func TestConversation(t *testing.T) {
	down := errors.New("down")
	tools := chat.Response{Text: "hm", Stop: chat.StopTools, Calls: []chat.Call{{ID: "1", Name: "read", Arguments: "{}"}, {ID: "2", Name: "rm"}}}
	bad, good := chat.Response{Text: "bad", Stop: chat.StopEnd}, chat.Response{Text: "good", Stop: chat.StopEnd}
	cut := chat.Response{Stop: chat.StopLength, Calls: tools.Calls}
	for _, tt := range []struct {
		name    string
		answers []chat.Response
		most    int
		err     error
		calls   []string
		seen    []string // texts of the last request
	}{
		{"at once", []chat.Response{good}, 9, nil, nil, []string{"q"}},
		{"tools, then again", []chat.Response{tools, bad, good}, 9, nil, []string{"read{}", "rm"}, []string{"q", "hm", "page", "there is no tool rm", "bad", "again"}},
		{"calls that were cut off are not made", []chat.Response{cut, good}, 9, nil, nil, []string{"q"}},
		{"a call too many", []chat.Response{tools, good}, 1, nil, []string{"read{}", "rm"}, []string{"q"}},
		{"down", []chat.Response{tools}, 9, down, []string{"read{}", "rm"}, []string{"q", "hm", "page", "there is no tool rm"}},
	} {
		s, asked, seen := &shelf{}, 0, []string(nil)
		err := Conversation{
			Tools: s,
			Begin: func(n int, _ *chat.Request) bool { return n <= tt.most },
			Ask: func(_ context.Context, q chat.Request) (chat.Response, bool, error) {
				if err := q.Validate(); err != nil {
					t.Errorf("%s: %v", tt.name, err)
				}
				if q.Continues != (asked > 0) || len(q.Tools) != 1 {
					t.Errorf("%s: call %d continues: %v, has %d tools", tt.name, asked+1, q.Continues, len(q.Tools))
				}
				seen = nil
				for _, m := range q.Messages {
					seen = append(seen, m.Text)
				}
				if asked == len(tt.answers) {
					return chat.Response{}, false, down
				}
				a := tt.answers[asked]
				asked++
				return a, a.Stop != chat.StopLength, nil
			},
			Judge: func(a chat.Response, usable bool) string {
				if usable && a.Text == "good" {
					return ""
				}
				return "again"
			},
		}.Run(t.Context(), chat.Request{Messages: []chat.Message{{Role: chat.User, Text: "q"}}})
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if d := cmp.Diff([][]string{tt.calls, tt.seen}, [][]string{s.calls, seen}); d != "" {
			t.Errorf("%s:\n%s", tt.name, d)
		}
	}
}
