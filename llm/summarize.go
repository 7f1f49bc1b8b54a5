package llm

import (
	"context"
	"errors"
	"fmt"

	"lcm/chat"
	"lcm/condense"
)

var (
	_ condense.Summarizer = (*Client)(nil)
	_ condense.Summarizer = (*Chain)(nil)
)

// Summarize implements condense.Summarizer. It returns ctx's error when ctx
// ends, and otherwise one of condense's.
func (c *Client) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	return summarize(ctx, c.Chat, r)
}

// Summarize implements condense.Summarizer over the chain.
func (c *Chain) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	return summarize(ctx, c.Chat, r)
}

// summarize is a conversation of one message.
func summarize(ctx context.Context, ask func(context.Context, chat.Request) (chat.Response, error), r condense.Request) (condense.Response, error) {
	a, err := ask(ctx, chat.Request{
		Tenant: r.Tenant, Continues: r.Continues, System: r.System,
		Messages: []chat.Message{{Role: chat.User, Text: r.User}}, MaxTokens: r.Limit,
	})
	if errors.Is(err, chat.ErrRejected) { // by a switch set wrong, or a filter: it may pass later
		err = fmt.Errorf("%w: %w", condense.ErrUnavailable, err)
	}
	if err != nil {
		return condense.Response{}, err
	}
	return condense.Response{Text: a.Text, Stop: a.Stop, Model: a.Model, InputTokens: a.Usage.Input, OutputTokens: a.Usage.Output}, nil
}
