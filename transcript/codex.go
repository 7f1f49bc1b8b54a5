package transcript

import (
	"fmt"
	"strings"

	"lcm/events"
)

// codex reads items of OpenAI's Responses API: bare, or in the rollout files of
// the Codex CLI. The rollout tells most things twice; response_item is what the
// model saw, event_msg is its shadow.
type codex struct {
	// response is the group of assistant items in progress, "" = none. The
	// items of one response become one message, so that a reasoning item stays
	// with the item after it.
	response string
}

// codexInjected begin user messages that the program wrote.
var codexInjected = []string{
	"<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<turn_aborted>",
	"<permissions instructions>", "<skill>", "<user_shell_command>", "<INSTRUCTIONS>",
}

type codexRecord struct {
	typ, timestamp, payload, role, recordType, id []byte
}

func readCodexRecord(src []byte) (r codexRecord) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "type":
			r.typ = val
		case "timestamp":
			r.timestamp = val
		case "payload":
			r.payload = val
		case "role":
			r.role = val
		case "record_type":
			r.recordType = val
		case "id":
			r.id = val
		}
	})
	return r
}

func (c *codex) decode(rec record, out []Item) []Item {
	it := newItem(rec)
	if !isObject(rec.src) {
		return append(out, it.reject("a JSON %s, not an object", typeName(rec.src)))
	}
	r := readCodexRecord(rec.src)
	typ := text(r.typ)
	switch {
	case typ == "" && r.role != nil:
		return append(out, c.item(it, rec.src, r)) // {role, content}, the short form of a message
	case typ == "" && text(r.recordType) != "":
		return append(out, it.skip(text(r.recordType)))
	case typ == "" && r.id != nil && r.timestamp != nil: // header of the first rollouts
		return append(out, it.skip("session_meta"))
	case typ == "":
		return append(out, it.reject("the record has no type"))
	case r.payload == nil && codexItems[typ]:
		return append(out, c.item(it, rec.src, r))
	case typ == "response_item" || typ == "compacted":
		if !isObject(r.payload) {
			return append(out, it.reject("the payload of %s is a %s, not an object", typ, typeName(r.payload)))
		}
		if typ == "compacted" {
			c.response = ""
			return append(out, it.compacted("", text(member(r.payload, "message")), Codex, authorTime(r.timestamp)))
		}
		return append(out, c.item(it, r.payload, r))
	}
	if sub := text(member(r.payload, "type")); typ == "event_msg" && sub != "" {
		typ += "/" + sub
	}
	return append(out, it.skip(typ))
}

func (c *codex) flush(out []Item) []Item { return out }

// codexItems are the items that are turns.
var codexItems = map[string]bool{
	"message": true, "reasoning": true,
	"function_call": true, "function_call_output": true,
	"custom_tool_call": true, "custom_tool_call_output": true,
	"local_shell_call": true, "local_shell_call_output": true,
	"web_search_call": true,
}

// responseItem holds the fields of an item.
type responseItem struct {
	typ, id, role, content, name                      []byte
	callID, arguments, input, action, output, summary []byte
}

func readResponseItem(src []byte) (r responseItem) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "type":
			r.typ = val
		case "id":
			r.id = val
		case "role":
			r.role = val
		case "content":
			r.content = val
		case "name":
			r.name = val
		case "call_id":
			r.callID = val
		case "arguments":
			r.arguments = val
		case "input":
			r.input = val
		case "action":
			r.action = val
		case "output":
			r.output = val
		case "summary":
			r.summary = val
		}
	})
	return r
}

func (c *codex) item(it Item, src []byte, rec codexRecord) Item {
	r := readResponseItem(src)
	typ := text(r.typ)
	if typ == "" {
		typ = "message"
	}
	if !codexItems[typ] {
		return it.skip(typ)
	}
	t := &events.TurnAppended{ID: text(r.id), Role: events.RoleAssistant, AuthorTime: authorTime(rec.timestamp)}
	switch typ {
	case "message":
		role, ok := foreignRole(text(r.role))
		if !ok {
			return it.reject("the role is %.40s", r.role)
		}
		if isNull(r.content) {
			return it.reject("%v", errNoContent)
		}
		blocks, err := contentBlocks(r.content)
		if err != nil {
			return it.reject("%v", err)
		}
		t.Role, t.Blocks = role, blocks
		t.Injected = role == events.RoleUser && allHavePrefix(blocks, codexInjected)
	case "reasoning":
		t.Blocks = []events.Block{{Type: events.BlockThinking, Text: reasoningText(r), Raw: string(src)}}
	case "function_call", "custom_tool_call", "local_shell_call":
		t.Blocks = []events.Block{callItem(r, typ)}
	case "web_search_call": // the provider ran it: there is no result to pair
		t.Blocks = []events.Block{{Type: events.BlockUnknown, Raw: string(src)}}
	default: // an output
		if r.output == nil {
			return it.reject("the output item has no output")
		}
		t.Role = events.RoleTool
		t.Blocks = []events.Block{{Type: events.BlockToolResult, CallID: text(r.callID), Content: outputBlocks(r.output)}}
	}
	if t.Role != events.RoleAssistant {
		c.response = ""
	} else {
		if c.response == "" {
			c.response = fmt.Sprintf("response:%d", it.Line)
			if it.Index > 0 {
				c.response += fmt.Sprintf(".%d", it.Index)
			}
		}
		t.MessageID = c.response
	}
	it.Kind, it.Turn = KindTurn, finish(t, Codex, it.Source)
	return it
}

func callItem(r responseItem, typ string) events.Block {
	b := events.Block{Type: events.BlockToolUse, CallID: text(r.callID), Name: text(r.name)}
	input := r.arguments
	switch typ {
	case "custom_tool_call":
		input = r.input
	case "local_shell_call":
		b.Name, input = "local_shell", r.action
		if b.CallID == "" {
			b.CallID = text(r.id)
		}
	}
	if isString(input) {
		b.Input = text(input)
	} else if !isNull(input) {
		b.Input = string(input)
	}
	return b
}

// reasoningText joins what a reasoning item shows.
func reasoningText(r responseItem) string {
	var parts []string
	for _, v := range [][]byte{r.summary, r.content} {
		elements(v, func(p []byte) {
			if s := text(member(p, "text")); s != "" {
				parts = append(parts, s)
			}
		})
	}
	return strings.Join(parts, "\n\n")
}

// outputBlocks reads what a call returned: a string, parts, or an object that
// holds either.
func outputBlocks(v []byte) []events.Block {
	if isObject(v) {
		for _, k := range []string{"content", "output", "content_items"} {
			if inner := member(v, k); isString(inner) || isArray(inner) {
				v = inner
				break
			}
		}
	}
	blocks, err := readContent(v, true)
	if err != nil {
		return []events.Block{{Type: events.BlockUnknown, Raw: string(v)}}
	}
	return blocks
}
