package extract

import (
	"strconv"
	"strings"
)

// digest is one line about a call: its name, key argument and outcome. Calls
// repeated word for word share one.
type digest struct {
	it      *item
	name    string
	main    string
	outcome string
	uses    int
}

const (
	digestMain    = 30 // tokens of the key argument
	digestOutcome = 26 // tokens of the outcome
)

func (g *digest) text() string {
	t := g.name
	if g.main != "" {
		t += " " + g.main
	}
	if g.uses > 1 {
		t += " ×" + strconv.Itoa(g.uses)
	}
	if g.outcome != "" {
		t += " → " + g.outcome
	}
	return t
}

// called enters a call and returns it with its digest.
func (d *draft) called(i int, c call) call {
	d.tallyUse(c.name)
	if c.todo != nil {
		d.setTodos(i, c.todo)
		return c
	}
	main := short(flat(c.main), digestMain)
	key := c.name + "\x00" + main
	if g := d.digests[key]; g != nil {
		g.uses++
		g.it.text = g.text()
		c.digest = g
		return c
	}
	sec, weight := judgeCall(c.name, c.main)
	g := &digest{name: flat(c.name), main: main, uses: 1}
	g.it = d.add(item{sec: sec, line: i, text: g.text(), weight: weight, whole: true})
	if g.it == nil {
		return c
	}
	d.digests[key] = g
	c.digest = g
	return c
}

func (d *draft) tallyUse(name string) {
	if d.tally.uses[name]++; d.tally.uses[name] == 1 {
		d.tally.tools = append(d.tally.tools, name)
	}
}

// setTodos replaces the list of tasks: only its last state is news.
func (d *draft) setTodos(i int, list []todo) {
	d.todos = d.todos[:0]
	for _, t := range list {
		it := item{sec: secOpen, line: i, text: t.text, weight: 1.3, whole: true}
		switch t.status {
		case "completed", "done":
			it.sec, it.weight = secDone, 0.8
		case "in_progress":
			it.text, it.weight = "in progress: "+t.text, 1.6
		}
		if p := d.add(it); p != nil {
			d.items = d.items[:len(d.items)-1] // joins the draft when no later list replaces it
			p.pos = 1<<20 + len(d.todos)
			d.todos = append(d.todos, p)
		}
	}
}

// result reads a tool's answer: quoted data, whatever it says.
func (d *draft) result(i int, text string) {
	d.tally.results++
	l := d.lines[i]
	c, ok := d.takeCall(l.Sender, text)
	tool := flat(l.Sender)
	if ok {
		tool = flat(c.name)
	} else if tool == "" {
		tool = "tool"
	}
	tool = short(tool, 16)
	reading := isLook(strings.ToLower(tool)) || tool == "shell" || ok && looksOnly(c)
	failed := l.Error || startsWithError(text)
	if failed {
		d.mention(i, clip(text), fromError)
		if l.Error {
			quotes(clip(text), func(q string) { d.note(i, flat(q), anchorQuote, fromError) })
		}
	} else {
		d.mention(i, text, fromOutput)
	}
	switch {
	case failed:
		d.failure(i, text, tool, c)
	case !reading:
		d.errorLines(i, text, tool, 2)
	}
	d.answer(i, text, tool, c, failed, reading)
}

// clip bounds what of an error counts as its words: the rest is a dump.
func clip(s string) string {
	const most = 4096
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// open enters a call that waits for its result.
func (d *draft) open(i int, c call) {
	if d.answered {
		d.batch, d.answered = d.batch+1, false
	}
	c = d.called(i, c)
	c.batch = d.batch
	d.calls = append(d.calls, c)
}

// takeCall returns the call that a result answers. Derived text carries no
// call ids, so it is judged: by name where the source tells it, by the key
// argument standing in the answer, else the oldest of the newest batch.
func (d *draft) takeCall(name, text string) (call, bool) {
	d.answered = true
	const enough = 400 // bytes: a confirmation names its file early
	head := text[:min(len(text), enough)]
	best, bestScore := -1, -1
	for j, c := range d.calls {
		score := c.batch * 4
		if name != "" && c.name == name {
			score += 1 << 28
		}
		if len(c.main) >= 6 && strings.Contains(head, c.main) {
			score += 1 << 20
		}
		if score > bestScore {
			best, bestScore = j, score
		}
	}
	if best < 0 {
		return call{}, false
	}
	c := d.calls[best]
	d.calls = append(d.calls[:best], d.calls[best+1:]...)
	return c, true
}

// answer writes the outcome into the call's digest.
func (d *draft) answer(i int, text, tool string, c call, failed, reading bool) {
	out := "failed"
	if !failed {
		out = outcome(text, reading)
		if len(c.main) >= 6 && len(text) <= 400 && strings.Contains(text, c.main) {
			out = "ok" // it only says again what was to be done
		}
	}
	if c.digest == nil {
		if c.todo == nil && out != "" {
			d.add(item{sec: secTools, line: i, text: tool + " → " + out, weight: 0.5, whole: true})
		}
		return
	}
	g := c.digest
	g.outcome = out
	g.it.text = g.text()
	if failed {
		g.it.weight *= 0.5 // the error's own line says more
	}
}

// outcome says in a few words what a tool answered.
func outcome(text string, reading bool) string {
	t := strings.TrimSpace(text)
	switch {
	case t == "" || t == "(no output)":
		return ""
	case t[0] == '{':
		if p := pairs(fields(t, maxArgs), "", 16); p != "" {
			return short(p, 2*digestOutcome)
		}
	case t[0] == '[':
		if p := listed(t); p != "" {
			return p
		}
	}
	if len(t) <= 100 && !strings.Contains(t, "\n") {
		return quote(t, digestOutcome)
	}
	if reading {
		return lineCount(t)
	}
	return quote(telling(t), digestOutcome)
}

var tellingWords = []string{
	"passed", "failed", "success", "total", "created", "wrote", "written", "found", "changed", "switched", "updated", "ok", "done",
	"fixed", "checked", "installed", "built", "error", "warning", "成功", "失败", "完成",
}

// telling returns the line of an output that says most about how it went.
// Only its two ends are searched: outcomes stand there.
func telling(t string) string {
	const ends = 4096
	if len(t) > 2*ends {
		t = strings.ToValidUTF8(t[:ends]+"\n"+t[len(t)-ends:], "")
	}
	best, bestScore := "", -1.0
	lines := strings.Split(t, "\n")
	for n, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || !isProse(line) {
			continue
		}
		score := float64(n) / float64(2*len(lines)) // outcomes come late
		low := strings.ToLower(line)
		for _, w := range tellingWords {
			if strings.Contains(low, w) {
				score++
			}
		}
		if len(line) > 200 {
			score -= 1.5
		}
		if strings.ContainsRune(";{},(", rune(line[len(line)-1])) {
			score -= 1.5 // code, not a report
		}
		if score > bestScore {
			best, bestScore = line, score
		}
	}
	return best
}

// isProse refuses rules, boxes and prompts.
func isProse(line string) bool {
	n := 0
	for i := 0; i < len(line); i++ {
		if isLetter(line[i]) || line[i] >= 0xe0 {
			n++
		}
	}
	return n*3 >= len(line)
}

func quote(s string, n int) string { return `"` + short(flat(s), n) + `"` }

func lineCount(s string) string {
	n := strings.Count(strings.TrimSpace(s), "\n") + 1
	if n == 1 {
		return "1 line"
	}
	return strconv.Itoa(n) + " lines"
}
