package node

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/request"
)

// front is a listener with the gate before it.
type front struct {
	net.Listener
	who  auth.Options
	cert *tls.Certificate // nil = plain
}

func (f front) url() string {
	scheme := "http"
	if f.cert != nil {
		scheme = "https"
	}
	return scheme + "://" + f.Addr().String()
}

// listen opens what is served: the configured address, and one on loopback for
// the commands of this machine where that address is not enough for them. own
// is the owner's token there, "" where none is needed. A configuration that
// would let strangers in is refused.
func listen(c config.Config) (fronts []front, own string, err error) {
	o, cert, err := access(c)
	if err != nil {
		return nil, "", err
	}
	if !o.Open {
		own = auth.Secret()
		o.Owner = own
	}
	main, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return nil, "", problem.New(problem.Unavailable, "listen on %s: %w", c.HTTP, err).WithHint("another server may be running there: choose another with --http")
	}
	fronts = append(fronts, front{main, o, cert})
	if o.Loopback && cert == nil {
		return fronts, own, nil
	}
	local, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", errors.Join(err, main.Close())
	}
	o.Loopback = true
	return append(fronts, front{local, o, nil}), own, nil
}

// access reads who may pass from the configuration, and refuses what does not
// fit together.
func access(c config.Config) (o auth.Options, cert *tls.Certificate, err error) {
	host, port, err := net.SplitHostPort(c.HTTP)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return o, nil, problem.New(problem.Invalid, "address %q: %w", c.HTTP, err).WithHint("write 127.0.0.1:8420")
	}
	o.Loopback = auth.Loopback(host)
	o.Limits = limits(c.Auth)
	o.Tokens = auth.NewTokens(TokensFile(c))
	switch c.Auth.Mode {
	case "", "none":
		o.Open = true
		if !o.Loopback {
			return o, nil, problem.New(problem.Invalid, "address %s is not a loopback address, and callers are not authenticated", c.HTTP).
				WithHint("set auth.mode to tokens, with `lcm token add`, or to oidc; or listen on 127.0.0.1")
		}
	case "tokens":
		list, err := o.Tokens.List()
		if err != nil {
			return o, nil, err
		}
		if len(list) == 0 {
			return o, nil, problem.New(problem.Invalid, "auth.mode is tokens, and there are none in %s", o.Tokens.Path()).WithHint("make one with `lcm token add NAME --scope read`")
		}
	case "oidc":
		if o.OpenID, err = openID(c.Auth); err != nil {
			return o, nil, err
		}
	}
	if cert, err = certificate(c.TLS); err != nil {
		return o, nil, err
	}
	if !o.Loopback && cert == nil && !c.TLS.Elsewhere {
		return o, nil, problem.New(problem.Invalid, "address %s is not a loopback address, and tokens would go over it in the clear", c.HTTP).
			WithHint("set tls.cert and tls.key; or tls.elsewhere = true, where a proxy on a private network ends TLS")
	}
	return o, cert, nil
}

func limits(c config.Auth) auth.Limits {
	return auth.Limits{PerSecond: c.RequestsPerSecond, Concurrent: c.Concurrency, BodyBytes: int64(c.MaxBodyMB) << 20}
}

func openID(c config.Auth) (*auth.OpenID, error) {
	return auth.NewOpenID(auth.OpenIDConfig{
		Issuer: c.Issuer, Audience: c.Audience, JWKS: c.JWKS,
		TenantClaim: c.TenantClaim, ScopesClaim: c.ScopesClaim, ScopePrefix: c.ScopePrefix,
	})
}

func certificate(c config.TLS) (*tls.Certificate, error) {
	if c.Cert == "" && c.Key == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, problem.New(problem.Invalid, "the certificate in tls.cert %q and tls.key %q: %w", c.Cert, c.Key, err)
	}
	return &cert, nil
}

// TokensFile is where the bearer tokens of a server are.
func TokensFile(c config.Config) string {
	if c.Auth.Tokens != "" {
		return c.Auth.Tokens
	}
	return filepath.Join(c.DataDir, "tokens.json")
}

// server of one front: the gate, and the tools behind it.
func (f front) server(n *Node) *http.Server {
	f.who.Grants = n.grants
	mux := http.NewServeMux()
	mux.Handle("/", failing{n.inner, n})
	mux.Handle("GET /metrics", operators(n.metrics.Handler()))
	s := &http.Server{
		Handler: request.Identified(auth.NewGate(f.who).Handler(mux)), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(n.slog.Handler(), slog.LevelWarn),
	}
	if f.cert != nil {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*f.cert}, MinVersion: tls.VersionTLS12}
	}
	return s
}

func (f front) serve(s *http.Server) error {
	if f.cert != nil {
		return s.ServeTLS(f.Listener, "", "")
	}
	return s.Serve(f.Listener)
}

// operators alone see what concerns every tenant.
func operators(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _ := api.CallerOf(r.Context()); !c.Operator {
			problem.Respond(w, problem.New(problem.Forbidden, "%s is the operator's", r.URL.Path), nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func closeAll(fronts []front) {
	for _, f := range fronts {
		_ = f.Close()
	}
}
