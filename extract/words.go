package extract

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// clean makes text fit for a summary: valid UTF-8, no escape sequences.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "")
	}
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = stripEscapes(s)
	}
	return s
}

// stripEscapes removes ANSI control sequences (ECMA-48 CSI and OSC).
func stripEscapes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != 0x1b {
			b.WriteByte(s[i])
			continue
		}
		if i+1 >= len(s) {
			break
		}
		i++
		switch s[i] {
		case '[':
			for i+1 < len(s) && s[i+1] >= 0x20 && s[i+1] < 0x40 {
				i++
			}
			if i+1 < len(s) && s[i+1] >= 0x40 && s[i+1] < 0x7f {
				i++
			}
		case ']':
			for i+1 < len(s) && s[i] != 0x07 && s[i+1] != 0x1b && s[i+1] != '\n' {
				i++
			}
		default:
			if s[i] >= utf8.RuneSelf {
				i-- // not a sequence: keep the rune whole
			}
		}
	}
	return b.String()
}

// flat puts text on one line: every run of spaces and controls is one space.
func flat(s string) string {
	if !needsFlat(s) {
		return strings.TrimSpace(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for _, r := range s {
		if unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

func needsFlat(s string) bool {
	prev := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < ' ' || c == 0x7f || c >= utf8.RuneSelf || c == ' ' && prev == ' ' {
			return true
		}
		prev = c
	}
	return false
}

// prose is one piece of a text: a sentence, a heading or a fenced block.
type prose struct {
	text string
	kind proseKind
	info string // of a fence: its language
}

type proseKind uint8

const (
	sentence proseKind = iota
	heading
	fence
	quoted // a Markdown quotation: somebody else's words
)

// split cuts text into sentences, headings and fenced blocks.
func split(text string, emit func(prose)) {
	var block []string
	info, inFence := "", false
	list, led := "", false // a list under way, see joinsList; led: by a line that ends with ":"
	flush := func() {
		splitLine(list, emit)
		list = ""
	}
	for line := range strings.SplitSeq(text, "\n") {
		t := strings.TrimSpace(line)
		if mark, ok := strings.CutPrefix(t, "```"); ok {
			flush()
			if inFence {
				emit(prose{strings.Join(block, "\n"), fence, info})
			}
			inFence, info, block = !inFence, strings.TrimSpace(mark), block[:0]
			continue
		}
		if inFence {
			block = append(block, line)
			continue
		}
		t = strings.ReplaceAll(t, "**", "")
		if t == "" && strings.HasSuffix(list, ":") {
			continue // a blank line may stand between it and its list
		}
		if joinsList(list, led, line, t) {
			list = strings.TrimRight(list, " ;") + listJoint(list) + trimBullet(t)
			continue
		}
		flush()
		list, led = t, strings.HasSuffix(t, ":")
	}
	flush()
	if inFence && len(block) > 0 {
		emit(prose{strings.Join(block, "\n"), fence, info})
	}
}

// joinsList reports whether a line belongs to the list line before it: an
// indented bullet does, one of a list that a line with a colon leads, and so do
// runs of "key: value", which mean little alone.
func joinsList(list string, led bool, line, t string) bool {
	const longest = 240 // bytes
	if list == "" || t == "" || len(list)+len(t) > longest || len(t) == len(trimBullet(t)) || list[0] == '#' || list[0] == '>' {
		return false
	}
	return led || line[0] == ' ' || line[0] == '\t' || isPair(t) && isPair(list)
}

// isPair recognises a bullet "key: value".
func isPair(t string) bool {
	i := strings.Index(t, ": ")
	return i > 0 && i < 32 && len(trimBullet(t)) < len(t)
}

func listJoint(list string) string {
	if strings.HasSuffix(list, ":") {
		return " "
	}
	return "; "
}

func splitLine(t string, emit func(prose)) {
	switch {
	case t == "":
		return
	case t[0] == '#' && strings.HasPrefix(strings.TrimLeft(t, "#"), " "):
		emit(prose{text: strings.TrimLeft(t, "# "), kind: heading})
		return
	case t[0] == '>':
		emit(prose{text: strings.TrimLeft(t, "> "), kind: quoted})
		return
	}
	t = trimBullet(t)
	for t != "" {
		n := sentenceEnd(t)
		if s := strings.TrimSpace(t[:n]); s != "" {
			emit(prose{text: s})
		}
		t = t[n:]
	}
}

// trimBullet removes a list mark, not a task box: "[ ]" says something.
func trimBullet(t string) string {
	for _, mark := range []string{"- ", "* ", "• ", "+ "} {
		if rest, ok := strings.CutPrefix(t, mark); ok {
			return strings.TrimSpace(rest)
		}
	}
	i := 0
	for i < len(t) && i < 3 && isDigit(t[i]) {
		i++
	}
	if i > 0 && i+1 < len(t) && (t[i] == '.' || t[i] == ')') && t[i+1] == ' ' {
		return strings.TrimSpace(t[i+2:])
	}
	return t
}

// sentenceEnd returns the length of the first sentence of t, at least 1.
func sentenceEnd(t string) int {
	const shortest = 12 // bytes: "e.g. ", "1. ", initials do not end a sentence
	for i := 0; i < len(t); {
		r, n := utf8.DecodeRuneInString(t[i:])
		i += n
		switch r {
		case '。', '！', '？', '；':
			return i
		case '.', '!', '?':
			if i >= shortest && i < len(t) && t[i] == ' ' && !strings.HasSuffix(t[:i], "e.g.") && !strings.HasSuffix(t[:i], "i.e.") {
				return i
			}
		}
	}
	return len(t)
}

// terms appends the hashes of the content words of s: Latin words in lower
// case without stop words, Han, Kana and Hangul as bigrams.
func terms(s string, out []uint32) []uint32 {
	if isASCII(s) {
		return asciiTerms(s, out)
	}
	var prev rune
	for it := words.FromString(s); it.Next(); {
		w := it.Value()
		if isASCII(w) {
			out, prev = asciiTerms(w, out), 0
			continue
		}
		for _, r := range w {
			switch {
			case isCJK(r):
				if prev != 0 {
					out = append(out, hash2(prev, r))
				}
				prev = r
			case unicode.IsLetter(r):
				if prev >= 0 {
					out = append(out, hashString(strings.ToLower(w)))
				}
				prev = -1 // one hash a word
			default:
				prev = 0
			}
		}
		if prev < 0 {
			prev = 0
		}
	}
	return out
}

func asciiTerms(s string, out []uint32) []uint32 {
	for i := 0; i < len(s); {
		if !isWordByte(s[i]) {
			i++
			continue
		}
		start, h := i, uint32(2166136261) // FNV-1a
		for i < len(s) && isWordByte(s[i]) {
			c := s[i]
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			h = (h ^ uint32(c)) * 16777619
			i++
		}
		if i-start >= 3 && !stopTerms[h] {
			out = append(out, h)
		}
	}
	return out
}

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }

func hashString(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

func hash2(a, b rune) uint32 {
	return ((2166136261^uint32(a))*16777619 ^ uint32(b)) * 16777619
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isCJK(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

var stopTerms = stopTable(`the and for that this with you your are was were have has had not but can will would should
	could all any from they them then than there here what when which who how why its it's our out into onto also just now
	let lets i'll i'm we're one two some more most very only been being does did done get got make use used using about
	over under each per via see new need want like please okay yes`)

func stopTable(list string) map[uint32]bool {
	set := map[uint32]bool{}
	for w := range strings.FieldsSeq(list) {
		set[hashString(w)] = true
	}
	return set
}
