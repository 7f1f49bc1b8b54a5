package extract

import (
	"slices"
	"strings"
	"time"
)

const (
	stamp      = "2006-01-02 15:04" // UTC
	periodMark = "Period: "
	expandMark = "Expand for: "
	wantedMark = "asked: " // of a timeline
	cameMark   = "then: "
	aboutMark  = "about: "
)

// titleWords sort the headings of summaries that a model wrote; the first
// match counts, so "still open decisions" is open.
var titleWords = []struct {
	sec   section
	words []string
}{
	{secInstructions, []string{"instruction", "preference", "standing", "指令", "偏好", "要求"}},
	{secTimeline, []string{"timeline", "chronolog", "key event", "history", "时间", "時間"}},
	{secOpen, []string{"open", "next", "pending", "todo", "to do", "remaining", "under way", "in progress", "running", "blocker", "待办", "下一步", "未完成"}},
	{secErrors, []string{"error", "fail", "issue", "problem", "错误", "失败"}},
	{secDecisions, []string{"decision", "decided", "why", "rationale", "constraint", "commitment", "决定", "决策", "约束"}},
	{secDone, []string{"done", "complet", "result", "milestone", "progress", "outcome", "accomplish", "完成", "结果", "里程碑"}},
	{secTools, []string{"tool", "command"}},
	{secNames, []string{"names", "file", "identifier", "reference", "anchor", "path", "文件"}},
	{secAsked, []string{"user", "ask", "request", "goal", "task", "用户", "目标"}},
}

func sectionOf(title string) section {
	for s, t := range titles {
		if title == t {
			return section(s)
		}
	}
	low := strings.ToLower(title)
	for _, t := range titleWords {
		for _, w := range t.words {
			if strings.Contains(low, w) {
				return t.sec
			}
		}
	}
	return secNotes
}

// child is what one summary of the input amounts to.
type child struct {
	line     int
	from, to time.Time
	dated    bool // it has a timeline of its own
	first    int  // its items are d.items[first:]
}

// summary reads a line that is a summary, of this package's or a model's.
func (d *draft) summary(i int, text string) {
	c := child{line: i, from: d.lines[i].Time, to: d.lines[i].Time, first: len(d.items)}
	sec, headed := secNotes, false
	for line := range strings.SplitSeq(text, "\n") {
		t := strings.TrimSpace(line)
		if t == "" || strings.HasPrefix(t, "```") || strings.HasPrefix(t, expandMark) {
			continue
		}
		if from, to, ok := parsePeriod(t); ok {
			c.from, c.to = from, to
			d.clock(from)
			d.clock(to)
			continue
		}
		if title, ok := headingText(t); ok {
			sec, headed = sectionOf(title), true
			continue
		}
		d.bullet(&c, sec, headed, t)
	}
	if !c.dated {
		d.synthesise(c)
	}
}

func headingText(t string) (string, bool) {
	if t[0] == '#' {
		if h := strings.TrimLeft(t, "#"); strings.HasPrefix(h, " ") {
			return strings.Trim(h, " :*"), true
		}
	}
	const longestTitle = 40
	if len(t) <= longestTitle && (strings.HasPrefix(t, "**") && strings.HasSuffix(strings.TrimRight(t, ":"), "**")) {
		return strings.Trim(t, "*: "), true
	}
	return "", false
}

func parsePeriod(t string) (from, to time.Time, ok bool) {
	t, ok = strings.CutPrefix(t, periodMark)
	if !ok {
		return from, to, false
	}
	a, b, ok := strings.Cut(strings.TrimSuffix(t, " UTC"), " to ")
	if !ok {
		b = a
	}
	if len(b) == len("15:04") && len(a) == len(stamp) {
		b = a[:11] + b
	}
	from, err := time.Parse(stamp, a)
	to, err2 := time.Parse(stamp, b)
	return from, to, err == nil && err2 == nil
}

// bullet reads one line of a summary.
func (d *draft) bullet(c *child, sec section, headed bool, t string) {
	t = trimBullet(t)
	ref, t := takeRef(t)
	if sec == secNames {
		d.listedNames(c.line, ref, t)
		return
	}
	if isDate(t) && (!headed || sec == secNotes) {
		sec = secTimeline
	}
	d.mention(c.line, t, fromAgent)
	if headed || sec == secTimeline {
		c.dated = c.dated || sec == secTimeline
		d.add(item{sec: sec, line: c.line, ref: ref, text: strings.ReplaceAll(t, "**", ""), weight: d.age(sec, c.line) * told(sec, t), whole: true})
		return
	}
	split(t, func(p prose) {
		s, w := judge(p.text)
		if strings.Contains(strings.ToLower(p.text), "user") && instruction(p.text) == 2 {
			s = secInstructions
		}
		d.add(item{sec: s, line: c.line, ref: ref, text: p.text, weight: w * d.age(s, c.line), whole: true})
	})
}

// told weighs a bullet by its words, as the sentence it was.
func told(sec section, t string) float64 {
	switch sec {
	case secTimeline:
		switch {
		case strings.Contains(t, wantedMark) && strings.Contains(t, cameMark):
			return 1.4
		case strings.Contains(t, aboutMark):
			return 0.7
		}
	case secDecisions, secOpen, secNotes:
		_, w := judge(t)
		return max(w, 0.2)
	case secDone:
		if strings.HasSuffix(t, ":") {
			return 0.4
		}
	}
	return 1
}

// age weighs what is open or wanted by how late it was said: what an early
// child calls open may be done by now.
func (d *draft) age(sec section, line int) float64 {
	late := float64(line+1) / float64(len(d.lines))
	switch sec {
	case secOpen:
		return 0.4 + late
	case secErrors, secAsked:
		return 0.8 + 0.4*late
	}
	return 1
}

// takeRef removes a reference "[e12] " from the front of a bullet.
func takeRef(t string) (ref, rest string) {
	const longest = 32
	if t == "" || t[0] != '[' {
		return "", t
	}
	end := strings.Index(t[:min(len(t), longest)], "] ")
	if end < 2 || t[1] == ' ' || strings.ContainsAny(t[1:end], " []") || end == 2 && (t[1] == 'x' || t[1] == 'X') {
		return "", t // "[ ]" and "[x]" are task boxes
	}
	return t[1:end], strings.TrimSpace(t[end+2:])
}

// isDate reports whether a line starts with YYYY-MM-DD.
func isDate(t string) bool {
	if len(t) < 10 || t[4] != '-' || t[7] != '-' {
		return false
	}
	for _, i := range []int{0, 1, 2, 3, 5, 6, 8, 9} {
		if !isDigit(t[i]) {
			return false
		}
	}
	return true
}

// listedNames reads a line of a list of names.
func (d *draft) listedNames(line int, ref, t string) {
	t = strings.TrimPrefix(t, alsoMark)
	for part := range strings.SplitSeq(t, ", ") {
		part = strings.TrimSpace(part)
		found := false
		anchors(part, func(a string, k anchorKind) {
			d.note(line, a, k, fromAgent)
			d.nameRef(a, ref)
			found = true
		})
		if p := strings.Trim(part, `"`); !found && len(p) >= 2 && len(p) <= maxAnchorBytes {
			d.note(line, flat(p), anchorQuote, fromOutput)
			d.nameRef(flat(p), ref)
		}
	}
}

func (d *draft) nameRef(a, ref string) {
	if n := &d.names[d.byName[a]]; n.ref == "" {
		n.ref = ref
	}
}

// synthesise gives a child without a timeline its line in ours: when, and what
// was wanted and came of it.
func (d *draft) synthesise(c child) {
	wanted, came := d.headline(c, secAsked), d.headline(c, secDone, secDecisions)
	if wanted == "" && came == "" {
		wanted = d.headline(c, secNotes, secOpen, secErrors, secTools)
	}
	if wanted == "" && came == "" {
		return
	}
	text := wanted
	if came != "" {
		if text != "" {
			text = wantedMark + text + "; "
		}
		text += cameMark + came
	} else {
		text = aboutMark + text
	}
	if !c.from.IsZero() {
		text = c.from.UTC().Format(stamp) + " " + text
	}
	d.add(item{sec: secTimeline, line: c.line, ref: flat(d.lines[c.line].Ref), text: text, weight: told(secTimeline, text), whole: true})
}

// headline returns the weightiest text of a child in the given sections.
func (d *draft) headline(c child, secs ...section) string {
	best, weight := "", 0.0
	for _, it := range d.items[c.first:] {
		w := it.weight
		if strings.Contains(it.text, " → ") {
			w /= 2 // a sentence tells more than a call
		}
		if slices.Contains(secs, it.sec) && w > weight {
			best, weight = it.text, w
		}
	}
	const stampTokens = 14
	return short(best, (d.itemTokens(secTimeline)-stampTokens)/2)
}
