package node

import (
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/auth"
	"lcm/internal/config"
	"lcm/internal/problem"
)

// A server that strangers reach starts only where it knows who calls, and says
// what is missing.
func TestWhoMayPass(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.json")
	if _, _, err := auth.NewTokens(tokens).Add(auth.Token{Name: "x", Tenant: "t", Scopes: []string{"read"}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		addr   string
		set    func(*config.Config)
		refuse string // "" = it may start
		open   bool
	}{
		{"127.0.0.1:0", nil, "", true},
		{"localhost:8420", nil, "", true},
		{"[::1]:1", nil, "", true},
		{"127.0.0.1:0", func(c *config.Config) { c.Auth.Mode = "none" }, "", true},
		{"127.0.0.1:0", func(c *config.Config) { c.Auth.Mode = "tokens"; c.Auth.Tokens = tokens }, "", false},
		{"127.0.0.1:0", func(c *config.Config) { c.Auth.Mode = "tokens" }, "lcm token add", false},
		{"0.0.0.0:1", nil, "not authenticated", false},
		{":1", nil, "not authenticated", false},
		{"example.org:1", func(c *config.Config) { c.Auth.Mode = "none" }, "not authenticated", false},
		{"0.0.0.0:1", func(c *config.Config) { c.Auth.Mode = "tokens" }, "lcm token add", false},
		{"0.0.0.0:1", func(c *config.Config) { c.Auth.Mode = "tokens"; c.Auth.Tokens = tokens }, "tls.cert", false},
		{"0.0.0.0:1", func(c *config.Config) { c.Auth.Mode = "tokens"; c.Auth.Tokens = tokens; c.TLS.Elsewhere = true }, "", false},
		{"0.0.0.0:1", func(c *config.Config) {
			c.Auth.Mode = "tokens"
			c.Auth.Tokens = tokens
			c.TLS.Cert, c.TLS.Key = "none.pem", "none.pem"
		}, "none.pem", false},
		{"0.0.0.0:1", func(c *config.Config) {
			c.Auth.Mode, c.Auth.Issuer, c.Auth.Audience, c.TLS.Elsewhere = "oidc", "http://issuer.example", "lcm", true
		}, "https", false},
		{"0.0.0.0:1", func(c *config.Config) {
			c.Auth.Mode, c.Auth.Issuer, c.Auth.Audience, c.TLS.Elsewhere = "oidc", "https://issuer.example", "lcm", true
		}, "", false},
		{"127.0.0.1", nil, "write 127.0.0.1:8420", false},
		{"127.0.0.1:99999", nil, "write 127.0.0.1:8420", false},
		{"127.0.0.1:x", nil, "write 127.0.0.1:8420", false},
	} {
		c := config.Default()
		c.DataDir, c.HTTP = t.TempDir(), tt.addr
		if tt.set != nil {
			tt.set(&c)
		}
		o, _, err := access(c)
		if tt.refuse == "" {
			if err != nil || o.Open != tt.open {
				t.Errorf("%s, mode %q: open %t, %v", tt.addr, c.Auth.Mode, o.Open, err)
			}
			continue
		}
		if !problem.IsCode(err, problem.Invalid) || !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("%s, mode %q: %v, want %q in it", tt.addr, c.Auth.Mode, err, tt.refuse)
		}
	}
}
