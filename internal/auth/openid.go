package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// OpenIDConfig says whose identity tokens count, and how they are read.
type OpenIDConfig struct {
	Issuer   string // exactly as the claim iss has it
	Audience string // one of the claim aud
	JWKS     string // URL of the keys; "" = as the issuer's discovery says
	// TenantClaim names the tenant; ScopesClaim holds scopes, as a list or
	// separated by spaces, each with ScopePrefix in front: lcm:read.
	TenantClaim, ScopesClaim, ScopePrefix string
}

// algorithms that are accepted: signatures by keys that only the issuer has.
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// leeway between the issuer's clock and ours.
const leeway = 30 * time.Second

// OpenID verifies identity tokens of one issuer. It is safe for concurrent use.
type OpenID struct {
	c    OpenIDConfig
	keys *keySet
}

// NewOpenID makes one; the issuer is asked when its keys are first needed.
func NewOpenID(c OpenIDConfig) (*OpenID, error) {
	if c.Issuer == "" || c.Audience == "" {
		return nil, problem.New(problem.Invalid, "OpenID needs an issuer and an audience").WithHint("set auth.issuer and auth.audience")
	}
	for _, u := range []string{c.Issuer, c.JWKS} {
		if u != "" && !safeURL(u) {
			return nil, problem.New(problem.Invalid, "the issuer's URL %q is not https", u)
		}
	}
	return &OpenID{c: c, keys: &keySet{issuer: c.Issuer, url: c.JWKS}}, nil
}

// Caller says whose token it is.
func (o *OpenID) Caller(ctx context.Context, bearer string, now time.Time) (api.Caller, error) {
	claims := jwt.MapClaims{}
	var fetch error
	_, err := jwt.NewParser(
		jwt.WithValidMethods(algorithms), jwt.WithIssuer(o.c.Issuer), jwt.WithAudience(o.c.Audience),
		jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(func() time.Time { return now }),
	).ParseWithClaims(bearer, claims, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		var key any
		key, fetch = o.keys.key(ctx, kid, t.Method.Alg(), now)
		return key, fetch
	})
	if fetch != nil && !errors.Is(fetch, errNoKey) {
		return api.Caller{}, problem.New(problem.Unavailable, "the keys of %s cannot be had: %w", o.c.Issuer, fetch).WithHint("retry; is the issuer up?")
	}
	if err != nil {
		return api.Caller{}, errWho
	}
	return o.read(claims)
}

// read maps the claims of a token that is good.
func (o *OpenID) read(claims jwt.MapClaims) (api.Caller, error) {
	subject, _ := claims["sub"].(string)
	tenant, _ := claims[o.c.TenantClaim].(string)
	if subject == "" {
		return api.Caller{}, errWho
	}
	if err := (events.Ref{Tenant: tenant, Session: "x"}).Validate(); err != nil {
		return api.Caller{}, problem.New(problem.Forbidden, "the token names no tenant in the claim %q", o.c.TenantClaim).WithHint("have the issuer add it, or set auth.tenant_claim")
	}
	c := api.Caller{Name: fmt.Sprintf("%s of %s", subject, o.c.Issuer), Tenant: tenant}
	for _, s := range words(claims[o.c.ScopesClaim]) {
		name, ours := strings.CutPrefix(s, o.c.ScopePrefix)
		if ours && slices.Contains(api.Scopes(), name) && !slices.Contains(c.Scopes, name) {
			c.Scopes = append(c.Scopes, name)
		}
	}
	return c, nil
}

// words of a claim that is a list, or one string of them.
func words(claim any) []string {
	switch v := claim.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var out []string
		for _, one := range v {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
