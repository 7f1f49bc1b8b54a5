package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"lcm/internal/problem"
)

const (
	// connectWithin bounds how long a server may take to start and answer.
	connectWithin = 30 * time.Second
	// toolText is what one answer of a tool holds at most, bytes.
	toolText = 64 << 10
)

// Remote is a server whose tools are used, as the operator configured it.
type Remote struct {
	Name string // in front of its tools' names
	// Command starts it, on stdio, with the variables that Env names; or it
	// answers at URL, with a bearer token unless Token is "".
	Command    []string
	Env        []string
	URL, Token string
	// Tools that are used, none = all.
	Tools []string
}

// RemoteTool is a tool of another server.
type RemoteTool struct {
	Name   string // SERVER__TOOL
	Text   string
	Schema json.RawMessage // of its arguments
	Reads  bool            // it says that it changes nothing

	server *remote
	tool   string
}

// Remotes are connections to other servers, made when they are first needed
// and again where they broke. Its methods may be called concurrently.
type Remotes struct{ list []*remote }

type remote struct {
	Remote
	version string

	mu      sync.Mutex
	session *sdk.ClientSession
	tools   []RemoteTool
}

// NewRemotes connects to nobody yet.
func NewRemotes(list []Remote, version string) *Remotes {
	out := &Remotes{}
	for _, r := range list {
		out.list = append(out.list, &remote{Remote: r, version: version})
	}
	return out
}

// Tools of all servers. One that does not answer is an error: whoever counts
// on its tools is not to work without them.
func (r *Remotes) Tools(ctx context.Context) ([]RemoteTool, error) {
	var out []RemoteTool
	for _, s := range r.list {
		_, tools, err := s.connected(ctx)
		if err != nil {
			return nil, problem.New(problem.Unavailable, "the MCP server %s: %w", s.Name, err).WithHint("see map.mcp in lcm.toml")
		}
		out = append(out, tools...)
	}
	return out, nil
}

// Close ends the connections, and the servers that were started.
func (r *Remotes) Close() error {
	var errs []error
	for _, s := range r.list {
		s.mu.Lock()
		if s.session != nil {
			errs = append(errs, s.session.Close())
		}
		s.session = nil
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}

func (s *remote) connected(ctx context.Context) (*sdk.ClientSession, []RemoteTool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return s.session, s.tools, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "lcm", Version: s.version}, nil).Connect(ctx, s.transport(), nil)
	if err != nil {
		return nil, nil, err
	}
	var tools []RemoteTool
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, nil, errors.Join(err, session.Close())
		}
		if len(s.Remote.Tools) > 0 && !slices.Contains(s.Remote.Tools, t.Name) {
			continue
		}
		schema, err := json.Marshal(t.InputSchema)
		if err != nil {
			return nil, nil, errors.Join(err, session.Close())
		}
		tools = append(tools, RemoteTool{
			Name: s.Name + "__" + strange.ReplaceAllString(t.Name, "_"), Text: t.Description, Schema: schema,
			Reads: t.Annotations != nil && t.Annotations.ReadOnlyHint, server: s, tool: t.Name,
		})
	}
	s.session, s.tools = session, tools
	return session, tools, nil
}

// strange is what providers do not take in a tool's name.
var strange = regexp.MustCompile(`[^A-Za-z0-9_-]`)

func (s *remote) transport() sdk.Transport {
	if s.URL != "" {
		t := &sdk.StreamableClientTransport{Endpoint: s.URL, DisableStandaloneSSE: true}
		if s.Token != "" {
			t.HTTPClient = &http.Client{Transport: bearer(s.Token)}
		}
		return t
	}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Env = []string{} // not this process's: it holds the keys of models
	for _, name := range append([]string{"PATH", "HOME", "LANG", "TMPDIR"}, s.Env...) {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return &sdk.CommandTransport{Command: cmd}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Call runs the tool with JSON arguments. What it answers is data; what it
// refuses is an error for whoever called it.
func (t RemoteTool) Call(ctx context.Context, arguments json.RawMessage) (string, error) {
	session, _, err := t.server.connected(ctx)
	if err != nil {
		return "", problem.New(problem.Unavailable, "%s: %w", t.Name, err)
	}
	r, err := session.CallTool(ctx, &sdk.CallToolParams{Name: t.tool, Arguments: arguments})
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused):
		return "", problem.New(problem.Invalid, "%s: %s", t.Name, refused.Message)
	case err != nil && ctx.Err() == nil:
		t.server.forget(session)
		return "", problem.New(problem.Unavailable, "%s: %w", t.Name, err).WithHint("call it again")
	case err != nil:
		return "", err
	}
	text := said(r)
	if r.IsError {
		return "", problem.New(problem.Invalid, "%s", text)
	}
	if len(text) > toolText {
		return "", problem.New(problem.TooLarge, "the answer of %s has %d bytes, %d are passed on", t.Name, len(text), toolText).WithHint("ask for less of it")
	}
	return text, nil
}

// forget a connection that broke.
func (s *remote) forget(session *sdk.ClientSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		_ = session.Close() // it is gone already
		s.session = nil
	}
}

// said is the text of an answer.
func said(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			parts = append(parts, t.Text)
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if b, err := json.Marshal(r.StructuredContent); err == nil {
			return string(b)
		}
	}
	return strings.Join(parts, "\n")
}
