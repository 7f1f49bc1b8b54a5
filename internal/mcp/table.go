package mcp

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"strings"
	"time"

	"lcm/internal/problem"
	"lcm/internal/toolsvc"
)

// Table calls the tools of a service in this process.
type Table map[string]toolsvc.Tool

// NewTable indexes a table of tools.
func NewTable(tools []toolsvc.AgentTool) Table {
	t := Table{}
	for _, tool := range tools {
		t[tool.Name] = tool.Tool
	}
	return t
}

// Tool implements Caller.
func (t Table) Tool(ctx context.Context, name string, in json.RawMessage) (json.RawMessage, error) {
	tool, ok := t[name]
	if !ok {
		return nil, problem.New(problem.NotFound, "there is no tool %s", name)
	}
	if !tool.Long {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, readWithin)
		defer cancel()
	}
	out, err := guarded(ctx, tool, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// readWithin bounds a tool that is not said to take long.
const readWithin = 30 * time.Second

// guarded turns a panic of a tool into a failed call.
func guarded(ctx context.Context, t toolsvc.Tool, in json.RawMessage) (out any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.New(problem.Internal, "%s failed inside: %v\n%s", t.Name, v, debug.Stack())
		}
	}()
	return t.Call(ctx, in)
}

// namesSession reports an id with its session in front.
func namesSession(id any) bool {
	s, _ := id.(string)
	return strings.HasPrefix(s, "session:") || strings.Contains(s, "/")
}
