package transcript

import (
	"bytes"
	"unicode/utf8"
)

// headBytes is what Auto looks at before it decides.
const headBytes = 256 << 10

// utf8BOM may stand in front of a source; it is no part of any record.
var utf8BOM = []byte("\xef\xbb\xbf")

// Detect recognises the format of a source by its head, which may be cut
// anywhere. Errors: ErrEmpty, ErrBinary, ErrUnknownFormat.
func Detect(head []byte) (Format, error) {
	h := bytes.TrimPrefix(head, utf8BOM)
	if h = h[skipSpace(h, 0):]; len(h) == 0 {
		return "", ErrEmpty
	}
	var e evidence
	line, _, _ := bytes.Cut(h, []byte{'\n'})
	if _, err := scanValue(line); err != nil && (h[0] == '{' || h[0] == '[') {
		e.value(h, 0) // a document over many lines, or one line that is cut
	}
	for rest := h; len(rest) > 0 && e.agent == ""; { // every line of a chat has a say
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		e.value(line, 0)
	}
	if f := e.format(); f != "" {
		return f, nil
	}
	if looksBinary(h) {
		return "", ErrBinary
	}
	return "", ErrUnknownFormat
}

// looksBinary reports bytes that text does not have.
func looksBinary(h []byte) bool {
	if bytes.IndexByte(h, 0) >= 0 {
		return true
	}
	bad := 0
	for i := 0; i < len(h); {
		r, n := utf8.DecodeRune(h[i:])
		if r == utf8.RuneError && n == 1 {
			bad++
		}
		i += n
	}
	return bad > 3 && bad > len(h)/50
}

// evidence is what the records of a head have shown.
type evidence struct {
	agent                                  Format // of an agent's session file: decisive
	lcm, openai, anthropic, textParts, any bool   // of chat messages
}

func (e *evidence) format() Format {
	switch {
	case e.agent != "":
		return e.agent
	case e.lcm:
		return LCM
	case e.openai:
		return OpenAI
	case e.anthropic:
		return Anthropic
	case e.textParts:
		return OpenAI
	case e.any:
		return Plain
	}
	return ""
}

// claudeTypes are records of Claude Code that carry none of its usual fields.
var claudeTypes = map[string]bool{"summary": true, "file-history-snapshot": true, "queue-operation": true, "progress": true}

var codexTypes = map[string]bool{
	"session_meta": true, "response_item": true, "event_msg": true, "turn_context": true, "compacted": true,
}

// value weighs a record, or the records of a conversation.
func (e *evidence) value(v []byte, depth int) {
	switch {
	case e.agent != "" || depth > 3:
	case isArray(v):
		elements(v, func(el []byte) { e.value(el, depth+1) })
	case isObject(v):
		e.object(v, depth)
	}
}

func (e *evidence) object(v []byte, depth int) {
	var typ, message, payload, role, messages, input, system []byte
	claude, tree, leaf, id, cwd, stamp := false, false, false, false, false, false
	fields(v, func(key, val []byte) {
		switch string(key) {
		case "type":
			typ = val
		case "message":
			message = val
		case "payload":
			payload = val
		case "role":
			role = val
		case "messages":
			messages = val
		case "input":
			input = val
		case "system":
			system = val
		case "parentUuid", "isSidechain", "sessionId", "uuid":
			claude = true
		case "leafUuid":
			leaf = true
		case "parentId":
			tree = true
		case "id":
			id = true
		case "cwd", "version":
			cwd = true
		case "timestamp":
			stamp = true
		}
	})
	t := text(typ)
	switch {
	case t != "" && codexTypes[t] && isObject(payload):
		e.agent = Codex
	case e.any: // a chat so far: no agent's session file has that
		e.chat(v, t, messages, input, system, role, depth)
	case t != "" && role == nil && (claude || leaf || claudeTypes[t]),
		(t == "user" || t == "assistant") && isObject(message):
		e.agent = ClaudeCode
	case t == "session" && id && (cwd || stamp),
		t == "message" && isObject(message),
		t != "" && tree && role == nil:
		e.agent = Pi
	case t == "" && id && stamp && message == nil && role == nil: // header of the first Codex rollouts
		e.agent = Codex
	default:
		e.chat(v, t, messages, input, system, role, depth)
	}
}

// chat weighs a message, an item of the Responses API, or a conversation.
func (e *evidence) chat(v []byte, typ string, messages, input, system, role []byte, depth int) {
	switch {
	case isArray(messages):
		e.anthropic = e.anthropic || isString(system) || isArray(system)
		e.value(messages, depth+1)
	case isArray(input) && role == nil, codexItems[typ] && typ != "message":
		e.agent = Codex
	case role != nil:
		e.message(v, typ)
	}
}

// message weighs a {role, content} object.
func (e *evidence) message(v []byte, typ string) {
	if _, ok := foreignRole(text(member(v, "role"))); !ok {
		return
	}
	m := readMessage(v)
	e.any = true
	switch text(m.role) {
	case "tool", "function", "developer":
		e.openai = true
	}
	if m.toolCalls != nil || m.functionCall != nil || m.toolCallID != nil || m.refusal != nil || m.vendors != nil ||
		m.hasContent && isNull(m.content) || m.name != nil {
		e.openai = true
	}
	if typ == "message" {
		e.anthropic = true
	} else if m.id != nil || m.parent != nil || m.sender != nil || m.hasTime {
		e.lcm = true
	}
	elements(m.content, func(p []byte) {
		switch text(member(p, "type")) {
		case "input_text", "output_text", "input_image":
			if typ == "message" || typ == "" {
				e.agent = Codex
			}
		case "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image":
			e.anthropic = true
		case "image_url", "input_audio", "file", "refusal":
			e.openai = true
		case "text":
			e.textParts = true
		}
	})
}
