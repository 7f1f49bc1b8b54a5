package chat

import (
	"errors"
	"testing"
)

func TestValidate(t *testing.T) {
	user := Message{Role: User, Text: "hello"}
	call := func(ids ...string) Message {
		m := Message{Role: Assistant}
		for _, id := range ids {
			m.Calls = append(m.Calls, Call{ID: id, Name: "t"})
		}
		return m
	}
	result := func(id string) Message { return Message{Role: Tool, CallID: id} }
	for _, tt := range []struct {
		name string
		r    Request
		ok   bool
	}{
		{"one turn", Request{Messages: []Message{user}}, true},
		{"nothing", Request{System: "x"}, false},
		{"empty user", Request{Messages: []Message{{Role: User}}}, false},
		{"empty assistant", Request{Messages: []Message{user, {Role: Assistant}, user}}, false},
		{"ends on the assistant", Request{Messages: []Message{user, {Role: Assistant, Text: "x"}}}, false},
		{"unknown role", Request{Messages: []Message{{Role: "system", Text: "x"}}}, false},
		{"parallel calls, any order", Request{Messages: []Message{user, call("a", "b"), result("b"), result("a")}}, true},
		{"an id again in the next round", Request{Messages: []Message{user, call("a"), result("a"), call("a"), result("a")}}, true},
		{"a call without result", Request{Messages: []Message{user, call("a", "b"), result("a")}}, false},
		{"talk before the result", Request{Messages: []Message{user, call("a"), user, result("a")}}, false},
		{"a result nobody asked for", Request{Messages: []Message{user, result("a")}}, false},
		{"a result twice", Request{Messages: []Message{user, call("a"), result("a"), result("a")}}, false},
		{"tool", Request{Messages: []Message{user}, Tools: []ToolSpec{{Name: "t", Schema: []byte(`{"type":"object"}`)}}}, true},
		{"tool without schema", Request{Messages: []Message{user}, Tools: []ToolSpec{{Name: "t"}}}, false},
		{"tool whose schema is null", Request{Messages: []Message{user}, Tools: []ToolSpec{{Name: "t", Schema: []byte(`null`)}}}, false},
		{"answer that is no schema", Request{Messages: []Message{user}, Answer: []byte(`[]`)}, false},
	} {
		if err := tt.r.Validate(); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrRejected) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
