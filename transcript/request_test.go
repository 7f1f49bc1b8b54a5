package transcript

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestReadRequest(t *testing.T) {
	for _, tt := range []struct {
		body    string
		format  Format
		n, lead int
	}{
		{`{"model":"gpt-x","messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`, OpenAI, 2, 1},
		{` {"system":"s","messages":[{"role":"user","content":"q"}],"model":"x"}`, Anthropic, 1, 0},
		{`{"model":"claude-x","messages":[{"role":"user","content":"q"}]}`, Anthropic, 1, 0},
		{`{"model":"anthropic/claude-x","messages":[{"role":"assistant","content":null,"tool_calls":[]}]}`, OpenAI, 1, 0},
		{`{"model":"x","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}]}`, Anthropic, 1, 0},
		{`{"messages":[],"model":"x"}`, OpenAI, 0, 0},
	} {
		r, err := ReadRequest([]byte(tt.body), "")
		if err != nil || r.Format != tt.format || len(r.Messages) != tt.n || r.Leading() != tt.lead {
			t.Errorf("%s: %+v, %v", tt.body, r, err)
		}
	}
	for _, body := range []string{``, `x`, `[]`, `{"messages":"x"}`, `{"model":"x"}`, `{"messages":[`, `{"messages":[]} {}`} {
		if r, err := ReadRequest([]byte(body), ""); err == nil {
			t.Errorf("%s is read as %+v", body, r)
		}
	}
}

func TestRequestJoined(t *testing.T) {
	front := []json.RawMessage{json.RawMessage(`{"role":"user","content":[{"type":"text","text":"block"}]}`)}
	behind := []json.RawMessage{json.RawMessage(`{"role":"user","content":"q","odd":1}`), json.RawMessage(`{"role":"assistant","content":"a"}`)}
	if got := (&Request{Format: OpenAI}).Joined(front, behind); len(got) != 3 || string(got[1]) != string(behind[0]) {
		t.Errorf("openai: %s", got)
	}
	got := (&Request{Format: Anthropic}).Joined(front, behind)
	if want := `{"role":"user","content":[{"type":"text","text":"block"},{"type":"text","text":"q"}]}`; len(got) != 2 || string(got[0]) != want {
		t.Errorf("anthropic: %s", got)
	}
	if got := (&Request{Format: Anthropic}).Joined(front, behind[1:]); len(got) != 2 || string(got[0]) != string(front[0]) {
		t.Errorf("anthropic, an assistant next: %s", got)
	}
}

// What is put back in the place of the messages says the same, and nothing
// around them is touched.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"a":[{"messages":[1]}],"messages":[{"role":"user","content":"q"}],"b":"\"messages\":[]"}`))
	f.Add([]byte(`{"messages":[1],"messages":[2, 3]}`))
	f.Add([]byte(` {"mess\u0061ges" : [ ] , "x":1e400} `))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ReadRequest(body, "")
		if err != nil {
			return
		}
		_ = r.Leading()
		out := r.With(r.Messages)
		if !json.Valid(out) {
			t.Fatalf("%q became %q", body, out)
		}
		if len(r.Around())+r.to-r.from != len(body) || !bytes.HasPrefix(out, body[:r.from]) || !bytes.HasSuffix(out, body[r.to:]) {
			t.Fatalf("around the messages %q became %q", body, out)
		}
		var a, b any
		if json.Unmarshal(body, &a) == nil && (json.Unmarshal(out, &b) != nil || !reflect.DeepEqual(a, b)) {
			t.Fatalf("%q became %q", body, out)
		}
	})
}
