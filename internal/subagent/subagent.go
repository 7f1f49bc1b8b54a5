// Package subagent is the conversation of a model that has tools: call after
// call, until it answers or a limit is met. Whoever starts one gives it its
// tools, says when the next call may not be made, and judges the answers.
//
// What tools answer is data for the model. The package makes no call by
// itself, and must never import an engine, an adapter or a service.
package subagent

import (
	"context"

	"lcm/chat"
	"lcm/internal/problem"
	"lcm/tokens"
)

// Tools are those of one sub-agent.
type Tools interface {
	Specs() []chat.ToolSpec
	// Call runs a tool. Its error is told to the model.
	Call(ctx context.Context, name, arguments string) (string, error)
}

// Conversation is one with a model. All three functions are needed.
type Conversation struct {
	Tools Tools
	// Begin says whether the next call to the model may be made, 1 is the first;
	// false ends the conversation. It may change the request, as to ask for an
	// answer without tools.
	Begin func(call int, q *chat.Request) bool
	// Ask makes one call. usable: what came is whole, so that the tools it calls
	// may be run. An error ends the conversation.
	Ask func(ctx context.Context, q chat.Request) (a chat.Response, usable bool, err error)
	// Judge is given what calls no tool, or is not usable. It returns what to
	// tell the model, which then answers again; "" ends the conversation.
	Judge func(a chat.Response, usable bool) (again string)
}

// Run begins with a request and goes on to the end of the conversation. Its
// error is that of Ask.
func (c Conversation) Run(ctx context.Context, q chat.Request) error {
	q.Tools = c.Tools.Specs()
	for n := 1; c.Begin(n, &q); n++ {
		a, usable, err := c.Ask(ctx, q)
		if err != nil {
			return err
		}
		q.Continues = true
		if usable && len(a.Calls) > 0 {
			q.Messages = append(q.Messages, a.Message())
			for _, call := range a.Calls {
				q.Messages = append(q.Messages, c.result(ctx, call))
			}
			continue
		}
		again := c.Judge(a, usable)
		if again == "" {
			return nil
		}
		if a.Text != "" { // else the same question again
			q.Messages = append(q.Messages, chat.Message{Role: chat.Assistant, Text: a.Text}, chat.Message{Role: chat.User, Text: again})
		}
	}
	return nil
}

// result of a call, or what went wrong with it.
func (c Conversation) result(ctx context.Context, call chat.Call) chat.Message {
	text, err := c.Tools.Call(ctx, call.Name, call.Arguments)
	if err != nil {
		return chat.Message{Role: chat.Tool, CallID: call.ID, Text: problem.From(err).Error(), Error: true}
	}
	return chat.Message{Role: chat.Tool, CallID: call.ID, Text: text}
}

// Usage of an answer: as the provider reports it, else as we count.
func Usage(q chat.Request, a chat.Response) chat.Usage {
	u := a.Usage
	if u.Input == 0 {
		u.Input = InputTokens(q)
	}
	if u.Output == 0 {
		u.Output = tokens.Count(a.Text)
		for _, c := range a.Calls {
			u.Output += tokens.Count(c.Name) + tokens.Count(c.Arguments)
		}
	}
	return u
}

// InputTokens of a request, as we count.
func InputTokens(q chat.Request) int {
	n := tokens.Count(q.System)
	for _, t := range q.Tools {
		n += tokens.Count(t.Description) + tokens.Count(string(t.Schema))
	}
	for _, m := range q.Messages {
		n += tokens.Count(m.Text)
		for _, c := range m.Calls {
			n += tokens.Count(c.Name) + tokens.Count(c.Arguments)
		}
	}
	return n
}
