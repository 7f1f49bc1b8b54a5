package transcript

import (
	"errors"
	"fmt"
	"time"

	"lcm/events"
)

// chat reads messages: OpenAI chat completions, Anthropic messages, plain
// {role, content}, and this project's own lines. One reader serves all four,
// since files mix them; the format only labels the turns and decides how a
// message would be written back.
type chat struct{ format Format }

// vendorFields are what reasoning models behind the chat completions API put
// beside the content, and want back unchanged (DeepSeek, OpenRouter, LiteLLM).
var vendorFields = []string{"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"}

func isVendorField(key []byte) bool {
	for _, f := range vendorFields {
		if string(key) == f {
			return true
		}
	}
	return false
}

// message holds the fields of a message that any dialect knows.
type message struct {
	typ, role, content, id, parent, sender, time    []byte
	name, toolCallID, toolCalls, functionCall       []byte
	refusal, isError, injected, vendorText, vendors []byte
	hasContent, hasTime                             bool
}

func readMessage(src []byte) (m message) {
	fields(src, func(key, val []byte) {
		switch string(key) {
		case "type":
			m.typ = val
		case "role":
			m.role = val
		case "content":
			m.content, m.hasContent = val, true
		case "id":
			m.id = val
		case "parent":
			m.parent = val
		case "sender":
			m.sender = val
		case "time":
			m.time, m.hasTime = val, !isNull(val)
		case "timestamp", "created_at":
			if m.time == nil {
				m.time = val
			}
		case "name":
			m.name = val
		case "tool_call_id":
			m.toolCallID = val
		case "tool_calls":
			m.toolCalls = val
		case "function_call":
			m.functionCall = val
		case "refusal":
			m.refusal = val
		case "is_error":
			m.isError = val
		case "injected":
			m.injected = val
		default:
			if !isVendorField(key) || isNull(val) {
				return
			}
			if m.vendorText == nil && isString(val) {
				m.vendorText = val
			}
			if m.vendors == nil {
				m.vendors = append(m.vendors, '{')
			} else {
				m.vendors = append(m.vendors, ',')
			}
			m.vendors = append(append(append(append(m.vendors, '"'), key...), `":`...), val...)
		}
	})
	return m
}

func (c *chat) decode(rec record, out []Item) []Item {
	it := newItem(rec)
	if !isObject(rec.src) {
		return append(out, it.reject("a JSON %s, not an object", typeName(rec.src)))
	}
	m := readMessage(rec.src)
	t, err := c.turn(m)
	if err != nil {
		return append(out, it.reject("%v", err))
	}
	it.Kind, it.ParentID = KindTurn, idText(m.parent)
	it.Turn = finish(t, c.format, rec.src)
	return append(out, it)
}

func (c *chat) flush(out []Item) []Item { return out }

func (c *chat) turn(m message) (*events.TurnAppended, error) {
	role, ok := foreignRole(text(m.role))
	if !ok {
		if m.role == nil {
			return nil, errors.New("the message has no role")
		}
		return nil, fmt.Errorf("the role is %.40s, not one of system, developer, user, assistant, tool", m.role)
	}
	t := &events.TurnAppended{ID: idText(m.id), Role: role, Injected: isTrue(m.injected), AuthorTime: authorTime(m.time)}
	if m.hasTime && t.AuthorTime == nil {
		return nil, fmt.Errorf("the time is %.60s, not RFC 3339", m.time)
	}
	if text(m.typ) == "message" { // as the Anthropic API answers
		t.MessageID = t.ID
	}
	blocks, err := contentBlocks(m.content)
	if err != nil {
		return nil, err
	}
	name := text(m.name)
	if t.Sender = text(m.sender); t.Sender == "" && role != events.RoleTool {
		t.Sender = name
	}
	switch role {
	case events.RoleTool:
		if !m.hasContent {
			return nil, errNoContent
		}
		blocks = resultBlocks(m, name, blocks)
	case events.RoleAssistant:
		extra, err := assistantBlocks(m, &blocks)
		if err != nil {
			return nil, err
		}
		if !m.hasContent && !extra {
			return nil, errNoContent
		}
	default:
		if isNull(m.content) {
			return nil, errNoContent
		}
	}
	t.Role, t.Blocks = turnRole(role, blocks), blocks
	return t, nil
}

// resultBlocks makes the content of a tool message the result it is.
func resultBlocks(m message, name string, blocks []events.Block) []events.Block {
	if blocksOf(blocks, events.BlockToolResult) > 0 {
		return blocks
	}
	id := text(m.toolCallID)
	if id == "" && text(m.role) == "function" {
		id = functionCallID(name)
	}
	return []events.Block{{Type: events.BlockToolResult, CallID: id, Name: name, Content: blocks, IsError: isTrue(m.isError)}}
}

// functionCallID pairs the calls of the API before tool_calls, which had no ids.
func functionCallID(name string) string { return "fn_" + name }

// assistantBlocks puts what stands beside the content into the blocks and
// reports whether there was any.
func assistantBlocks(m message, blocks *[]events.Block) (extra bool, err error) {
	if s := text(m.refusal); s != "" {
		*blocks = append(*blocks, events.Block{Type: events.BlockText, Text: s, Raw: `{"refusal":` + string(m.refusal) + `}`})
		extra = true
	}
	if m.vendors != nil {
		b := events.Block{Type: events.BlockThinking, Text: text(m.vendorText), Raw: string(m.vendors) + "}"}
		*blocks = append([]events.Block{b}, *blocks...)
		extra = true
	}
	switch {
	case isArray(m.toolCalls):
		n := 0
		elements(m.toolCalls, func(v []byte) {
			n++
			if !isObject(v) && err == nil {
				err = fmt.Errorf("tool call %d is a %s, not an object", n, typeName(v))
			}
			*blocks = append(*blocks, callBlock(v))
			extra = true
		})
	case !isNull(m.toolCalls):
		err = fmt.Errorf("tool_calls is a %s, not an array", typeName(m.toolCalls))
	}
	if isObject(m.functionCall) {
		b := callBlock([]byte(`{"function":` + string(m.functionCall) + `}`))
		b.CallID = functionCallID(b.Name)
		*blocks = append(*blocks, b)
		extra = true
	}
	return extra, err
}

// callBlock reads one of OpenAI's tool_calls. Arguments are a string, whatever
// it holds; servers that send an object are understood.
func callBlock(v []byte) events.Block {
	b := events.Block{Type: events.BlockToolUse}
	var args []byte
	vendor := false
	fields(v, func(key, val []byte) {
		switch string(key) {
		case "id":
			b.CallID = text(val)
		case "function", "custom":
			fields(val, func(key, val []byte) {
				switch string(key) {
				case "name":
					b.Name = text(val)
				case "arguments", "input":
					args = val
				default:
					vendor = true
				}
			})
		case "type", "index":
		default:
			vendor = vendor || !isNull(val)
		}
	})
	if isString(args) {
		b.Input = text(args)
	} else if !isNull(args) {
		b.Input = string(args)
	}
	if vendor {
		b.Raw = string(v)
	}
	return b
}

// systemTurn makes a turn of the instructions that stand beside the messages
// of a conversation.
func (c *chat) systemTurn(rec record) Item {
	it := newItem(rec)
	blocks, err := contentBlocks(rec.src)
	if err != nil {
		return it.reject("system: %v", err)
	}
	it.Kind = KindTurn
	it.Turn = finish(&events.TurnAppended{Role: events.RoleSystem, Blocks: blocks}, c.format, rec.src)
	return it
}

// idText returns an id, which may have been written as a number.
func idText(v []byte) string {
	if c := first(v); c == '-' || c >= '0' && c <= '9' {
		return string(v)
	}
	return text(v)
}

func newItem(rec record) Item {
	return Item{
		Line: rec.line, Index: rec.index, Conversation: rec.conv,
		Source: rec.src, SourceBytes: rec.size, SourceHash: rec.hash,
	}
}

func (it Item) reject(format string, args ...any) Item {
	it.Kind, it.Reason, it.Turn = KindReject, fmt.Sprintf(format, args...), nil
	return it
}

func (it Item) skip(kind string) Item {
	it.Kind, it.Reason = KindSkip, kind
	return it
}

func (it Item) compacted(id, summary string, f Format, at *time.Time) Item {
	it.Kind = KindCompaction
	it.Compaction = &events.HistoryCompacted{
		ID: id, Text: summary, Format: string(f), Original: string(it.Source), AuthorTime: at,
	}
	return it
}
