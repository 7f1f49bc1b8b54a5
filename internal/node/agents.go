package node

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"time"

	"lcm/chat"
	"lcm/internal/api"
	"lcm/internal/mapper"
	"lcm/internal/mcp"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
	"lcm/mapjob"
	"lcm/natsmicro"
	"lcm/tokens"
)

// grantableTools are those of the memory that a sub-agent may be given, by the
// table: also where the tools themselves are another process's.
func grantableTools(s *toolsvc.Service) ([]toolsvc.AgentTool, error) {
	all, err := s.AgentTools()
	return slices.DeleteFunc(all, func(t toolsvc.AgentTool) bool { return !t.Grantable || !t.Callable() }), err
}

// toolNames say whether each changes nothing.
func toolNames(tools []toolsvc.AgentTool) map[string]bool {
	out := map[string]bool{}
	for _, t := range tools {
		out[t.Name] = t.Reads
	}
	return out
}

// subAgents gives the sub-agents of maps the tools of the memory, of this node
// or over NATS, and those of the servers that are configured.
type subAgents struct {
	tools  []toolsvc.AgentTool
	keeper natsmicro.Maps
	call   func(ctx context.Context, g *api.AgentGrant, t toolsvc.AgentTool, arguments json.RawMessage) (json.RawMessage, error)
	others *mcp.Remotes
}

func (n *Node) openAgents(keeper natsmicro.Maps) (mapper.Agents, error) {
	a := &subAgents{keeper: keeper, call: n.callRemote}
	service := new(toolsvc.Service) // for the table alone
	if n.tools != nil {
		service, a.call = n.tools, callHere
	}
	var err error
	if a.tools, err = grantableTools(service); err != nil {
		return nil, err
	}
	var others []mcp.Remote
	for _, s := range n.cfg.Map.MCP {
		others = append(others, mcp.Remote{Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Token: os.Getenv(s.TokenEnv), Tools: s.Tools})
	}
	n.others = mcp.NewRemotes(others, n.version)
	a.others = n.others
	return a, nil
}

// toolWithin bounds a call of a tool that is not said to take long.
const toolWithin = 30 * time.Second

// callHere runs a tool of this process.
func callHere(ctx context.Context, g *api.AgentGrant, t toolsvc.AgentTool, arguments json.RawMessage) (json.RawMessage, error) {
	caller := api.Caller{Name: "sub-agent", Tenant: g.Claims.Tenant, Grant: &g.Claims}
	return t.Run(api.WithCaller(ctx, caller), arguments, toolWithin)
}

// callRemote runs a tool of a toolsvc elsewhere, which verifies the grant.
func (n *Node) callRemote(ctx context.Context, g *api.AgentGrant, t toolsvc.AgentTool, arguments json.RawMessage) (json.RawMessage, error) {
	in, err := t.Parameters(arguments)
	if err != nil {
		return nil, err
	}
	if !t.Long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, toolWithin)
		defer cancel()
	}
	var out json.RawMessage
	if err := natsmicro.NewTools(n.conn, g.Claims.Tenant).Call(natsmicro.WithBearer(ctx, g.Token), t.Name, in, &out); err != nil {
		return nil, err
	}
	return t.Answer(out)
}

// Open implements mapper.Agents.
func (a *subAgents) Open(ctx context.Context, ref mapjob.Ref, s mapjob.Scope) (mapper.AgentTools, error) {
	others, err := a.others.Tools(ctx)
	if err != nil {
		return nil, err
	}
	in := api.AgentOpenIn{Ref: ref}
	for _, t := range others {
		if t.Reads || !s.ReadOnly {
			in.Tools = append(in.Tools, t.Name)
		}
	}
	g, err := a.keeper.AgentOpen(ctx, in)
	if err != nil {
		return nil, err
	}
	out := &agentTools{subAgents: a, grant: g}
	for _, t := range a.tools {
		if g.Claims.Allows(t.Name) {
			out.tools = append(out.tools, t)
		}
	}
	for _, t := range others {
		if g.Claims.Allows(t.Name) {
			out.others = append(out.others, t)
		}
	}
	return out, nil
}

// agentTools are those of one sub-agent.
type agentTools struct {
	*subAgents
	grant  *api.AgentGrant
	tools  []toolsvc.AgentTool
	others []mcp.RemoteTool
}

// Specs implements mapper.AgentTools.
func (a *agentTools) Specs() []chat.ToolSpec {
	out := toolsvc.Specs(a.tools)
	for _, t := range a.others {
		out = append(out, chat.ToolSpec{Name: t.Name, Description: t.Text, Schema: t.Schema})
	}
	return out
}

// Call implements mapper.AgentTools.
func (a *agentTools) Call(ctx context.Context, name, arguments string) (string, error) {
	if i := slices.IndexFunc(a.others, func(t mcp.RemoteTool) bool { return t.Name == name }); i >= 0 {
		return a.callOther(ctx, a.others[i], arguments)
	}
	i := slices.IndexFunc(a.tools, func(t toolsvc.AgentTool) bool { return t.AgentName == name })
	if i < 0 {
		return "", problem.New(problem.NotFound, "there is no tool %q", name)
	}
	out, err := a.call(ctx, a.grant, a.tools[i], json.RawMessage(arguments))
	return string(out), err
}

// callOther runs a tool of another server; what it answers is paid for as what
// the memory answers is.
func (a *agentTools) callOther(ctx context.Context, t mcp.RemoteTool, arguments string) (string, error) {
	if arguments == "" {
		arguments = "{}"
	}
	if !json.Valid([]byte(arguments)) {
		return "", problem.New(problem.Invalid, "the arguments of %s are not JSON", t.Name)
	}
	text, err := t.Call(ctx, json.RawMessage(arguments))
	if err != nil {
		return "", err
	}
	if err := a.Pay(ctx, tokens.Count(text)); err != nil {
		return "", err
	}
	return text, nil
}

// Pay implements mapper.AgentTools.
func (a *agentTools) Pay(ctx context.Context, tokens int) error {
	return a.keeper.AgentPay(ctx, api.AgentPayIn{Claims: a.grant.Claims, Tokens: tokens})
}

// Close implements mapper.AgentTools.
func (a *agentTools) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	_ = a.keeper.AgentClose(ctx, a.grant.Claims) // else it runs out
}
