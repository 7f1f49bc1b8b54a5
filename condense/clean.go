package condense

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cleaned is what is left of a model's answer once its reasoning and what is
// not text are gone. The answer is untrusted.
func cleaned(s string) string { return strings.TrimSpace(withoutReasoning(plainText(s))) }

// plainText drops what has no place in a text: invalid bytes and control
// characters other than tab and newline.
func plainText(s string) string {
	ok := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !ok(r) }) < 0 {
		return s
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if ok(r) {
			return r
		}
		return -1
	}, s)
}

// reasoningTags are the elements in which models put their reasoning.
var reasoningTags = []string{"think", "thinking", "thought", "reasoning", "reflection", "scratchpad"}

// withoutReasoning strips reasoning elements. A tag counts where it begins a
// line: prose about such tags is left alone. An unclosed element runs to the
// end; an end tag on its own without a start (the start stood in the model's
// template) makes everything before it reasoning.
func withoutReasoning(s string) string {
	for _, tag := range reasoningTags {
		s = withoutElement(s, "<"+tag+">", "</"+tag+">")
	}
	return s
}

func withoutElement(s, open, end string) string {
	if !strings.Contains(lower(s), end[:len(end)-1]) && !strings.Contains(lower(s), open) {
		return s
	}
	var out strings.Builder
	for {
		low := lower(s)
		i := lineStart(low, open)
		j := lineEdge(low, end)
		switch {
		case i >= 0 && (j < 0 || i < j):
			out.WriteString(s[:i])
			n := closing(low[i:], open, end)
			if n < 0 {
				return out.String()
			}
			s = s[i+n:]
		case j >= 0: // everything so far was reasoning
			out.Reset()
			s = s[j+len(end):]
		default:
			out.WriteString(s)
			return out.String()
		}
	}
}

// closing returns where the element at the start of s ends, nested ones
// included, -1 where it does not.
func closing(s, open, end string) int {
	depth, at := 1, len(open)
	for {
		o, e := strings.Index(s[at:], open), strings.Index(s[at:], end)
		switch {
		case e < 0:
			return -1
		case o >= 0 && o < e:
			depth, at = depth+1, at+o+len(open)
		default:
			at += e + len(end)
			if depth--; depth == 0 {
				return at
			}
		}
	}
}

// lineStart finds a tag with nothing but space before it on its line.
func lineStart(s, tag string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], tag)
		if i < 0 {
			return -1
		}
		i += from
		line := s[strings.LastIndexByte(s[:i], '\n')+1 : i]
		if strings.TrimSpace(line) == "" {
			return i
		}
		from = i + len(tag)
	}
}

// lineEdge finds an end tag that begins or ends its line.
func lineEdge(s, tag string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], tag)
		if i < 0 {
			return -1
		}
		i += from
		before := s[strings.LastIndexByte(s[:i], '\n')+1 : i]
		after, _, _ := strings.Cut(s[i+len(tag):], "\n")
		if strings.TrimSpace(before) == "" || strings.TrimSpace(after) == "" {
			return i
		}
		from = i + len(tag)
	}
}

// lower lowers ASCII letters only, so that positions stay the same.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// errorBody: an answer that is a provider's error report, not a summary.
func errorBody(s string) bool {
	if !strings.HasPrefix(s, "{") {
		return false
	}
	var body map[string]json.RawMessage
	if json.Unmarshal([]byte(s), &body) != nil {
		return false
	}
	_, failed := body["error"]
	return failed
}
