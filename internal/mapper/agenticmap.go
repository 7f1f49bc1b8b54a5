package mapper

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"lcm/chat"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/subagent"
	"lcm/mapjob"
)

// Agents gives each sub-agent what it may use.
type Agents interface {
	// Open makes the tools of one sub-agent, under a grant of its own that
	// allows reading so many tokens for so long. An error that is problem
	// "limited" or "forbidden" is the row's; any other one passes.
	Open(ctx context.Context, tenant string, s mapjob.Scope, tokens int, ttl time.Duration) (AgentTools, error)
}

// AgentTools are those of one sub-agent. Close ends its grant.
type AgentTools interface {
	subagent.Tools
	Close(context.Context)
}

// errNotHere: another process has what a job needs.
var errNotHere = errors.New("this process has no tools for sub-agents")

// agenticMap gives each row to a sub-agent: a conversation with tools that ends
// with an answer by the schema, or at one of its limits.
type agenticMap struct {
	*llmMap
	agents Agents
	seats  chan struct{} // sub-agents at once: one that has begun waits for calls alone
}

// grantGrace is how long a sub-agent's grant outlives its time.
const grantGrace = 30 * time.Second

func (m *agenticMap) work(ctx context.Context, t *task, items []*item) error {
	return each(items, func(row *mapjob.Object, r *mapjob.Result) error { return m.one(ctx, t, row, r) })
}

func (m *agenticMap) one(ctx context.Context, t *task, row *mapjob.Object, r *mapjob.Result) error {
	prompt, bad := m.template.Fill(row)
	if bad != nil {
		r.Error = bad
		return nil
	}
	select {
	case m.seats <- struct{}{}:
		defer func() { <-m.seats }()
	case <-t.open.Done():
		return errStopped
	}
	if t.open.Err() != nil { // both were ready
		return errStopped
	}
	l := m.d.Limits
	tools, err := m.agents.Open(ctx, t.queue.Ref.Tenant, *m.d.Scope, l.RowTokens, l.Timeout()+grantGrace)
	if problem.IsCode(err, problem.Limited) || problem.IsCode(err, problem.Forbidden) || problem.IsCode(err, problem.Unauthorized) {
		r.Error = mapjob.Failed(mapjob.Limit, "%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer tools.Close(context.WithoutCancel(ctx))
	q := chat.Request{
		Tenant: t.queue.Ref.Tenant, Model: m.d.Model, System: m.system, MaxTokens: l.MaxOutputTokens,
		Messages: []chat.Message{{Role: chat.User, Text: prompt}},
	}
	timed, cancel := context.WithTimeout(ctx, l.Timeout())
	defer cancel()
	err = m.converse(timed, t, q, tools, r)
	if err != nil && ctx.Err() == nil && timed.Err() != nil {
		r.Value, r.Error = nil, mapjob.Failed(mapjob.Late, "no answer within %d seconds", l.TimeoutSeconds)
		return nil
	}
	return err
}

// converse goes on until an answer holds or a limit is met.
func (m *agenticMap) converse(ctx context.Context, t *task, q chat.Request, tools AgentTools, r *mapjob.Result) error {
	r.Attempts = 1
	var bad *mapjob.RowError
	return subagent.Conversation{
		Tools: tools,
		Begin: func(call int, q *chat.Request) bool {
			r.Error = m.spent(*q, r, call)
			return r.Error == nil
		},
		Ask: func(ctx context.Context, q chat.Request) (a chat.Response, usable bool, err error) {
			a, bad, err = m.ask(ctx, t, q, &r.Usage)
			return a, bad == nil, err
		},
		Judge: func(a chat.Response, usable bool) (again string) {
			if usable {
				r.Value, bad = mapjob.Answer(m.schema, a.Text)
			}
			if r.Error = bad; bad == nil || final(bad.Kind) || r.Attempts >= m.d.Limits.Attempts {
				return ""
			}
			r.Attempts++
			return mapjob.Repair(bad)
		},
	}.Run(ctx, q)
}

// spent says why another turn may not be begun: its turns or its tokens are
// used up, or would be.
func (m *agenticMap) spent(q chat.Request, r *mapjob.Result, turn int) *mapjob.RowError {
	l := m.d.Limits
	if turn > l.MaxTurns {
		return mapjob.Failed(mapjob.Turns, "no answer within %d turns", l.MaxTurns)
	}
	next := subagent.InputTokens(q) + l.MaxOutputTokens
	if have := r.Usage.Tokens(); have+int64(next) > int64(l.RowTokens) {
		return mapjob.Failed(mapjob.Limit, "%d of %d tokens are spent, and the next turn may take %d", have, l.RowTokens, next)
	}
	return nil
}

// agentScope checks what a caller hands to sub-agents: within its own grant,
// and, where it is a sub-agent itself that hands on more than reading, with a
// word on what it keeps.
func agentScope(q api.MapAgentRequest, now time.Time) (*mapjob.Scope, error) {
	s := &mapjob.Scope{Sessions: q.Sessions, ReadOnly: !q.MayWrite, Delegated: q.DelegatedScope, Kept: q.KeptWork}
	for _, id := range q.Nodes {
		n, err := parseNode(id)
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, n)
	}
	if q.Parent == nil {
		return s, nil
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
	a := grant.Ask{Sessions: s.Sessions, Tools: tools, Tokens: min(tokens, grant.MaxTokens), TTL: min(ttl, grant.MaxTTL), DelegatedScope: s.Delegated, KeptWork: s.Kept}
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
