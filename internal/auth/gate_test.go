package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// whoami answers with the caller it was given, and reads the body.
var whoami = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		problem.Respond(w, problem.From(err), nil)
		return
	}
	c, known := api.CallerOf(r.Context())
	_ = json.NewEncoder(w).Encode(map[string]any{"known": known, "caller": c, "request": api.RequestID(r.Context())})
})

type answer struct {
	Known   bool
	Caller  api.Caller
	Request string
	Code    problem.Code
	Detail  string
}

type request struct {
	path, host, origin, token, body string
	header                          map[string]string
}

func ask(t *testing.T, h http.Handler, q request) (int, http.Header, answer) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8420"+q.path, strings.NewReader(q.body))
	if q.host != "" {
		r.Host = q.host
	}
	if q.origin != "" {
		r.Header.Set("Origin", q.origin)
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	for k, v := range q.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return w.Code, w.Header(), a
}

type opener func(string) (grant.Claims, error)

func (f opener) Open(_ context.Context, token string) (grant.Claims, error) { return f(token) }

func TestGate(t *testing.T) {
	tokens := NewTokens(filepath.Join(t.TempDir(), "tokens.json"))
	good, _, err := tokens.Add(Token{Name: "ci", Tenant: "acme", Scopes: []string{"read", "append"}})
	if err != nil {
		t.Fatal(err)
	}
	expired, _, err := tokens.Add(Token{Name: "old", Tenant: "acme", Scopes: []string{"read"}, Expires: start})
	if err != nil {
		t.Fatal(err)
	}
	key, err := grant.NewKey([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := grant.New("G1", "acme", grant.Ask{Sessions: []string{"s"}, Tools: []string{"expand"}, Tokens: 9, TTL: time.Hour}, start)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := key.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Loopback: true, Owner: "owner-secret", Tokens: tokens, Now: func() time.Time { return start },
		Grants: opener(func(token string) (grant.Claims, error) {
			if token != granted {
				return grant.Claims{}, problem.New(problem.Unauthorized, "%w", grant.ErrToken)
			}
			return claims, nil
		}),
	}
	closed := NewGate(o).Handler(whoami)
	o.Open = true
	loose := NewGate(o).Handler(whoami)
	for _, tt := range []struct {
		name   string
		h      http.Handler
		q      request
		status int
		caller string // name
	}{
		{"no token", closed, request{path: "/v1/x"}, 401, ""},
		{"no token, open", loose, request{path: "/v1/x"}, 200, "operator"},
		{"a wrong one, open", loose, request{path: "/v1/x", token: "lcm_x_y"}, 401, ""},
		{"a good one", closed, request{path: "/v1/x", token: good}, 200, "ci"},
		{"a good one, open", loose, request{path: "/v1/x", token: good}, 200, "ci"},
		{"expired", closed, request{path: "/v1/x", token: expired}, 401, ""},
		{"wrong secret", closed, request{path: "/v1/x", token: good + "x"}, 401, ""},
		{"only the id", closed, request{path: "/v1/x", token: good[:14]}, 401, ""},
		{"only the prefix", closed, request{path: "/v1/x", token: "lcm_"}, 401, ""},
		{"the owner", closed, request{path: "/v1/x", token: "owner-secret"}, 200, "operator"},
		{"nearly the owner", closed, request{path: "/v1/x", token: "owner-secre"}, 401, ""},
		{"a grant", closed, request{path: "/v1/x", token: granted}, 200, "grant G1"},
		{"a forged grant", closed, request{path: "/v1/x", token: granted + "x"}, 401, ""},
		{"a password", closed, request{path: "/v1/x", header: map[string]string{"Authorization": "Basic b3duZXItc2VjcmV0"}}, 401, ""},
		{"probe without token", closed, request{path: "/livez"}, 200, ""},
		{"probe with a wrong one", closed, request{path: "/readyz", token: "x"}, 200, ""},
		{"not a probe", closed, request{path: "/livez/../v1/x"}, 401, ""},
		{"another host", closed, request{path: "/v1/x", token: good, host: "evil.example"}, 403, ""},
		{"another host, open", loose, request{path: "/v1/x", host: "evil.example:8420"}, 403, ""},
		{"a host that begins well", loose, request{path: "/v1/x", host: "127.0.0.1.evil.example"}, 403, ""},
		{"another origin", loose, request{path: "/v1/x", origin: "https://evil.example"}, 403, ""},
		{"no origin at all", loose, request{path: "/v1/x", origin: "null"}, 403, ""},
		{"own origin", loose, request{path: "/v1/x", origin: "http://localhost:8420"}, 200, "operator"},
		{"IPv6", loose, request{path: "/v1/x", host: "[::1]:8420"}, 200, "operator"},
		{"probe of another host", closed, request{path: "/livez", host: "evil.example"}, 403, ""},
	} {
		status, header, a := ask(t, tt.h, tt.q)
		if status != tt.status || a.Caller.Name != tt.caller || a.Known != (tt.caller != "") {
			t.Errorf("%s: HTTP %d as %+v (%s), want %d as %q", tt.name, status, a.Caller, a.Detail, tt.status, tt.caller)
		}
		if status == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: nobody says how to authenticate", tt.name)
		}
		if tt.q.token != "" && strings.Contains(a.Detail, tt.q.token) {
			t.Errorf("%s: the answer holds the token", tt.name)
		}
	}
	_, _, a := ask(t, closed, request{path: "/v1/x", token: granted, header: map[string]string{RequestIDHeader: "r1"}})
	if a.Caller.Operator || len(a.Caller.Scopes) > 0 || a.Caller.Grant == nil || a.Caller.Tenant != "acme" || a.Request != "r1" {
		t.Errorf("a grant's caller: %+v", a)
	}
}

func TestTokensFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "tokens.json")
	server, cli := NewTokens(path), NewTokens(path)
	if list, err := server.List(); err != nil || len(list) != 0 {
		t.Fatal(list, err)
	}
	secret, made, err := cli.Add(Token{Name: "a", Tenant: "t", Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := server.Caller(secret, start); err != nil || c.Name != "a" || c.Operator || !c.May("read") || c.May("append") {
		t.Errorf("%+v, %v: what was added counts at once", c, err)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), secret[len(tokenPrefix)+11:]) {
		t.Errorf("the file holds the secret: %s, %v", b, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	second, _, err := cli.Add(Token{Name: "b", Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := cli.Revoke(made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Caller(secret, start); !problem.IsCode(err, problem.Unauthorized) {
		t.Errorf("a revoked token: %v", err)
	}
	if c, err := server.Caller(second, start); err != nil || !c.Operator {
		t.Errorf("%+v, %v", c, err)
	}
	if err := cli.Revoke(made.ID); !problem.IsCode(err, problem.NotFound) {
		t.Error(err)
	}
	for _, bad := range []Token{
		{},
		{Name: "x"},
		{Name: "x", Tenant: "t"},
		{Name: "x", Tenant: "t", Scopes: []string{"write"}},
		{Name: "x", Operator: true, Tenant: "t"},
		{Name: "x", Scopes: []string{"read"}},
	} {
		if _, _, err := cli.Add(bad); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Caller(second, start); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestLimits(t *testing.T) {
	now := start
	l := newLimiter(Limits{PerSecond: 2, Concurrent: 3})
	a, b := api.Caller{Name: "a", Tenant: "t"}, api.Caller{Name: "a", Tenant: "u"}
	var held []func()
	for range 3 {
		done, wait := l.take(a, now)
		if wait > 0 {
			t.Fatal("refused")
		}
		held = append(held, done)
	}
	if _, wait := l.take(a, now); wait <= 0 {
		t.Error("a fourth at once")
	}
	if _, wait := l.take(b, now); wait > 0 {
		t.Error("the same name of another tenant has limits of its own")
	}
	for _, done := range held {
		done()
	}
	if done, wait := l.take(a, now); wait > 0 {
		t.Error("the burst is four")
	} else {
		done()
	}
	if _, wait := l.take(a, now); wait <= 0 || wait > time.Second {
		t.Errorf("a fifth in no time: %v", wait)
	}
	now = now.Add(time.Second)
	if _, wait := l.take(a, now); wait > 0 {
		t.Errorf("a second later: %v", wait)
	}
	for range 100 {
		if _, wait := l.take(api.Operator(), now); wait > 0 {
			t.Error("the operator is limited")
		}
	}
	for i := range maxCallers + 10 {
		if done, _ := l.take(api.Caller{Name: fmt.Sprint(i)}, now); done != nil {
			done()
		}
		now = now.Add(10 * time.Millisecond)
	}
	if n := len(l.callers); n > maxCallers {
		t.Errorf("%d callers are remembered", n)
	}
}

func TestRefusedByLimits(t *testing.T) {
	tokens := NewTokens(filepath.Join(t.TempDir(), "tokens.json"))
	token, _, err := tokens.Add(Token{Name: "ci", Tenant: "acme", Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	h := NewGate(Options{Tokens: tokens, Limits: Limits{PerSecond: 0.5, BodyBytes: 10}, Now: func() time.Time { return start }}).Handler(whoami)
	if status, _, a := ask(t, h, request{path: "/v1/x", token: token, body: strings.Repeat("x", 11)}); status != 413 || a.Code != problem.TooLarge {
		t.Errorf("HTTP %d, %+v", status, a)
	}
	status, header, a := ask(t, h, request{path: "/v1/x", token: token})
	if status != 429 || a.Code != problem.Limited || header.Get("Retry-After") != "2" {
		t.Errorf("HTTP %d, Retry-After %q, %+v", status, header.Get("Retry-After"), a)
	}
}

func TestGrantKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "grant.key")
	if _, err := GrantKey(path, false); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a key that was configured and is not there: %v", err)
	}
	made := make(chan error, 8)
	for range cap(made) {
		go func() { _, err := GrantKey(path, true); made <- err }()
	}
	for range cap(made) {
		if err := <-made; err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files are left", len(files))
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := GrantKey(path, true); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a key that others read: %v", err)
	}
	if err := errors.Join(os.WriteFile(path, []byte("c2hvcnQ=\n"), 0o600), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := GrantKey(path, true); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a short key: %v", err)
	}
}
