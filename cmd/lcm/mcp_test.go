package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"lcm/internal/api"
	"lcm/tokens"
)

// memory makes a data directory with a condensed session, "work".
func memory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ok(t, dir, "import", "--session", "work", filepath.Join("..", "..", "internal", "demo", "payments-retry.jsonl"))
	ok(t, dir, "condense", "work", "--window", "18000")
	return dir
}

// overStdio connects a client to `lcm mcp` through pipes.
func overStdio(t *testing.T, dir, version string, args ...string) *sdk.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		code := run(ctx, append([]string{"--data-dir", dir, "mcp"}, args...), fromClient, toClient, &errs)
		toClient.Close()
		ended <- code
	}()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &sdk.IOTransport{Reader: fromServer, Writer: toServer}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, errs.String())
	}
	t.Cleanup(func() {
		_ = s.Close()
		select {
		case code := <-ended:
			if code != 0 {
				t.Errorf("lcm mcp ended with %d\n%s", code, errs.String())
			}
		case <-time.After(20 * time.Second):
			t.Error("lcm mcp did not end with its client")
		}
		cancel()
	})
	return s
}

// overHTTP connects a client to the /mcp of a server.
func overHTTP(t *testing.T, url, version string) *sdk.ClientSession {
	t.Helper()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", DisableStandaloneSSE: true}, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// serverURL of the process that owns a data directory.
func serverURL(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	return decode[struct {
		URL string `json:"url"`
	}](t, string(b)).URL
}

// toolbox calls tools and holds every answer to its advertised schema and size.
type toolbox struct {
	t       *testing.T
	s       *sdk.ClientSession
	schemas map[string]*jsonschema.Resolved
}

func newToolbox(t *testing.T, s *sdk.ClientSession) toolbox {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b := toolbox{t, s, map[string]*jsonschema.Resolved{}}
	for _, tool := range list.Tools {
		strict(t, tool.Name, tool.InputSchema, true)
		strict(t, tool.Name, tool.OutputSchema, true)
		raw, _ := json.Marshal(tool.OutputSchema)
		var schema jsonschema.Schema
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		if b.schemas[tool.Name], err = schema.Resolve(nil); err != nil {
			t.Fatal(err)
		}
		stops := tool.Name == "lcm_map_cancel" // the one tool that ends what another call began
		if a := tool.Annotations; a == nil || tool.Description == "" || tool.Title == "" || a.DestructiveHint == nil || *a.DestructiveHint != stops {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	return b
}

// strict fails for schemas that models' clients refuse.
func strict(t *testing.T, name string, v any, top bool) {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Type       json.RawMessage            `json:"type"`
		Items      json.RawMessage            `json:"items"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Additional json.RawMessage            `json:"additionalProperties"`
		AnyOf      json.RawMessage            `json:"anyOf"`
		OneOf      json.RawMessage            `json:"oneOf"`
	}
	if err := json.Unmarshal(raw, &s); err != nil || len(s.Type) == 0 || s.Type[0] != '"' || s.AnyOf != nil || s.OneOf != nil {
		t.Errorf("%s: a schema without one type: %s", name, raw)
		return
	}
	if top && (string(s.Type) != `"object"` || string(s.Additional) != "false") {
		t.Errorf("%s: not a closed object: %.80s", name, raw)
	}
	for p, sub := range s.Properties {
		if slices.Contains([]string{"tenant", "token", "fresh"}, p) && top && strings.Contains(string(raw), "max_tokens") && !slices.Contains(s.Required, p) {
			t.Errorf("%s: a model may set %s", name, p)
		}
		strict(t, name+"."+p, sub, false)
	}
	if s.Items != nil {
		strict(t, name+"[]", s.Items, false)
	}
}

// call answers with the structured answer, or with the problem.
func (b toolbox) call(name string, args any) (json.RawMessage, *problemText) {
	b.t.Helper()
	r, err := b.s.CallTool(b.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		b.t.Fatalf("%s %v: %v", name, args, err)
	}
	text := ""
	for _, c := range r.Content {
		text += c.(*sdk.TextContent).Text
	}
	if r.IsError {
		p := decode[problemText](b.t, text)
		return nil, &p
	}
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		b.t.Fatal(err)
	}
	var value any
	_ = json.Unmarshal(raw, &value)
	if err := b.schemas[name].Validate(value); err != nil {
		b.t.Errorf("%s %v: the answer is not what its schema says: %v\n%.500s", name, args, err, raw)
	}
	var same any
	if json.Unmarshal([]byte(text), &same) != nil || !equalJSON(value, same) {
		b.t.Errorf("%s: text and structure differ", name)
	}
	most := 8_000
	if m, ok := args.(map[string]any); ok && m["max_tokens"] != nil {
		most = m["max_tokens"].(int)
	}
	if n := tokens.Count(text); n > most {
		b.t.Errorf("%s %v: %d tokens, at most %d were to be", name, args, n, most)
	}
	return raw, nil
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

type problemText struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Hint   string `json:"hint"`
}

func mustCall[T any](b toolbox, name string, args map[string]any) T {
	b.t.Helper()
	raw, p := b.call(name, args)
	if p != nil {
		b.t.Fatalf("%s %v: %+v", name, args, *p)
	}
	return decode[T](b.t, string(raw))
}

// Every tool, over both transports and both generations of the protocol.
func TestModelsUseTheTools(t *testing.T) {
	dir := memory(t)
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		t.Run("stdio "+version, func(t *testing.T) {
			driveTools(t, newToolbox(t, overStdio(t, dir, version, "--expand")), version)
		})
	}
	serve(t, dir)
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		t.Run("http "+version, func(t *testing.T) {
			driveTools(t, newToolbox(t, overHTTP(t, serverURL(t, dir), version)), "h"+version)
		})
	}
}

func driveTools(t *testing.T, b toolbox, mark string) {
	found := mustCall[api.GrepReply](b, "lcm_grep", map[string]any{"pattern": "retry", "max_tokens": 2000})
	if len(found.Hits) == 0 || found.Hits[0].Session != "work" {
		t.Fatalf("grep found %+v", found)
	}
	none := mustCall[api.GrepReply](b, "lcm_grep", map[string]any{"pattern": "zzzunheardof", "max_tokens": 2000})
	if none.Hits == nil || len(none.Hits) != 0 {
		t.Errorf("no hits are %v", none.Hits)
	}
	node := mustCall[api.DescribeOut](b, "lcm_describe", map[string]any{"id": "work/n1"})
	if node.Kind != "node" || node.Text == "" || node.Price.Source == 0 {
		t.Errorf("n1 is %+v", node)
	}
	if s := mustCall[api.DescribeOut](b, "lcm_describe", map[string]any{"id": "", "session": "work"}); s.Kind != "session" || len(s.Children) == 0 {
		t.Errorf("the session is %+v", s)
	}
	if st := mustCall[api.StatusReply](b, "lcm_status", map[string]any{}); st.Sessions == 0 || st.Entries == 0 {
		t.Errorf("status: %+v", st)
	}
	if q := mustCall[api.QueryOut](b, "lcm_expand_query", map[string]any{"prompt": "what of the retry?", "max_tokens": 9000}); len(q.Passages) == 0 || q.Passages[0].Session != "work" {
		t.Errorf("query: %+v", q)
	}
	if q := mustCall[api.QueryOut](b, "lcm_expand_query", map[string]any{"prompt": "retry"}); len(q.Passages) == 0 {
		t.Errorf("query: %+v", q)
	}
	if l := mustCall[api.SessionsReply](b, "lcm_sessions", map[string]any{}); len(l.Sessions) == 0 {
		t.Error("no sessions")
	}
	if _, p := b.call("lcm_describe", map[string]any{"id": "nothing"}); p == nil || !strings.HasPrefix(p.Hint, "lcm_sessions") {
		t.Errorf("a session that is not there: %+v", p)
	}
	walkExpand(t, b)
	walkContext(t, b)
	turns := []any{map[string]any{"id": "note-" + mark, "role": "user", "content": "kept by " + mark}}
	for i := range 2 {
		out := mustCall[api.AppendOut](b, "lcm_append", map[string]any{"session": "notes", "turns": turns})
		if len(out.Turns) != 1 || out.Turns[0].Entry == "" || out.Turns[0].Duplicate != (i == 1) {
			t.Errorf("append %d: %+v", i, out)
		}
	}
	for _, tt := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"lcm_grep", map[string]any{"pattern": "("}, ""},
		{"lcm_grep", map[string]any{"pattern": "(", "mode": "regex"}, "invalid"},
		{"lcm_grep", map[string]any{"pattern": "x", "tenant": "other"}, "invalid"},
		{"lcm_describe", map[string]any{"id": "work/n9999"}, "not_found"},
		{"lcm_describe", map[string]any{"id": "nothing"}, "not_found"},
		{"lcm_context", map[string]any{"session": "nothing"}, "not_found"},
		{"llm_map", map[string]any{"prompt": "p", "output_schema": map[string]any{"type": "object"}}, "unavailable"},
		{"lcm_map_status", map[string]any{"job": "01JB00000000000000000000AA"}, "not_found"},
		{"lcm_map_aggregate", map[string]any{"job": "01JB00000000000000000000AA"}, "not_found"},
		{"lcm_context", map[string]any{"session": "work", "cursor": "xxxx"}, "invalid"},
		{"lcm_append", map[string]any{"session": "notes", "turns": []any{map[string]any{"id": "note-" + mark, "role": "user", "content": "changed"}}}, "conflict"},
	} {
		if _, p := b.call(tt.tool, tt.args); tt.code != "" && (p == nil || p.Code != tt.code || p.Detail == "") {
			t.Errorf("%s %v: %+v, want %s", tt.tool, tt.args, p, tt.code)
		}
	}
}

// walkExpand reads a summary's turns through small answers: word for word what
// the command line shows.
func walkExpand(t *testing.T, b toolbox) {
	var got strings.Builder
	pages := 0
	for cursor := ""; ; pages++ {
		out := mustCall[api.TurnsOut](b, "lcm_expand", map[string]any{"id": "work/n1", "max_tokens": 700, "cursor": cursor})
		for _, turn := range out.Turns {
			if turn.Part == "" || strings.HasPrefix(turn.Part, "0-") {
				got.WriteString("\n" + turn.Entry + " ")
			}
			got.WriteString(turn.Text)
		}
		if cursor = out.Cursor; cursor == "" {
			break
		}
		if pages > 2000 {
			t.Fatal("the pages do not end")
		}
	}
	var want strings.Builder
	all := mustCall[api.TurnsOut](b, "lcm_expand", map[string]any{"id": "work/n1", "max_tokens": 16_000})
	for _, turn := range all.Turns {
		want.WriteString("\n" + turn.Entry + " " + turn.Text)
	}
	if all.Cursor == "" && got.String() != want.String() {
		t.Errorf("small pages read otherwise than one large one:\n%.300s\n%.300s", got.String(), want.String())
	}
	if pages < 2 {
		t.Errorf("%d pages: the test shows nothing", pages)
	}
}

func walkContext(t *testing.T, b toolbox) {
	read := func(most int) (string, int) {
		var text strings.Builder
		pages := 0
		for cursor := ""; pages < 2000; pages++ {
			out := mustCall[api.ContextOut](b, "lcm_context", map[string]any{"session": "work", "max_tokens": most, "cursor": cursor})
			for _, raw := range out.Messages {
				m := decode[struct{ Role, Content, Part string }](t, string(raw))
				if m.Part == "" || strings.HasPrefix(m.Part, "0-") {
					text.WriteString("\n" + m.Role + ": ")
				}
				text.WriteString(m.Content)
			}
			if cursor = out.Cursor; cursor == "" {
				return text.String(), pages + 1
			}
		}
		t.Fatal("the pages do not end")
		return "", 0
	}
	small, pages := read(1000)
	large, _ := read(16_000)
	if small != large || pages < 2 {
		t.Errorf("%d small pages read otherwise than large ones:\n%.300s\n%.300s", pages, small, large)
	}
}

// A main agent does not read verbatim turns by itself.
func TestExpandNeedsAGrant(t *testing.T) {
	dir := memory(t)
	b := newToolbox(t, overStdio(t, dir, "2025-06-18"))
	if _, p := b.call("lcm_expand", map[string]any{"id": "work/n1"}); p == nil || p.Code != "forbidden" || p.Hint == "" {
		t.Errorf("expand: %+v", p)
	}
	// Beside a server on stdio the command line goes on working.
	if out := ok(t, dir, "sessions"); !strings.Contains(out, "work") {
		t.Errorf("sessions: %s", out)
	}
}

// The server on stdio outlives the server it talked to.
func TestModelsOutliveTheServer(t *testing.T) {
	dir := memory(t)
	owner := serve(t, dir)
	b := newToolbox(t, overStdio(t, dir, "2025-06-18"))
	mustCall[api.StatusReply](b, "lcm_status", map[string]any{})
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if st := mustCall[api.StatusReply](b, "lcm_status", map[string]any{}); st.Sessions == 0 {
		t.Errorf("after the server was killed: %+v", st)
	}
}

func TestMCPInstallPrintsJSON(t *testing.T) {
	dir := t.TempDir()
	for _, client := range []string{"claude-code", "cursor", "openai-agents", "generic"} {
		out := ok(t, dir, "mcp", "install", "--client", client)
		if !strings.Contains(out, dir) || strings.Contains(out, "%!") {
			t.Errorf("%s:\n%s", client, out)
		}
		if client == "openai-agents" {
			continue
		}
		block := out[strings.Index(out, "{"):]
		var conf struct {
			Servers map[string]struct {
				Command string   `json:"command"`
				Args    []string `json:"args"`
			} `json:"mcpServers"`
		}
		if err := json.NewDecoder(strings.NewReader(block)).Decode(&conf); err != nil || conf.Servers["lcm"].Command == "" || !slices.Contains(conf.Servers["lcm"].Args, "mcp") {
			t.Errorf("%s: %v %+v", client, err, conf)
		}
	}
	if r := lcm(t, dir, "mcp", "install", "--client", "x"); r.code != 2 {
		t.Errorf("an unknown client: exit %d", r.code)
	}
}

// A browser page of another origin does not reach the tools.
func TestMCPOverHTTPRefusesStrangers(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serverURL(t, dir)+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", "https://evil.example")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("HTTP %d", resp.StatusCode)
	}
}
