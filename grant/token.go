package grant

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issuer and kind tell these tokens from any other that the same key, or a
// reader of the same header, may meet.
const (
	issuer = "lcm"
	kind   = "lcm-grant+jwt"
)

// Errors of a token.
var (
	ErrToken   = errors.New("this is no grant of this log")
	ErrExpired = errors.New("the grant has expired")
)

// Key signs and verifies the grants of one log.
type Key struct{ private ed25519.PrivateKey }

// NewKey makes a key from its seed of 32 random bytes.
func NewKey(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("the key of grants has %d bytes, %d are needed", len(seed), ed25519.SeedSize)
	}
	return Key{ed25519.NewKeyFromSeed(seed)}, nil
}

type signed struct {
	Claims
	Issuer  string           `json:"iss"`
	Seconds *jwt.NumericDate `json:"exp"`
}

func (s signed) GetExpirationTime() (*jwt.NumericDate, error) { return s.Seconds, nil }
func (s signed) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (s signed) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (s signed) GetIssuer() (string, error)                   { return s.Issuer, nil }
func (s signed) GetSubject() (string, error)                  { return "", nil }
func (s signed) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }

// Sign makes the token: a JWT.
func (k Key) Sign(c Claims) (string, error) {
	if err := c.validate(); err != nil {
		return "", err
	}
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, signed{c, issuer, jwt.NewNumericDate(c.Expires)})
	t.Header["typ"] = kind
	return t.SignedString(k.private)
}

// Open verifies a token at a time. What is wrong with it is not told apart:
// ErrToken, or ErrExpired for a good one whose time has passed.
func (k Key) Open(token string, now time.Time) (Claims, error) {
	if strings.ContainsAny(token, "\r\n") { // which base64 decoders pass over
		return Claims{}, ErrToken
	}
	var s signed
	t, err := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer),
		jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return now }), jwt.WithStrictDecoding(),
	).ParseWithClaims(token, &s, func(*jwt.Token) (any, error) { return k.private.Public(), nil })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return s.Claims, ErrExpired
	case err != nil || t.Header["typ"] != kind || !s.Expires.Equal(s.Seconds.Time) || s.validate() != nil:
		return Claims{}, ErrToken
	}
	return s.Claims, nil
}

// Looks reports whether a bearer token says that it is a grant.
func Looks(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	b, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Type string `json:"typ"`
	}
	return err == nil && json.Unmarshal(b, &h) == nil && h.Type == kind
}
