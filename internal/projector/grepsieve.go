package projector

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// need is a condition on a text: it holds one of some strings, in any case
// where fold is set.
type need struct {
	any  []string
	fold bool
}

func stringsOf(needs []need) (out [][]string) {
	for _, n := range needs {
		out = append(out, n.any)
	}
	return out
}

// sieve rules turns out by their stored payload, before it is decoded: most of
// the candidates of a regex do not hold its literals one behind the other. It
// looks for what JSON leaves as it is, and lets pass whatever it is not sure
// of.
type sieve struct {
	needs  []sieveNeed
	folded bool // one of them folds
}

type sieveNeed struct {
	any    [][]byte
	fold   bool
	spaces bool
}

// minSieve: a shorter string stands in too many texts to be worth looking for.
const minSieve = 3

func newSieve(needs []need) (s sieve) {
	for _, n := range needs {
		out := sieveNeed{fold: n.fold}
		for _, text := range n.any {
			part := plainest(text, n.fold)
			if len(part) < minSieve {
				out.any = nil
				break
			}
			if n.fold {
				part = string(lowerInto(nil, []byte(part)))
			}
			out.any = append(out.any, []byte(part))
			out.spaces = out.spaces || strings.Contains(part, " ")
		}
		if out.any != nil {
			s.needs = append(s.needs, out)
			s.folded = s.folded || out.fold
		}
	}
	return s
}

// plainest is the longest stretch of a string that stands in JSON as it is;
// with fold, in any case of it.
func plainest(text string, fold bool) string {
	best := ""
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		switch {
		case r < ' ' || r == 0x7F || strings.ContainsRune("\"\\/<>&\u2028\u2029", r) || r == utf8.RuneError:
			return true
		}
		return fold && r >= utf8.RuneSelf
	}) {
		if len(part) > len(best) {
			best = part
		}
	}
	return best
}

// lowerInto lower-cases ASCII, and the two letters that RE2 takes for ASCII in
// (?i): ſ for s, K for k.
func lowerInto(dst, src []byte) []byte {
	dst = dst[:0]
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == 0xC5 && i+1 < len(src) && src[i+1] == 0xBF:
			c, i = 's', i+1
		case c == 0xE2 && i+2 < len(src) && src[i+1] == 0x84 && src[i+2] == 0xAA:
			c, i = 'k', i+2
		}
		dst = append(dst, c)
	}
	return dst
}

// strainer is a sieve in use, by one goroutine.
type strainer struct {
	sieve
	lower []byte
}

// The marks of a payload that the sieve cannot judge: letters may be escaped,
// and between the name and the input of a call the text has a space that is
// not stored.
var (
	escaped = []byte(`\u`)
	called  = []byte(`tool_use`)
)

// rulesOut reports that no text of a turn with this payload matches.
func (s *strainer) rulesOut(body []byte) bool {
	if len(s.needs) == 0 {
		return false
	}
	if s.folded {
		s.lower = lowerInto(s.lower, body)
	}
	for _, n := range s.needs {
		in := body
		if n.fold {
			in = s.lower
		}
		if !n.in(in) {
			return !bytes.Contains(body, escaped) && !(n.spaces && bytes.Contains(body, called))
		}
	}
	return false
}

func (n sieveNeed) in(body []byte) bool {
	for _, part := range n.any {
		if bytes.Contains(body, part) {
			return true
		}
	}
	return false
}
