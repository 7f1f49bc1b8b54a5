package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Options of a Gate. The zero value lets nobody pass.
type Options struct {
	// Open lets who sends no token act as the operator: loopback only.
	Open bool
	// Loopback refuses requests that do not name a loopback host, as those a
	// browser sends for a page of another origin.
	Loopback bool
	// Owner is a token of the operator's, made by this process, "" = none.
	Owner string
	// Tokens, OpenID and Grants are whose word counts; nil = not theirs.
	Tokens *Tokens
	OpenID *OpenID
	Grants interface {
		Open(ctx context.Context, token string) (grant.Claims, error)
	}
	Limits Limits
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Gate stands before a handler and lets callers pass that it knows. It is safe
// for concurrent use.
type Gate struct {
	o      Options
	limits *limiter
}

// NewGate makes a Gate.
func NewGate(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Gate{o, newLimiter(o.Limits)}
}

var errWho = problem.New(problem.Unauthorized, "the token is not valid here").WithHint("see `lcm token list`; tokens and grants expire")

// Caller says who sends a bearer token. Why a token is not good is not told,
// but for a grant, whose holder has it from somebody who wants to know.
func (g *Gate) Caller(ctx context.Context, bearer string) (api.Caller, error) {
	switch {
	case bearer == "" && g.o.Open:
		return api.Operator(), nil
	case bearer == "":
		return api.Caller{}, problem.New(problem.Unauthorized, "this server needs a token").WithHint("send Authorization: Bearer …; commands take it from LCM_TOKEN")
	case g.o.Owner != "" && subtle.ConstantTimeCompare([]byte(bearer), []byte(g.o.Owner)) == 1:
		return api.Operator(), nil
	case grant.Looks(bearer) && g.o.Grants != nil:
		c, err := g.o.Grants.Open(ctx, bearer)
		if err != nil {
			return api.Caller{}, err
		}
		return api.Caller{Name: "grant " + c.Root(), Tenant: c.Tenant, Grant: &c}, nil
	case strings.HasPrefix(bearer, tokenPrefix) && g.o.Tokens != nil:
		return g.o.Tokens.Caller(bearer, g.o.Now())
	case g.o.OpenID != nil:
		return g.o.OpenID.Caller(ctx, bearer, g.o.Now())
	}
	return api.Caller{}, errWho
}

// open are the paths that tell nothing but that the process lives: they need
// no caller, and get one only of a token that is good.
func open(path string) bool { return path == "/livez" || path == "/readyz" }

// Handler lets requests through to next, with their caller.
func (g *Gate) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.o.Loopback && !fromLoopback(r) {
			problem.Respond(w, problem.New(problem.Forbidden, "this server answers loopback requests only, not host %q", r.Host), nil)
			return
		}
		c, err := g.Caller(r.Context(), bearer(r))
		if err != nil && open(r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		if err != nil {
			problem.Respond(w, problem.From(err), nil)
			return
		}
		done, err := g.Admit(c)
		var busy *Busy
		if errors.As(err, &busy) {
			w.Header().Set("Retry-After", strconv.Itoa(busy.Seconds()))
		}
		if err != nil {
			problem.Respond(w, problem.From(err), nil)
			return
		}
		defer done()
		if most := g.o.Limits.BodyBytes; most > 0 && !c.Operator {
			r.Body = &bounded{ReadCloser: http.MaxBytesReader(w, r.Body, most)}
		}
		ctx := api.WithCaller(r.Context(), c)
		if id := r.Header.Get(RequestIDHeader); id != "" {
			ctx = api.WithRequestID(ctx, id)
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Busy says how long a caller that asks too much should wait.
type Busy struct{ Wait time.Duration }

// Seconds to wait, rounded up.
func (b *Busy) Seconds() int { return int(math.Ceil(b.Wait.Seconds())) }

func (b *Busy) Error() string { return fmt.Sprintf("again in %d s", b.Seconds()) }

// Admit counts a call of a caller in, within its limits; done counts it out.
// Beyond them the error is "limited", and a *Busy.
func (g *Gate) Admit(c api.Caller) (done func(), err error) {
	done, wait := g.limits.take(c, g.o.Now())
	if wait > 0 {
		return nil, problem.New(problem.Limited, "the caller %q asks too much at once: %w", c.Name, &Busy{wait}).WithHint("slow down")
	}
	return done, nil
}

// RequestIDHeader names a call, so that its retry is not paid twice.
const RequestIDHeader = "Lcm-Request-Id"

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// bounded says of a body that is too large that it is.
type bounded struct{ io.ReadCloser }

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		err = problem.New(problem.TooLarge, "the body exceeds %d bytes", large.Limit).WithHint("send it in parts: auth.max_body_mb bounds one request")
	}
	return n, err
}

// fromLoopback: a request must name a loopback host, and an Origin, where there
// is one, too. A page of another origin can do neither.
func fromLoopback(r *http.Request) bool {
	origin, err := url.Parse(r.Header.Get("Origin"))
	return LoopbackHost(r.Host) && err == nil && (origin.Host == "" && r.Header.Get("Origin") == "" || LoopbackHost(origin.Host))
}

// LoopbackHost is Loopback of a host with or without a port.
func LoopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return Loopback(host)
}

// Loopback reports whether a host is this machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
