package explore

import (
	"bytes"
	"strings"
)

// markdown names the headings outside fenced blocks; it takes at least least
// of them.
func (f file) markdown(least int) (kind, summary string, ok bool) {
	var ns names
	fenced, found := false, 0
	var before []byte
	eachLine(f.body, func(line []byte) bool {
		if bytes.HasPrefix(bytes.TrimLeft(line, " "), []byte("```")) {
			fenced = !fenced
		}
		switch {
		case fenced || len(line) < 3:
		case line[0] == '#':
			if t := bytes.TrimLeft(line, "#"); len(line)-len(t) <= 6 && len(t) > 1 && t[0] == ' ' {
				found++
				ns.add(strings.Trim(string(t[:min(len(t), 512)]), " #*`"))
			}
		case (isRule(line, '=') || isRule(line, '-') && least == 1) && len(bytes.TrimSpace(before)) > 0 && len(before) < 120:
			found++
			ns.add(strings.Trim(string(before), " #*`"))
		}
		before = line
		return true
	})
	if found < least {
		return "", "", false
	}
	return "markdown", ns.after("Markdown, " + f.lines() + ", headings: "), true
}

func isRule(line []byte, c byte) bool {
	return len(bytes.Trim(line, string(c))) == 0
}

// log recognises bodies of which a share of the lines starts like a log's.
func (f file) log(share float64) (kind, summary string, ok bool) {
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
