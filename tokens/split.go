package tokens

import "unicode/utf8"

// The splitter cuts text into pieces as this expression does, which is
// o200k_base's in OpenAI's tiktoken (tiktoken_ext/openai_public.py), its
// alternatives tried in this order at every position:
//
//	word         [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	upper word   [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	number       \p{N}{1,3}
//	punctuation   ?[^\s\p{L}\p{N}]+[\r\n/]*
//	lines        \s*[\r\n]+
//	spaces       \s+(?!\S)|\s+
//
// It is matched by hand because an engine that backtracks is slow and, on runs
// of white space, quadratic. Every function here takes text and a position and
// returns the end of what it matched; each looks at a character at most a
// constant number of times.

// split returns the end of the piece that starts at text[i]. It handles pieces
// of ASCII and leaves those that touch any other character to splitRunes.
func (t *classes) split(text []byte, i int) int {
	ascii := &t.class[0]
	first := text[i]
	if first >= utf8.RuneSelf {
		return t.splitRunes(text, i)
	}
	start, c := i, ascii[first]
	i++
	if c&prefix != 0 && i < len(text) {
		// A word may have one character of punctuation or space before it.
		if b := text[i]; b >= utf8.RuneSelf {
			return t.splitRunes(text, start)
		} else if after := ascii[b]; after&bothCases != 0 {
			c = after
			i++
		}
	}
	switch {
	case c&bothCases != 0:
		if c&upper != 0 {
			i = run(ascii, text, i, upper)
		}
		i = run(ascii, text, i, lower)
		if i < len(text) && text[i] >= utf8.RuneSelf {
			return t.splitRunes(text, start)
		}
		return contraction(text, i)
	case c&digit != 0:
		for i < len(text) && i < start+3 {
			if b := text[i]; b >= utf8.RuneSelf {
				return t.splitRunes(text, start)
			} else if ascii[b]&digit == 0 {
				break
			}
			i++
		}
		return i
	}
	words := i
	if c&punct != 0 || first == ' ' {
		i = run(ascii, text, i, punct)
	}
	if c&punct != 0 || i > words {
		if i < len(text) && text[i] >= utf8.RuneSelf {
			return t.splitRunes(text, start)
		}
		return lineEnds(text, i)
	}
	i = run(ascii, text, i, space)
	if i < len(text) && text[i] >= utf8.RuneSelf {
		return t.splitRunes(text, start)
	}
	return spaces(text, start, i)
}

// run skips ASCII characters of the given class.
func run(ascii *[blockSize]class, text []byte, i int, of class) int {
	for i < len(text) && text[i] < utf8.RuneSelf && ascii[text[i]]&of != 0 {
		i++
	}
	return i
}

// splitRunes is split for any text. Bytes that are not UTF-8 decode, one at a
// time, as U+FFFD, which is punctuation.
func (t *classes) splitRunes(text []byte, i int) int {
	c, width := t.at(text, i)
	after := i + width
	switch {
	case c&prefix != 0:
		if end, hasLower := t.word(text, after); hasLower {
			return contraction(text, end)
		} else if c&mark == mark {
			// Not a prefix after all but a word of one mark, which the
			// expression prefers to an upper-case word with a prefix.
			return contraction(text, after)
		} else if end > after {
			return contraction(text, end)
		}
	case c&bothCases != 0:
		end, _ := t.word(text, i)
		return contraction(text, end)
	case c&digit != 0:
		return t.number(text, i)
	}
	if text[i] == ' ' {
		if end := t.runRunes(text, after, punct); end > after {
			return lineEnds(text, end)
		}
	}
	if c&punct != 0 {
		return lineEnds(text, t.runRunes(text, after, punct))
	}
	return spaces(text, i, t.runRunes(text, after, space))
}

// at returns the class and width of the character at text[i], or zero at the
// end of text.
func (t *classes) at(text []byte, i int) (class, int) {
	if i >= len(text) {
		return 0, 0
	}
	if b := text[i]; b < utf8.RuneSelf {
		return t.class[0][b], 1
	}
	r, width := utf8.DecodeRune(text[i:])
	return t.of(r), width
}

// runRunes skips characters of the given class.
func (t *classes) runRunes(text []byte, i int, of class) int {
	for {
		c, width := t.at(text, i)
		if c&of == 0 {
			return i
		}
		i += width
	}
}

// word matches the letters of a word at text[i], and says whether it is one
// with a lower-case part. Without one it is an upper-case word, empty if its
// end is i. An upper-case run that no lower-case letter follows is cut behind
// its last character of both cases, which then is the lower-case part: 中ABC
// is 中, ABC.
func (t *classes) word(text []byte, i int) (end int, hasLower bool) {
	lastBoth := -1
	for {
		c, width := t.at(text, i)
		if c&upper == 0 {
			if c&lower != 0 {
				return t.runRunes(text, i, lower), true
			}
			break
		}
		i += width
		if c&lower != 0 {
			lastBoth = i
		}
	}
	if lastBoth >= 0 {
		return lastBoth, true
	}
	return i, false
}

func (t *classes) number(text []byte, i int) int {
	for range 3 {
		c, width := t.at(text, i)
		if c&digit == 0 {
			break
		}
		i += width
	}
	return i
}

// contraction skips (?i:'s|'t|'re|'ve|'m|'ll|'d) at text[i], if it is there.
// The letter that differs from s only by case, besides S, is ſ (U+017F).
func contraction(text []byte, i int) int {
	if i+1 >= len(text) || text[i] != '\'' {
		return i
	}
	switch text[i+1] {
	case 's', 'S', 't', 'T', 'm', 'M', 'd', 'D':
		return i + 2
	}
	if i+2 >= len(text) {
		return i
	}
	first, second := text[i+1], text[i+2]
	if first == 0xC5 && second == 0xBF {
		return i + 3
	}
	switch [2]byte{first | 0x20, second | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return i + 3
	}
	return i
}

// lineEnds skips [\r\n/]* behind punctuation.
func lineEnds(text []byte, i int) int {
	for i < len(text) && (text[i] == '\n' || text[i] == '\r' || text[i] == '/') {
		i++
	}
	return i
}

// spaces cuts a run of white space, text[start:end]: behind its last newline;
// without one before its last character, which is left to prefix what follows,
// unless nothing does or the run would be empty.
func spaces(text []byte, start, end int) int {
	for i := end; i > start; i-- {
		if b := text[i-1]; b == '\n' || b == '\r' {
			return i
		}
	}
	if end == len(text) {
		return end
	}
	_, width := utf8.DecodeLastRune(text[start:end])
	if end-width == start {
		return end
	}
	return end - width
}
