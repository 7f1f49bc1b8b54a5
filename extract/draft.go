package extract

import (
	"strings"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/tokens"
)

// section of a summary, in the order they are written.
type section uint8

const (
	secInstructions section = iota
	secTimeline
	secAsked
	secDecisions
	secDone
	secTools
	secErrors
	secOpen
	secNotes
	secNames
	sections
)

var titles = [sections]string{
	"Instructions", "Timeline", "User asked", "Decisions", "Done", "Tools", "Errors", "Open", "Notes", "Names",
}

// item is a candidate for one line of a summary, or for a part of one.
type item struct {
	sec    section
	line   int     // index of the source line
	pos    int     // order within the draft
	ref    string  // the entry or node it comes from
	who    string  // said in front of the text where the section does not
	text   string  // one line
	weight float64 // of its kind: 1 = ordinary
	whole  bool    // a line of its own: never joined with its neighbours

	terms []uint32
	names []int // anchors, as indices into draft.names
	cost  int   // tokens
	gain  float64
	seen  int     // chosen items it has been compared with
	twin  float64 // greatest similarity to one of them
}

// name is a verbatim anchor and where it stands.
type name struct {
	text  string
	kind  anchorKind
	worth float64 // by kind and by who said it
	count int
	line  int    // first line it stands in
	ref   string // where a summary names the entry; else the line's
}

// origin weighs an anchor by who said it.
const (
	fromUser   = 3.0
	fromError  = 3.0
	fromAgent  = 2.0
	fromCall   = 1.8
	fromOutput = 1.0
)

// draft is a summary in the making: everything read, nothing chosen yet.
type draft struct {
	depth, level int
	budget       int // tokens aimed at
	lines        []condense.Line
	items        []*item
	names        []name
	byName       map[string]int
	calls        []call // not answered yet, oldest first
	batch        int    // calls made between two results form one
	answered     bool   // a result came since the last call
	digests      map[string]*digest
	todos        []*item
	from, to     time.Time
	tally        tally
	mustKeep     int // tokens set apart for instructions
}

// tally counts what expanding would recover.
type tally struct {
	results, errors, fences, asks int
	tools                         []string // names, in order of first use
	uses                          map[string]int
}

func newDraft(r condense.Request, budget int) *draft {
	d := &draft{budget: budget, depth: r.Depth, level: r.Level, lines: r.Lines, byName: map[string]int{}, digests: map[string]*digest{}, tally: tally{uses: map[string]int{}}}
	for i, l := range r.Lines {
		d.clock(l.Time)
		text := clean(l.Text)
		switch {
		case l.Role == "summary":
			d.summary(i, text)
		case l.Injected:
			d.output(i, text, "injected text") // data, whoever sent it
		case events.Role(l.Role) == events.RoleAssistant:
			d.assistant(i, text)
		case events.Role(l.Role) == events.RoleTool:
			d.result(i, text)
		default:
			d.user(i, text)
		}
	}
	d.items = append(d.items, d.todos...)
	d.closeQuestions()
	return d
}

// closeQuestions takes from what was asked of the user before the user spoke
// again, or before a later summary: it has had its answer.
func (d *draft) closeQuestions() {
	last := len(d.lines) - 1
	for ; last >= 0; last-- {
		if r := d.lines[last].Role; r == string(events.RoleUser) || r == "summary" {
			break
		}
	}
	for _, it := range d.items {
		if it.sec == secOpen && it.line < last && strings.ContainsAny(it.text, "?？") {
			it.weight *= 0.3
		}
	}
}

func (d *draft) clock(t time.Time) {
	if t.IsZero() {
		return
	}
	if d.from.IsZero() || t.Before(d.from) {
		d.from = t
	}
	if t.After(d.to) {
		d.to = t
	}
}

// add appends an item, cut to what one may take. Empty ones are dropped.
func (d *draft) add(it item) *item {
	it.text = short(flat(it.text), d.itemTokens(it.sec))
	if it.text == "" {
		return nil
	}
	if it.ref == "" {
		it.ref = flat(d.lines[it.line].Ref)
	}
	it.pos = len(d.items)
	p := &it
	d.items = append(d.items, p)
	return p
}

// itemTokens bounds one item: bullets are terser than details.
func (d *draft) itemTokens(s section) int {
	n := 60
	switch s {
	case secInstructions, secAsked:
		n = 90
	case secTools, secErrors:
		n = 50
	case secTimeline:
		n = min(52-8*d.tier(), max(d.budget/16, 26)) // an axis needs several points
	}
	if d.level >= 2 {
		n = n * 5 / 9
	}
	return n
}

// short cuts text to at most n tokens, saying so.
func short(s string, n int) string {
	if len(s) <= n { // a token is at least a byte
		return s
	}
	if len(s) > n*32 { // far beyond: do not count it all
		s = strings.ToValidUTF8(s[:n*32], "")
	} else if tokens.Count(s) <= n {
		return s
	}
	return strings.TrimRight(tokens.Head(s, n-1), " ,;:") + "…"
}

// mention records the anchors of a text.
func (d *draft) mention(line int, s string, origin float64) {
	anchors(s, func(a string, k anchorKind) { d.note(line, a, k, origin) })
}

func (d *draft) note(line int, a string, k anchorKind, origin float64) {
	worth := anchorWorth[k] * origin
	if k == anchorNumber && origin == fromOutput {
		worth /= 2 // timings and sizes come by the dozen
	}
	if i, ok := d.byName[a]; ok {
		n := &d.names[i]
		n.count++
		n.worth = max(n.worth, worth)
		return
	}
	a = strings.Clone(a)
	d.byName[a] = len(d.names)
	d.names = append(d.names, name{text: a, kind: k, worth: worth, count: 1, line: line})
}

// user reads a turn of the user's, or of another author that is not an agent.
func (d *draft) user(i int, text string) {
	if tag, body, ok := commandTag(text); ok {
		if !tag {
			d.output(i, text, "injected text")
			return
		}
		text = body
	}
	d.tally.asks++
	who := d.speaker(i)
	d.mention(i, text, fromUser)
	quotes(text, func(q string) { d.note(i, flat(q), anchorQuote, fromUser) })
	n := 0
	split(text, func(p prose) {
		switch p.kind {
		case fence:
			d.pasted(i, p.text, who)
			return
		case quoted:
			d.add(item{sec: secAsked, line: i, who: who, text: "quotes: " + p.text, weight: 0.5})
			return
		}
		it := item{sec: secAsked, line: i, who: who, text: p.text, weight: askWeight(p, n)}
		if role := events.Role(d.lines[i].Role); role.Pinned() {
			it.sec, it.weight = secNotes, it.weight*0.6 // nobody asked for it
		}
		switch instruction(p.text) {
		case 2:
			it.sec, it.weight = secInstructions, 1.5
		case 1:
			it.sec, it.weight = secInstructions, 0.8
		}
		d.add(it)
		n++
	})
}

// askWeight favours the opening of a request and its questions, and gives
// pleasantries little.
func askWeight(p prose, n int) float64 {
	w := 1.0
	if n == 0 {
		w = 1.4
	} else if n > 12 {
		w = 0.6 // deep inside a long paste
	}
	if p.kind == heading {
		w *= 0.6
	}
	l := lower(p.text)
	if len(l.words) <= 4 && pleasant.in(l) {
		w *= 0.25
	}
	if filler.in(l) {
		w *= 0.3
	}
	return w
}

// pasted digests a fenced block of a user's: data, not a request.
func (d *draft) pasted(i int, text, who string) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if first == "" {
		return
	}
	d.tally.fences++
	d.add(item{sec: secAsked, line: i, who: who, text: "pasted " + lineCount(text) + ": " + quote(first, 24), weight: 0.4})
	d.errorLines(i, text, "pasted by the user", 2)
}

// speaker labels authors the section's title does not tell.
func (d *draft) speaker(i int) string {
	l := d.lines[i]
	switch events.Role(l.Role) {
	case events.RoleUser:
		if s := flat(l.Sender); s != "" && !strings.EqualFold(s, "user") {
			return short(s, 12)
		}
		return ""
	default:
		return short(flat(l.Role), 12)
	}
}

// assistant reads an agent's turn: prose and calls.
func (d *draft) assistant(i int, text string) {
	text, calls := takeCalls(text)
	d.mention(i, text, fromAgent)
	split(text, func(p prose) {
		switch p.kind {
		case heading:
			return
		case fence:
			d.tally.fences++
			if isShell(p.info) {
				d.open(i, call{name: "shell", main: flat(p.text)})
			}
			return
		}
		sec, w := judge(p.text)
		d.add(item{sec: sec, line: i, text: p.text, weight: w})
	})
	for _, c := range calls {
		d.mention(i, c.body, fromCall)
		d.open(i, c)
	}
}

func isShell(info string) bool {
	for _, s := range []string{"bash", "sh", "shell", "console", "zsh"} {
		if info == s || strings.Contains(info, "bash") {
			return true
		}
	}
	return false
}
