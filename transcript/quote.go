package transcript

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote decodes a JSON string with its quotes. lossy says that an unpaired
// surrogate was replaced: the result is not what the source meant.
func unquote(v []byte) (s string, lossy bool) {
	if len(v) < 2 || v[len(v)-1] != '"' { // cut off: only Detect reads such text
		return "", true
	}
	v = v[1 : len(v)-1]
	i := bytes.IndexByte(v, '\\')
	if i < 0 {
		return string(v), false
	}
	out := make([]byte, 0, len(v))
	for i >= 0 && i+1 < len(v) {
		out = append(out, v[:i]...)
		c := v[i+1]
		v = v[i+2:]
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(v)
			v = v[min(4, len(v)):]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(v) >= 6 && v[0] == '\\' && v[1] == 'u' {
					low = hexRune(v[2:])
				}
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					lossy = true
				} else {
					v = v[6:]
				}
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
		i = bytes.IndexByte(v, '\\')
	}
	return string(append(out, v...)), lossy
}

func hexRune(v []byte) rune {
	if len(v) < 4 {
		return utf8.RuneError
	}
	var r rune
	for _, c := range v[:4] {
		r = r<<4 | rune(hexValue(c))
	}
	return r
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes s as a JSON string the way JavaScript's JSON.stringify
// does; with ascii as Python's json.dumps does by default.
func appendQuoted(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if !special[c] && (c != 0x7f || !ascii) {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if !ascii && (r != utf8.RuneError || n > 1) {
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		if !ascii { // invalid UTF-8 must not reach the wire
			dst = utf8.AppendRune(dst, utf8.RuneError)
		} else if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			dst = appendHexRune(appendHexRune(dst, hi), lo)
		} else {
			dst = appendHexRune(dst, r)
		}
		i += n
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

func appendHexRune(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
