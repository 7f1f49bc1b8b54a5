package toolsvc

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/problem"
)

// grantsByName opens g:<name> as the grant of that name.
type grantsByName struct {
	Grants
	known map[string]grant.Claims
}

func (g grantsByName) Open(_ context.Context, token string) (grant.Claims, error) {
	switch c, ok := g.known[token]; {
	case token == "expired":
		return c, problem.New(problem.Unauthorized, "%w", grant.ErrExpired)
	case token == "revoked":
		return c, problem.New(problem.Unauthorized, "%w", grant.ErrUnknown)
	case ok:
		return c, nil
	}
	return grant.Claims{}, problem.New(problem.Unauthorized, "%w", grant.ErrToken)
}

func (g grantsByName) NewChild(context.Context, grant.Claims, grant.Ask, func(child, of grant.Node) bool) (string, grant.Claims, error) {
	return "", grant.Claims{}, problem.New(problem.Forbidden, "%w", grant.ErrWider)
}

func (g grantsByName) Revoke(context.Context, string, string, *grant.Claims) (int, error) {
	return 0, problem.New(problem.Forbidden, "there is no live grant")
}

// Every tool of the table against every caller that may not use it: the right
// refusal, the same for what exists and what does not, and nothing stored is
// looked at: the reads of this service panic.
func TestNobodyPassesWho(t *testing.T) {
	claims := func(tenant, session string) grant.Claims {
		c, err := grant.New("G", tenant, grant.Ask{Sessions: []string{session}, Tools: []string{"expand", "show", "describe", "context", "grep", "query", "grant"}, Tokens: 100, TTL: time.Hour}, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s, err := New(DefaultConfig(), Deps{Log: fakeLog{}, Grants: grantsByName{known: map[string]grant.Claims{"other session": claims("acme", "other"), "other tenant": claims("globex", "s")}}})
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Handler(slog.New(slog.DiscardHandler), "test")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c *api.Caller, tool, body string) (int, string) {
		served := h
		if c != nil {
			served = auth.As(*c, h)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/"+tool, strings.NewReader(body))
		if t, ok := find(s, tool); ok && t.Body != "" { // parameters stand in the query
			var in map[string]string
			_ = json.Unmarshal([]byte(body), &in)
			q := r.URL.Query()
			for k, v := range in {
				if k != "grant" {
					q.Set(k, v)
				}
			}
			r.URL.RawQuery = q.Encode()
			if in["grant"] != "" {
				g, err := s.d.Grants.Open(r.Context(), in["grant"])
				if err != nil {
					return problem.From(err).Status(), err.Error() // as the gate does with a bearer
				}
				c2 := api.Caller{Name: "grant", Tenant: g.Tenant, Grant: &g}
				served = auth.As(c2, h)
			}
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	all := &api.Caller{Name: "all", Tenant: "acme", Scopes: api.Scopes()}
	for _, tool := range s.Tools() {
		t.Run(tool.Name, func(t *testing.T) {
			without := *all
			without.Scopes = nil
			for _, scope := range api.Scopes() {
				if scope != tool.Scope {
					without.Scopes = append(without.Scopes, scope)
				}
			}
			for _, tt := range []struct {
				name   string
				c      *api.Caller
				more   string
				status int
			}{
				{"nobody", nil, "", 401},
				{"an empty caller", &api.Caller{}, "", 403},
				{"missing scope", &without, "", 403},
				{"another tenant", all, `,"tenant":"globex"`, 403},
				{"an expired grant", all, `,"grant":"expired"`, 401},
				{"a revoked grant", all, `,"grant":"revoked"`, 401},
				{"a forged grant", all, `,"grant":"forged"`, 401},
				{"another session's grant", all, `,"grant":"other session"`, 403},
				{"another tenant's grant", all, `,"grant":"other tenant"`, 401},
			} {
				if tool.Body != "" && tt.name == "another tenant's grant" {
					tt.status = 403 // as bearer it is its own tenant's, and holds no such tool
				}
				// Their parameters may come as a body that is read when the caller
				// has passed: a grant in it is not looked at, and gives nothing.
				if tool.Whole && strings.Contains(tt.name, "grant") || tool.Name == "map-upload" && tt.name == "another tenant" {
					continue
				}
				exists, answer := ask(tt.c, tool.Name, parameters(tool, "s", tt.more))
				missing, other := ask(tt.c, tool.Name, parameters(tool, "z", tt.more))
				if exists != tt.status || missing != exists {
					t.Errorf("%s: HTTP %d, and %d for what is not there; want %d: %s", tt.name, exists, missing, tt.status, answer)
				}
				if a, b := strings.ReplaceAll(answer, "session s ", ""), strings.ReplaceAll(other, "session z ", ""); a != b {
					t.Errorf("%s: %s differs from %s", tt.name, a, b)
				}
			}
		})
	}
}

func find(s *Service, name string) (Tool, bool) {
	for _, t := range s.Tools() {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// parameters are good enough to come to the question who asks.
func parameters(t Tool, session, more string) string {
	switch t.Name {
	case "grep":
		return `{"pattern":"x","sessions":["` + session + `"]` + more + `}`
	case "query":
		return `{"prompt":"x","sessions":["` + session + `"]` + more + `}`
	case "export":
		return `{}`
	case "grant-revoke":
		return `{"id":"x"` + more + `}`
	case "map-status", "map-watch", "map-output", "map-aggregate", "map-retry", "map-cancel":
		return `{"job":"` + session + `"` + more + `}`
	case "expand", "describe":
		return `{"session":"` + session + `","id":"e1"` + more + `}`
	}
	return `{"session":"` + session + `"` + more + `}`
}
