package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lcm/internal/api"
)

// certificate writes a certificate of 127.0.0.1 and its key, and returns their
// paths and who trusts it.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	der2, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool = x509.NewCertPool()
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: der2}} {
		b := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(b)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// A server with tokens and TLS: commands of its machine reach it by themselves,
// others with a token, within its tenant and scopes; a grant opens what it
// names; what is revoked ends at once.
func TestServerWithTokens(t *testing.T) {
	data := t.TempDir()
	l := freeAddr(t)
	oneError(t, lcm(t, data, "serve", "--http", "127.0.0.1:0", "--option", "auth.mode=tokens"), 2, "lcm token add")
	secret := strings.TrimSpace(ok(t, data, "--tenant", "acme", "token", "add", "ci", "--scope", "read", "--scope", "append"))
	oneError(t, lcm(t, data, "serve", "--http", "0.0.0.0:0", "--option", "auth.mode=tokens"), 2, "tls.cert")
	cert, key, pool := certificate(t)
	serve(t, data, "--http", l, "--option", "auth.mode=tokens", "--option", "tls.cert="+cert, "--option", "tls.key="+key)
	local := ownerURL(t, data)
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	post := func(token, tool string, in any) (int, string) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+l+"/v1/"+tool, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	turn := `{"id":"m1","role":"user","content":"the launch code is 4711"}`
	if r := lcmIn(t, data, turn, "--tenant", "acme", "append", "s"); r.code != 0 { // the owner, found by server.json
		t.Fatal(r.err)
	}
	t.Setenv("LCM_TOKEN", secret)
	if out := ok(t, t.TempDir(), "--server", local, "sessions"); !strings.Contains(out, "\ns ") {
		t.Errorf("by token: %q", out)
	}
	t.Setenv("LCM_TOKEN", "lcm_0_wrong")
	if r := lcm(t, t.TempDir(), "--server", local, "sessions"); r.code != 5 || strings.Contains(r.err, "wrong") {
		t.Errorf("with a wrong token: exit %d, %s", r.code, r.err)
	}
	t.Setenv("LCM_TOKEN", "")

	status, body := post("", "sessions", struct{}{})
	if status != 401 || strings.Contains(body, `"s"`) {
		t.Errorf("without a token: HTTP %d %s", status, body)
	}
	if status, body = post(secret, "grep", api.GrepIn{Pattern: "launch"}); status != 200 || !strings.Contains(body, "4711") {
		t.Errorf("a search: HTTP %d %s", status, body)
	}
	scope := api.Scope{Session: "s"}
	if status, body = post(secret, "expand", api.IDIn{Scope: scope, ID: "e1"}); status != 403 || strings.Contains(body, "4711") {
		t.Errorf("expand without scope: HTTP %d %s", status, body)
	}
	minted := decode[api.GrantOut](t, ok(t, data, "--tenant", "acme", "--json", "grant", "mint", "--session", "s"))
	if status, body = post(minted.Grant, "expand", api.IDIn{Scope: scope, ID: "e1"}); status != 200 || !strings.Contains(body, "4711") {
		t.Errorf("expand with a grant as bearer: HTTP %d %s", status, body)
	}
	scope.Grant = minted.Grant
	if status, body = post(secret, "expand", api.IDIn{Scope: scope, ID: "e1"}); status != 200 || !strings.Contains(body, "4711") {
		t.Errorf("expand with a grant beside a token: HTTP %d %s", status, body)
	}
	ok(t, data, "--tenant", "acme", "grant", "revoke", minted.ID)
	if status, body = post(secret, "expand", api.IDIn{Scope: scope, ID: "e1"}); status != 401 || strings.Contains(body, "4711") {
		t.Errorf("expand with a revoked grant: HTTP %d %s", status, body)
	}
	list := ok(t, data, "token", "list")
	ok(t, data, "token", "revoke", strings.Fields(list)[0])
	if status, body = post(secret, "grep", api.GrepIn{Pattern: "launch"}); status != 401 || strings.Contains(body, "4711") {
		t.Errorf("with a revoked token: HTTP %d %s", status, body)
	}
	if strings.Contains(list, secret[15:]) {
		t.Errorf("the list shows secrets: %s", list)
	}
}
