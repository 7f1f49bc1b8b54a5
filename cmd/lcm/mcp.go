package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/internal/mcp"
	"lcm/internal/node"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
)

func (a *app) mcpCmd() *cobra.Command {
	var session string
	var expand bool
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "An MCP server on stdio: search, describe and read memory from a model",
		Long: `Speaks the Model Context Protocol on stdin and stdout, for an agent that starts
it. It talks to the server that owns the data directory; where there is none it
opens the directory itself and serves other commands as well. A running server
offers the same tools over HTTP at /mcp.`,
		Example: `  lcm mcp install --client claude-code     what to paste where
  lcm mcp --session chat                   calls without a session mean this one
  lcm mcp --expand                         for a sub-agent: verbatim turns without a grant`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			tools, err := new(toolsvc.Service).AgentTools()
			if err != nil {
				return err
			}
			log := a.logger(slog.LevelWarn)
			c := &redialling{dial: func(ctx context.Context) (*client.Client, func() error, error) {
				return node.Share(ctx, a.cfg, log, version)
			}, tenant: a.cfg.Tenant}
			s := mcp.New(mcp.Config{Version: version, Session: session, NeedsGrant: !expand, Logger: log}, tools, c)
			go c.warm(a.ctx)
			err = s.Stdio(a.ctx, a.in, a.out)
			return errors.Join(err, c.close())
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the session of calls that name none")
	cmd.Flags().BoolVar(&expand, "expand", false, "let lcm_expand read without a grant")
	cmd.AddCommand(a.mcpInstallCmd())
	return cmd
}

// redialling calls tools on whoever owns the data directory, and looks for the
// owner anew where it is gone: the process that has the directory open may end
// before this one.
type redialling struct {
	dial   func(context.Context) (*client.Client, func() error, error)
	tenant string

	mu   sync.Mutex
	c    *client.Client
	done func() error
}

// connected is the client of the owner.
func (r *redialling) connected(ctx context.Context) (*client.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c != nil {
		return r.c, nil
	}
	c, done, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	r.c, r.done = c, done
	return c, nil
}

// warm connects before the first call, whose caller would wait; what is wrong
// that call is told.
func (r *redialling) warm(ctx context.Context) { _, _ = r.connected(ctx) }

// forget a client that did not answer.
func (r *redialling) forget(c *client.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == c {
		_ = r.done() // it is gone already
		r.c, r.done = nil, nil
	}
}

// Tool implements mcp.Caller.
func (r *redialling) Tool(ctx context.Context, tool string, in json.RawMessage) (json.RawMessage, error) {
	if r.tenant != "" {
		var p map[string]json.RawMessage
		if err := json.Unmarshal(in, &p); err != nil {
			return nil, err
		}
		p["tenant"], _ = json.Marshal(r.tenant) // a string
		in, _ = json.Marshal(p)                 // of what was JSON
	}
	for again := false; ; again = true {
		c, err := r.connected(ctx)
		if err != nil {
			return nil, err
		}
		out, err := c.Tool(ctx, tool, in)
		if err == nil || again || !errors.Is(err, client.ErrNoAnswer) {
			return out, err
		}
		r.forget(c)
		if tool == "append" {
			return nil, problem.New(problem.Unavailable, "%w", err).WithHint("call again: turns with the same ids are stored once")
		}
	}
}

func (r *redialling) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.c == nil {
		return nil
	}
	return r.done()
}

// installs are what a client needs to start the server, by the client's name;
// %[1]s is the command's path and %[2]s its arguments, as JSON.
var installs = map[string]string{
	"claude-code": `Run:

  claude mcp add --scope user lcm -- %[3]s

or put into .mcp.json of a project:

{
  "mcpServers": {
    "lcm": {"type": "stdio", "command": %[1]s, "args": %[2]s}
  }
}

The plugin in plugins/claude-code also records each turn as it happens.
`,
	"cursor": `Put into ~/.cursor/mcp.json, or .cursor/mcp.json of a project:

{
  "mcpServers": {
    "lcm": {"command": %[1]s, "args": %[2]s}
  }
}
`,
	"openai-agents": `In Python, with the package openai-agents:

from agents import Agent
from agents.mcp import MCPServerStdio

async with MCPServerStdio(name="lcm", params={"command": %[1]s, "args": %[2]s}) as lcm:
    agent = Agent(name="assistant", mcp_servers=[lcm])
`,
	"generic": `A client that starts servers on stdio:

{"mcpServers": {"lcm": {"command": %[1]s, "args": %[2]s}}}

A client that speaks streamable HTTP, beside a running ` + "`lcm serve`" + `:

{"mcpServers": {"lcm": {"type": "http", "url": "http://127.0.0.1:8420/mcp"}}}
`,
}

func (a *app) mcpInstallCmd() *cobra.Command {
	var name string
	known := make([]string, 0, len(installs))
	for n := range installs {
		known = append(known, n)
	}
	slices.Sort(known)
	cmd := &cobra.Command{
		Use: "install", Short: "Print what to paste into a client", Args: cobra.NoArgs,
		Example: "  lcm mcp install --client claude-code\n  lcm mcp install --client cursor",
		RunE: func(*cobra.Command, []string) error {
			text, ok := installs[name]
			if !ok {
				return problem.New(problem.Invalid, "there is no client %q", name).WithHint("one of %s", strings.Join(known, ", "))
			}
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			args := []string{"mcp"}
			if a.cfg.Server != "" {
				args = append([]string{"--server", a.cfg.Server}, args...)
			} else {
				args = append([]string{"--data-dir", a.cfg.DataDir}, args...)
			}
			path, err := json.Marshal(exe)
			if err != nil {
				return err
			}
			list, err := json.Marshal(args)
			if err != nil {
				return err
			}
			words := []string{shellWord(exe)}
			for _, w := range args {
				words = append(words, shellWord(w))
			}
			_, err = fmt.Fprintf(a.out, strings.TrimLeft(text, "\n"), path, list, strings.Join(words, " "))
			return err
		},
	}
	cmd.Flags().StringVar(&name, "client", "generic", strings.Join(known, ", "))
	return cmd
}

// shellWord quotes a word where a shell would read it otherwise.
func shellWord(w string) string {
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool {
		return !strings.ContainsRune("-_./:=,@%+", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
