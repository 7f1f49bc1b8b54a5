package explore

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// shape is what is kept of a JSON value: its type, the keys of an object, the
// length of an array and the shape of its first element.
type shape struct {
	kind   string // object, array, string, number, boolean, null
	keys   names
	values []shape // of the listed keys
	length int
	elem   *shape
}

// scanner walks JSON text without building it. It is lenient inside what it
// skips; json.Valid has the last word.
type scanner struct {
	b   []byte
	i   int
	cut bool // the text ended inside a value
	bad bool
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
	if s.i >= len(s.b) {
		s.cut = true
	}
}

func (s *scanner) stopped() bool { return s.cut || s.bad }

// value reads one value, levels deep; below it only skips.
func (s *scanner) value(levels int) shape {
	s.space()
	if s.stopped() {
		return shape{}
	}
	switch c := s.b[s.i]; {
	case c == '{':
		if levels == 0 {
			s.skip()
			return shape{kind: "object"}
		}
		return s.object(levels)
	case c == '[':
		if levels == 0 {
			s.skip()
			return shape{kind: "array", length: -1}
		}
		return s.array(levels)
	case c == '"':
		s.str()
		return shape{kind: "string"}
	case c == 't' || c == 'f':
		return s.word("boolean")
	case c == 'n':
		return s.word("null")
	case c == '-' || isDigit(c):
		return s.word("number")
	}
	s.bad = true
	return shape{}
}

func (s *scanner) object(levels int) shape {
	out := shape{kind: "object"}
	s.i++
	for {
		s.space()
		if s.stopped() {
			return out
		}
		if s.b[s.i] == '}' {
			s.i++
			return out
		}
		if s.b[s.i] != '"' {
			s.bad = true
			return out
		}
		key := s.str()
		s.space()
		if s.stopped() || s.b[s.i] != ':' {
			s.bad = s.bad || !s.cut
			return out
		}
		s.i++
		listed := len(out.keys.list)
		out.keys.add(key)
		v := s.value(levels - 1)
		if len(out.keys.list) > listed {
			out.values = append(out.values, v)
		}
		if !s.next('}') {
			return out
		}
	}
}

func (s *scanner) array(levels int) shape {
	out := shape{kind: "array"}
	s.i++
	for {
		s.space()
		if s.stopped() {
			return out
		}
		if s.b[s.i] == ']' {
			s.i++
			return out
		}
		if out.elem == nil {
			e := s.value(levels - 1)
			out.elem = &e
		} else {
			s.value(0)
		}
		out.length++
		if !s.next(']') {
			return out
		}
	}
}

// next steps over a comma; false where the value ended with end or broke.
func (s *scanner) next(end byte) bool {
	s.space()
	if s.stopped() {
		return false
	}
	switch s.b[s.i] {
	case ',':
		s.i++
		return true
	case end:
		s.i++
		return false
	}
	s.bad = true
	return false
}

// str steps over a string and returns its text, escapes as they stand.
func (s *scanner) str() string {
	from := s.i + 1
	for i := from; i < len(s.b); i++ {
		j := bytes.IndexByte(s.b[i:], '"')
		if j < 0 {
			break
		}
		i += j
		slashes := 0
		for k := i - 1; k >= from && s.b[k] == '\\'; k-- {
			slashes++
		}
		if slashes%2 == 0 {
			s.i = i + 1
			return string(s.b[from:min(i, from+4*maxName)])
		}
	}
	s.i, s.cut = len(s.b), true
	return ""
}

// skip steps over an object or array without recursion.
func (s *scanner) skip() {
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return
			}
		}
		s.i++
	}
	s.cut = true
}

func (s *scanner) word(kind string) shape {
	for s.i < len(s.b) && bytes.IndexByte([]byte(",}] \n\r\t"), s.b[s.i]) < 0 {
		s.i++
	}
	return shape{kind: kind}
}

// json recognises a body that is one JSON object or array, also one that was
// cut off at its end.
func (f file) json() (kind, summary string, ok bool) {
	b := bytes.TrimSpace(f.body)
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return "", "", false
	}
	s := scanner{b: b}
	v := s.value(3)
	switch {
	case s.bad:
		return "", "", false
	case s.cut:
		// What ends early must at least have begun like JSON.
		if v.keys.count() == 0 && v.elem == nil || !f.cutLikeJSON() {
			return "", "", false
		}
		return "json", v.describe("JSON (cut off) "), true
	case s.i < len(b) || !json.Valid(b):
		return "", "", false
	}
	return "json", v.describe("JSON "), true
}

// jsonc recognises what a JSON name holds besides: JSON with comments and
// trailing commas, and JSON that is damaged.
func (f file) jsonc() (kind, summary string, ok bool) {
	b := bytes.TrimSpace(withoutComments(f.body))
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return "", "", false
	}
	s := scanner{b: b}
	v := s.value(3)
	switch {
	case !s.stopped() && s.i == len(b) && json.Valid(b):
		return "json", v.describe("JSON (with comments) "), true
	case v.keys.count() == 0 && v.elem == nil:
		return "json", f.opening("JSON (damaged)"), true
	}
	return "json", v.describe("JSON (damaged) "), true
}

// withoutComments copies JSON without comments and trailing commas.
func withoutComments(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		rest := b[i:]
		switch {
		case b[i] == '"':
			s := scanner{b: b, i: i}
			s.str()
			out, i = append(out, b[i:s.i]...), s.i
		case bytes.HasPrefix(rest, []byte("//")):
			i = len(b)
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				i += n - len(rest)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			i = len(b)
			if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
				i += n + 4 - len(rest)
			}
		case b[i] == '}' || b[i] == ']':
			if t := bytes.TrimRight(out, " \t\r\n"); len(t) > 0 && t[len(t)-1] == ',' {
				out = t[:len(t)-1]
			}
			out, i = append(out, b[i]), i+1
		default:
			out, i = append(out, b[i]), i+1
		}
	}
	return out
}

// cutLikeJSON guards against prose that opens a bracket: a name or a first
// line without a quotation mark is not enough.
func (f file) cutLikeJSON() bool {
	return f.hint == "json" || bytes.IndexByte(f.body[:min(len(f.body), 256)], '"') >= 0
}

// describe writes a shape and one level of nesting.
func (v shape) describe(prefix string) string {
	switch v.kind {
	case "object":
		list := make([]string, len(v.keys.list))
		for i, k := range v.keys.list {
			list[i] = k
			if i < len(v.values) {
				list[i] += ": " + v.values[i].brief()
			}
		}
		return listAfter(prefix+"object, "+plural(v.keys.count(), "key")+": ", list, v.keys.more, maxSummary)
	case "array":
		if v.elem == nil {
			return prefix + "array, empty"
		}
		head := prefix + "array of " + grouped(v.length)
		if v.elem.kind == "object" {
			list := make([]string, len(v.elem.keys.list))
			for i, k := range v.elem.keys.list {
				list[i] = k + ": " + v.elem.values[min(i, len(v.elem.values)-1)].brief()
			}
			return listAfter(head+" objects: ", list, v.elem.keys.more, maxSummary)
		}
		return head + ", first " + v.elem.brief()
	}
	return prefix + v.kind
}

// brief writes a nested value: "string", "{id, name}", "[12 × {id}]".
func (v shape) brief() string {
	const most = 4 // names of a nested object
	switch v.kind {
	case "object":
		if v.keys.count() == 0 {
			return "object"
		}
		n := min(most, len(v.keys.list))
		more := v.keys.count() - n
		return listAfter("{", v.keys.list[:n], more, maxName*2) + "}"
	case "array":
		if v.length < 0 || v.elem == nil {
			return "array"
		}
		return "[" + strconv.Itoa(v.length) + " × " + v.elem.brief() + "]"
	case "":
		return "?"
	}
	return v.kind
}

// jsonl recognises rows of JSON objects or arrays.
func (f file) jsonl() (kind, summary string, ok bool) {
	const checked, read = 20, 200
	rows, good, bad, more := 0, 0, 0, 0
	var keys names
	eachLine(f.body, func(line []byte) bool {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return true
		}
		rows++
		if line[0] != '{' && line[0] != '[' || rows <= checked && !json.Valid(line) {
			bad++
			return bad <= good // rows may be broken, most may not
		}
		good++
		s := scanner{b: line}
		row := s.value(1).keys
		for _, k := range row.list {
			keys.add(k)
		}
		more = max(more, row.more)
		return rows < read
	})
	if good < 2 || bad*5 > good {
		return "", "", false
	}
	n := countLines(f.body)
	keys.more = max(keys.more, more)
	if keys.count() == 0 {
		return "jsonl", "JSONL, " + plural(n, "row") + " of arrays", true
	}
	return "jsonl", keys.after("JSONL, " + plural(n, "row") + ", keys: "), true
}
