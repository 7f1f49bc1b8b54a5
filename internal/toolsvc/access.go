package toolsvc

import (
	"context"
	"encoding/json"
	"io"

	"lcm/events"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// fenced puts the check of the caller before every tool: the one place where
// it is made.
func (s *Service) fenced(tools []Tool) []Tool {
	for i, t := range tools {
		if call := t.call; call != nil {
			tools[i].call = func(ctx context.Context, in json.RawMessage) (any, error) {
				ctx, err := s.authorise(ctx, t, in)
				if err != nil {
					return nil, err
				}
				out, err := call(ctx, in)
				if err != nil {
					return nil, err
				}
				return out, s.charge(ctx, t, in, out)
			}
		}
		if raw := t.raw; raw != nil {
			tools[i].raw = func(ctx context.Context, in json.RawMessage, body io.Reader, w *answer) error {
				ctx, err := s.authorise(ctx, t, in)
				if err != nil {
					return err
				}
				return raw(ctx, in, body, w)
			}
		}
		if request := t.request; request != nil {
			writes := t
			writes.Scope, writes.Grantable = api.ScopeAppend, false
			tools[i].request = func(ctx context.Context, in json.RawMessage, body []byte, w *answer) error {
				ctx, err := s.authorise(ctx, t, in)
				if err == nil {
					ctx, err = s.authorise(ctx, writes, nil)
				}
				if err != nil {
					return err
				}
				return request(ctx, in, body, w)
			}
		}
	}
	return tools
}

// authorise says whether the caller may use the tool at all, and lays the
// grant that the call names over the caller. It looks at nothing stored but
// the grant, so that a refusal tells nothing.
func (s *Service) authorise(ctx context.Context, t Tool, in json.RawMessage) (context.Context, error) {
	c, ok := api.CallerOf(ctx)
	if !ok {
		return ctx, problem.New(problem.Unauthorized, "%s: nobody says who calls", t.Name)
	}
	c, err := s.underGrant(ctx, c, in)
	if err != nil {
		return ctx, err
	}
	switch {
	case c.Grant != nil:
		if !t.Grantable || !c.Grant.Allows(t.grantedAs()) {
			return ctx, problem.New(problem.Forbidden, "%s is not among the tools of the grant", t.Name).WithHint("ask who gave it for another one")
		}
	case t.Whole && !c.Operator:
		return ctx, problem.New(problem.Forbidden, "%s concerns every tenant: it is the operator's", t.Name).WithHint("run `lcm %s` on the server's machine", t.Name)
	case !c.May(t.Scope):
		p := problem.New(problem.Forbidden, "%s needs the scope %s", t.Name, t.Scope)
		if t.Grantable {
			p = p.WithHint("ask for a token with that scope, or for a grant")
		}
		return ctx, p
	}
	return api.WithCaller(ctx, c), nil
}

// underGrant is the caller under the grant that its parameters name, if any.
func (s *Service) underGrant(ctx context.Context, c api.Caller, in json.RawMessage) (api.Caller, error) {
	var named struct {
		Grant string `json:"grant"`
	}
	if json.Unmarshal(in, &named) != nil || named.Grant == "" {
		return c, nil // the tool says what is wrong with its parameters
	}
	if s.d.Grants == nil {
		return c, noGrants()
	}
	if c.Grant != nil {
		return c, problem.New(problem.Invalid, "a call under a grant cannot name another one")
	}
	g, err := s.d.Grants.Open(ctx, named.Grant)
	if err != nil {
		return c, err
	}
	if !c.Operator && g.Tenant != c.Tenant {
		return c, problem.New(problem.Unauthorized, "%w", grant.ErrToken) // as if it were none
	}
	c.Grant, c.Tenant, c.Operator = &g, g.Tenant, false
	return c, nil
}

// charge takes what an answer holds from the grant it is given under. An
// answer that cannot be paid is not given.
func (s *Service) charge(ctx context.Context, t Tool, in json.RawMessage, out any) error {
	c, _ := api.CallerOf(ctx)
	if c.Grant == nil || t.grantedAs() == toolGrant {
		return nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	key := ""
	if id := api.RequestID(ctx); id != "" {
		key = events.HashBytes([]byte(id + "\x00" + t.Name + "\x00" + string(in)))
	}
	_, err = s.d.Grants.Charge(ctx, *c.Grant, key, tokens.Count(string(text)))
	return err
}

// setTenant gives a call its tenant: the caller's.
func (s *Service) setTenant(ctx context.Context, in *api.Scope) error {
	c, ok := api.CallerOf(ctx)
	switch {
	case !ok:
		return problem.New(problem.Unauthorized, "nobody says who calls")
	case c.Operator && in.Tenant == "":
		in.Tenant = s.c.DefaultTenant
	case c.Operator:
	case c.Tenant == "":
		return problem.New(problem.Forbidden, "the caller %q has no tenant", c.Name)
	case in.Tenant != "" && in.Tenant != c.Tenant:
		return problem.New(problem.Forbidden, "the caller belongs to another tenant than the one that is named").WithHint("leave out the tenant")
	default:
		in.Tenant = c.Tenant
	}
	return nil
}
