package extract

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lcm/tokens"
)

const (
	alsoMark    = "also: "
	gapMark     = " … "
	tailTokens  = 48 // held back for the last line
	smallBudget = 300
	largeBudget = 800
	fewNames    = 3 // a line of the list needs as many to name its entry
	nameMargin  = 2 // tokens the list stays under its budget
)

// compose writes the sections, the list of names and the last line.
func (d *draft) compose(budget int) string {
	tail := min(tailTokens, budget/6)
	if budget < smallBudget {
		tail = max(budget/10, 14)
	}
	d.mustKeep = d.instructionTokens(budget / 2)
	names := d.namesBudget(budget - d.mustKeep)
	chosen := d.choose(budget - tail - names)
	for {
		text := d.sections(chosen)
		if budget >= smallBudget/2 {
			text = d.period() + text
		}
		last := short(d.expand(), tail)
		room := budget - tokens.Count(text) - tokens.Count(last)
		if room >= 0 || len(chosen) == 0 {
			return text + d.listing(text, room) + last
		}
		chosen = dropLast(chosen, -room)
	}
}

// instructionTokens is what the standing instructions take, most at the most.
func (d *draft) instructionTokens(most int) int {
	n := 0
	for _, it := range d.items {
		if it.sec == secInstructions && it.weight >= 1 && n < most {
			n += tokens.Count(it.text) + refTokens + 1
		}
	}
	return min(n, most)
}

// namesBudget is what is held back for the list of names: in a small summary
// more, since a name says most per token.
func (d *draft) namesBudget(budget int) int {
	const perName = 5 // tokens, on average
	part := namesShare[d.tier()]
	if d.depth == 0 {
		small := float64(largeBudget-budget) / (largeBudget - smallBudget)
		part += (smallNamesShare - part) * min(max(small, 0), 1)
	}
	return min(int(part*float64(budget)), perName*len(d.names))
}

// dropLast gives up the items chosen last until they free enough tokens.
func dropLast(chosen []*item, enough int) []*item {
	for freed := 0; freed < enough && len(chosen) > 0; chosen = chosen[:len(chosen)-1] {
		freed += chosen[len(chosen)-1].cost
	}
	return chosen
}

// bare is a summary too small for headings: the weightiest items, one a line.
func (d *draft) bare(budget int) string {
	items := d.ranked()
	slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(d.urgency(b), d.urgency(a)) })
	var b strings.Builder
	left := budget
	for _, it := range items {
		if left < 4 && b.Len() > 0 {
			break
		}
		text := short(it.text, max(left-2, 1))
		b.WriteString(text + "\n")
		left -= tokens.Count(text) + 1
	}
	return strings.TrimSpace(tokens.Head(b.String(), budget))
}

func (d *draft) urgency(it *item) float64 {
	if it.sec == secInstructions {
		return it.gain * 4
	}
	return it.gain
}

// period says when it happened; a parent's timeline reads it.
func (d *draft) period() string {
	if d.from.IsZero() {
		return ""
	}
	from, to := d.from.UTC().Format(stamp), d.to.UTC().Format(stamp)
	if from[:11] == to[:11] && from != to {
		to = to[11:]
	}
	if from == to {
		return periodMark + from + " UTC\n"
	}
	return periodMark + from + " to " + to + " UTC\n"
}

// sections writes the chosen items, each section in source order.
func (d *draft) sections(chosen []*item) string {
	ordered := slices.Clone(chosen)
	slices.SortFunc(ordered, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.sec, b.sec), cmp.Compare(a.line, b.line), cmp.Compare(a.pos, b.pos))
	})
	var b strings.Builder
	for i, it := range ordered {
		if i == 0 || ordered[i-1].sec != it.sec {
			newline(&b)
			b.WriteString("## " + titles[it.sec])
		}
		if i > 0 && !it.whole && groupOf(ordered[i-1]) == groupOf(it) {
			b.WriteString(joint(ordered[i-1], it) + it.text)
			continue
		}
		newline(&b)
		b.WriteString("- ")
		if it.ref != "" {
			b.WriteString("[" + it.ref + "] ")
		}
		if it.who != "" {
			b.WriteString(it.who + ": ")
		}
		b.WriteString(it.text)
	}
	newline(&b)
	return b.String()
}

func newline(b *strings.Builder) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
}

// joint stands between two sentences of one turn.
func joint(a, b *item) string {
	switch {
	case b.pos != a.pos+1:
		return gapMark
	case strings.ContainsAny(a.text[len(a.text)-1:], ".!?:;,") || !isASCII(a.text[len(a.text)-1:]):
		return " "
	}
	return "; "
}

// listing writes the names that stand nowhere else in the summary, by the
// entry they were first seen in, within room tokens.
func (d *draft) listing(text string, room int) string {
	const smallest = 12
	room -= nameMargin
	if room < smallest || len(d.names) == 0 {
		return ""
	}
	picked := d.pickNames(text, room-headTokens)
	for len(picked) > 0 {
		s := d.nameLines(picked, room < smallBudget/3)
		over := tokens.Count(s) - room
		if over <= 0 {
			return s
		}
		picked = picked[:max(0, len(picked)-1-over/8)]
	}
	return ""
}

// pickNames returns indices of names, best first.
func (d *draft) pickNames(text string, room int) []int {
	shown := map[string]bool{}
	anchors(text, func(a string, _ anchorKind) { shown[a] = true })
	type candidate struct {
		name  int
		value float64
	}
	var list []candidate
	for i, n := range d.names {
		if shown[n.text] || n.kind == anchorQuote && strings.Contains(text, n.text) {
			continue
		}
		// Repetition says a name matters; length is what it costs.
		v := n.worth * (1 + 0.15*float64(min(n.count, 8))) / float64(len(n.text)+10)
		list = append(list, candidate{i, v})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name))
	})
	var picked []int
	for _, c := range list {
		cost := tokens.Count(" "+d.nameText(c.name)) + 1
		if cost > room {
			if room < 3 {
				break
			}
			continue
		}
		room -= cost
		picked = append(picked, c.name)
	}
	return picked
}

func (d *draft) nameText(i int) string {
	n := d.names[i]
	if n.kind == anchorQuote {
		return `"` + n.text + `"`
	}
	return n.text
}

// nameLines writes the section: a line for every entry with several names, one
// line for the rest; terse: one line for all.
func (d *draft) nameLines(picked []int, terse bool) string {
	byRef := map[string][]int{}
	var refs []string
	for _, i := range slices.Sorted(slices.Values(picked)) {
		ref := d.names[i].ref
		if ref == "" {
			ref = flat(d.lines[d.names[i].line].Ref)
		}
		if byRef[ref] == nil {
			refs = append(refs, ref)
		}
		byRef[ref] = append(byRef[ref], i)
	}
	var b strings.Builder
	b.WriteString("## " + titles[secNames] + "\n")
	var rest []int
	for _, ref := range refs {
		if terse || ref == "" || len(byRef[ref]) < fewNames {
			rest = append(rest, byRef[ref]...)
			continue
		}
		d.nameLine(&b, "["+ref+"] ", byRef[ref])
	}
	if len(rest) > 0 {
		d.nameLine(&b, alsoMark, rest)
	}
	return b.String()
}

func (d *draft) nameLine(b *strings.Builder, mark string, names []int) {
	b.WriteString("- " + mark)
	for j, i := range names {
		if j > 0 {
			b.WriteString(", ")
		}
		b.WriteString(d.nameText(i))
	}
	b.WriteByte('\n')
}

// expand says what reading the source would recover.
func (d *draft) expand() string {
	first, last := flat(d.lines[0].Ref), flat(d.lines[len(d.lines)-1].Ref)
	span := first
	if last != first {
		span += ".." + last
	}
	if d.depth > 0 {
		return expandMark + strings.TrimSpace(span+" in detail: each step, tool outputs, and what was left out here") + "."
	}
	var parts []string
	if d.tally.asks > 0 {
		parts = append(parts, plural(d.tally.asks, "user turn")+" in full")
	}
	if n := d.tally.results; n > 0 {
		what := plural(n, "tool output")
		if d.budget >= smallBudget {
			what += d.toolNames()
		}
		parts = append(parts, what)
	}
	if n := d.tally.fences; n > 0 {
		parts = append(parts, plural(n, "code block"))
	}
	if n := d.tally.errors; n > 0 {
		parts = append(parts, plural(n, "error")+" in full")
	}
	if len(parts) == 0 {
		parts = append(parts, "the turns verbatim")
	}
	return expandMark + strings.TrimSpace(span+" "+strings.Join(parts, ", ")) + "."
}

// toolNames names the tools most used.
func (d *draft) toolNames() string {
	const most = 3
	names := slices.Clone(d.tally.tools)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(d.tally.uses[b], d.tally.uses[a]) })
	if len(names) == 0 {
		return ""
	}
	for i, n := range names[:min(most, len(names))] {
		names[i] = short(flat(n), 8) + " ×" + strconv.Itoa(d.tally.uses[n])
	}
	return " (" + strings.Join(names[:min(most, len(names))], ", ") + ")"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
