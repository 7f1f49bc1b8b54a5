package transcript

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"lcm/events"
)

// encodeOpenAI writes chat completions messages. Instructions stay where they
// are; images inside results, which tool messages cannot hold, follow in a user
// message.
func encodeOpenAI(xs []exchange) Encoded {
	var e Encoded
	for _, x := range xs {
		e.Messages = append(e.Messages, openAIAssistants(x.assistant)...)
		var images []json.RawMessage
		for _, r := range x.results {
			msg, parts := openAIResult(r)
			e.Messages = append(e.Messages, msg)
			images = append(images, parts...)
		}
		if len(images) > 0 {
			e.Messages = append(e.Messages, new(object).str("role", "user").array("content", images).end())
		}
		for _, m := range x.rest {
			if msg := openAIMessage(m); msg != nil {
				e.Messages = append(e.Messages, msg)
			}
		}
	}
	return e
}

// openAIAssistant is an assistant message in the making.
type openAIAssistant struct {
	name    string
	texts   []string
	vendors []byte // members of the object, each with a comma in front
	calls   []json.RawMessage
}

// openAIAssistants writes a run of assistant messages. Results must follow the
// message that made the calls at once, so the run's calls ride on its last
// message. Texts are not joined: what was written of a run stays as it is when
// the run grows.
func openAIAssistants(ms []Message) []json.RawMessage {
	var out []json.RawMessage
	cur := &openAIAssistant{}
	for _, m := range ms {
		next := readOpenAIAssistant(m)
		if len(cur.texts) > 0 && len(next.texts) > 0 || cur.vendors != nil && next.vendors != nil {
			next.calls = append(cur.calls, next.calls...)
			cur.calls = nil
			out = cur.append(out)
			cur = next
			continue
		}
		cur.texts = append(cur.texts, next.texts...)
		cur.vendors = append(cur.vendors, next.vendors...)
		cur.calls = append(cur.calls, next.calls...)
		if cur.name == "" {
			cur.name = next.name
		}
	}
	return cur.append(out)
}

func readOpenAIAssistant(m Message) *openAIAssistant {
	a := &openAIAssistant{name: openAIName(m)}
	for _, b := range m.Blocks {
		switch b.Type {
		case events.BlockThinking:
			a.vendors = appendVendors(a.vendors, b.Raw)
		case events.BlockToolUse:
			a.calls = append(a.calls, openAICall(b))
		default:
			if s := plainText(b); !blank(s) {
				a.texts = append(a.texts, s)
			}
		}
	}
	return a
}

func (a *openAIAssistant) append(out []json.RawMessage) []json.RawMessage {
	if len(a.texts)+len(a.calls) == 0 {
		return out // reasoning alone is not a message
	}
	o := new(object).str("role", "assistant")
	if a.name != "" {
		o.str("name", a.name)
	}
	o.buf = append(o.buf, a.vendors...)
	switch len(a.texts) {
	case 0:
		o.raw("content", []byte("null"))
	case 1:
		o.str("content", a.texts[0])
	default:
		o.array("content", textParts(a.texts))
	}
	if len(a.calls) > 0 {
		o.array("tool_calls", a.calls)
	}
	return append(out, o.end())
}

// appendVendors adds the members of a thinking block's raw object where all of
// them came from the chat completions API. The values are the source's bytes.
func appendVendors(dst []byte, raw string) []byte {
	out := bytes.Clone(dst)
	foreign := false
	fields(rawObject(raw), func(key, val []byte) {
		head := append(appendQuoted([]byte{','}, string(key), false), ':')
		foreign = foreign || !isVendorField(key) || bytes.Contains(out, head)
		out = append(append(out, head...), val...)
	})
	if foreign {
		return dst
	}
	return out
}

// openAICall writes a call; what its vendor put beside the function, like
// Google's thought signature, goes back unchanged.
func openAICall(b events.Block) json.RawMessage {
	args := b.Input
	if blank(args) {
		args = "{}"
	}
	fn := new(object).str("name", b.Name).str("arguments", args).end()
	o := new(object).str("id", b.CallID).str("type", "function").raw("function", fn)
	if raw := rawObject(b.Raw); isObject(member(raw, "function")) {
		seen := []string{"id", "type", "function", "index"}
		fields(raw, func(key, val []byte) {
			if k := string(key); !slices.Contains(seen, k) && !isNull(val) {
				seen = append(seen, k)
				o.raw(k, val)
			}
		})
	}
	return o.end()
}

// openAIResult writes a tool message and the parts of the user message that
// shows its images.
func openAIResult(r events.Block) (msg json.RawMessage, images []json.RawMessage) {
	var texts []string
	if !blank(r.Text) {
		texts = append(texts, r.Text)
	}
	for _, b := range r.Content {
		if p := openAIImage(b); p != nil {
			images = append(images, p)
		} else if s := plainText(b); !blank(s) {
			texts = append(texts, s)
		}
	}
	if len(images) > 0 {
		images = append([]json.RawMessage{textPart("[images of tool result " + r.CallID + "]")}, images...)
		if len(texts) == 0 {
			texts = []string{"[images of this result follow]"}
		}
	}
	o := new(object).str("role", "tool").str("tool_call_id", r.CallID)
	switch len(texts) {
	case 0:
		o.str("content", noOutput)
	case 1:
		o.str("content", texts[0])
	default:
		o.array("content", textParts(texts))
	}
	return o.end(), images
}

// openAIMessage writes a message that is not an assistant's, nil where nothing
// of it can be shown.
func openAIMessage(m Message) json.RawMessage {
	role := m.Role
	if role != events.RoleSystem && role != events.RoleDeveloper {
		role = events.RoleUser
	}
	var parts []json.RawMessage
	sole := "" // the text, where it is all there is
	for _, b := range m.Blocks {
		p := json.RawMessage(nil)
		if role == events.RoleUser {
			if p = openAIImage(b); p == nil {
				p = openAIFile(b)
			}
		}
		if p == nil {
			s := plainText(b)
			if blank(s) {
				continue
			}
			p, sole = textPart(s), s
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil
	}
	o := new(object).str("role", string(role))
	if n := openAIName(m); n != "" && m.Role != events.RoleTool {
		o.str("name", n)
	}
	// The pointer block is always parts: it grows by one with every summary.
	if len(parts) == 1 && sole != "" && (m.Entry != 0 || role != events.RoleUser) {
		return o.str("content", sole).end()
	}
	return o.array("content", parts).end()
}

// openAIName returns the sender where the API takes it as a name.
func openAIName(m Message) string {
	if m.Sender == "" || len(m.Sender) > maxNameBytes || clean(m.Sender) != m.Sender {
		return ""
	}
	return m.Sender
}

func openAIImage(b events.Block) json.RawMessage {
	if b.Type != events.BlockImage {
		return nil
	}
	url := b.URL
	if media, ok := imageOf(b); ok {
		url = "data:" + media + ";base64," + b.Data
	} else if b.Data != "" || !webURL(url) {
		return nil
	}
	return new(object).str("type", "image_url").raw("image_url", new(object).str("url", url).end()).end()
}

func openAIFile(b events.Block) json.RawMessage {
	if b.Type != events.BlockDocument || b.MediaType != "application/pdf" || !validBase64(b.Data) {
		return nil
	}
	name := b.Name
	if blank(name) {
		name = "document.pdf"
	}
	f := new(object).str("filename", name).str("file_data", "data:application/pdf;base64,"+b.Data).end()
	return new(object).str("type", "file").raw("file", f).end()
}

// plainText is what a block reads like where only text is taken; "" for what
// is not shown at all.
func plainText(b events.Block) string {
	switch b.Type {
	case events.BlockText:
		return b.Text
	case events.BlockDocument:
		if !blank(b.Text) {
			return b.Text
		}
		return mediaText(b)
	case events.BlockImage:
		return mediaText(b)
	case events.BlockToolUse:
		return callText(b)
	case events.BlockToolResult:
		return resultText(b)
	}
	return ""
}

func textParts(texts []string) []json.RawMessage {
	parts := make([]json.RawMessage, len(texts))
	for i, s := range texts {
		parts[i] = textPart(s)
	}
	return parts
}

// encodePlain writes {role, content} with string contents.
func encodePlain(ms []Message) Encoded {
	var e Encoded
	for _, m := range ms {
		var texts []string
		for _, b := range m.Blocks {
			if s := plainText(b); !blank(s) {
				texts = append(texts, s)
			}
		}
		if len(texts) > 0 {
			role := m.Role
			if !role.Valid() {
				role = events.RoleUser
			}
			e.Messages = append(e.Messages, new(object).str("role", string(role)).str("content", strings.Join(texts, "\n")).end())
		}
	}
	return e
}
