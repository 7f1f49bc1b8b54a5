package events

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
	"time"
	"unicode/utf8"
)

// DecodeTurn reads the payload of a TurnAppended. It is json.Unmarshal, several
// times faster where the payload has the plain form that Encode gives it:
// reading turns is most of what a replay and a context cost.
func DecodeTurn(data []byte) (*TurnAppended, error) {
	t := new(TurnAppended)
	r := turnReader{b: data}
	if r.turn(t); !r.odd && r.at == len(data) {
		return t, nil
	}
	t = new(TurnAppended)
	return t, json.Unmarshal(data, t)
}

// turnReader reads JSON without white space, with known names only, each once.
// Whatever else it meets makes it odd: then its results mean nothing.
type turnReader struct {
	b   []byte
	at  int
	odd bool
}

// maxNesting of blocks; deeper ones are left to encoding/json.
const maxNesting = 8

func (r *turnReader) turn(t *TurnAppended) {
	r.object(func(name []byte) {
		switch string(name) {
		case "id":
			t.ID = r.text()
		case "entry":
			t.Entry = r.number()
		case "parent":
			t.Parent = r.number()
		case "role":
			t.Role = Role(r.text())
		case "sender":
			t.Sender = r.text()
		case "message_id":
			t.MessageID = r.text()
		case "blocks":
			r.once(t.Blocks == nil)
			t.Blocks = r.blocks(0)
		case "text":
			t.Text = r.text()
		case "tokens":
			t.Tokens = int(r.number())
		case "input_tokens":
			t.InputTokens = int(r.number())
		case "injected":
			t.Injected = r.flag()
		case "files":
			r.once(t.Files == nil)
			t.Files = r.files()
		case "large_inline":
			t.LargeInline = r.flag()
		case "format":
			t.Format = r.text()
		case "original":
			t.Original = r.text()
		case "exact":
			t.Exact = r.flag()
		case "raw_hash":
			t.RawHash = r.text()
		case "author_time":
			r.once(t.AuthorTime == nil)
			t.AuthorTime = r.time()
		default:
			r.odd = true
		}
	})
}

func (r *turnReader) blocks(depth int) []Block {
	out := []Block{}
	if depth > maxNesting {
		r.odd = true
		return nil
	}
	r.list(func() {
		out = append(out, Block{})
		b := &out[len(out)-1]
		r.object(func(name []byte) {
			switch string(name) {
			case "type":
				b.Type = BlockType(r.text())
			case "text":
				b.Text = r.text()
			case "signature":
				b.Signature = r.text()
			case "call_id":
				b.CallID = r.text()
			case "name":
				b.Name = r.text()
			case "input":
				b.Input = r.text()
			case "content":
				r.once(b.Content == nil)
				b.Content = r.blocks(depth + 1)
			case "is_error":
				b.IsError = r.flag()
			case "media_type":
				b.MediaType = r.text()
			case "data":
				b.Data = r.text()
			case "url":
				b.URL = r.text()
			case "width":
				b.Width = int(r.number())
			case "height":
				b.Height = int(r.number())
			case "raw":
				b.Raw = r.text()
			default:
				r.odd = true
			}
		})
	})
	return out
}

func (r *turnReader) files() []File {
	out := []File{}
	r.list(func() {
		out = append(out, File{})
		f := &out[len(out)-1]
		r.object(func(name []byte) {
			switch string(name) {
			case "id":
				f.ID = r.text()
			case "path":
				f.Path = r.text()
			case "kind":
				f.Kind = r.text()
			case "summary":
				f.Summary = r.text()
			case "head":
				f.Head = r.text()
			case "bytes":
				f.Bytes = int(r.number())
			case "block":
				f.Block = int(r.number())
			default:
				r.odd = true
			}
		})
	})
	return out
}

// once: a name that comes again would be merged by encoding/json.
func (r *turnReader) once(first bool) { r.odd = r.odd || !first }

// take the next byte, which must be c.
func (r *turnReader) take(c byte) {
	if r.odd || r.at >= len(r.b) || r.b[r.at] != c {
		r.odd = true
		return
	}
	r.at++
}

// took reports whether c was next, and takes it.
func (r *turnReader) took(c byte) bool {
	if r.odd || r.at >= len(r.b) || r.b[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *turnReader) object(member func(name []byte)) {
	r.take('{')
	if r.took('}') {
		return
	}
	for !r.odd {
		name := r.literal()
		r.take(':')
		if !r.odd {
			member(name)
		}
		if !r.took(',') {
			r.take('}')
			return
		}
	}
}

func (r *turnReader) list(element func()) {
	r.take('[')
	if r.took(']') {
		return
	}
	for !r.odd {
		element()
		if !r.took(',') {
			r.take(']')
			return
		}
	}
}

// literal is what stands between quotes, escapes and all.
func (r *turnReader) literal() []byte {
	r.take('"')
	for start := r.at; !r.odd && r.at < len(r.b); r.at++ {
		if r.at += plainBytes(r.b[r.at:]); r.at == len(r.b) {
			break
		}
		switch c := r.b[r.at]; {
		case c == '"':
			r.at++
			return r.b[start : r.at-1]
		case c == '\\':
			r.at++
		case c < ' ':
			r.odd = true
		}
	}
	r.odd = true
	return nil
}

// plainBytes skips, eight at a time, over what needs no look: it returns how
// many bytes at the front are no quote, no backslash and no control character.
// Behind them there may be more of the kind.
func plainBytes(b []byte) (n int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(b)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		quote, slash := w^('"'*ones), w^('\\'*ones)
		// The lowest byte that is marked is marked rightly; a byte above it may
		// be marked for a borrow.
		found := ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & tops
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	return n
}

// escapes of one letter.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (r *turnReader) text() string {
	raw := r.literal()
	if !utf8.Valid(raw) { // read as U+FFFD
		r.odd = true
		return ""
	}
	i := bytes.IndexByte(raw, '\\')
	if i < 0 {
		return string(raw)
	}
	var out strings.Builder
	out.Grow(len(raw))
	for rest := raw; ; {
		out.Write(rest[:i])
		c := escapes[rest[i+1]] // literal ends behind an escape, never within
		if c == 0 {             // \u
			return r.unquote(raw)
		}
		out.WriteByte(c)
		rest = rest[i+2:]
		if i = bytes.IndexByte(rest, '\\'); i < 0 {
			out.Write(rest)
			return out.String()
		}
	}
}

func (r *turnReader) unquote(raw []byte) (s string) {
	quoted := append(append([]byte{'"'}, raw...), '"')
	r.odd = json.Unmarshal(quoted, &s) != nil || r.odd
	return s
}

// number without sign, fraction or exponent, that fits an int.
func (r *turnReader) number() (n uint64) {
	start := r.at
	for ; r.at < len(r.b) && '0' <= r.b[r.at] && r.b[r.at] <= '9'; r.at++ {
		n = 10*n + uint64(r.b[r.at]-'0')
	}
	digits := r.at - start
	if digits == 0 || digits > 9 || digits > 1 && r.b[start] == '0' {
		r.odd = true
	}
	return n
}

func (r *turnReader) flag() bool {
	word, is := "false", r.at < len(r.b) && r.b[r.at] == 't'
	if is {
		word = "true"
	}
	if len(r.b)-r.at < len(word) || string(r.b[r.at:r.at+len(word)]) != word {
		r.odd = true
		return false
	}
	r.at += len(word)
	return is
}

func (r *turnReader) time() *time.Time {
	start := r.at
	r.literal()
	t := new(time.Time)
	if r.odd || t.UnmarshalJSON(r.b[start:r.at]) != nil {
		r.odd = true
	}
	return t
}
