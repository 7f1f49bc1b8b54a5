package natsmicro

import (
	"context"
	"encoding/json"

	"github.com/nats-io/nats.go"

	"lcm/internal/problem"
)

// Tool is offered under lcm.t.<Name>. Its description and the JSON schema of
// its arguments stand in the endpoint's metadata, under "description" and
// "schema", where discovery (nats micro info) shows them.
type Tool struct {
	Name        string // letters, digits, '-' and '_'
	Description string
	Schema      json.RawMessage
	// Handle gets the arguments as they came and the caller's token by Bearer.
	Handle func(context.Context, json.RawMessage) (any, error)
}

func toolSubject(name string) string { return "lcm.t." + name }

// ServeTools offers tools; servers with the same ones share the calls.
func ServeTools(nc *nats.Conn, tools []Tool, o Options) (*Server, error) {
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if !json.Valid(t.Schema) {
			return s.orStop(problem.New(problem.Invalid, "tool %s: its schema is not JSON", t.Name))
		}
		h := func(ctx context.Context, data []byte) (any, error) {
			if !json.Valid(data) {
				return nil, problem.New(problem.Invalid, "the arguments of %s are not JSON", t.Name)
			}
			return t.Handle(ctx, data)
		}
		meta := map[string]string{"description": t.Description, "schema": string(t.Schema)}
		if err := s.add(t.Name, toolSubject(t.Name), s.newSlots(), h, meta); err != nil {
			return s.orStop(err)
		}
	}
	return s, nil
}

// Tools calls tools.
type Tools struct{ caller }

// NewTools makes a client.
func NewTools(nc *nats.Conn) *Tools { return &Tools{caller{nc}} }

// Call calls a tool and decodes its answer into out, nil = not wanted.
func (c *Tools) Call(ctx context.Context, name string, arguments, out any) error {
	return c.ask(ctx, toolSubject(name), "tool named "+name, arguments, out)
}
