package reader

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Cited is an entry that an answer names; Entry 0 is a summary, which is none.
type Cited struct {
	Session string
	Entry   uint64
}

// A bracket that may hold citations, with the space before it, and one thing
// that it names: e12, SESSION/e12, e3..e7, or a summary.
var (
	bracket = regexp.MustCompile(`[ \t]*\[([^\[\]\n]{2,400})\]`)
	item    = regexp.MustCompile(`^(?:(.+)/)?(?:e([1-9]\d{0,17})(?:(?:\.\.|-|–)e?([1-9]\d{0,17}))?|[#n][1-9]\d{0,17})$`)
)

// Citations of an answer, each once, in order. One without a session is of def.
func Citations(text, def string) []Cited {
	var out []Cited
	for _, m := range bracket.FindAllStringSubmatch(text, -1) {
		for _, one := range items(m[1], def) {
			for _, c := range one.cited {
				if !slices.Contains(out, c) {
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// Keep takes every citation out of an answer that names anything that does not
// hold, and tells them as they were written. Those of def lose its name.
func Keep(text, def string, holds func(Cited) bool) (kept string, dropped []string) {
	kept = bracket.ReplaceAllStringFunc(text, func(all string) string {
		m := bracket.FindStringSubmatch(all)
		found := items(m[1], def)
		if found == nil {
			return all
		}
		var stay []string
		for _, one := range found {
			if slices.ContainsFunc(one.cited, func(c Cited) bool { return c.Entry == 0 || !holds(c) }) {
				dropped = append(dropped, one.text)
				continue
			}
			stay = append(stay, strings.TrimPrefix(one.text, def+"/"))
		}
		if stay == nil {
			return ""
		}
		return all[:strings.IndexByte(all, '[')] + "[" + strings.Join(stay, ", ") + "]"
	})
	return strings.TrimSpace(kept), dropped
}

// named is one thing in a bracket: an entry, both ends of a range, a summary.
type named struct {
	text  string
	cited []Cited
}

// items of a bracket; nil where it holds something else. A session stands for
// what follows it too.
func items(inside, def string) []named {
	parts := strings.FieldsFunc(inside, func(r rune) bool { return r == ',' || r == ';' })
	out, ok := read(parts, def)
	if !ok { // a session's name may hold a comma
		out, _ = read([]string{inside}, def)
	}
	return out
}

func read(parts []string, def string) (out []named, ok bool) {
	for _, p := range parts {
		p = strings.TrimSpace(p)
		m := item.FindStringSubmatch(p)
		if m == nil {
			return nil, false
		}
		if m[1] != "" {
			def = m[1]
		} else if len(out) > 0 && def != "" {
			p = def + "/" + p
		}
		one := named{text: p, cited: []Cited{{def, number(m[2])}}}
		if m[3] != "" {
			one.cited = append(one.cited, Cited{def, number(m[3])})
		}
		out = append(out, one)
	}
	return out, len(out) > 0
}

func number(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64) // digits only, or nothing
	return n
}
