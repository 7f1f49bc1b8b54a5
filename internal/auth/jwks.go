package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	keysLast = time.Hour // before they are fetched again
	// keysPause bounds how often an unknown key makes us ask again: anybody can
	// send one.
	keysPause = 10 * time.Second
	keysWait  = 5 * time.Second
	maxKeys   = 1 << 20 // bytes of an answer
)

var errNoKey = errors.New("the issuer has no such key")

// keySet are an issuer's keys, fetched when needed and kept for a while. An
// issuer that is down is not missed while its keys are fresh enough.
type keySet struct {
	issuer, url string

	mu      sync.Mutex
	keys    map[string]key // by kid
	fetched time.Time      // the last success
	asked   time.Time      // the last attempt
	err     error          // of the last attempt
}

type key struct {
	alg    string // "" = any that fits
	public any
}

// safeURL: keys come over https, or from this machine.
func safeURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname()))
}

// key finds a key; one asker at a time fetches, the others wait for it.
func (s *keySet) key(ctx context.Context, kid, alg string, now time.Time) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[kid]
	if stale := now.Sub(s.fetched) > keysLast; (!ok || stale) && now.Sub(s.asked) > keysPause {
		s.asked = now
		fetched, err := s.fetch(ctx)
		if s.err = err; err == nil {
			s.keys, s.fetched = fetched, now
			k, ok = s.keys[kid]
		}
	}
	switch {
	case !ok && s.err != nil:
		return nil, s.err
	case ok && now.Sub(s.fetched) > 24*keysLast:
		return nil, s.err // too long without a word of the issuer
	case !ok || k.alg != "" && k.alg != alg:
		return nil, errNoKey
	}
	return k.public, nil
}

func (s *keySet) fetch(ctx context.Context) (map[string]key, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysWait)
	defer cancel()
	from := s.url
	if from == "" {
		var d struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		if err := getJSON(ctx, strings.TrimRight(s.issuer, "/")+"/.well-known/openid-configuration", &d); err != nil {
			return nil, err
		}
		if d.Issuer != s.issuer || !safeURL(d.JWKS) {
			return nil, fmt.Errorf("the discovery of %s names issuer %q and keys at %q", s.issuer, d.Issuer, d.JWKS)
		}
		from = d.JWKS
	}
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := getJSON(ctx, from, &set); err != nil {
		return nil, err
	}
	keys := map[string]key{}
	for _, j := range set.Keys {
		if public, err := j.public(); err == nil { // others are for other uses, or newer than we are
			keys[j.ID] = key{j.Alg, public}
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key that can be used", from)
	}
	return keys, nil
}

func getJSON(ctx context.Context, from string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", from, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxKeys)).Decode(out); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// jwk is a key as RFC 7517 writes it.
type jwk struct {
	ID    string `json:"kid"`
	Type  string `json:"kty"`
	Use   string `json:"use"`
	Alg   string `json:"alg"`
	Curve string `json:"crv"`
	N     b64    `json:"n"`
	E     b64    `json:"e"`
	X     b64    `json:"x"`
	Y     b64    `json:"y"`
}

type b64 []byte

func (b *b64) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(string(text), "="))
	return err
}

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}

func (j jwk) public() (any, error) {
	if j.Use != "" && j.Use != "sig" {
		return nil, errors.New("not for signatures")
	}
	switch j.Type {
	case "RSA":
		k := &rsa.PublicKey{N: new(big.Int).SetBytes(j.N), E: int(new(big.Int).SetBytes(j.E).Int64())}
		if k.N.BitLen() < 2048 || len(j.E) > 4 || k.E < 3 {
			return nil, errors.New("the RSA key is too weak")
		}
		return k, nil
	case "EC":
		c := curves[j.Curve]
		if c == nil {
			return nil, fmt.Errorf("curve %q", j.Curve)
		}
		size := (c.Params().BitSize + 7) / 8
		if len(j.X) > size || len(j.Y) > size {
			return nil, errors.New("the point is not on the curve")
		}
		point := make([]byte, 1+2*size)
		point[0] = 4
		copy(point[1+size-len(j.X):], j.X)
		copy(point[1+2*size-len(j.Y):], j.Y)
		return ecdsa.ParseUncompressedPublicKey(c, point)
	case "OKP":
		if j.Curve != "Ed25519" || len(j.X) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("curve %q", j.Curve)
		}
		return ed25519.PublicKey(j.X), nil
	}
	return nil, fmt.Errorf("key type %q", j.Type)
}
