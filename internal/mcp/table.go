package mcp

import (
	"context"
	"encoding/json"
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
	out, err := tool.Call(ctx, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// readWithin bounds a tool that is not said to take long.
const readWithin = 30 * time.Second
