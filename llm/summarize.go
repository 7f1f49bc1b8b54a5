package llm

import (
	"context"
	"errors"
	"fmt"

	"lcm/chat"
	"lcm/condense"
)

var _ condense.Summarizer = (*Client)(nil)

// Summarize implements condense.Summarizer. It returns ctx's error when ctx
// ends, and otherwise one of condense's.
func (c *Client) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	a, err := c.Chat(ctx, chat.Request{
		System: r.System, Messages: []chat.Message{{Role: chat.User, Text: r.User}}, MaxTokens: r.Limit,
	})
	if errors.Is(err, chat.ErrRejected) { // by a switch set wrong, or a filter: it may pass later
		err = fmt.Errorf("%w: %w", condense.ErrUnavailable, err)
	}
	if err != nil {
		return condense.Response{}, err
	}
	return condense.Response{Text: a.Text, Stop: a.Stop, Model: a.Model, InputTokens: a.Usage.Input, OutputTokens: a.Usage.Output}, nil
}
