package explore

import (
	"bytes"
	"strings"
)

// markdown recognises a body by at least least headings that stand alone
// between paragraphs. Comments that begin with "#" do not: they run over
// several lines, or stand right above what they comment.
func (f file) markdown(least int) (kind, summary string, ok bool) {
	h := f.sampled().headings()
	if h.ns.count() < least || h.spaced*2 < h.found || h.other > 0 || !h.marks {
		return "", "", false
	}
	kind, summary = f.namedMarkdown()
	return kind, summary, true
}

func (f file) namedMarkdown() (kind, summary string) {
	h := f.headings()
	if h.ns.count() == 0 {
		return "markdown", f.opening("Markdown")
	}
	return "markdown", h.ns.after("Markdown, " + f.lines() + ", headings: ")
}

// headings of a Markdown body, and what else tells it from commented lines.
type headings struct {
	ns     names
	found  int
	spaced int  // of found: with blank lines around
	other  int  // lines that begin with "#" and are no headings, and settings
	marks  bool // links, fences, emphasis or second-level headings
}

func (f file) headings() (h headings) {
	fenced, pending := false, false // pending: a heading whose next line is not read yet
	var before []byte
	eachLine(f.body, func(line []byte) bool {
		blank := len(bytes.TrimSpace(line)) == 0
		if pending && blank {
			h.spaced++
		}
		pending = false
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("```")) {
			fenced, h.marks = !fenced, true
		}
		switch {
		case fenced || blank:
		case line[0] == '#':
			t := bytes.TrimLeft(line, "#")
			if level := len(line) - len(t); level > 6 || len(t) < 2 || t[0] != ' ' {
				h.other++
				break
			} else if level == 2 {
				h.marks = true
			}
			h.found++
			pending = len(bytes.TrimSpace(before)) == 0
			h.ns.add(strings.Trim(string(t[:min(len(t), 512)]), " #*`"))
		case len(line) > 2 && (isRule(line, '=') || isRule(line, '-')) && underlined(before, line):
			h.found++
			h.spaced++
			h.ns.add(strings.Trim(string(before), " #*`"))
		case isSetting(line):
			h.other++
		case !h.marks:
			h.marks = bytes.Contains(line, []byte("](")) || bytes.Contains(line, []byte("**"))
		}
		before = line
		return true
	})
	if pending {
		h.spaced++
	}
	return h
}

// isSetting accepts "key = value".
func isSetting(line []byte) bool {
	w := words{line}
	return w.ident() != "" && w.starts("=")
}

// underlined reports whether a line could be a heading with a rule below it.
func underlined(before, rule []byte) bool {
	const mostTitle = 120 // bytes
	t := bytes.TrimSpace(before)
	return len(t) > 0 && len(t) < mostTitle && len(t) == len(before) && t[0] != '|' && t[0] != '-' && !isRule(t, t[0])
}

// restructured names the underlined titles of reStructuredText.
func (f file) restructured() (kind, summary string) {
	var ns names
	var before []byte
	eachLine(f.body, func(line []byte) bool {
		if len(line) > 2 && strings.IndexByte("=-~^\"'`*+#.:", line[0]) >= 0 && isRule(line, line[0]) && underlined(before, line) {
			ns.add(string(before))
		}
		before = line
		return true
	})
	if ns.count() == 0 {
		return "text", f.opening("reStructuredText")
	}
	return "text", ns.after("reStructuredText, " + f.lines() + ", headings: ")
}

func isRule(line []byte, c byte) bool {
	return len(bytes.Trim(line, string(c))) == 0
}

// log recognises bodies of which most lines start like a log's.
func (f file) log() (kind, summary string, ok bool) {
	const share = 0.6
	lines, hits := 0, 0
	eachLine(f.sample(), func(line []byte) bool {
		if len(line) == 0 {
			return true
		}
		lines++
		if stampLength(line) > 0 || level(line[:min(len(line), 24)]) >= 0 {
			hits++
		}
		return true
	})
	if hits < 3 || float64(hits) < share*float64(lines) {
		return "", "", false
	}
	return "log", f.logSummary(), true
}

func (f file) logSummary() string {
	const looked = 80 // bytes of a line in which its level stands
	var counts [len(levels)]int
	var first, last string
	eachLine(f.body, func(line []byte) bool {
		if n := stampLength(line); n > 0 {
			if first == "" {
				first = string(line[:n])
			}
			last = string(line[:n])
		}
		if l := level(line[:min(len(line), looked)]); l >= 0 {
			counts[l]++
		}
		return true
	})
	if first == "" && counts == [len(levels)]int{} {
		return f.opening("log")
	}
	s := "log, " + f.lines() + ", " + size(len(f.body))
	if first != "" {
		s += ", " + strings.Trim(first, "[] ") + " to " + strings.Trim(last, "[] ")
	}
	for i, n := range counts {
		if n > 0 {
			s += ", " + levels[i] + " " + grouped(n)
		}
	}
	return s
}

var levels = [...]string{"FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"}

// level returns the index of the first level word in upper case, or in the
// form level=info, -1 if there is none.
func level(b []byte) int {
	for i, l := range levels {
		if at := bytes.Index(b, []byte(l)); at >= 0 && (at == 0 || !isIdent(b[at-1])) {
			return i
		}
	}
	if at := bytes.Index(b, []byte("level=")); at >= 0 {
		rest := bytes.ToUpper(b[at+len("level=") : min(len(b), at+16)])
		rest = bytes.Trim(rest, `"`)
		for i, l := range levels {
			if bytes.HasPrefix(rest, []byte(l)) {
				return i
			}
		}
	}
	return -1
}

var months = []string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}

// stampLength returns the length of a time at the start of a line:
// 2026-01-02T15:04:05, [2026-01-02 15:04:05], Jan  2 15:04:05, 15:04:05.
func stampLength(line []byte) int {
	i := 0
	if len(line) > 0 && line[0] == '[' {
		i = 1
	}
	if i+19 <= len(line) && like(line[i:], "0000-00-00") && (line[i+10] == 'T' || line[i+10] == ' ') && like(line[i+11:], "00:00:00") {
		return i + 19
	}
	if i+19 <= len(line) && like(line[i:], "0000/00/00 00:00:00") {
		return i + 19
	}
	if like(line[i:], "00:00:00") {
		return i + 8
	}
	if len(line) >= i+15 && line[i+3] == ' ' {
		for _, m := range months {
			if string(line[i:i+3]) == m && like(line[i+7:], "00:00:00") {
				return i + 15
			}
		}
	}
	return 0
}

// like matches a form in which 0 stands for any digit.
func like(b []byte, form string) bool {
	if len(b) < len(form) {
		return false
	}
	for i := 0; i < len(form); i++ {
		if form[i] == '0' && !isDigit(b[i]) || form[i] != '0' && b[i] != form[i] {
			return false
		}
	}
	return true
}
