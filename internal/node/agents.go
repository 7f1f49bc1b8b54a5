package node

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"lcm/chat"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/grants"
	"lcm/internal/mapper"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
	"lcm/mapjob"
)

// subAgents gives the sub-agents of maps the tools of this node.
type subAgents struct {
	tools     []toolsvc.AgentTool
	authority *grants.Authority
}

// openAgents needs the tools in this process: a worker without them leaves
// agentic maps to others.
func (n *Node) openAgents() (mapper.Agents, error) {
	all, err := n.tools.AgentTools()
	if err != nil {
		return nil, err
	}
	a := &subAgents{authority: n.grants}
	for _, t := range all {
		if t.Grantable && t.Callable() && !strings.Contains(t.Name, "map") { // no maps below maps
			a.tools = append(a.tools, t)
		}
	}
	return a, nil
}

// Open implements mapper.Agents.
func (a *subAgents) Open(ctx context.Context, tenant string, s mapjob.Scope, tokens int, ttl time.Duration) (mapper.AgentTools, error) {
	var parent *grant.Claims
	if len(s.Parent) > 0 {
		if err := json.Unmarshal(s.Parent, &parent); err != nil {
			return nil, problem.New(problem.Damaged, "the grant of a map job: %w", err)
		}
	}
	out := &agentTools{authority: a.authority}
	var names []string
	for _, t := range a.tools {
		if (!s.ReadOnly || t.Reads) && (parent == nil || parent.Allows(t.Name)) {
			out.tools, names = append(out.tools, t), append(names, t.Name)
		}
	}
	ask := mapper.Ask(s, names, tokens, ttl)
	var err error
	if parent == nil {
		_, out.claims, err = a.authority.NewRoot(ctx, tenant, ask)
	} else {
		ask.Tokens = min(ask.Tokens, parent.Tokens)
		ask.TTL = min(ask.TTL, time.Until(parent.Expires).Truncate(time.Second))
		_, out.claims, err = a.authority.NewChild(ctx, *parent, ask, nil)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// agentTools are those of one sub-agent.
type agentTools struct {
	tools     []toolsvc.AgentTool
	claims    grant.Claims
	authority *grants.Authority
}

// Specs implements mapper.AgentTools.
func (a *agentTools) Specs() []chat.ToolSpec { return toolsvc.Specs(a.tools) }

// toolWithin bounds a call of a tool that is not said to take long.
const toolWithin = 30 * time.Second

// Call implements mapper.AgentTools.
func (a *agentTools) Call(ctx context.Context, name, arguments string) (string, error) {
	i := slices.IndexFunc(a.tools, func(t toolsvc.AgentTool) bool { return t.AgentName == name })
	if i < 0 {
		return "", problem.New(problem.NotFound, "there is no tool %q", name)
	}
	caller := api.Caller{Name: "sub-agent", Tenant: a.claims.Tenant, Grant: &a.claims}
	out, err := a.tools[i].Run(api.WithCaller(ctx, caller), json.RawMessage(arguments), toolWithin)
	return string(out), err
}

// Close implements mapper.AgentTools.
func (a *agentTools) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	_, _ = a.authority.Revoke(ctx, a.claims.Tenant, a.claims.ID, nil) // else it runs out
}
