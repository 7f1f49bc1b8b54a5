package extract

import "strings"

// failure enters a tool's error as a quotation of it.
func (d *draft) failure(i int, text, tool string, c call) {
	d.tally.errors++
	said := worst(text)
	if said == "" {
		return
	}
	if c.main != "" {
		tool += " (" + short(flat(c.main), 16) + ")"
	}
	d.add(item{sec: secErrors, line: i, text: tool + ": " + quote(said, 40), weight: 1.5, whole: true})
}

// worst returns the line that says what went wrong, and the one after it,
// where the detail often stands.
func worst(text string) string {
	first, found := "", ""
	for line := range strings.SplitSeq(clip(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case found != "" && line != "":
			return found + " / " + line
		case isErrorLine(line):
			found = line
		case first == "" && isProse(line):
			first = line
		}
	}
	if found != "" {
		return found
	}
	return first
}

// errorLines enters the lines of a text that report an error, a few of them.
func (d *draft) errorLines(i int, text, tool string, most int) {
	if !strings.Contains(text, "rror") && !strings.Contains(text, "FAIL") && !strings.Contains(text, "xception") &&
		!strings.Contains(text, "panic:") && !strings.Contains(text, "fatal:") && !strings.Contains(text, "exited with") &&
		!strings.Contains(text, "错误") && !strings.Contains(text, "失败") {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		if most == 0 {
			return
		}
		line = strings.TrimSpace(line)
		if !isErrorLine(line) {
			continue
		}
		most--
		d.tally.errors++
		d.mention(i, line, fromError)
		d.add(item{sec: secErrors, line: i, text: tool + ": " + quote(line, 36), weight: 1, whole: true})
	}
}

// output reads text nobody authored: only its names and errors are kept.
func (d *draft) output(i int, text, label string) {
	d.mention(i, text, fromOutput)
	if d.lines[i].Error {
		d.errorLines(i, text, label, 2)
	}
}

var errorStarts = []string{
	"error", "fatal", "traceback (most", "exception", "fail", "npm err", "panic:", "command exited with", "exit code", "cannot ",
	"could not ", "unable to ", "permission denied", "<tool_use_error>", "unhandled", "uncaught", "command failed", "错误", "失败",
}

func startsWithError(text string) bool {
	return isErrorStart(strings.TrimSpace(text[:min(len(text), 200)]))
}

func isErrorStart(line string) bool {
	low := strings.ToLower(line[:min(len(line), 40)])
	for _, p := range errorStarts {
		if !strings.HasPrefix(low, p) {
			continue
		}
		rest := low[len(p):]
		if p == "exit code" && strings.HasPrefix(strings.TrimLeft(rest, ": "), "0") {
			return false
		}
		// "errors.go", "failover": a longer word is another word
		return rest == "" || !isWordByte(rest[0]) && rest[0] != '.' || p == "fail" && strings.HasPrefix(rest, "ed") ||
			strings.HasSuffix(p, " ")
	}
	return false
}

// isErrorLine tells a report of an error from text about errors.
func isErrorLine(line string) bool {
	if len(line) < 6 || len(line) > 2000 {
		return false
	}
	if isErrorStart(line) {
		return true
	}
	for _, mark := range []string{": error", "Error: ", "Exception: ", " error TS", "--- FAIL", "error[E", "exited with code", "exit status ", "npm ERR!", "报错", "错误："} {
		if strings.Contains(line, mark) {
			return true
		}
	}
	return false
}
