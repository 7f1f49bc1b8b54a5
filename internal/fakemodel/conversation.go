package fakemodel

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Conversation is what a provider is asked, whoever's words it is written in.
type Conversation struct {
	Model, System string
	Tools         []string
	MayCall       bool // tools are not ruled out
	MaxTokens     int
	Messages      []Said
}

// Said is a message, or the result of one call: Role is user, assistant or
// tool.
type Said struct{ Role, Text string }

// Step is an answer.
type Step struct {
	Text  string
	Calls []Call
	Cut   bool // it ended at its limit
}

// Call of a tool; Arguments are JSON, or not.
type Call struct{ Name, Arguments string }

// Results are what tools have answered, in order.
func (c Conversation) Results() []string {
	var out []string
	for _, m := range c.Messages {
		if m.Role == "tool" {
			out = append(out, m.Text)
		}
	}
	return out
}

// converse refuses what the real ones refuse, and answers with Next.
func (p *Provider) converse(w http.ResponseWriter, q question, anthropic bool) {
	read := q.completions
	if anthropic {
		read = q.blocks
	}
	c, err := read()
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	c.Model, c.MaxTokens, c.MayCall = q.Model, q.MaxTokens, len(q.Tools) > 0 && !strings.Contains(string(q.ToolChoice), "none")
	for _, t := range q.Tools {
		c.Tools = append(c.Tools, t.Name+t.Function.Name)
	}
	step := p.Next(c)
	if anthropic {
		reply(w, http.StatusOK, q.message(step))
		return
	}
	reply(w, http.StatusOK, q.completion(step))
}

// calls that wait for their result: every one must get its own before anybody
// speaks again.
type calls map[string]bool

func (open calls) close(id string) error {
	if !open[id] {
		return fmt.Errorf("a result for the call %q, which is not open", id)
	}
	delete(open, id)
	return nil
}

func (open calls) closed() error {
	if len(open) > 0 {
		return fmt.Errorf("%d calls have no result", len(open))
	}
	return nil
}

// completions reads OpenAI's messages.
func (q question) completions() (c Conversation, err error) {
	open := calls{}
	for _, m := range q.Messages {
		var text string
		if err := json.Unmarshal(m.Content, &text); err != nil && string(m.Content) != "null" {
			return c, fmt.Errorf("content of role %s is no string: %w", m.Role, err)
		}
		switch m.Role {
		case "system":
			c.System = text
			continue
		case "tool":
			err = open.close(m.ToolCallID)
		default:
			err = open.closed()
		}
		if err != nil {
			return c, err
		}
		for _, call := range m.ToolCalls {
			open[call.ID] = true
		}
		c.Messages = append(c.Messages, Said{m.Role, text})
	}
	return c, open.closed()
}

// blocks reads Anthropic's messages, whose blocks are texts, uses of tools and
// their results.
func (q question) blocks() (c Conversation, err error) {
	_ = json.Unmarshal(q.System, &c.System) // a string, or none
	open, last := calls{}, ""
	for _, m := range q.Messages {
		if m.Role == last {
			return c, fmt.Errorf("two messages of %s in a row", m.Role)
		}
		last = m.Role
		var blocks []struct {
			Type, Text, ID string
			Of             string `json:"tool_use_id"`
			Content        string
		}
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
			return c, fmt.Errorf("content of role %s: %w", m.Role, err)
		}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				open[b.ID] = true
			case "tool_result":
				if err := open.close(b.Of); err != nil {
					return c, err
				}
				c.Messages = append(c.Messages, Said{"tool", b.Content})
			default:
				c.Messages = append(c.Messages, Said{m.Role, b.Text})
			}
		}
		if m.Role == "user" {
			if err := open.closed(); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// callID names the nth call of an answer.
func callID(q question, n int) string { return fmt.Sprintf("call_%d_%d", len(q.Messages), n) }

// input of a tool_use block: an object, whatever the model meant.
func input(arguments string) any {
	var v map[string]any
	if json.Unmarshal([]byte(arguments), &v) != nil {
		return map[string]any{}
	}
	return v
}
