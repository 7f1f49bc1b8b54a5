package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"lcm/internal/problem"
)

// issuer is an OpenID issuer with keys of every kind.
type issuer struct {
	*httptest.Server
	mu      sync.Mutex
	keys    map[string]any // kid → private key
	fetches int
	down    bool
	as      string // the issuer its discovery names, "" = itself
}

func b64of(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]any{}}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.keys["rsa"], i.keys["ec"], i.keys["ed"] = rsaKey, ecKey, edKey
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		name := i.URL
		if i.as != "" {
			name = i.as
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.fetches++; i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		keys := []map[string]string{{"kty": "oct", "kid": "mac", "k": "AAAA"}, {"kty": "RSA", "kid": "weak", "n": "AQAB", "e": "AQAB"}}
		for kid, k := range i.keys {
			switch k := k.(type) {
			case *rsa.PrivateKey:
				keys = append(keys, map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256", "n": b64of(k.N.Bytes()), "e": b64of(big.NewInt(int64(k.E)).Bytes())})
			case *ecdsa.PrivateKey:
				pub, _ := k.PublicKey.Bytes()
				keys = append(keys, map[string]string{"kty": "EC", "kid": kid, "crv": "P-256", "x": b64of(pub[1:33]), "y": b64of(pub[33:])})
			case ed25519.PrivateKey:
				keys = append(keys, map[string]string{"kty": "OKP", "kid": kid, "crv": "Ed25519", "x": b64of(k.Public().(ed25519.PublicKey))})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) token(t *testing.T, m jwt.SigningMethod, kid string, key any, change func(jwt.MapClaims)) string {
	t.Helper()
	c := jwt.MapClaims{
		"iss": i.URL, "aud": []string{"other", "lcm"}, "sub": "u1", "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(),
		"lcm_tenant": "acme", "scope": "openid lcm:read lcm:append lcm:root read",
	}
	if change != nil {
		change(c)
	}
	j := jwt.NewWithClaims(m, c)
	j.Header["kid"] = kid
	s, err := j.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (i *issuer) openID(t *testing.T) *OpenID {
	t.Helper()
	o, err := NewOpenID(OpenIDConfig{Issuer: i.URL, Audience: "lcm", TenantClaim: "lcm_tenant", ScopesClaim: "scope", ScopePrefix: "lcm:"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOpenID(t *testing.T) {
	i := newIssuer(t)
	o := i.openID(t)
	set := func(name string, v any) func(jwt.MapClaims) {
		return func(c jwt.MapClaims) {
			if c[name] = v; v == nil {
				delete(c, name)
			}
		}
	}
	rsaKey := i.keys["rsa"].(*rsa.PrivateKey)
	for _, tt := range []struct {
		name   string
		method jwt.SigningMethod
		kid    string
		key    any
		change func(jwt.MapClaims)
		code   problem.Code // "" = good
	}{
		{"RSA", jwt.SigningMethodRS256, "rsa", rsaKey, nil, ""},
		{"EC", jwt.SigningMethodES256, "ec", i.keys["ec"], nil, ""},
		{"Ed25519", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], nil, ""},
		{"scopes as a list", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("scope", []string{"lcm:append", "lcm:read"}), ""},
		{"a little late", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("exp", start.Add(-10*time.Second).Unix()), ""},
		{"another alg of the key's type", jwt.SigningMethodPS256, "rsa", rsaKey, nil, problem.Unauthorized},
		{"another key", jwt.SigningMethodEdDSA, "ed", ed25519.NewKeyFromSeed(make([]byte, 32)), nil, problem.Unauthorized},
		{"an unknown key", jwt.SigningMethodEdDSA, "x", i.keys["ed"], nil, problem.Unauthorized},
		{"another key's id", jwt.SigningMethodEdDSA, "rsa", i.keys["ed"], nil, problem.Unauthorized},
		{"mac of the public key", jwt.SigningMethodHS256, "rsa", rsaKey.N.Bytes(), nil, problem.Unauthorized},
		{"none", jwt.SigningMethodNone, "ed", jwt.UnsafeAllowNoneSignatureType, nil, problem.Unauthorized},
		{"another issuer", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("iss", "https://other"), problem.Unauthorized},
		{"another audience", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("aud", "other"), problem.Unauthorized},
		{"expired", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("exp", start.Add(-time.Minute).Unix()), problem.Unauthorized},
		{"no end", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("exp", nil), problem.Unauthorized},
		{"not yet", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("nbf", start.Add(time.Minute).Unix()), problem.Unauthorized},
		{"nobody", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("sub", nil), problem.Unauthorized},
		{"no tenant", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("lcm_tenant", nil), problem.Forbidden},
		{"a tenant that is none", jwt.SigningMethodEdDSA, "ed", i.keys["ed"], set("lcm_tenant", 7), problem.Forbidden},
	} {
		c, err := o.Caller(t.Context(), i.token(t, tt.method, tt.kid, tt.key, tt.change), start)
		if tt.code != "" {
			if !problem.IsCode(err, tt.code) {
				t.Errorf("%s: %+v, %v", tt.name, c, err)
			}
			continue
		}
		slices.Sort(c.Scopes)
		if err != nil || c.Tenant != "acme" || c.Operator || !slices.Equal(c.Scopes, []string{"append", "read"}) {
			t.Errorf("%s: %+v, %v", tt.name, c, err)
		}
	}
	if i.fetches != 1 {
		t.Errorf("the keys were fetched %d times", i.fetches)
	}
	if _, err := o.Caller(t.Context(), "not.a.token", start); !problem.IsCode(err, problem.Unauthorized) {
		t.Error(err)
	}
}

// Keys change, and issuers go away.
func TestKeysChange(t *testing.T) {
	i := newIssuer(t)
	o := i.openID(t)
	now := start
	good := func(kid string) error {
		_, err := o.Caller(t.Context(), i.token(t, jwt.SigningMethodEdDSA, kid, i.keys[kid], func(c jwt.MapClaims) { c["exp"] = now.Add(time.Hour).Unix() }), now)
		return err
	}
	i.down = true
	if err := good("ed"); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("an issuer that is down is no fault of the token: %v", err)
	}
	i.down, now = false, now.Add(time.Minute)
	if err := good("ed"); err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	_, i.keys["new"], _ = ed25519.GenerateKey(rand.Reader)
	i.mu.Unlock()
	if err := good("new"); !problem.IsCode(err, problem.Unauthorized) {
		t.Errorf("asked again within seconds: %v", err)
	}
	now = now.Add(keysPause + time.Second)
	if err := good("new"); err != nil {
		t.Errorf("a new key: %v", err)
	}
	i.mu.Lock()
	i.down = true
	i.mu.Unlock()
	now = now.Add(2 * keysLast)
	if err := good("ed"); err != nil {
		t.Errorf("the issuer is down, its keys are known: %v", err)
	}
	now = now.Add(25 * keysLast)
	if err := good("ed"); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a day without a word of the issuer: %v", err)
	}
	other := newIssuer(t)
	other.as = "https://somebody.else"
	if _, err := other.openID(t).Caller(t.Context(), other.token(t, jwt.SigningMethodEdDSA, "ed", other.keys["ed"], nil), start); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a discovery of another issuer: %v", err)
	}
	for _, bad := range []OpenIDConfig{{}, {Issuer: "https://a"}, {Issuer: "http://a.example", Audience: "x"}, {Issuer: "https://a", Audience: "x", JWKS: "file:///etc/passwd"}} {
		if _, err := NewOpenID(bad); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
