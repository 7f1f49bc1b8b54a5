package mapper

import (
	"context"
	"errors"

	"lcm/chat"
	"lcm/internal/problem"
	"lcm/internal/subagent"
	"lcm/mapjob"
)

// Agents gives each sub-agent what it may use.
type Agents interface {
	// Open makes the tools of one sub-agent, under a grant of its own. An error
	// that is problem "limited", "forbidden" or "unauthorized" is the row's; any
	// other one passes.
	Open(ctx context.Context, ref mapjob.Ref, s mapjob.Scope) (AgentTools, error)
}

// AgentTools are those of one sub-agent. Close ends its grant.
type AgentTools interface {
	subagent.Tools
	// Pay charges the grant, and its ancestors, for tokens, or gives back to
	// them what is negative. Its errors are those of Open.
	Pay(ctx context.Context, tokens int) error
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
	tools, bad, err := m.open(ctx, t)
	if err != nil || bad != nil {
		r.Error = bad
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

// open makes the tools of a sub-agent. Where nobody gets any, it waits as for a
// provider that is down.
func (m *agenticMap) open(ctx context.Context, t *task) (tools AgentTools, bad *mapjob.RowError, err error) {
	err = t.call(ctx, func(ctx context.Context, _ func() bool) error {
		var err error
		tools, err = m.agents.Open(ctx, t.queue.Ref, *m.d.Scope)
		if bad = refused(err); bad != nil || err == nil {
			return errNoVerdict // on the provider
		}
		return err
	})
	return tools, bad, err
}

// refused is the failure of a row whose grant does not allow it to go on, nil
// where the error is another one.
func refused(err error) *mapjob.RowError {
	if problem.IsCode(err, problem.Limited) || problem.IsCode(err, problem.Forbidden) || problem.IsCode(err, problem.Unauthorized) {
		return mapjob.Failed(mapjob.Limit, "%v", err)
	}
	return nil
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
			a, bad, err = m.paid(ctx, t, q, tools, &r.Usage)
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

// paid makes one attempt. Below a grant it is paid for: its worst case
// beforehand, so that no budget is exceeded however many spend it, and what it
// did not take is given back.
func (m *agenticMap) paid(ctx context.Context, t *task, q chat.Request, tools AgentTools, spent *mapjob.Usage) (a chat.Response, bad *mapjob.RowError, err error) {
	if len(m.d.Scope.Parent) == 0 {
		return m.ask(ctx, t, q, spent)
	}
	worst, before := subagent.InputTokens(q)+q.MaxTokens, spent.Tokens()
	if err := tools.Pay(ctx, worst); err != nil {
		if bad := refused(err); bad != nil {
			return a, bad, nil
		}
		return a, nil, err
	}
	if a, bad, err = m.ask(ctx, t, q, spent); err != nil {
		return a, bad, err // what it took is not known
	}
	if err := tools.Pay(ctx, int(spent.Tokens()-before)-worst); err != nil && !isEnd(ctx, err) {
		t.w.d.Logger.Warn("the budget of a sub-agent is not settled", "job", t.queue.Ref.Job, "error", err)
	}
	return a, bad, nil
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
