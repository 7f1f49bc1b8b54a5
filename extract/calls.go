package extract

import (
	"encoding/json"
	"strconv"
	"strings"
)

// call is a tool call as it stands in derived text: the tool's name, a space,
// and its arguments as JSON.
type call struct {
	name   string
	main   string // the argument that says what it is about
	body   string // all string arguments, for anchors
	todo   []todo
	batch  int
	digest *digest // where its outcome goes; nil = not worth a line
}

type todo struct{ text, status string }

// maxBroken bounds the objects without an end that a text is searched for:
// each costs a scan to its end.
const maxBroken = 8

// takeCalls removes the calls from an assistant's text and returns both.
func takeCalls(text string) (string, []call) {
	if !strings.Contains(text, "{") {
		return text, nil
	}
	var calls []call
	var kept strings.Builder
	for at, broken := 0, 0; at < len(text); {
		if broken < maxBroken {
			name, args, next, ok := callAt(text, at)
			if ok {
				calls = append(calls, readCall(name, args))
				at = next
				continue
			}
			if next < 0 {
				broken++
			}
		}
		nl := strings.IndexByte(text[at:], '\n')
		if nl < 0 {
			kept.WriteString(text[at:])
			break
		}
		kept.WriteString(text[at : at+nl+1])
		at += nl + 1
	}
	return kept.String(), calls
}

// callAt reads a call at the start of a line: `name {"…"}` up to the line's
// end. Where the object has no end, next is -1.
func callAt(s string, at int) (name, args string, next int, ok bool) {
	const longestName = 80
	i := at
	for i < len(s) && i-at < longestName && (isWordByte(s[i]) || strings.IndexByte("-.:/", s[i]) >= 0) {
		i++
	}
	if i == at || i+1 >= len(s) || s[i] != ' ' || s[i+1] != '{' {
		return "", "", 0, false
	}
	end := valueEnd(s, i+1)
	if end < 0 {
		return "", "", -1, false
	}
	if end < len(s) && s[end] != '\n' || !strings.Contains(s[i+1:end], `"`) && s[i+1:end] != "{}" {
		return "", "", 0, false
	}
	return s[at:i], s[i+1 : end], min(end+1, len(s)), true
}

// valueEnd returns the end of the JSON value at i, -1 if it does not end.
func valueEnd(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch c := s[i]; c {
		case '"':
			i++
			for i < len(s) && s[i] != '"' {
				if s[i] == '\\' {
					i++
				}
				i++
			}
			if i >= len(s) {
				return -1
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return i
			}
		case ',', '\n', ' ':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	if depth > 0 {
		return -1
	}
	return i
}

// field is a member of a JSON object; value is its JSON text.
type field struct{ key, value string }

// fields returns the members of the object at the start of s, in order; nil
// where it is broken.
func fields(s string, most int) []field {
	var out []field
	i := skipSpace(s, 0)
	if i >= len(s) || s[i] != '{' {
		return nil
	}
	for i++; len(out) < most; {
		i = skipSpace(s, i)
		if i >= len(s) || s[i] != '"' {
			return out
		}
		end := valueEnd(s, i)
		if end < 0 {
			return out
		}
		key := unquote(s[i:end])
		if i = skipSpace(s, end); i >= len(s) || s[i] != ':' {
			return out
		}
		i = skipSpace(s, i+1)
		if end = valueEnd(s, i); end < 0 || end == i {
			return out
		}
		out = append(out, field{key, s[i:end]})
		if i = skipSpace(s, end); i >= len(s) || s[i] != ',' {
			return out
		}
		i++
	}
	return out
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// unquote returns the string a JSON text means, or the text itself.
func unquote(v string) string {
	if len(v) < 2 || v[0] != '"' {
		return v
	}
	if strings.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}
	var s string
	if json.Unmarshal([]byte(v), &s) != nil {
		return v[1 : len(v)-1]
	}
	return s
}

func isScalar(v string) bool { return v != "" && v[0] != '{' && v[0] != '[' && v != "null" }

// mainKeys are arguments that say what a call is about, best first.
var mainKeys = []string{
	"command", "cmd", "file_path", "path", "filePath", "notebook_path", "filename", "url", "query", "pattern", "regex",
	"description", "expression", "thought", "prompt", "question", "message", "title",
}

const (
	maxArgs      = 24       // members looked at
	maxBodyBytes = 64 << 10 // of a call's arguments, for anchors
)

func readCall(name, args string) call {
	c := call{name: name}
	fs := fields(args, maxArgs)
	var body strings.Builder
	for _, f := range fs {
		if f.key == "todos" {
			c.todo = readTodos(f.value)
			continue
		}
		v := f.value
		if len(v) > maxBodyBytes {
			v = strings.ToValidUTF8(v[:maxBodyBytes], "")
		}
		if body.Len() < maxBodyBytes {
			body.WriteString(unquote(v))
			body.WriteByte('\n')
		}
	}
	c.body = body.String()
	c.main = mainArgument(fs)
	return c
}

func mainArgument(fs []field) string {
	for _, k := range mainKeys {
		for _, f := range fs {
			if f.key == k && isScalar(f.value) {
				return flat(strings.ToValidUTF8(unquote(f.value[:min(len(f.value), 4096)]), ""))
			}
		}
	}
	return pairs(fs, "", 24)
}

// pairs writes members as "key: value", nested objects one level deep.
func pairs(fs []field, prefix string, most int) string {
	var parts []string
	for _, f := range fs {
		if len(parts) >= most {
			break
		}
		switch {
		case isScalar(f.value):
			v := flat(unquote(f.value))
			if len(v) > 60 {
				v = short(v, 16)
			}
			parts = append(parts, prefix+f.key+": "+v)
		case f.value != "" && f.value[0] == '{' && prefix == "":
			if p := pairs(fields(f.value, maxArgs), f.key+".", 6); p != "" {
				parts = append(parts, p)
			}
		case f.value != "" && f.value[0] == '[':
			if p := listed(f.value); p != "" {
				parts = append(parts, prefix+f.key+": "+p)
			}
		}
	}
	return strings.Join(parts, ", ")
}

// listed writes a JSON list: short scalars as they are, else their number.
func listed(v string) string {
	var parts []string
	n, plain := 0, true
	for i := 1; i < len(v); {
		i = skipSpace(v, i)
		end := valueEnd(v, i)
		if end <= i {
			break
		}
		n++
		if e := v[i:end]; isScalar(e) && len(e) < 40 {
			parts = append(parts, unquote(e))
		} else {
			plain = false
			if len(parts) == 0 && n == 1 {
				if fs := fields(e, 3); len(fs) > 0 && isScalar(fs[0].value) && len(fs[0].value) < 40 {
					parts = append(parts, unquote(fs[0].value))
				}
			}
		}
		if i = skipSpace(v, end); i >= len(v) || v[i] != ',' {
			break
		}
		i++
	}
	switch {
	case n == 0:
		return ""
	case plain && n <= 6:
		return "[" + strings.Join(parts, " ") + "]"
	case len(parts) > 0:
		return "[" + parts[0] + " … " + strconv.Itoa(n) + "]"
	}
	return "[" + strconv.Itoa(n) + "]"
}

func readTodos(v string) []todo {
	var out []todo
	for i := 1; i < len(v) && len(out) < 40; {
		i = skipSpace(v, i)
		end := valueEnd(v, i)
		if end <= i {
			break
		}
		var t todo
		for _, f := range fields(v[i:end], maxArgs) {
			switch f.key {
			case "content", "text", "title", "task":
				t.text = unquote(f.value)
			case "status", "state":
				t.status = unquote(f.value)
			}
		}
		if t.text != "" {
			out = append(out, t)
		}
		if i = skipSpace(v, end); i >= len(v) || v[i] != ',' {
			break
		}
		i++
	}
	return out
}
