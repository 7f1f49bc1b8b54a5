package ingest

import (
	"container/list"
	"encoding/json"
	"sync"

	"lcm/events"
)

// pathKeys are the names under which the tools of known agents take the path
// of what they read or write, most specific first.
var pathKeys = []string{
	"file_path", "filepath", "filePath", "absolute_path", "notebook_path", "target_file",
	"relative_path", "path", "file", "filename", "file_name", "uri",
}

// callPath is the path a tool call names, "" where it names none.
func callPath(b events.Block) string {
	var args map[string]json.RawMessage
	if json.Unmarshal([]byte(b.Input), &args) != nil {
		return ""
	}
	for _, k := range pathKeys {
		var s string
		if raw, ok := args[k]; ok && json.Unmarshal(raw, &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// calls remembers the newest tool calls and the paths they named: a result may
// come before the projection has seen its call. Safe for concurrent use.
type calls struct {
	mu    sync.Mutex
	max   int
	byKey map[callKey]*list.Element
	order *list.List // of knownCall, newest first
}

type callKey struct {
	ref events.Ref
	id  string
}

type knownCall struct {
	key  callKey
	path string
}

func newCalls(max int) *calls {
	return &calls{max: max, byKey: map[callKey]*list.Element{}, order: list.New()}
}

// note remembers the calls of a turn. A reused id means its newest call.
func (c *calls) note(ref events.Ref, t *events.TurnAppended) {
	for _, b := range t.Blocks {
		if b.Type != events.BlockToolUse || b.CallID == "" {
			continue
		}
		c.put(callKey{ref, b.CallID}, callPath(b))
	}
}

func (c *calls) put(key callKey, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		e.Value = knownCall{key, path}
		c.order.MoveToFront(e)
		return
	}
	c.byKey[key] = c.order.PushFront(knownCall{key, path})
	if len(c.byKey) > c.max {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.byKey, last.Value.(knownCall).key)
	}
}

// path of a call, ok where the call is remembered.
func (c *calls) path(ref events.Ref, id string) (path string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[callKey{ref, id}]
	if e == nil {
		return "", false
	}
	return e.Value.(knownCall).path, true
}
