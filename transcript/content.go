package transcript

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lcm/events"
)

// This file reads what the formats share: the content of a message, a string or
// an array of typed parts, in the dialects of Anthropic, OpenAI (chat and
// Responses), Pi and this project's own blocks.

var errNoContent = errors.New("the message has no content")

// contentBlocks reads a message's content. null and an empty string are no blocks.
func contentBlocks(v []byte) ([]events.Block, error) { return readContent(v, false) }

// readContent reads content, inside a tool result or not: there a call, a
// result or reasoning has no meaning, and stays raw.
func readContent(v []byte, inResult bool) ([]events.Block, error) {
	switch {
	case isNull(v):
		return nil, nil
	case isString(v):
		return textBlocks(text(v)), nil
	case !isArray(v):
		return nil, fmt.Errorf("the content is a %s, not a string or an array", typeName(v))
	}
	var blocks []events.Block
	var err error
	n := 0
	elements(v, func(p []byte) {
		n++
		switch {
		case isObject(p):
			blocks = append(blocks, partBlock(p, inResult))
		case isString(p):
			blocks = append(blocks, events.Block{Type: events.BlockText, Text: text(p)})
		case err == nil:
			err = fmt.Errorf("content part %d is a %s, not an object", n, typeName(p))
		}
	})
	return blocks, err
}

func textBlocks(s string) []events.Block {
	if s == "" {
		return nil
	}
	return []events.Block{{Type: events.BlockText, Text: s}}
}

func typeName(v []byte) string {
	switch first(v) {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n', 0:
		return "null"
	}
	return "number"
}

// part holds the fields of a content part that any dialect knows.
type part struct {
	typ                                          string
	text, thinking, signature                    []byte
	id, callID, name, input, arguments           []byte
	content, isError                             []byte
	source, image, url, file, data, mediaType    []byte
	width, height, raw, title, foreign, redacted []byte
}

func readPart(p []byte) (f part) {
	fields(p, func(key, val []byte) {
		switch string(key) {
		case "type":
			f.typ = text(val)
		case "text":
			f.text = val
		case "thinking":
			f.thinking = val
		case "signature":
			f.signature = val
		case "thinkingSignature":
			f.foreign = val
		case "redacted":
			f.redacted = val
		case "id":
			f.id = val
		case "tool_use_id", "call_id":
			f.callID = val
		case "name", "tool_name":
			f.name = val
		case "input":
			f.input = val
		case "arguments":
			f.arguments = val
		case "content":
			f.content = val
		case "is_error":
			f.isError = val
		case "source":
			f.source = val
		case "image_url":
			f.image = val
		case "url":
			f.url = val
		case "file":
			f.file = val
		case "data":
			f.data = val
		case "media_type", "mimeType":
			f.mediaType = val
		case "width":
			f.width = val
		case "height":
			f.height = val
		case "raw":
			f.raw = val
		case "title":
			f.title = val
		}
	})
	return f
}

// partBlock reads one typed part. What it does not understand it keeps raw.
func partBlock(p []byte, inResult bool) events.Block {
	f := readPart(p)
	switch f.typ {
	case "text", "input_text", "output_text", "summary_text", "reasoning_text":
		if isString(f.text) {
			return events.Block{Type: events.BlockText, Text: text(f.text)}
		}
	case "refusal":
		if s := text(member(p, "refusal")); s != "" {
			return events.Block{Type: events.BlockText, Text: s, Raw: string(p)}
		}
	case "thinking":
		if !inResult {
			return thinkingBlock(p, f)
		}
	case "tool_use":
		if !inResult {
			return toolUseBlock(f)
		}
	case "tool_result":
		if !inResult {
			return toolResultBlock(p, f)
		}
	case "image", "image_url", "input_image":
		if b := imageBlock(f); b.Data != "" || b.URL != "" {
			return b
		}
	case "document", "file", "input_file":
		if b := documentBlock(p, f); b.Data != "" || b.URL != "" || b.Text != "" {
			return b
		}
	case "unknown": // our own
		if isString(f.raw) {
			return events.Block{Type: events.BlockUnknown, Raw: text(f.raw)}
		}
	}
	return events.Block{Type: events.BlockUnknown, Raw: string(p)}
}

func thinkingBlock(p []byte, f part) events.Block {
	if f.thinking == nil {
		f.thinking = f.text // our own
	}
	b := events.Block{Type: events.BlockThinking}
	var lossy bool
	if isString(f.thinking) {
		b.Text, lossy = unquote(f.thinking)
	}
	b.Signature = text(f.signature)
	if isString(f.raw) {
		b.Raw = text(f.raw)
	} else if lossy { // the signature covers text that a string cannot hold
		b.Raw = string(p)
	}
	return b
}

func toolUseBlock(f part) events.Block {
	b := events.Block{Type: events.BlockToolUse, CallID: text(f.id), Name: text(f.name), Input: string(f.input), Raw: text(f.raw)}
	if f.callID != nil { // our own: the input is a string that holds JSON
		b.CallID = text(f.callID)
		if isString(f.input) {
			b.Input = text(f.input)
		}
	}
	return b
}

func toolResultBlock(p []byte, f part) events.Block {
	content, err := readContent(f.content, true)
	if err != nil {
		// Still the answer to its call: what it holds is kept raw inside.
		content = []events.Block{{Type: events.BlockUnknown, Raw: string(p)}}
	}
	b := events.Block{Type: events.BlockToolResult, CallID: text(f.callID), Name: text(f.name), Content: content, IsError: isTrue(f.isError)}
	if f.content == nil && isString(f.text) { // our own
		b.Text = text(f.text)
	}
	return b
}

// blocksOf counts the blocks of one type.
func blocksOf(blocks []events.Block, t events.BlockType) (n int) {
	for _, b := range blocks {
		if b.Type == t {
			n++
		}
	}
	return n
}

// turnRole is the role a turn of these blocks has here. Anthropic puts the
// results of tool calls into user messages; they are nobody's words, and must
// not count as the newest user turn.
func turnRole(r events.Role, blocks []events.Block) events.Role {
	if n := blocksOf(blocks, events.BlockToolResult); r == events.RoleUser && n > 0 && n == len(blocks) {
		return events.RoleTool
	}
	return r
}

// foreignRole maps the names formats use for roles.
func foreignRole(s string) (events.Role, bool) {
	if r := events.Role(s); r.Valid() {
		return r, true
	}
	switch s {
	case "function", "toolResult":
		return events.RoleTool, true
	case "human":
		return events.RoleUser, true
	case "model", "ai":
		return events.RoleAssistant, true
	}
	return "", false
}

// authorTime reads an RFC 3339 time or a number of seconds or milliseconds
// since 1970; nil where there is none.
func authorTime(v []byte) *time.Time {
	var t time.Time
	if isString(v) {
		var err error
		if t, err = time.Parse(time.RFC3339Nano, text(v)); err != nil {
			return nil
		}
	} else {
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || !(n > 0 && n < 1e15) {
			return nil
		}
		if n < 1e11 { // seconds: milliseconds were that small in early 1973
			n *= 1000
		}
		t = time.UnixMilli(int64(n))
	}
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 { // JSON holds no other year
		return nil
	}
	return &t
}

// allHavePrefix reports whether there is text and every text block begins with
// one of the prefixes.
func allHavePrefix(blocks []events.Block, prefixes []string) bool {
	found := false
	for _, b := range blocks {
		if b.Type != events.BlockText {
			return false
		}
		has := false
		for _, p := range prefixes {
			has = has || strings.HasPrefix(strings.TrimLeft(b.Text, " \n\t"), p)
		}
		if !has {
			return false
		}
		found = true
	}
	return found
}

// finish seals a turn: derived text left out where it follows, the verbatim
// original beside it.
func finish(t *events.TurnAppended, f Format, src []byte) *events.TurnAppended {
	t.Format = string(f)
	t.Compact()
	if exact(t, src) {
		t.Exact, t.RawHash = true, events.HashBytes(src)
	} else {
		t.Original = string(src)
	}
	return t
}
