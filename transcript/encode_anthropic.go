package transcript

import (
	"bytes"
	"encoding/json"

	"lcm/events"
)

// anthropicMessage is a message in the making.
type anthropicMessage struct {
	role  string
	parts []json.RawMessage
}

// encodeAnthropic writes Anthropic messages: instructions in front become the
// system field, consecutive messages of one role one message.
func encodeAnthropic(xs []exchange) Encoded {
	var e Encoded
	var ms []*anthropicMessage
	add := func(role string, p json.RawMessage) {
		if p == nil {
			return
		}
		if len(ms) == 0 || ms[len(ms)-1].role != role {
			if len(ms) == 0 && role != "user" {
				ms = append(ms, &anthropicMessage{role: "user", parts: []json.RawMessage{textPart("[the conversation continues]")}})
			}
			ms = append(ms, &anthropicMessage{role: role})
		}
		m := ms[len(ms)-1]
		m.parts = append(m.parts, p)
	}
	var system []json.RawMessage
	leading := true
	for _, x := range xs {
		leading = leading && len(x.assistant) == 0
		// Reasoning waits until something of its run is shown behind it: it may
		// not be the last part of a message.
		var thoughts []json.RawMessage
		for _, m := range x.assistant {
			for _, b := range m.Blocks {
				p, thought := anthropicAssistantPart(b)
				if thought {
					thoughts = append(thoughts, p)
				} else if p != nil {
					for _, t := range thoughts {
						add("assistant", t)
					}
					thoughts = nil
					add("assistant", p)
				}
			}
		}
		for _, r := range x.results {
			add("user", anthropicResult(r))
		}
		for _, m := range x.rest {
			if leading = leading && m.Role.Pinned(); leading {
				for _, b := range m.Blocks {
					if s := plainText(b); !blank(s) {
						system = append(system, textPart(s))
					}
				}
				continue
			}
			for _, b := range m.Blocks {
				add("user", anthropicUserPart(b, m.Role))
			}
		}
	}
	if system != nil {
		e.System = joinArray(system)
	}
	for _, m := range ms {
		e.Messages = append(e.Messages, new(object).str("role", m.role).array("content", m.parts).end())
	}
	return e
}

// anthropicAssistantPart writes a block of an assistant, nil for what is not
// shown; thought marks reasoning.
func anthropicAssistantPart(b events.Block) (p json.RawMessage, thought bool) {
	switch b.Type {
	case events.BlockThinking:
		p = anthropicThinking(b)
		return p, p != nil
	case events.BlockUnknown:
		raw := rawObject(b.Raw)
		if data := member(raw, "data"); text(member(raw, "type")) == "redacted_thinking" && text(data) != "" {
			return new(object).str("type", "redacted_thinking").raw("data", data).end(), true
		}
		return nil, false
	case events.BlockToolUse:
		return new(object).str("type", "tool_use").str("id", b.CallID).str("name", b.Name).raw("input", toolInput(b.Input)).end(), false
	}
	if s := plainText(b); !blank(s) {
		return textPart(s), false
	}
	return nil, false
}

// anthropicThinking writes reasoning that Anthropic signed, unchanged; nil for
// any other. A block with vendor's fields (Raw) is foreign unless it has the
// very shape Anthropic gives it.
func anthropicThinking(b events.Block) json.RawMessage {
	if b.Raw != "" {
		raw := rawObject(b.Raw)
		thinking, sig := member(raw, "thinking"), member(raw, "signature")
		if text(member(raw, "type")) != "thinking" || text(sig) == "" || !isString(thinking) {
			return nil
		}
		return new(object).str("type", "thinking").raw("thinking", thinking).raw("signature", sig).end()
	}
	if b.Signature == "" {
		return nil
	}
	return new(object).str("type", "thinking").str("thinking", b.Text).str("signature", b.Signature).end()
}

// toolInput writes the input of a call, which must be an object.
func toolInput(s string) []byte {
	if blank(s) {
		return []byte("{}")
	}
	in := []byte(s)
	if validate(in) != nil || !isObject(in) {
		return new(object).str("_raw", s).end()
	}
	var buf bytes.Buffer
	if err := json.Compact(&buf, bytes.ToValidUTF8(in, []byte("\uFFFD"))); err != nil {
		return new(object).str("_raw", s).end()
	}
	return buf.Bytes()
}

// anthropicResult writes the result of a call. One that reports an error may
// hold text only.
func anthropicResult(r events.Block) json.RawMessage {
	var parts []json.RawMessage
	if !blank(r.Text) {
		parts = append(parts, textPart(r.Text))
	}
	for _, b := range r.Content {
		p := json.RawMessage(nil)
		if !r.IsError {
			p = anthropicMedia(b)
		}
		if p == nil {
			if s := plainText(b); !blank(s) {
				p = textPart(s)
			}
		}
		if p != nil {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, textPart(noOutput))
	}
	o := new(object).str("type", "tool_result").str("tool_use_id", r.CallID).array("content", parts)
	if r.IsError {
		o.raw("is_error", []byte("true"))
	}
	return o.end()
}

// anthropicUserPart writes a block of anybody but the assistant. Instructions
// that come late say whose they are.
func anthropicUserPart(b events.Block, role events.Role) json.RawMessage {
	if p := anthropicMedia(b); p != nil {
		return p
	}
	s := plainText(b)
	if blank(s) {
		return nil
	}
	if role.Pinned() {
		s = "[" + string(role) + " message]\n" + s
	}
	return textPart(s)
}

// anthropicMedia writes an image or document, nil for anything else and for
// what the API does not take.
func anthropicMedia(b events.Block) json.RawMessage {
	src := new(object)
	switch b.Type {
	case events.BlockImage:
		if media, ok := imageOf(b); ok {
			src.str("type", "base64").str("media_type", media).str("data", b.Data)
		} else if b.Data == "" && webURL(b.URL) {
			src.str("type", "url").str("url", b.URL)
		} else {
			return nil
		}
	case events.BlockDocument:
		switch {
		case !blank(b.Text):
			src.str("type", "text").str("media_type", "text/plain").str("data", b.Text)
		case b.MediaType == "application/pdf" && validBase64(b.Data):
			src.str("type", "base64").str("media_type", b.MediaType).str("data", b.Data)
		case b.Data == "" && webURL(b.URL):
			src.str("type", "url").str("url", b.URL)
		default:
			return nil
		}
	default:
		return nil
	}
	o := new(object).str("type", string(b.Type)).raw("source", src.end())
	if b.Type == events.BlockDocument && !blank(b.Name) {
		o.str("title", b.Name)
	}
	return o.end()
}
