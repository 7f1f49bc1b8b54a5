package mapper

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
)

// Grants mints, charges and ends the grants of sub-agents. A charge reaches all
// ancestors or none.
type Grants interface {
	NewRoot(ctx context.Context, tenant string, ask grant.Ask) (string, grant.Claims, error)
	NewChild(ctx context.Context, parent grant.Claims, ask grant.Ask, below func(child, of grant.Node) bool) (string, grant.Claims, error)
	Charge(ctx context.Context, c grant.Claims, key string, tokens int) (left int, err error)
	Return(ctx context.Context, c grant.Claims, tokens int) error
	Revoke(ctx context.Context, tenant, id string, by *grant.Claims) (int, error)
}

const (
	// grantGrace is how long a sub-agent's grant outlives its time.
	grantGrace = 30 * time.Second
	// nests is the tool that begins another map below a sub-agent; those that
	// follow such a map come with it.
	nests = "agentic_map"
)

// AgentOpen mints the grant of one sub-agent, within what its job was given.
func (s *Service) AgentOpen(ctx context.Context, in api.AgentOpenIn) (*api.AgentGrant, error) {
	if s.d.Grants == nil {
		return nil, noGrants()
	}
	j, err := s.job(in.Ref)
	if err != nil {
		return nil, err
	}
	scope := j.Definition.Scope
	if scope == nil || j.State != mapjob.Running {
		return nil, problem.New(problem.Conflict, "map job %s has no sub-agents now: it is %s", in.Ref.Job, j.State)
	}
	var parent *grant.Claims
	if len(scope.Parent) > 0 {
		if err := json.Unmarshal(scope.Parent, &parent); err != nil {
			return nil, problem.New(problem.Damaged, "the grant of map job %s: %w", in.Ref.Job, err)
		}
	}
	l := j.Definition.Limits
	ask := Ask(*scope, s.agentTools(*scope, in.Tools, parent), l.RowTokens, l.Timeout()+grantGrace)
	out := new(api.AgentGrant)
	if parent == nil {
		out.Token, out.Claims, err = s.d.Grants.NewRoot(ctx, in.Ref.Tenant, ask)
		return out, err
	}
	ask.Tokens = min(ask.Tokens, parent.Tokens)
	ask.TTL = min(ask.TTL, parent.Expires.Sub(s.d.Now()).Truncate(time.Second))
	if ask.TTL < time.Second {
		return nil, problem.New(problem.Unauthorized, "%w", grant.ErrExpired)
	}
	out.Token, out.Claims, err = s.d.Grants.NewChild(ctx, *parent, ask, nil)
	return out, err
}

func noGrants() error {
	return problem.New(problem.Unavailable, "sub-agents get no grants here").
		WithHint("set auth.grant_key, to the key of every toolsvc: they verify what is granted here")
}

// agentTools are the names of what a sub-agent may use: of the memory's tools
// and of a worker's own.
func (s *Service) agentTools(scope mapjob.Scope, own []string, parent *grant.Claims) []string {
	var names []string
	for name, reads := range s.c.Tools {
		aboutMaps := name == nests || strings.HasPrefix(name, "map-")
		if aboutMaps && scope.Depth > 0 || !aboutMaps && (reads || !scope.ReadOnly) {
			names = append(names, name)
		}
	}
	names = append(names, own...)
	if parent != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return !parent.Allows(n) })
	}
	return names
}

// AgentPay charges a sub-agent's grant, or gives back what is negative.
func (s *Service) AgentPay(ctx context.Context, in api.AgentPayIn) error {
	if in.Tokens < 0 {
		return s.d.Grants.Return(ctx, in.Claims, -in.Tokens)
	}
	_, err := s.d.Grants.Charge(ctx, in.Claims, "", in.Tokens)
	return err
}

// AgentClose ends a sub-agent's grant, and those of maps that it began.
func (s *Service) AgentClose(ctx context.Context, c grant.Claims) error {
	_, err := s.d.Grants.Revoke(ctx, c.Tenant, c.ID, nil)
	return err
}

// agentScope checks what a caller hands to sub-agents: within its own grant,
// and, where it is a sub-agent itself that hands on more than reading, with a
// word on what it keeps.
func agentScope(q api.MapAgentRequest, now time.Time) (*mapjob.Scope, error) {
	s := &mapjob.Scope{Sessions: q.Sessions, ReadOnly: !q.MayWrite, Depth: q.Depth, Delegated: q.DelegatedScope, Kept: q.KeptWork}
	for _, id := range q.Nodes {
		n, err := parseNode(id)
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, n)
	}
	if q.Depth < 0 || q.Depth > grant.MaxDepth {
		return nil, problem.New(problem.Invalid, "depth is %d: 0 to %d", q.Depth, grant.MaxDepth)
	}
	if q.Parent == nil {
		return s, nil
	}
	if q.InputPath != "" || q.InputObject != "" || q.OutputPath != "" {
		return nil, problem.New(problem.Forbidden, "files and objects are not in the grant").WithHint("give the rows themselves, as input_rows")
	}
	if len(s.Sessions)+len(s.Nodes) == 0 {
		s.Sessions = q.Parent.Sessions
		for _, n := range q.Parent.Nodes {
			s.Nodes = append(s.Nodes, mapjob.Node(n))
		}
	}
	if s.ReadOnly && s.Delegated == "" && s.Kept == "" { // explorers are exempt
		s.Delegated, s.Kept = "reading, for one row each", "everything but reading"
	}
	if _, err := grant.Narrow(*q.Parent, "map", Ask(*s, q.Parent.Tools, 1, time.Minute), now, nil); err != nil {
		return nil, problem.New(problem.Forbidden, "sub-agents: %w", err).WithHint("name what lies in the grant, with delegated_scope and kept_work")
	}
	var err error
	s.Parent, err = json.Marshal(q.Parent)
	return s, err
}

// Ask is the grant of one sub-agent.
func Ask(s mapjob.Scope, tools []string, tokens int, ttl time.Duration) grant.Ask {
	a := grant.Ask{Sessions: s.Sessions, Tools: tools, Tokens: min(tokens, grant.MaxTokens), TTL: min(ttl, grant.MaxTTL), Depth: s.Depth, DelegatedScope: s.Delegated, KeptWork: s.Kept}
	for _, n := range s.Nodes {
		a.Nodes = append(a.Nodes, grant.Node(n))
	}
	return a
}

// parseNode reads SESSION/n12 or SESSION/#12.
func parseNode(id string) (mapjob.Node, error) {
	if i := strings.LastIndexByte(id, '/'); i > 0 && len(id) > i+2 && (id[i+1] == 'n' || id[i+1] == '#') {
		if n, err := strconv.ParseUint(id[i+2:], 10, 64); err == nil && n > 0 {
			return mapjob.Node{Session: id[:i], N: n}, nil
		}
	}
	return mapjob.Node{}, problem.New(problem.Invalid, "node %q: write SESSION/n12", id)
}
