package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/natsmicro"
)

// strangers of a server with tokens, by name, and what each is answered over
// HTTP; 0 = as for what is not there.
type stranger struct {
	name, token string
	status      int
}

// Sessions of acme.
const isThere, notThere = "sess-a", "sess-z"

// guardedServer is one with tokens, over HTTP and NATS, and a secret in a
// session of acme.
func guardedServer(t *testing.T, options ...string) (dir, web, bus string, who map[string]string) {
	t.Helper()
	dir, bus = t.TempDir(), freeAddr(t)
	add := func(tenant, name string, args ...string) string {
		return strings.TrimSpace(ok(t, dir, append([]string{"--tenant", tenant, "token", "add", name}, args...)...))
	}
	all := []string{"--scope", "read", "--scope", "append", "--scope", "expand", "--scope", "admin"}
	who = map[string]string{
		"all": add("acme", "all", all...), "globex": add("globex", "g", all...),
		"reads": add("acme", "r", "--scope", "read"), "appends": add("acme", "a", "--scope", "append"),
		"expired": add("acme", "e", append(all, "--ttl", "1ms")...), "revoked": add("acme", "v", all...),
	}
	for _, line := range strings.Split(ok(t, dir, "token", "list"), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.Contains(line, " v ") {
			ok(t, dir, "token", "revoke", f[0])
		}
	}
	web = freeAddr(t)
	serve(t, dir, append([]string{"--http", web, "--nats-listen", bus, "--option", "auth.mode=tokens"}, options...)...)
	for _, s := range []string{isThere, "other"} {
		turn := fmt.Sprintf(`{"id":"m1","role":"user","content":"the launch code of %s is 4711"}`, s)
		if r := lcmIn(t, dir, turn, "--tenant", "acme", "append", s); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	who["grant"] = decode[api.GrantOut](t, ok(t, dir, "--tenant", "acme", "--json", "grant", "mint", "--session", "other", "--tool", "expand", "--tool", "describe", "--tool", "grep", "--tool", "query", "--tool", "context", "--tool", "show")).Grant
	return dir, "http://" + web, bus, who
}

// needs names the parameters of an endpoint beside the session.
func needs(path, session string) map[string]any {
	in := map[string]any{"session": session}
	switch strings.TrimPrefix(path, "/v1/") {
	case "grep":
		in = map[string]any{"pattern": "launch", "sessions": []string{session}}
	case "query":
		in = map[string]any{"prompt": "which launch code?", "sessions": []string{session}}
	case "expand", "describe":
		in["id"] = "e1"
	case "move":
		in["to"] = "e1"
	case "grant-revoke":
		in = map[string]any{"id": "x"}
	case "map-status", "map-watch", "map-output", "map-aggregate", "map-retry", "map-cancel":
		in = map[string]any{"job": session}
	case "status", "rebuild", "doctor", "verify", "export", "map-list", "map-upload":
		in = map[string]any{}
	}
	return in
}

// Every endpoint of the description, /mcp with every tool, and /metrics, against
// everybody who may not use it: the right status, under an id, no data, and the
// same for what is there and what is not.
func TestEveryEndpointAsksWho(t *testing.T) {
	_, web, _, who := guardedServer(t)
	send := func(token, method, path string, body any) (int, http.Header, string) {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // a stream that begins is followed no further
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, web+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, "" // a stream without a first line
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // as far as it came
		return resp.StatusCode, resp.Header, string(b)
	}
	_, _, text := send(who["all"], http.MethodGet, "/v1/openapi.json", nil)
	doc := decode[struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}](t, text)
	if len(doc.Paths) < 30 {
		t.Fatalf("%d paths are described", len(doc.Paths))
	}
	check := func(name string, c stranger, ask func(session string) (int, http.Header, string)) {
		t.Helper()
		status, header, there := ask(isThere)
		other, _, missing := ask(notThere)
		if c.status != 0 && status != c.status || status != other {
			t.Errorf("%s for %s: HTTP %d, and %d for what is not there; want %d: %.300s", name, c.name, status, other, c.status, there)
		}
		if header != nil && header.Get("X-Request-Id") == "" {
			t.Errorf("%s for %s: no request id", name, c.name)
		}
		same := strings.ReplaceAll(missing, notThere, isThere)
		if strings.Contains(there, "4711") || there != same {
			t.Errorf("%s for %s answers\n%.400s\nand for what is not there\n%.400s", name, c.name, there, missing)
		}
	}
	writes := []string{"/v1/append", "/v1/import", "/v1/configure", "/v1/move", "/v1/condense"}
	rest := func(scope string) []stranger {
		return []stranger{
			{"nobody", "", 401},
			{"an expired token", who["expired"], 401},
			{"a revoked token", who["revoked"], 401},
			{"a forged token", "lcm_0_forged", 401},
			{"a forged grant", who["grant"] + "x", 401},
			{"who lacks the scope", scope, 403},
			{"another session's grant", who["grant"], 403},
		}
	}
	for path, methods := range doc.Paths {
		if path == "/mcp" || path == "/livez" || path == "/readyz" || path == "/v1/openapi.json" {
			continue
		}
		lacking, isWrite := who["appends"], false
		for _, w := range writes {
			if path == w {
				lacking, isWrite = who["reads"], true
			}
		}
		if strings.Contains(path, "map") {
			lacking = who["grant"] // maps may be begun by who appends
		}
		for method, op := range methods {
			if method != "post" {
				continue
			}
			raw := strings.Contains(string(op), `"in":"query"`)
			ask := func(token string) func(string) (int, http.Header, string) {
				return func(session string) (int, http.Header, string) {
					in := needs(path, session)
					if isWrite && raw {
						return send(token, http.MethodPost, path+"?session="+session, map[string]any{"id": "x", "role": "user", "content": "x"})
					}
					return send(token, http.MethodPost, path, in)
				}
			}
			for _, c := range rest(lacking) {
				if path == "/v1/export" || path == "/v1/map-upload" {
					if status, _, body := send(c.token, http.MethodPost, path, nil); status != c.status || strings.Contains(body, "4711") {
						t.Errorf("%s for %s: HTTP %d, want %d", path, c.name, status, c.status)
					}
					continue
				}
				check(path, c, ask(c.token))
			}
			if !isWrite && path != "/v1/export" && path != "/v1/map-upload" && path != "/v1/events" && !strings.Contains(path, "_map") {
				check(path, stranger{"another tenant", who["globex"], 0}, ask(who["globex"]))
			}
		}
	}
	// /mcp: who is nobody is told so by HTTP, who may not, by the tool.
	rpc := func(token, method string, params any) (int, http.Header, string) {
		return send(token, http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	}
	var tools []string
	_, _, listed := rpc(who["all"], "tools/list", map[string]any{})
	for _, part := range strings.Split(listed, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		tools = append(tools, name)
	}
	if len(tools) < 12 {
		t.Fatalf("%d tools are listed: %.300s", len(tools), listed)
	}
	for _, tool := range tools {
		for _, c := range append(rest(who["appends"]), stranger{"another tenant", who["globex"], 200}) {
			if c.status == 403 {
				c.status = 200
			}
			short := strings.ReplaceAll(strings.TrimPrefix(tool, "lcm_"), "expand_query", "query")
			if (short == "append" || strings.Contains(short, "map")) && c.status == 200 {
				continue // theirs by right, within their tenant
			}
			check("/mcp "+tool, c, func(session string) (int, http.Header, string) {
				return rpc(c.token, "tools/call", map[string]any{"name": tool, "arguments": needs("/v1/"+strings.ReplaceAll(short, "_", "-"), session)})
			})
		}
	}
	for _, c := range rest(who["all"]) {
		if status, header, _ := send(c.token, http.MethodGet, "/metrics", nil); status != c.status || header.Get("X-Request-Id") == "" {
			t.Errorf("/metrics for %s: HTTP %d", c.name, status)
		}
	}
}

// Over NATS a token says who calls as it does over HTTP, for its own tenant, and
// within the same limits.
func TestBearersOverNATS(t *testing.T) {
	_, _, bus, who := guardedServer(t, "--option", "auth.requests_per_second=5", "--option", "auth.concurrency=3")
	nc, err := nats.Connect("nats://" + bus)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ask := func(tenant, token, session string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if token != "" {
			ctx = natsmicro.WithBearer(ctx, token)
		}
		var out api.TurnsOut
		err := natsmicro.NewTools(nc, tenant).Call(ctx, "expand", api.IDIn{Scope: api.Scope{Session: session}, ID: "e1"}, &out)
		if err == nil && !strings.Contains(out.Turns[0].Text, "4711") {
			t.Errorf("%s: %+v", session, out)
		}
		return err
	}
	for _, c := range []struct {
		name, tenant, token, session string
		code                         problem.Code
	}{
		{"all", "acme", who["all"], isThere, ""},
		{"nobody", "acme", "", isThere, problem.Forbidden}, // the subject's tenant, without expand
		{"missing scope", "acme", who["reads"], isThere, problem.Forbidden},
		{"another tenant's subject", "acme", who["globex"], isThere, problem.Forbidden},
		{"another tenant", "globex", who["globex"], isThere, problem.NotFound},
		{"expired", "acme", who["expired"], isThere, problem.Unauthorized},
		{"revoked", "acme", who["revoked"], isThere, problem.Unauthorized},
		{"forged", "acme", "lcm_0_forged", isThere, problem.Unauthorized},
		{"a grant", "acme", who["grant"], "other", ""},
		{"another session's grant", "acme", who["grant"], isThere, problem.Forbidden},
	} {
		err := ask(c.tenant, c.token, c.session)
		missing := ask(c.tenant, c.token, notThere)
		if c.code == "" && err != nil || c.code != "" && (!problem.IsCode(err, c.code) || !problem.IsCode(missing, c.code)) {
			t.Errorf("%s: %v, and %v for what is not there; want %q", c.name, err, missing, c.code)
		}
	}
	limited := 0
	for range 30 {
		if err := ask("acme", who["all"], isThere); problem.IsCode(err, problem.Limited) {
			limited++
		}
	}
	if limited == 0 || limited == 30 {
		t.Errorf("%d of 30 calls at once are too many", limited)
	}
}
