package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"lcm/events"
)

// A turn whose source its blocks reproduce is stored once. The ways JSON is
// commonly written differ in spacing, escapes and the order of keys; the hash
// of the source tells which of them it was, so none has to be recorded.

// ErrNoSource: the turn carries no source, or blocks that do not give it back.
var ErrNoSource = errors.New("the turn's verbatim source is not stored")

// Source returns the verbatim original of a turn.
func Source(t *events.TurnAppended) ([]byte, error) {
	switch {
	case t.Original != "":
		return []byte(t.Original), nil
	case !t.Exact:
		return nil, ErrNoSource
	}
	w := writer{t: t}
	var found []byte
	w.eachStyle(func(s style) bool {
		if b, ok := w.write(s); ok && events.HashBytes(b) == t.RawHash {
			found = b
		}
		return found == nil
	})
	if found == nil {
		return nil, fmt.Errorf("%w: no known way of writing turn %q has hash %s", ErrNoSource, t.ID, t.RawHash)
	}
	return found, nil
}

// exact reports whether Source would give src back. The turn is compact.
func exact(t *events.TurnAppended, src []byte) bool {
	w := writer{t: t, want: src}
	ascii := bytes.Contains(src, []byte(`\u`))
	for _, c := range src {
		if c >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	same := false
	w.eachStyle(func(s style) bool {
		if s.ascii == ascii {
			b, ok := w.write(s)
			same = ok && bytes.Equal(b, src)
		}
		return !same
	})
	return same
}

// layout is a way to space JSON.
type layout struct{ open, colon, comma, close string }

var layouts = []layout{
	{"{", ":", ",", "}"},                            // JSON.stringify
	{"{", ": ", ", ", "}"},                          // json.dumps
	{"{\n    ", ": ", ",\n    ", "\n  }"},           // an element of json.dumps(indent=2)
	{"{\n        ", ": ", ",\n        ", "\n    }"}, // … of json.dumps(indent=4)
}

// keyOrders lists the orders of keys in use; keys a message lacks are left out.
var keyOrders = [][]string{
	{"id", "role", "content", "sender", "time", "tool_calls", "name", "tool_call_id"},
	{"id", "content", "role", "tool_calls", "tool_call_id", "name"},
	{"role", "tool_call_id", "name", "content"},
	{"tool_call_id", "role", "name", "content"},
	{"role", "name", "content"},
}

// style is one complete way of writing a message.
type style struct {
	layout       layout
	keys         []string
	ascii        bool // non-ASCII escaped
	functionLast bool // order inside a tool call: id, type, function
	withID       bool
}

// writer writes a turn as the message it was read from.
type writer struct {
	t    *events.TurnAppended
	want []byte // what should come out; nil = not known
	text string
	hasT bool
	call []events.Block // tool calls of an assistant
	res  *events.Block  // the result a tool message is
}

// readable takes the turn apart; false for shapes that are never written.
func (w *writer) readable() bool {
	*w = writer{t: w.t, want: w.want}
	switch Format(w.t.Format) {
	case OpenAI, Plain, LCM:
	default:
		return false
	}
	blocks := w.t.AllBlocks()
	if len(blocks) == 1 && blocks[0].Type == events.BlockToolResult {
		w.res = &blocks[0]
		if w.t.Role != events.RoleTool || w.res.IsError || w.res.Raw != "" || w.res.Text != "" || len(w.res.Content) > 1 {
			return false
		}
		blocks = w.res.Content
	}
	for i, b := range blocks {
		switch {
		case b.Raw != "":
			return false
		case b.Type == events.BlockText && i == 0:
			w.text, w.hasT = b.Text, true
		case b.Type == events.BlockToolUse && w.res == nil:
			w.call = append(w.call, b)
		default:
			return false
		}
	}
	return true
}

// eachStyle calls f with every style that could apply until it says stop.
func (w *writer) eachStyle(f func(style) bool) {
	if !w.readable() {
		return
	}
	ids := []bool{false}
	if Format(w.t.Format) == LCM && w.t.ID != "" {
		ids = []bool{true, false} // false: the ingestor gave it
	}
	calls := []bool{true}
	if len(w.call) > 0 {
		calls = []bool{true, false}
	}
	for _, l := range layouts {
		for _, k := range keyOrders {
			for _, a := range []bool{false, true} {
				for _, c := range calls {
					for _, id := range ids {
						if !f(style{layout: l, keys: k, ascii: a, functionLast: c, withID: id}) {
							return
						}
					}
				}
			}
		}
	}
}

// has reports whether the message has a key.
func (w *writer) has(key string, s style) bool {
	own := Format(w.t.Format) == LCM
	switch key {
	case "role", "content":
		return true
	case "id":
		return s.withID
	case "sender":
		return own && w.t.Sender != ""
	case "time":
		return own && w.t.AuthorTime != nil
	case "tool_calls":
		return len(w.call) > 0
	case "tool_call_id":
		return w.res != nil
	case "name":
		return w.res != nil && w.res.Name != "" || w.res == nil && !own && w.t.Sender != ""
	}
	return false
}

// write writes the message, or gives up once it cannot become what is wanted.
func (w *writer) write(s style) ([]byte, bool) {
	for _, k := range keyOrders[0] {
		if w.has(k, s) && !slices.Contains(s.keys, k) {
			return nil, false // this order does not place a key the message has
		}
	}
	dst := make([]byte, 0, 64)
	sep := s.layout.open
	for _, k := range s.keys {
		if !w.has(k, s) {
			continue
		}
		dst = append(dst, sep...)
		dst = append(append(append(append(dst, '"'), k...), '"'), s.layout.colon...)
		if w.want != nil && !bytes.HasPrefix(w.want, dst) {
			return nil, false
		}
		if k == "content" {
			dst = slices.Grow(dst, len(w.text)+len(w.text)/8+64)
		}
		dst = w.value(dst, k, s)
		sep = s.layout.comma
	}
	return append(dst, s.layout.close...), true
}

func (w *writer) value(dst []byte, key string, s style) []byte {
	v := ""
	switch key {
	case "id":
		v = w.t.ID
	case "role":
		v = string(w.t.Role)
	case "content":
		if !w.hasT && len(w.call) > 0 {
			return append(dst, "null"...)
		}
		v = w.text
	case "sender":
		v = w.t.Sender
	case "time":
		v = w.t.AuthorTime.Format(time.RFC3339Nano)
	case "tool_call_id":
		v = w.res.CallID
	case "name":
		if v = w.t.Sender; w.res != nil {
			v = w.res.Name
		}
	case "tool_calls":
		return w.calls(dst, s)
	}
	return appendQuoted(dst, v, s.ascii)
}

func (w *writer) calls(dst []byte, s style) []byte {
	colon, comma := s.layout.colon, s.layout.comma
	key := func(k string) { dst = append(append(append(append(dst, '"'), k...), '"'), colon...) }
	str := func(k, v string) { key(k); dst = appendQuoted(dst, v, s.ascii) }
	next := func() { dst = append(dst, comma...) }
	dst = append(dst, '[')
	for i, c := range w.call {
		if i > 0 {
			next()
		}
		dst = append(dst, '{')
		if s.functionLast {
			str("id", c.CallID)
			next()
			str("type", "function")
			next()
			key("function")
			dst = append(dst, '{')
			str("name", c.Name)
			next()
			str("arguments", c.Input)
			dst = append(dst, '}', '}')
			continue
		}
		key("function")
		dst = append(dst, '{')
		str("arguments", c.Input)
		next()
		str("name", c.Name)
		dst = append(dst, '}')
		next()
		str("id", c.CallID)
		next()
		str("type", "function")
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
