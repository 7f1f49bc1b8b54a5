package natsmicro

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/problem"
)

// Tool is offered under lcm.t.<tenant>.<Name>: whom the server lets publish
// there speaks for that tenant. Its description and the JSON schema of
// its arguments stand in the endpoint's metadata, under "description" and
// "schema", where discovery (nats micro info) shows them.
type Tool struct {
	Name        string // letters, digits, '-' and '_'
	Description string
	Schema      json.RawMessage
	// Handle gets the tenant of the subject and the arguments as they came, and
	// the caller's token by Bearer.
	Handle func(ctx context.Context, tenant string, arguments json.RawMessage) (any, error)
}

func toolSubject(tenant, name string) string {
	return "lcm.t." + events.EncodeToken(tenant) + "." + name
}

// tenantOf reads the tenant of a request's subject.
func tenantOf(ctx context.Context) (string, error) {
	subject, _ := ctx.Value(subjectKey{}).(string)
	parts := strings.Split(subject, ".")
	if len(parts) != 4 {
		return "", problem.New(problem.Invalid, "the subject %q names no tenant", subject)
	}
	tenant, err := events.DecodeToken(parts[2])
	if err != nil {
		return "", problem.New(problem.Invalid, "the tenant of subject %q: %w", subject, err)
	}
	return tenant, nil
}

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
			tenant, err := tenantOf(ctx)
			if err != nil {
				return nil, err
			}
			return t.Handle(ctx, tenant, data)
		}
		meta := map[string]string{"description": t.Description, "schema": string(t.Schema)}
		if err := s.add(t.Name, "lcm.t.*."+t.Name, s.newSlots(), h, meta); err != nil {
			return s.orStop(err)
		}
	}
	return s, nil
}

// Tools calls tools for a tenant.
type Tools struct {
	caller
	tenant string
}

// NewTools makes a client.
func NewTools(nc *nats.Conn, tenant string) *Tools { return &Tools{caller{nc}, tenant} }

// Call calls a tool and decodes its answer into out, nil = not wanted.
func (c *Tools) Call(ctx context.Context, name string, arguments, out any) error {
	return c.ask(ctx, toolSubject(c.tenant, name), "tool named "+name, arguments, out)
}
