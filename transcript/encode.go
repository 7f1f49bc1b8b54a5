package transcript

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lcm/events"
)

// Encoded is a context in a provider's shape.
type Encoded struct {
	// System is Anthropic's system field, an array of text blocks; nil where
	// there is none, and for formats that keep instructions among the messages.
	System json.RawMessage
	// Messages in order, each a compact JSON object.
	Messages []json.RawMessage
}

// Encode writes neutral messages in the format of a provider: OpenAI, Anthropic
// or Plain. Calls stand in assistant messages, their results in the messages
// behind them; a call or result without its partner is shown as text, so that
// the outcome always passes Check unless it is empty. Blocks the provider does
// not take are left out or described in a word.
//
// It is deterministic: messages appended later never change a content part
// written for earlier ones.
func Encode(f Format, ms []Message) (Encoded, error) {
	switch f {
	case OpenAI:
		return encodeOpenAI(exchanges(ms, newCallNames(openAIMaxID, false))), nil
	case Anthropic:
		return encodeAnthropic(exchanges(ms, newCallNames(anthropicMaxID, true))), nil
	case Plain:
		return encodePlain(ms), nil
	}
	return Encoded{}, fmt.Errorf("cannot encode as %q: known are openai, anthropic, plain", f)
}

// Limits of the providers on ids and names.
const (
	openAIMaxID    = 40 // "string too long. Expected a string with maximum length 40"
	anthropicMaxID = 64
	maxNameBytes   = 64
)

// exchange is a run of assistant messages and everything up to the next one.
type exchange struct {
	assistant []Message
	results   []events.Block // one for each call, in call order
	rest      []Message      // what is left of the messages behind them
}

// exchanges groups messages and pairs calls with results under names the
// provider accepts. The input is not changed.
func exchanges(ms []Message, names *callNames) []exchange {
	var out []exchange
	cur := exchange{}
	flush := func() {
		if len(cur.assistant)+len(cur.rest) > 0 {
			cur.pair(names)
			out = append(out, cur)
		}
		cur = exchange{}
	}
	for _, m := range ms {
		m.Blocks = append([]events.Block(nil), m.Blocks...)
		switch {
		case m.Role != events.RoleAssistant:
			cur.rest = append(cur.rest, m)
			continue
		case len(cur.rest) > 0:
			flush()
		}
		cur.assistant = append(cur.assistant, m)
	}
	flush()
	return out
}

// pair moves the results of the exchange's calls out of the rest, and turns
// what has no partner into text.
func (x *exchange) pair(names *callNames) {
	waiting := map[string][]*events.Block{} // results by call id, in order
	for i := range x.rest {
		for j := range x.rest[i].Blocks {
			switch b := &x.rest[i].Blocks[j]; b.Type {
			case events.BlockToolResult:
				waiting[b.CallID] = append(waiting[b.CallID], b)
			case events.BlockToolUse:
				*b = textBlock(callText(*b))
			}
		}
	}
	for i := range x.assistant {
		for j := range x.assistant[i].Blocks {
			b := &x.assistant[i].Blocks[j]
			if b.Type == events.BlockToolResult {
				*b = textBlock(resultText(*b))
			}
			if b.Type != events.BlockToolUse {
				continue
			}
			w := waiting[b.CallID]
			if len(w) == 0 {
				*b = textBlock(callText(*b))
				continue
			}
			res := *w[0]
			waiting[b.CallID] = w[1:]
			*w[0] = events.Block{} // taken
			b.CallID, b.Name = names.assign(b.CallID), cleanName(b.Name)
			res.CallID = b.CallID
			x.results = append(x.results, res)
		}
	}
	for i := range x.rest {
		for j := range x.rest[i].Blocks {
			if b := &x.rest[i].Blocks[j]; b.Type == events.BlockToolResult {
				*b = textBlock(resultText(*b))
			}
		}
	}
}

// callNames gives tool calls ids that a provider accepts and that no other call
// of the context has.
type callNames struct {
	max    int
	strict bool // letters, digits, _ and - only
	used   map[string]bool
	count  map[string]int
}

func newCallNames(maxLen int, strict bool) *callNames {
	return &callNames{max: maxLen, strict: strict, used: map[string]bool{}, count: map[string]int{}}
}

func (n *callNames) assign(id string) string {
	base := id
	if n.strict {
		base = clean(id)
	} else {
		base = strings.ToValidUTF8(base, "_")
	}
	if base == "" {
		base = "call"
	}
	if len(base) > n.max {
		cut := base[:n.max-17]
		base = strings.ToValidUTF8(cut, "") + "_" + events.HashBytes([]byte(id))
	}
	name := base
	for n.used[name] {
		n.count[base]++
		suffix := "_" + strconv.Itoa(n.count[base]+1)
		name = strings.ToValidUTF8(base[:min(len(base), n.max-len(suffix))], "") + suffix
	}
	n.used[name] = true
	return name
}

// clean replaces what neither provider allows in names.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
}

func cleanName(s string) string {
	if s = clean(s); s == "" {
		return "unknown"
	}
	return s[:min(len(s), maxNameBytes)]
}

// noOutput stands for the result of a call that returned nothing: providers
// refuse a result without content.
const noOutput = "(no output)"

func textBlock(s string) events.Block { return events.Block{Type: events.BlockText, Text: s} }

func callText(b events.Block) string {
	return strings.TrimSpace(fmt.Sprintf("[tool call %s %s] %s", b.CallID, b.Name, b.Input))
}

func resultText(b events.Block) string {
	s := b.DerivedText()
	if blank(s) {
		s = noOutput
	}
	return fmt.Sprintf("[tool result %s] %s", b.CallID, s)
}

// blank reports text that providers count as empty.
func blank(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) {
			return false
		}
	}
	return true
}

// mediaText describes what a provider cannot be shown.
func mediaText(b events.Block) string {
	s := string(b.Type)
	if b.Name != "" {
		s += " " + b.Name
	}
	if b.MediaType != "" {
		s += " " + b.MediaType
	}
	if b.Width > 0 {
		s += fmt.Sprintf(" %dx%d", b.Width, b.Height)
	}
	if b.URL != "" && len(b.URL) < 500 {
		s += " " + b.URL
	}
	return "[" + s + " not shown]"
}

// webURL reports a URL a provider can fetch.
func webURL(s string) bool {
	return (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' })
}

// imageOf returns an image's media type where every provider takes it.
func imageOf(b events.Block) (media string, ok bool) {
	if media = mediaType(b.Data); media == "" {
		return "", false
	}
	return media, validBase64(b.Data)
}

func validBase64(s string) bool {
	if s == "" || len(s)%4 != 0 || strings.ContainsAny(s, "\r\n") {
		return false
	}
	// The alphabet, then the padding: decoding would copy megabytes.
	body := strings.TrimRight(s, "=")
	if len(s)-len(body) > 2 {
		return false
	}
	for i := range len(body) {
		c := body[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '+' || c == '/') {
			return false
		}
	}
	tail := s[max(0, len(s)-4):]
	_, err := base64.StdEncoding.DecodeString(tail)
	return err == nil
}

// rawObject returns a block's raw text where it is a JSON object, else nil.
func rawObject(s string) []byte {
	raw := []byte(s)
	if !isObject(raw) || !utf8.Valid(raw) || validate(raw) != nil {
		return nil
	}
	return raw
}

// object writes a JSON object key by key.
type object struct{ buf []byte }

func (o *object) key(k string) *object {
	sep := byte(',')
	if len(o.buf) == 0 {
		sep = '{'
	}
	o.buf = append(appendQuoted(append(o.buf, sep), k, false), ':')
	return o
}

func (o *object) str(k, v string) *object {
	o.key(k).buf = appendQuoted(o.buf, v, false)
	return o
}

func (o *object) raw(k string, v []byte) *object {
	o.key(k)
	o.buf = append(o.buf, v...)
	return o
}

func (o *object) array(k string, vs []json.RawMessage) *object { return o.raw(k, joinArray(vs)) }

func (o *object) end() json.RawMessage { return append(o.buf, '}') }

func joinArray(vs []json.RawMessage) []byte {
	out := []byte{'['}
	for i, v := range vs {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

func textPart(s string) json.RawMessage {
	return new(object).str("type", "text").str("text", s).end()
}
