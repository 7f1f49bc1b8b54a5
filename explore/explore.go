package explore

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Descriptor stands for a large body wherever the body itself would not fit.
type Descriptor struct {
	// Kind is what the body turned out to be: "go", "python", "javascript",
	// "typescript", "rust", "java", "c", "cpp", "shell", "sql", "json",
	// "jsonl", "csv", "tsv", "yaml", "toml", "xml", "html", "markdown", "log",
	// "text", "binary".
	Kind string
	// Summary is one line of at most 200 characters.
	Summary string
	// Head is the beginning of the body, at most 1,000 characters, cut at a
	// line's end or between graphemes. Empty for a binary body.
	Head string
}

const (
	maxSummary  = 200  // characters
	maxHead     = 1000 // characters
	maxNames    = 12
	maxName     = 40 // characters of one name
	sampleBytes = 32 << 10
	remembered  = 10_000 // names, beyond it repetitions count again
)

// Describe describes a body. A body that proves its family (JSON, declared XML,
// binary) is described by it; else the path's extension tells the family, and
// only where it tells none do the body's lines.
//
// What is described is written into the turn's event once; rules may change
// without a version, since nothing is described again from the log.
func Describe(name string, body []byte) Descriptor {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if what, ok := binary(body); ok {
		return Descriptor{Kind: "binary", Summary: oneLine(what + ", " + size(len(body)))}
	}
	body = unnumber(body)
	f := file{body: body, hint: hint(name)}
	kind, summary := f.describe()
	return Descriptor{Kind: kind, Summary: oneLine(summary), Head: head(body)}
}

// file is a body under examination.
type file struct {
	body []byte
	hint string // the family its name tells, "" = none
}

// describe tries the families whose bodies leave no doubt, then the one the
// name tells, and only without such a name the others.
func (f file) describe() (kind, summary string) {
	if len(bytes.TrimSpace(f.body)) == 0 {
		return "text", "empty, " + size(len(f.body))
	}
	for _, try := range []func() (string, string, bool){f.json, f.jsonl, f.markup, f.hinted, f.unhinted} {
		if kind, summary, ok := try(); ok {
			return kind, summary
		}
	}
	return f.text()
}

// hinted believes the name: what is odd in the body is described as far as
// its family's rules reach.
func (f file) hinted() (kind, summary string, ok bool) {
	switch f.hint {
	case "json":
		return f.jsonc()
	case "csv", "tsv":
		kind, summary = f.namedTable()
	case "yaml":
		kind, summary = f.namedYAML()
	case "toml":
		kind, summary = f.namedTOML()
	case "xml", "html":
		return f.namedMarkup()
	case "markdown":
		kind, summary = f.namedMarkdown()
	case "rst":
		kind, summary = f.restructured()
	case "log":
		kind, summary = "log", f.logSummary()
	case "sql":
		kind, summary = f.namedSQL()
	case foreign:
		kind, summary = f.text()
	default:
		l := f.language()
		if l == nil {
			return "", "", false
		}
		kind, summary = f.code(l)
	}
	return kind, summary, true
}

// unhinted looks for a family that the body gives away; a few lines that look
// alike are not enough.
func (f file) unhinted() (kind, summary string, ok bool) {
	l, known := f.interpreter()
	switch {
	case l != nil:
		kind, summary = f.code(l)
		return kind, summary, true
	case known || f.startsForeign():
		kind, summary = f.text()
		return kind, summary, true
	}
	for _, try := range []func() (string, string, bool){
		func() (string, string, bool) {
			if !bytes.Contains(f.sample(), []byte("\n```")) {
				return "", "", false
			}
			return f.markdown(1)
		},
		f.log, f.likeliest, f.sql, f.table, f.toml,
		func() (string, string, bool) { return f.markdown(2) },
		f.yaml,
	} {
		if kind, summary, ok = try(); ok {
			return kind, summary, ok
		}
	}
	return "", "", false
}

func (f file) text() (kind, summary string) { return "text", f.opening("text") }

// opening describes a body by its size and its first line.
func (f file) opening(title string) string {
	first := bytes.TrimSpace(f.body)
	if i := bytes.IndexByte(first, '\n'); i >= 0 {
		first = first[:i]
	}
	return title + ", " + f.lines() + ", " + size(len(f.body)) + `, begins "` + clip(string(first[:min(len(first), 1024)]), 100) + `"`
}

// sample is what recognition looks at.
func (f file) sample() []byte { return f.body[:min(len(f.body), sampleBytes)] }

func (f file) sampled() file { return file{body: f.sample(), hint: f.hint} }

// eachLine calls fn with every line of b, without its end, until fn says stop.
func eachLine(b []byte, fn func(line []byte) bool) {
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if !fn(bytes.TrimSuffix(line, []byte{'\r'})) {
			return
		}
	}
}

func countLines(b []byte) int {
	n := bytes.Count(b, []byte{'\n'})
	if len(b) > 0 && b[len(b)-1] != '\n' {
		n++
	}
	return n
}

func (f file) lines() string { return plural(countLines(f.body), "line") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(n) + " " + what + "s"
}

// grouped writes a number with commas.
func grouped(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size is exact below a kilobyte and has one decimal above.
func size(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n) + " bytes"
	case n < 1000*1000:
		return strconv.FormatFloat(float64(n)/1000, 'f', 1, 64) + " kB"
	default:
		return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + " MB"
	}
}

// names collects names in order, without repetition.
type names struct {
	list []string
	seen map[string]bool
	more int // distinct names beyond the cap
}

func (n *names) add(s string) {
	if s == "" || n.seen[s] {
		return
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	if len(n.seen) < remembered {
		n.seen[s] = true
	}
	if len(n.list) >= maxNames {
		n.more++
		return
	}
	n.list = append(n.list, clip(s, maxName))
}

func (n *names) count() int { return len(n.list) + n.more }

// after writes prefix and as many names as a summary holds.
func (n *names) after(prefix string) string { return listAfter(prefix, n.list, n.more, maxSummary) }

// listAfter writes names behind prefix within limit characters, saying how
// many are left out.
func listAfter(prefix string, list []string, more, limit int) string {
	if len(list) == 0 {
		return prefix
	}
	used := utf8.RuneCountInString(prefix)
	var b strings.Builder
	b.WriteString(prefix)
	for i, name := range list {
		add := name
		if i > 0 {
			add = ", " + name
		}
		rest := more + len(list) - i - 1
		need := used + utf8.RuneCountInString(add)
		if rest > 0 {
			need += len(moreMark(rest))
		}
		if i > 0 && need > limit {
			b.WriteString(moreMark(rest + 1))
			return b.String()
		}
		b.WriteString(add)
		used += utf8.RuneCountInString(add)
	}
	if more > 0 {
		b.WriteString(moreMark(more))
	}
	return b.String()
}

func moreMark(n int) string { return " (+" + strconv.Itoa(n) + " more)" }

// clip shortens s to n characters and puts it on one line.
func clip(s string, n int) string {
	s = flat(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return prefix(s, n-1) + "…"
}

func oneLine(s string) string { return clip(s, maxSummary) }

// flat makes valid UTF-8 on one line.
func flat(s string) string {
	s = strings.ToValidUTF8(s, "�")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r >= 0x80 && r <= 0xa0 || r == 0x2028 || r == 0x2029
	}), " ")
}

// prefix returns at most n characters of s, whole graphemes.
func prefix(s string, n int) string {
	end, runes := 0, 0
	for g := graphemes.FromString(s); g.Next(); {
		c := utf8.RuneCountInString(g.Value())
		if runes+c > n {
			break
		}
		runes, end = runes+c, end+len(g.Value())
	}
	return s[:end]
}

// head returns the beginning of a body: whole lines where that keeps at least
// half of what is allowed.
func head(body []byte) string {
	const mostBytes = maxHead * utf8.UTFMax
	b := body[:min(len(body), mostBytes)]
	for cut := 1; len(b) < len(body) && cut < utf8.UTFMax; cut++ { // not within a character
		if utf8.RuneStart(body[len(b)]) {
			break
		}
		b = b[:len(b)-1]
	}
	s := strings.ToValidUTF8(string(b), "�")
	if utf8.RuneCountInString(s) <= maxHead && len(body) <= mostBytes {
		return s
	}
	s = prefix(s, maxHead)
	if i := strings.LastIndexByte(s, '\n'); i > len(s)/2 {
		s = s[:i+1]
	}
	return s
}
