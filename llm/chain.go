package llm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lcm/chat"
	"lcm/internal/api"
)

// Chain asks the first of several models that answers, within what a tenant
// may spend. It is safe for concurrent use.
type Chain struct {
	clients []*Client
	budget  *budget
}

// NewChain makes a chain of clients, the preferred one first. tokensPerHour is
// what one tenant may spend, 0 = no limit; see Chat.
func NewChain(clients []*Client, tokensPerHour int) (*Chain, error) {
	if len(clients) == 0 || tokensPerHour < 0 {
		return nil, errors.New("llm: a chain needs a client, and a limit of at least 0 tokens an hour")
	}
	return &Chain{clients: clients, budget: newBudget(tokensPerHour)}, nil
}

// Share counts what tenants spend together with the other processes of a
// ledger, and with what an earlier life of this one has told there. It is called
// before the first Chat; process is a name that no other one has. Chains made
// With this one share too.
func (c *Chain) Share(ctx context.Context, process string, l Ledger) error {
	c.budget.process, c.budget.ledger = process, l
	return c.budget.learn(ctx)
}

// Learn reads what other processes have spent since.
func (c *Chain) Learn(ctx context.Context) error { return c.budget.learn(ctx) }

// With is a chain of other clients, of whose answers the same tenants pay.
func (c *Chain) With(clients ...*Client) *Chain { return &Chain{clients: clients, budget: c.budget} }

// Close drops idle connections.
func (c *Chain) Close() {
	for _, m := range c.clients {
		m.Close()
	}
}

// Chat asks one model after the other until one answers. A later one is asked
// where the one before is down, refuses the caller or rejects the request; a
// request that names a model names the first one's.
//
// A tenant that has spent its hour is told chat.ErrSpent, without a call. What
// was begun before is finished: a request that continues is let through, and
// one call may go over the limit.
func (c *Chain) Chat(ctx context.Context, r chat.Request) (chat.Response, error) {
	if err := r.Validate(); err != nil {
		return chat.Response{}, err
	}
	if err := c.budget.admit(r.Tenant, r.Continues, time.Now()); err != nil {
		return chat.Response{}, err
	}
	var failed []error
	for _, m := range c.clients {
		a, err := m.Chat(ctx, r)
		if err == nil {
			c.budget.spend(r.Tenant, spent(r, a), time.Now())
			return a, nil
		}
		if ctx.Err() != nil || errors.Is(err, chat.ErrTooLong) {
			return chat.Response{}, err // who asked can split it
		}
		failed = append(failed, err)
		r.Model = ""
	}
	return chat.Response{}, lastWord(failed)
}

// lastWord is the error of a chain whose every model failed: one that passes
// where one of theirs does.
func lastWord(failed []error) error {
	if len(failed) == 1 {
		return failed[0]
	}
	base := chat.ErrRejected
	for _, kind := range []error{chat.ErrRefused, chat.ErrUnavailable} {
		for _, err := range failed {
			if errors.Is(err, kind) {
				base = kind
			}
		}
	}
	var words []string
	for _, err := range failed {
		words = append(words, err.Error())
	}
	return fmt.Errorf("%w: none of %d models: %s", base, len(failed), strings.Join(words, "; "))
}

// spent is what an answer cost in tokens, estimated at four bytes each where
// the provider does not say.
func spent(r chat.Request, a chat.Response) int {
	in, out := a.Usage.Input, a.Usage.Output
	if in <= 0 {
		n := len(r.System) + len(r.Answer)
		for _, m := range r.Messages {
			n += len(m.Text)
			for _, call := range m.Calls {
				n += len(call.Arguments)
			}
		}
		for _, t := range r.Tools {
			n += len(t.Description) + len(t.Schema)
		}
		in = n / 4
	}
	if out <= 0 {
		n := len(a.Text)
		for _, call := range a.Calls {
			n += len(call.Arguments)
		}
		out = n / 4
	}
	return in + out
}

// State tells how the models do, in order.
func (c *Chain) State() []api.ModelState {
	var out []api.ModelState
	for _, m := range c.clients {
		out = append(out, m.State())
	}
	return out
}

// Spending lists what tenants have spent in the last hour, the most first.
func (c *Chain) Spending() *api.Spending { return c.budget.report(time.Now()) }
