package toolsvc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"lcm/events"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Grants keeps what was handed on. Charges are atomic over a grant and all its
// ancestors, on every replica.
type Grants interface {
	NewRoot(ctx context.Context, tenant string, ask grant.Ask) (string, grant.Claims, error)
	NewChild(ctx context.Context, parent grant.Claims, ask grant.Ask, below func(child, of grant.Node) bool) (string, grant.Claims, error)
	// Open verifies a token, and that it still holds.
	Open(ctx context.Context, token string) (grant.Claims, error)
	// Left is what a grant may still spend.
	Left(ctx context.Context, c grant.Claims) (int, error)
	// Charge takes tokens; a key seen before is not charged again, "" is new.
	Charge(ctx context.Context, c grant.Claims, key string, tokens int) (left int, err error)
	// Revoke ends a grant of a tenant and its descendants; by, unless nil, must
	// be an ancestor of it or itself.
	Revoke(ctx context.Context, tenant, id string, by *grant.Claims) (int, error)
}

// Defaults of a grant that is asked for without numbers.
const (
	grantTokens = 4000
	grantTTL    = 10 * time.Minute
)

// The tools that hand grants on and end them: a grant with depth holds the
// first, and with it both.
const (
	toolGrant  = "grant"
	toolRevoke = "grant-revoke"
)

// grantedAs is the name that stands for the tool in a grant.
func (t Tool) grantedAs() string { return cmp.Or(t.as, t.Name) }

// Grant mints a grant: a root by a caller of its own right, else a child.
func (s *Service) Grant(ctx context.Context, in api.GrantIn) (*api.GrantOut, error) {
	ref, token, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	if s.d.Grants == nil {
		return nil, noGrants()
	}
	if in.Tokens < 0 || in.TTLSeconds < 0 || in.Depth < 0 {
		return nil, problem.New(problem.Invalid, "tokens, ttl_seconds and depth cannot be negative")
	}
	ask, err := s.ask(in)
	if err != nil {
		return nil, err
	}
	var text string
	var c grant.Claims
	if parent := granted(ctx); parent != nil {
		text, c, err = s.child(ctx, *parent, ask, token)
	} else {
		text, c, err = s.root(ctx, ref.Tenant, ask, token)
	}
	if err != nil {
		return nil, err
	}
	return grantOut(text, c), nil
}

// ask reads what is asked for; what may be granted at all is in the table.
func (s *Service) ask(in api.GrantIn) (grant.Ask, error) {
	a := grant.Ask{
		Sessions: in.Sessions, Tools: slices.Clone(in.Tools), Tokens: in.Tokens, TTL: time.Duration(in.TTLSeconds) * time.Second,
		Depth: in.Depth, DelegatedScope: in.DelegatedScope, KeptWork: in.KeptWork,
	}
	if in.Session != "" {
		a.Sessions = append(slices.Clone(a.Sessions), in.Session)
	}
	for _, id := range in.Nodes {
		var where api.Scope
		t, err := parseID(&where, id)
		if err != nil {
			return a, err
		}
		if t.kind != "node" {
			return a, problem.New(problem.Invalid, "%q is no node", id).WithHint("write SESSION/n12; a session is named with sessions")
		}
		a.Nodes = append(a.Nodes, grant.Node{Session: where.Session, N: t.n})
	}
	for _, name := range a.Tools {
		if !slices.ContainsFunc(s.dataTools(), func(t Tool) bool { return t.Name == name && t.Grantable && t.Name != toolRevoke }) {
			return a, problem.New(problem.Invalid, "the tool %q cannot be granted", name)
		}
	}
	if a.Depth > 0 && len(a.Tools) > 0 {
		a.Tools = append(a.Tools, toolGrant)
	}
	return a, nil
}

// root mints for a caller who has what it hands on.
func (s *Service) root(ctx context.Context, tenant string, a grant.Ask, token events.Position) (string, grant.Claims, error) {
	if len(a.Tools) == 0 {
		if a.Tools = []string{"describe", "expand", "grep"}; a.Depth > 0 {
			a.Tools = append(a.Tools, toolGrant)
		}
	}
	if a.Tokens == 0 {
		a.Tokens = grantTokens
	}
	if a.TTL == 0 {
		a.TTL = grantTTL
	}
	caller, _ := api.CallerOf(ctx)
	for _, t := range s.dataTools() {
		if slices.Contains(a.Tools, t.Name) && !caller.May(t.Scope) {
			return "", grant.Claims{}, problem.New(problem.Forbidden, "who hands on %s needs the scope %s", t.Name, t.Scope)
		}
	}
	// Names that are nobody's are mistakes.
	for _, name := range a.Sessions {
		if _, err := s.sessionRow(ctx, events.Ref{Tenant: tenant, Session: name}, token); err != nil {
			return "", grant.Claims{}, err
		}
	}
	for _, n := range a.Nodes {
		if _, err := s.node(ctx, events.Ref{Tenant: tenant, Session: n.Session}, n.N, token); err != nil {
			return "", grant.Claims{}, err
		}
	}
	return s.d.Grants.NewRoot(ctx, tenant, a)
}

func (s *Service) child(ctx context.Context, parent grant.Claims, a grant.Ask, token events.Position) (string, grant.Claims, error) {
	var failed error
	text, c, err := s.d.Grants.NewChild(ctx, parent, a, func(child, of grant.Node) bool {
		if child.Session != of.Session {
			return false
		}
		ok, err := s.below(ctx, events.Ref{Tenant: parent.Tenant, Session: of.Session}, child.N, of.N, token)
		if err != nil {
			failed = err
		}
		return ok
	})
	if failed != nil {
		return "", c, failed
	}
	return text, c, err
}

// RevokeGrant ends a grant and what descends from it.
func (s *Service) RevokeGrant(ctx context.Context, in api.RevokeIn) (*api.RevokeOut, error) {
	ref, _, err := s.scope(ctx, &in.Scope)
	if err != nil {
		return nil, err
	}
	if s.d.Grants == nil {
		return nil, noGrants()
	}
	if in.ID == "" {
		return nil, problem.New(problem.Invalid, "no grant is named").WithHint("its id came with it when it was minted")
	}
	n, err := s.d.Grants.Revoke(ctx, ref.Tenant, in.ID, granted(ctx))
	if err != nil {
		return nil, err
	}
	return &api.RevokeOut{Revoked: n}, nil
}

func noGrants() error { return problem.New(problem.Unavailable, "grants are not honoured here") }

func grantOut(text string, c grant.Claims) *api.GrantOut {
	out := &api.GrantOut{
		Grant: text, ID: c.ID, Sessions: append([]string{}, c.Sessions...), Nodes: []string{}, Tools: c.Tools,
		Tokens: c.Tokens, Depth: c.Depth, Expires: c.Expires,
	}
	for _, n := range c.Nodes {
		out.Nodes = append(out.Nodes, n.String())
	}
	return out
}
