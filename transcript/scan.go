package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// This file reads JSON text without decoding it: one strict pass decides
// whether a record is JSON, everything after it walks spans of known-good
// bytes. It exists because the verbatim bytes of parts matter here, and because
// encoding/json scans a nested record once per level.

// maxDepth is the deepest nesting accepted. Providers refuse far less, and the
// readers of the log recurse.
const maxDepth = 512

var (
	// errTruncated: the text ends in the middle of a value.
	errTruncated = errors.New("it ends in the middle")
	errTooDeep   = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
)

func syntaxError(b []byte, i int) error {
	if i >= len(b) {
		return errTruncated
	}
	r, _ := utf8.DecodeRune(b[i:])
	return fmt.Errorf("unexpected %q at byte %d", r, i)
}

// special marks the bytes that end a run inside a string.
var special = func() (t [256]bool) {
	for i := range 0x20 {
		t[i] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// validate checks that b holds exactly one JSON value.
func validate(b []byte) error {
	end, err := scanValue(b)
	if err != nil {
		return err
	}
	if end = skipSpace(b, end); end < len(b) {
		return syntaxError(b, end)
	}
	return nil
}

// scanValue checks the JSON value b begins with and returns its end.
func scanValue(b []byte) (end int, err error) {
	var inObject [maxDepth + 1]bool
	depth, i := 0, 0
	for {
		// a value
		i = skipSpace(b, i)
		if i >= len(b) {
			return i, errTruncated
		}
		switch c := b[i]; {
		case c == '{' || c == '[':
			if depth == maxDepth {
				return i, errTooDeep
			}
			depth++
			inObject[depth] = c == '{'
			i = skipSpace(b, i+1)
			if i < len(b) && b[i] == c+2 { // '{'+2 == '}', '['+2 == ']'
				i++
				depth--
				break
			}
			if c == '{' {
				if i, err = scanKey(b, i); err != nil {
					return i, err
				}
			}
			continue
		case c == '"':
			i, err = scanString(b, i)
		case c == '-' || c >= '0' && c <= '9':
			i, err = scanNumber(b, i)
		case c == 't':
			i, err = scanWord(b, i, "true")
		case c == 'f':
			i, err = scanWord(b, i, "false")
		case c == 'n':
			i, err = scanWord(b, i, "null")
		default:
			err = syntaxError(b, i)
		}
		if err != nil {
			return i, err
		}
		// what follows it
		for more := false; !more; {
			if depth == 0 {
				return i, nil
			}
			i = skipSpace(b, i)
			switch {
			case i < len(b) && b[i] == ',':
				i = skipSpace(b, i+1)
				if inObject[depth] {
					if i, err = scanKey(b, i); err != nil {
						return i, err
					}
				}
				more = true
			case i < len(b) && (inObject[depth] && b[i] == '}' || !inObject[depth] && b[i] == ']'):
				i++
				depth--
			default:
				return i, syntaxError(b, i)
			}
		}
	}
}

// scanKey reads a key and the colon behind it.
func scanKey(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, syntaxError(b, i)
	}
	i, err := scanString(b, i)
	if err != nil {
		return i, err
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return i, syntaxError(b, i)
	}
	return i + 1, nil
}

func scanString(b []byte, i int) (int, error) {
	for i++; i < len(b); i++ {
		if !special[b[i]] {
			continue
		}
		switch b[i] {
		case '"':
			return i + 1, nil
		case '\\':
			i++
			if i >= len(b) {
				return i, errTruncated
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					i++
					if i >= len(b) || hexValue(b[i]) < 0 {
						return i, syntaxError(b, i)
					}
				}
			default:
				return i, syntaxError(b, i)
			}
		default:
			return i, syntaxError(b, i)
		}
	}
	return i, errTruncated
}

func scanNumber(b []byte, i int) (int, error) {
	digits := func() error {
		start := i
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		if i == start {
			return syntaxError(b, i)
		}
		return nil
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if err := digits(); err != nil {
		return i, err
	}
	if i < len(b) && b[i] == '.' {
		i++
		if err := digits(); err != nil {
			return i, err
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if err := digits(); err != nil {
			return i, err
		}
	}
	return i, nil
}

func scanWord(b []byte, i int, w string) (int, error) {
	for j := range len(w) {
		if i+j >= len(b) || b[i+j] != w[j] {
			return i + j, syntaxError(b, i+j)
		}
	}
	return i + len(w), nil
}

// skipString returns the end of the string that starts at i. On text that was
// not validated it may run to len(b), never further.
func skipString(b []byte, i int) int {
	for i++; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return len(b)
		}
		n := 0 // backslashes in front of the quote
		for q-n > 0 && b[i+q-n-1] == '\\' {
			n++
		}
		i += q + 1
		if n%2 == 0 {
			return i
		}
	}
	return len(b)
}

// skipValue returns the end of the value that starts at i, under the same terms.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			i++
			if depth > 0 {
				continue
			}
			for i < len(b) && b[i] > ' ' && b[i] != ',' && b[i] != '}' && b[i] != ']' {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(b)
}

// fields calls f with every member of the object b; the slices are parts of b.
// It stops where b stops being an object, so it reads cut-off text as far as it
// goes: the last value is then partial.
func fields(b []byte, f func(key, val []byte)) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = skipSpace(b, i)
		if i >= len(b) || b[i] != '"' {
			return
		}
		end := skipString(b, i)
		key := b[i:end]
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ':' {
			return
		}
		i = skipSpace(b, i+1)
		end = skipValue(b, i)
		if end == i {
			return
		}
		if bytes.IndexByte(key, '\\') >= 0 {
			s, _ := unquote(key)
			f([]byte(s), b[i:end])
		} else {
			f(key[1:len(key)-1], b[i:end])
		}
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ',' {
			return
		}
	}
}

// elements calls f with every element of the array b, under the same terms.
func elements(b []byte, f func(val []byte)) {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return
	}
	for i++; ; i++ {
		i = skipSpace(b, i)
		end := skipValue(b, i)
		if end == i {
			return
		}
		f(b[i:end])
		i = skipSpace(b, end)
		if i >= len(b) || b[i] != ',' {
			return
		}
	}
}

// member returns the value of a key of the object b, nil where it has none.
func member(b []byte, name string) (v []byte) {
	fields(b, func(key, val []byte) {
		if string(key) == name {
			v = val
		}
	})
	return v
}

// The first byte of a value tells its type.
func first(v []byte) byte {
	if i := skipSpace(v, 0); i < len(v) {
		return v[i]
	}
	return 0
}

func isObject(v []byte) bool { return first(v) == '{' }
func isArray(v []byte) bool  { return first(v) == '[' }
func isString(v []byte) bool { return first(v) == '"' }
func isNull(v []byte) bool   { return len(v) == 0 || first(v) == 'n' }
func isTrue(v []byte) bool   { return first(v) == 't' }

// text returns a string value, "" for anything else.
func text(v []byte) string {
	if !isString(v) {
		return ""
	}
	s, _ := unquote(v)
	return s
}
