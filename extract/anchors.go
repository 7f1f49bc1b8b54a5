package extract

import (
	"strings"
	"unicode/utf8"
)

// anchorKind says what sort of name an anchor is.
type anchorKind uint8

const (
	noAnchor anchorKind = iota
	anchorURL
	anchorPath
	anchorCode // error and ticket codes, flight numbers: capitals with digits
	anchorHash
	anchorIdent
	anchorMail
	anchorNumber // with its unit; dates, versions
	anchorFlag
	anchorQuote
)

// anchorWorth is what keeping one anchor of a kind is worth.
var anchorWorth = [...]float64{
	anchorURL: 2.5, anchorPath: 2.5, anchorCode: 2.5, anchorHash: 2, anchorIdent: 1.6,
	anchorMail: 2, anchorNumber: 1.5, anchorFlag: 1, anchorQuote: 2,
}

const (
	maxAnchorBytes = 120 // longer runs are data, not names
	maxURLBytes    = 200
)

// isBreak marks the bytes that end a chunk: an anchor never contains one.
var isBreak = breakTable()

func breakTable() (t [256]bool) {
	for _, c := range []byte(" \t\n\r\v\f\"'`()[]{}<>,;|*!=&?+^\\") {
		t[c] = true
	}
	return t
}

// anchors calls emit for every anchor of s, in order. The text passed
// stands in s verbatim. Chunks are runs between break bytes; non-ASCII runes end a
// chunk too, so a name glued to Han text is found.
func anchors(s string, emit func(a string, k anchorKind)) {
	for i := 0; i < len(s); {
		if isBreak[s[i]] || s[i] >= utf8.RuneSelf {
			if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("ntr", s[i+1]) >= 0 {
				i++ // an escape in quoted code, not the start of a name
			}
			i++
			continue
		}
		start := i
		for i < len(s) && !isBreak[s[i]] && s[i] < utf8.RuneSelf {
			i++
		}
		chunk := s[start:i]
		if at := strings.Index(chunk, "://"); at > 0 {
			end := urlEnd(s, start)
			if u := strings.TrimRight(s[start:end], ".,:;"); len(u) <= maxURLBytes && len(u) > at+3 {
				emit(u, anchorURL)
			}
			i = max(i, end)
			continue
		}
		closing := start > 0 && s[start-1] == '<'
		chunkAnchors(chunk, s[i:], closing, emit)
	}
}

func urlEnd(s string, i int) int {
	for i < len(s) && s[i] > ' ' && s[i] < utf8.RuneSelf && strings.IndexByte("\"'`<>)]}|\\", s[i]) < 0 {
		i++
	}
	return i
}

// chunkAnchors classifies one chunk; rest is what follows it.
func chunkAnchors(c, rest string, closing bool, emit func(string, anchorKind)) {
	c = strings.TrimRight(c, ".:#@%$~-")
	if strings.HasPrefix(c, "--") {
		if f := strings.TrimLeft(c, "-"); len(f) >= 3 && len(f) <= 40 && isLetter(f[0]) {
			emit(c[len(c)-len(f)-2:], anchorFlag)
		}
		return
	}
	c = strings.TrimLeft(c, ":-%")
	if len(c) < 2 || len(c) > maxAnchorBytes {
		return
	}
	if strings.IndexByte(c, '/') >= 0 {
		if !closing && isPath(c) {
			emit(c, anchorPath)
		} else if !closing {
			for part := range strings.SplitSeq(c, "/") {
				wordAnchor(part, "", emit)
			}
		}
		return
	}
	if at := strings.IndexByte(c, '@'); at > 0 && strings.IndexByte(c[at:], '.') > 0 {
		emit(c, anchorMail) // or a package with its version
		return
	}
	wordAnchor(c, rest, emit)
}

// isPath tells a path from "and/or": it is rooted, has an extension, or is
// deep and not prose.
func isPath(c string) bool {
	if strings.HasPrefix(c, "//") || len(c) < 4 || !hasLetter(c) {
		return false
	}
	segments := strings.Count(c, "/")
	last := c[strings.LastIndexByte(c, '/')+1:]
	switch {
	case c[0] == '/' && segments == 1:
		return len(c) >= 5
	case c[0] == '/' || c[0] == '~' || c[0] == '.' || c[0] == '@':
		return true
	case strings.IndexByte(last, '.') > 0:
		return true
	case segments >= 2:
		return true
	default:
		return last == "" || strings.ContainsAny(c, "-_.0123456789")
	}
}

func wordAnchor(w, rest string, emit func(string, anchorKind)) {
	w = strings.Trim(w, ".:#@%~/-")
	if len(w) < 2 || len(w) > maxAnchorBytes {
		return
	}
	if i := strings.IndexByte(w, ':'); i > 0 { // a:b, name:25:10
		if tail := w[i+1:]; isFileName(w[:i]) && tail != "" && isDigit(tail[0]) {
			emit(w, anchorPath)
			return
		}
		if !isDigit(w[0]) {
			wordAnchor(w[:i], "", emit)
			wordAnchor(w[i+1:], rest, emit)
			return
		}
	}
	if isDigit(w[0]) || w[0] == '$' {
		numberAnchor(w, rest, emit)
		return
	}
	if isFileName(w) {
		emit(w, anchorPath)
		return
	}
	if strings.IndexByte(w, '.') >= 0 {
		if strings.IndexByte(w, '-') > 0 && len(w) <= 48 && strings.ContainsAny(w, "0123456789") {
			emit(w, anchorIdent) // a model or package with its version
			return
		}
		for part := range strings.SplitSeq(w, ".") {
			if k := nameKind(part); k != noAnchor {
				emit(part, k)
			}
		}
		return
	}
	if k := nameKind(w); k != noAnchor {
		emit(w, k)
	}
}

// numberAnchor keeps numbers that say what they count.
func numberAnchor(w, rest string, emit func(string, anchorKind)) {
	if isHash(w) {
		emit(w, anchorHash)
		return
	}
	digits, dots, dashes, letters := 0, 0, 0, 0
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case isDigit(c):
			digits++
		case c == '.':
			dots++
		case c == '-' || c == ':':
			dashes++
		case isLetter(c):
			letters++
		}
	}
	switch {
	case w[0] == '$' && digits > 0, dots >= 2 && digits >= 3, dashes >= 2 && digits >= 4:
		emit(w, anchorNumber) // money, versions, dates
	case letters > 0 && letters <= 4 && dashes == 0 && isDigit(w[0]):
		emit(w, anchorNumber) // 117ms, 5MB
	case letters > 4 && strings.IndexByte(w, '_') > 0:
		emit(w, anchorIdent)
	case letters == 0 && rest != "" && rest[0] == ' ' || strings.HasPrefix(rest, "%"):
		end := unitEnd(rest)
		if end > 0 {
			// w is followed by rest in one string: take both.
			emit(w+rest[:end], anchorNumber)
		}
	}
}

var units = wordSet(`ms s sec seconds minutes min hours days weeks months years bytes KB MB GB TB KiB MiB GiB
	lines files file tests tokens characters chars errors error warnings rows items messages commits insertions deletions
	passed failed packages px USD EUR percent AM PM times requests users total`)

// unitEnd returns the length of a unit at the start of rest, 0 if there is none.
func unitEnd(rest string) int {
	if rest[0] == '%' {
		return 1
	}
	i := 1
	for i < len(rest) && isLetter(rest[i]) {
		i++
	}
	if units[rest[1:i]] {
		return i
	}
	return 0
}

// nameKind classifies a word that starts with a letter or underscore.
func nameKind(w string) anchorKind {
	if len(w) < 4 || len(w) > 64 {
		return noAnchor
	}
	if isHash(w) {
		return anchorHash
	}
	var upper, lower, digit, dash, camel, snake int
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
			if i > 0 && w[i-1] >= 'a' && w[i-1] <= 'z' {
				camel++
			}
		case isDigit(c):
			digit++
		case c == '_':
			if i > 0 && i < len(w)-1 {
				snake++
			}
		case c == '-':
			dash++
		default:
			return noAnchor
		}
	}
	switch {
	case snake > 0, camel > 0 && dash == 0:
		return anchorIdent
	case upper >= 1 && digit >= 1 && lower == 0:
		return anchorCode
	case w[0] == 'E' && lower == 0 && digit == 0 && dash == 0 && len(w) >= 5 && len(w) <= 12 && !capsWords[w]:
		return anchorCode // errno names
	case dash >= 2 && digit > 0, dash == 1 && digit > 0 && lower > 0:
		return anchorIdent // gpt-4o, a UUID that starts with a letter
	}
	return noAnchor
}

var capsWords = wordSet(`ERROR ERRORS EXAMPLE EXPECTED EVERY ENABLE ENABLED EMPTY ENTER EXISTS EXPORT EXECUTE EVENT
	EXIT ENTIRE`)

// isHash accepts abbreviated and full hashes, and UUIDs.
func isHash(w string) bool {
	if len(w) < 7 || len(w) > 64 {
		return false
	}
	digits, letters := 0, 0
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case isDigit(c):
			digits++
		case c >= 'a' && c <= 'f':
			letters++
		case c == '-' && len(w) == 36:
		default:
			return false
		}
	}
	return digits > 0 && letters > 0
}

var fileExts = wordSet(`go py pyi js jsx ts tsx mjs cjs rs java kt c h cc cpp hpp cs rb php swift scala sh bash zsh
	ps1 sql json jsonl yaml yml toml ini cfg conf env xml html htm css scss md mdx rst txt log csv tsv lock mod sum
	proto graphql svg png jpg jpeg gif pdf zip tar gz db sqlite ipynb vue svelte tf gradle properties dockerfile
	patch diff wasm so dll exe`)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

func isFileName(w string) bool {
	dot := strings.LastIndexByte(w, '.')
	return dot > 0 && len(w) >= 4 && w != "console.log" && fileExts[w[dot+1:]] && hasLetter(w[:dot])
}

// quotes calls emit for every short quoted string of s.
func quotes(s string, emit func(string)) {
	const maxQuote = 80
	pairs := [...]struct{ open, end string }{{`"`, `"`}, {"`", "`"}, {"“", "”"}, {"「", "」"}}
	for _, p := range pairs {
		for rest := s; ; {
			_, after, ok := strings.Cut(rest, p.open)
			if !ok {
				break
			}
			body, _, ok := strings.Cut(after[:min(len(after), maxQuote+len(p.end))], p.end)
			rest = after
			if !ok || strings.IndexByte(body, '\n') >= 0 {
				continue // not a pair: start again behind the mark
			}
			if b := strings.TrimSpace(body); len(b) >= 2 {
				emit(b)
			}
			rest = after[len(body)+len(p.end):]
		}
	}
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func hasLetter(s string) bool {
	for i := 0; i < len(s); i++ {
		if isLetter(s[i]) {
			return true
		}
	}
	return false
}
