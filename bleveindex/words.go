package bleveindex

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The analyzer. A run of letters, digits and "_" is a word; a run of a script
// that is written without spaces is kept by pairs of characters. The index
// holds, by position:
//
//	getUserById   getuserbyid+get, user, by, id
//	user_repo.go  user_repo+user, repo, go       (separators take no position)
//	C++           c+c++
//	01J9ZK…       one token: an id is never split
//	東京都        東京, 京都, 都
//
// so that a path, an e-mail address or an identifier is a phrase of its parts,
// and each of its words is found alone as well. The last character of a run
// stands alone so that every character starts a token: a query of one
// character is a prefix. Letters are lower-cased and full-width forms folded;
// there are no stop words and no stemming.

// maxTermBytes: longer tokens are cut, on a character.
const maxTermBytes = 128

// longWord stands beside words that may have been cut, so that who looks for a
// part of a word can look there too.
const longWord = "\x00"

// token is a term of the index side, with its byte range in the text.
type token struct {
	term            string
	start, end, pos int
}

// piece is a folded stretch of the text.
type piece struct {
	term       string
	start, end int
}

// unit is a word, or a run of characters of a script without spaces.
type unit struct {
	piece
	run    bool    // parts are its characters
	parts  []piece // of a word: nil where it has one part only
	suffix string  // "++" or "#" right behind a word: C++, C#
}

// width is the number of positions the unit takes.
func (u unit) width() int { return max(1, len(u.parts)) }

// symbol is the word with its suffix, "" without one.
func (u unit) symbol() string {
	if u.suffix == "" {
		return ""
	}
	return u.term + u.suffix
}

// tokens lists what the index holds of the unit, from position pos on.
func (u unit) tokens(pos int, emit func(token)) {
	if u.run {
		for i, c := range u.parts {
			if i+1 < len(u.parts) {
				emit(token{c.term + u.parts[i+1].term, c.start, u.parts[i+1].end, pos + i})
			} else {
				emit(token{c.term, c.start, c.end, pos + i})
			}
		}
		return
	}
	emit(token{u.term, u.start, u.end, pos})
	if u.end-u.start > maxTermBytes {
		emit(token{longWord, u.start, u.start, pos})
	}
	if s := u.symbol(); s != "" {
		emit(token{s, u.start, u.end + len(u.suffix), pos})
	}
	for i, p := range u.parts {
		emit(token{p.term, p.start, p.end, pos + i})
	}
}

// tokenize visits the tokens of a text in order of position.
func tokenize(text string, emit func(token)) {
	pos := 1
	eachUnit(text, func(u unit) {
		u.tokens(pos, emit)
		pos += u.width()
	})
}

type class byte

const (
	separator class = iota
	wordRune
	runRune
	mark // goes on with whatever stands before it
)

// fold maps full-width forms and curly apostrophes to ASCII, and letters to
// one of those that RE2 takes for the same in (?i): ſ, S and s.
func fold(r rune) rune {
	r = narrow(r)
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	if caseless(r) {
		return r
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// caseless reports the great blocks without upper and lower case: CJK, kana,
// Yi and hangul.
func caseless(r rune) bool { return r >= 0x2E80 && r < 0xA4D0 || r >= 0xAC00 && r < 0xD7A4 }

func narrow(r rune) rune {
	switch {
	case r >= 0xFF01 && r <= 0xFF5E:
		return r - 0xFEE0
	case r == '\u2018' || r == '\u2019': // typographic apostrophes
		return '\''
	}
	return r
}

// foldString folds a text rune by rune.
func foldString(s string) string { return strings.Map(fold, s) }

// spaceless are the scripts written without spaces between words.
var spaceless = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

func classOf(r rune) class {
	if r < utf8.RuneSelf {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
			return wordRune
		}
		return separator
	}
	switch {
	case r >= 0x4E00 && r < 0xA000, r >= 0xAC00 && r < 0xD7A4: // most of Han and hangul
		return runRune
	case r == 0x30FC || r == 0xFF70: // prolonged sound marks belong to no script
		return runRune
	case unicode.In(r, spaceless...):
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) {
			return runRune
		}
		return separator
	case unicode.IsLetter(r), unicode.IsNumber(r):
		return wordRune
	case unicode.IsMark(r):
		return mark
	}
	return separator
}

// eachUnit visits the units of a text.
func eachUnit(text string, visit func(unit)) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		c := classOf(narrow(r))
		if c != wordRune && c != runRune {
			i += n
			continue
		}
		start := i
		for i += n; i < len(text); i += n {
			r, n = utf8.DecodeRuneInString(text[i:])
			if next := classOf(narrow(r)); next != c && next != mark {
				break
			}
		}
		if c == runRune {
			visit(runOf(text, start, i))
		} else {
			visit(wordOf(text, start, i))
		}
	}
}

func runOf(text string, start, end int) unit {
	u := unit{piece: piece{start: start, end: end}, run: true}
	for i, r := range text[start:end] {
		at := start + i
		size := utf8.RuneLen(r)
		if r == utf8.RuneError {
			_, size = utf8.DecodeRuneInString(text[at:])
		}
		u.parts = append(u.parts, piece{string(fold(r)), at, at + size})
	}
	return u
}

func wordOf(text string, start, end int) unit {
	u := unit{piece: folded(text, start, end), suffix: suffixAt(text[end:])}
	if end-start > maxTermBytes { // a blob: no parts
		return u
	}
	for at := start; at < end; {
		next := end
		if i := strings.IndexByte(text[at:end], '_'); i >= 0 {
			next = at + i
		}
		u.parts = appendParts(u.parts, text, at, next)
		at = next + 1
	}
	if len(u.parts) == 1 && u.parts[0].term == u.term {
		u.parts = nil
	}
	return u
}

// suffixAt finds "++" or "#" that closes a word.
func suffixAt(rest string) string {
	for _, s := range []string{"++", "#"} {
		if tail, ok := strings.CutPrefix(rest, s); ok {
			r, _ := utf8.DecodeRuneInString(tail)
			if tail == "" || classOf(narrow(r)) == separator && r != '+' && r != '#' {
				return s
			}
		}
	}
	return ""
}

// appendParts splits text[start:end] at case changes: "HTTPServer" is http,
// server. An id (12 characters or more, a sixth of them digits) stays whole.
func appendParts(parts []piece, text string, start, end int) []piece {
	if start == end {
		return parts
	}
	if idLike(text[start:end]) {
		return append(parts, folded(text, start, end))
	}
	from := start
	prev, before := rune(0), rune(0)
	prevAt := start
	for i, r := range text[start:end] {
		at := start + i
		r = narrow(r)
		switch {
		case at == start:
		case unicode.IsUpper(r) && !unicode.IsUpper(prev): // userBy
			parts = append(parts, folded(text, from, at))
			from = at
		case unicode.IsLower(r) && unicode.IsUpper(prev) && unicode.IsUpper(before) && prevAt > from: // HTTPServer
			parts = append(parts, folded(text, from, prevAt))
			from = prevAt
		}
		before, prev, prevAt = prev, r, at
	}
	return append(parts, folded(text, from, end))
}

func idLike(s string) bool {
	n, digits := 0, 0
	for _, r := range s {
		n++
		if unicode.IsDigit(narrow(r)) {
			digits++
		}
	}
	return n >= 12 && digits*6 >= n
}

func folded(text string, start, end int) piece {
	s := text[start:end]
	if len(s) > 4*maxTermBytes { // enough for any folding to reach the limit
		s = cut(s, 4*maxTermBytes)
	}
	return piece{cut(foldString(s), maxTermBytes), start, end}
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
