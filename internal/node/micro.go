package node

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
	"lcm/natsmicro"
)

// stopWithin bounds how long an endpoint waits for requests in hand.
const stopWithin = 5 * time.Second

// reachable reports whether other processes can meet this node over NATS.
func (n *Node) reachable() bool { return n.cfg.NATS != "" || n.cfg.NATSListen != "" }

// endpoint offers a role to other processes while the node runs. A node that
// nobody can reach over NATS has nobody to offer it to.
func (n *Node) endpoint(name string, serve func(natsmicro.Options) (*natsmicro.Server, error)) {
	if !n.reachable() {
		return
	}
	n.add(name, func(ctx context.Context) error {
		s, err := serve(natsmicro.Options{Name: name, Version: semantic(n.version), Logger: n.slog})
		if err != nil {
			return err
		}
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		return s.Stop(grace)
	})
}

var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// semantic makes a version that micro accepts.
func semantic(version string) string {
	if semver.MatchString(version) {
		return version
	}
	return "0.0.0-dev"
}

func (n *Node) serveReads(partitions []int) {
	if partitions == nil {
		for p := range n.log.Partitions() {
			partitions = append(partitions, p)
		}
	}
	n.endpoint("lcm-projector", func(o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeReads(n.conn, partitions, n.projector, o)
	})
}

func (n *Node) serveWrites() {
	n.endpoint("lcm-ingestor", func(o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeWrites(n.conn, n.ingest, o)
	})
	n.endpoint("lcm-committer", func(o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeCommits(n.conn, n.name, n.ingest.AppendForwarded, o)
	})
}

// forward hands appends to the ingestor that commits.
func (n *Node) forward(ctx context.Context, name string, requests []api.AppendRequest) ([]api.Forwarded, error) {
	return natsmicro.Forward(ctx, n.conn, name, requests)
}

func (n *Node) serveCondenser() {
	n.endpoint("lcm-condenser", func(o natsmicro.Options) (*natsmicro.Server, error) {
		return natsmicro.ServeCondenser(n.conn, n.condenser, o)
	})
}

func (n *Node) serveTools() {
	n.endpoint("lcm-toolsvc", func(o natsmicro.Options) (*natsmicro.Server, error) {
		var tools []natsmicro.Tool
		gate := n.natsGate()
		for _, t := range n.tools.Tools() {
			if !t.Callable() {
				continue // a stream of bytes: HTTP only
			}
			in, _, err := t.Schema()
			if err != nil {
				return nil, err
			}
			schema, err := json.Marshal(in)
			if err != nil {
				return nil, err
			}
			tools = append(tools, natsmicro.Tool{Name: t.Name, Description: t.Doc, Schema: schema, Handle: n.calledOver(t, gate)})
		}
		return natsmicro.ServeTools(n.conn, tools, o)
	})
}

// natsGate says who calls over NATS, and within which limits: one for all
// tools.
func (n *Node) natsGate() *auth.Gate {
	who := auth.Options{Tokens: auth.NewTokens(TokensFile(n.cfg)), Grants: n.grants, Limits: limits(n.cfg.Auth)}
	if n.cfg.Auth.Mode == "oidc" {
		who.OpenID, _ = openID(n.cfg.Auth) // checked when the node began to listen
	}
	return auth.NewGate(who)
}

// calledOver runs a tool for who calls it over NATS.
func (n *Node) calledOver(t toolsvc.Tool, gate *auth.Gate) func(context.Context, string, json.RawMessage) (any, error) {
	return func(ctx context.Context, tenant string, in json.RawMessage) (any, error) {
		// The subject says whose agent it is, the server's permissions who may
		// publish there. A token beside it says what else it may do, and for its
		// own tenant only.
		c := api.Caller{Name: "nats " + tenant, Tenant: tenant, Scopes: []string{api.ScopeAppend, api.ScopeRead}}
		limited := n.cfg.Auth.Mode != "" && n.cfg.Auth.Mode != "none"
		if token := natsmicro.Bearer(ctx); token != "" {
			var err error
			if c, err = gate.Caller(ctx, token); err != nil {
				return nil, err
			}
			switch {
			case c.Operator && !t.Whole:
				c.Operator, c.Tenant, c.Scopes = false, tenant, api.Scopes()
			case !c.Operator && c.Tenant != tenant:
				return nil, problem.New(problem.Forbidden, "the token is of another tenant than the subject")
			}
			limited = true
		}
		if limited {
			done, err := gate.Admit(c)
			if err != nil {
				return nil, err
			}
			defer done()
		}
		return t.Call(api.WithCaller(ctx, c), in)
	}
}

func (n *Node) remoteReads() reads { return natsmicro.NewReads(n.conn, n.log.Partitions()) }

func (n *Node) remoteWrites() toolsvc.Writes { return natsmicro.NewWrites(n.conn) }

func (n *Node) remoteCondenser() toolsvc.Condenser { return natsmicro.NewCondenser(n.conn) }
