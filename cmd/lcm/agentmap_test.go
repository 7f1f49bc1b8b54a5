package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// agentProvider is a chat-completions server with a model that does what its
// row says, whatever that is: CALL name {arguments} calls a tool.
type agentProvider struct {
	*httptest.Server
	mu      sync.Mutex
	offered map[string]bool
	results []string // of tools
}

func newAgentProvider(t *testing.T) *agentProvider {
	p := &agentProvider{offered: map[string]bool{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

func (p *agentProvider) options() []string {
	return []string{"--option", "map.kind=openai", "--option", "map.base_url=" + p.URL, "--option", "map.model=fake"}
}

func (p *agentProvider) serve(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Role, Content string }
		Tools    []struct{ Function struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range q.Tools {
		p.offered[t.Function.Name] = true
	}
	calls := strings.Split(q.Messages[1].Content, "CALL ")[1:]
	done := 0
	for _, m := range q.Messages {
		if m.Role == "tool" {
			done++
		}
	}
	if done > 0 {
		p.results = append(p.results, q.Messages[len(q.Messages)-1].Content)
	}
	usage := `"usage":{"prompt_tokens":400,"completion_tokens":20}`
	if done < len(calls) || strings.Contains(q.Messages[1].Content, "FOR EVER") {
		name, args, _ := strings.Cut(strings.TrimSpace(calls[min(done, len(calls)-1)]), " ")
		args = strings.TrimSuffix(strings.TrimSpace(args), " FOR EVER")
		quoted, _ := json.Marshal(args)
		fmt.Fprintf(w, `{"choices":[{"finish_reason":"tool_calls","message":{"content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":%q,"arguments":%s}}]}}],%s}`, done, name, quoted, usage)
		return
	}
	content, _ := json.Marshal(fmt.Sprintf(`{"label":"%d calls"}`, done))
	fmt.Fprintf(w, `{"choices":[{"finish_reason":"stop","message":{"content":%s}}],%s}`, content, usage)
}

// A sub-agent works with tools, within its scope, whatever its row says, and
// ends at its limits.
func TestAgenticMap(t *testing.T) {
	p := newAgentProvider(t)
	dir := t.TempDir()
	serve(t, dir, p.options()...)
	c := ownerClient(dir)
	for session, text := range map[string]string{"open": "the harbour was dredged in May", "closed": "the password is swordfish"} {
		if r := lcmIn(t, dir, fmt.Sprintf(`{"id":"1","role":"user","content":%q}`, text), "append", session); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	rows := []string{
		`CALL lcm_grep {"pattern":"harbour"}`,
		`CALL lcm_describe {"id":"open/e1"} CALL lcm_expand {"id":"open/e1"}`,
		`CALL lcm_grep {"pattern":"password","session":"closed"}`,
		`CALL lcm_grep {"pattern":"swordfish","sessions":["closed","open"]}`,
		`CALL lcm_grep {"pattern":"swordfish","tenant":"default"}`,
		`CALL lcm_expand {"id":"closed/e1"}`,
		`CALL lcm_describe {"id":"session:closed"}`,
		`CALL lcm_context {"session":"closed"}`,
		`CALL lcm_append {"session":"open","turns":[]}`,
		`CALL agentic_map {"prompt":"x"}`,
		`CALL lcm_grep {"pattern":"harbour"} FOR EVER`,
		`CALL lcm_grep not json`,
	}
	run := func(in api.MapAgentIn) (api.MapOut, []api.MapRow, error) {
		t.Helper()
		var input strings.Builder
		for _, r := range rows {
			fmt.Fprintf(&input, "{\"text\":%q}\n", r)
		}
		up, err := c.MapUpload(t.Context(), api.Scope{}, strings.NewReader(input.String()))
		if err != nil {
			t.Fatal(err)
		}
		in.InputObject, in.Prompt, in.OutputSchema, in.MaxTurns = up.Object, "Do it: {{text}}", []byte(mapSchema), 5
		var out api.MapOut
		if err := c.Call(t.Context(), "agentic_map", in, &out); err != nil {
			return out, nil, err
		}
		end, err := c.WatchMap(t.Context(), api.MapIn{Job: out.Job}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return *end, lines[api.MapRow](t, ok(t, dir, "map", "output", out.Job)), nil
	}
	out, got, err := run(api.MapAgentIn{Sessions: []string{"open"}})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if forever := strings.Contains(rows[i], "FOR EVER"); r.OK == forever || forever && r.Error.Kind != "turns" {
			t.Errorf("%s: %+v %v", rows[i], r, r.Error)
		}
	}
	said := strings.Join(p.results, "\n")
	if !strings.Contains(said, "harbour was dredged") || strings.Contains(said, "swordfish") || strings.Contains(said, "password is") {
		t.Errorf("tools answered:\n%s", said)
	}
	if len(p.offered) < 4 || p.offered["lcm_append"] || p.offered["agentic_map"] {
		t.Errorf("offered: %v", p.offered)
	}
	if out.Failed != 1 || out.InputTokens == 0 {
		t.Errorf("%+v", out)
	}
	// Without a scope there is nothing to hand on; tokens bound a sub-agent too.
	if _, _, err := run(api.MapAgentIn{}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("no scope: %v", err)
	}
	out, got, err = run(api.MapAgentIn{Sessions: []string{"open"}, RowTokens: 2500})
	if err != nil {
		t.Fatal(err)
	}
	if r := got[10]; r.OK || r.Error.Kind != "limit" {
		t.Errorf("beyond its tokens: %+v %v", r, r.Error)
	}
	if most := int64(len(rows)) * 2500; out.InputTokens+out.OutputTokens > most {
		t.Errorf("%d tokens, at most %d", out.InputTokens+out.OutputTokens, most)
	}
}
