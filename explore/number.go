package explore

import (
	"bytes"
	"unicode/utf8"
)

// unnumber removes the line numbers that agents' read tools put in front of
// every line ("     1→package main", "1\tname", "   1 | x"), where the first
// lines count up by one.
func unnumber(body []byte) []byte {
	const looked = 5
	want, seen := -1, 0
	eachLine(body, func(line []byte) bool {
		n, _, ok := lineNumber(line)
		if !ok || seen > 0 && n != want {
			seen = 0
			return false
		}
		want = n + 1
		seen++
		return seen < looked
	})
	if seen < 2 || seen < looked && seen < countLines(body) {
		return body
	}
	out := make([]byte, 0, len(body))
	eachLine(body, func(line []byte) bool {
		if _, at, ok := lineNumber(line); ok {
			line = line[at:]
		}
		out = append(append(out, line...), '\n')
		return true
	})
	if body[len(body)-1] != '\n' {
		out = out[:len(out)-1]
	}
	return out
}

var arrow = []byte("→")

// lineNumber reads the number in front of a line and says where the line
// itself starts.
func lineNumber(line []byte) (n, at int, ok bool) {
	const mostDigits = 8
	i := 0
	for i < len(line) && line[i] == ' ' {
		i++
	}
	from := i
	for i < len(line) && i-from < mostDigits && isDigit(line[i]) {
		n = n*10 + int(line[i]-'0')
		i++
	}
	if i == from || i == len(line) {
		return 0, 0, false
	}
	switch {
	case bytes.HasPrefix(line[i:], arrow):
		return n, i + len(arrow), true
	case line[i] == '\t':
		return n, i + 1, true
	case bytes.HasPrefix(line[i:], []byte(" | ")):
		return n, i + 3, true
	case bytes.HasPrefix(line[i:], []byte("| ")):
		return n, i + 2, true
	case bytes.Equal(line[i:], []byte("|")), bytes.Equal(line[i:], []byte(" |")):
		return n, len(line), true
	}
	return 0, 0, false
}

var magics = []struct{ magic, what string }{
	{"\x89PNG\r\n", "PNG image"},
	{"\xff\xd8\xff", "JPEG image"},
	{"GIF8", "GIF image"},
	{"%PDF-", "PDF document"},
	{"PK\x03\x04", "ZIP archive"},
	{"\x1f\x8b", "gzip data"},
	{"\x7fELF", "ELF executable"},
	{"SQLite format 3\x00", "SQLite database"},
	{"\x28\xb5\x2f\xfd", "Zstandard data"},
	{"\xff\xfe", "UTF-16 text"},
	{"\xfe\xff", "UTF-16 text"},
	{"\x00asm", "WebAssembly module"},
}

// binary tells bodies that are not text, by their first bytes.
func binary(body []byte) (what string, ok bool) {
	for _, m := range magics {
		if bytes.HasPrefix(body, []byte(m.magic)) {
			return m.what, true
		}
	}
	s := body[:min(len(body), 8<<10)]
	bad := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRune(s[i:])
		if r == 0 {
			return "binary", true
		}
		if r == utf8.RuneError && n == 1 && i < len(s)-utf8.UTFMax || r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != 0x1b && r != '\f' && r != '\b' {
			bad++
		}
		i += n
	}
	// Latin-1 text has a few such bytes, compressed data mostly such bytes.
	return "binary", bad*8 > len(s)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
