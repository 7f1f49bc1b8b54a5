package api

import (
	"context"
	"slices"

	"lcm/grant"
)

// What a caller may do.
const (
	ScopeAppend = "append" // write turns, configure and condense sessions
	ScopeRead   = "read"   // contexts, turns, searches, descriptions
	ScopeExpand = "expand" // open summaries, and hand that on as grants
	ScopeAdmin  = "admin"  // what belongs to a tenant's operator
)

// Scopes are all of them.
func Scopes() []string { return []string{ScopeAppend, ScopeRead, ScopeExpand, ScopeAdmin} }

// Caller is who asks. Transports make one of what they have verified; the zero
// Caller may do nothing.
type Caller struct {
	Name   string   // for logs and limits
	Tenant string   // whose data it sees
	Scopes []string // see above
	// Operator may do everything, for any tenant: the command line in process,
	// and loopback without authentication.
	Operator bool
	// Grant, where there is one, bounds all of it further.
	Grant *grant.Claims
}

// Operator is the caller who owns the machine.
func Operator() Caller { return Caller{Name: "operator", Operator: true} }

// May reports whether the caller has a scope.
func (c Caller) May(scope string) bool { return c.Operator || slices.Contains(c.Scopes, scope) }

type callerKey struct{}

// WithCaller says who asks in ctx.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is who asks; false = nobody has said.
func CallerOf(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

type requestKey struct{}

// WithRequestID names the call in ctx, as its sender does: the same name again
// is a retry of the same call, which a grant pays once.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// RequestID is the name of the call, "" = none.
func RequestID(ctx context.Context) string {
	s, _ := ctx.Value(requestKey{}).(string)
	return s
}
