package window

import (
	"fmt"
	"strings"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// An excerpt stands in an emergency for turns that no summary covers yet:
// their head and tail, cut mechanically.
type excerpt struct {
	entries []session.Entry
	max     int // tokens at most; what it counts
}

// cutMark says that text was left out. It is the mark of the ladder's level 3.
const cutMark = "[lcm:truncated]"

// text reads as many bodies from both ends as the excerpt has room for.
func (x *excerpt) text(bodies session.Bodies) (string, error) {
	first, last := x.entries[0].N, x.entries[len(x.entries)-1].N
	head := fmt.Sprintf("[lcm:excerpt span e%d..e%d, not summarised yet]", first, last)
	mark := fmt.Sprintf("%s between e%d and e%d; lcm_grep finds it", cutMark, first, last)
	room := x.max - tokens.Count(head) - tokens.Count(mark) - 4
	if room < 16 {
		return head, nil
	}
	front, all, err := x.front(bodies, room)
	if err != nil {
		return "", err
	}
	if all {
		return head + "\n" + front, nil
	}
	back, err := x.back(bodies, room)
	if err != nil {
		return "", err
	}
	for ; room > 0; room -= 8 {
		a := tokens.Head(front, room/2)
		b := tokens.Tail(back, room-room/2)
		text := head + "\n" + a + "\n" + mark + "\n" + b
		if tokens.Count(text) <= x.max {
			return text, nil
		}
	}
	return head, nil
}

// front is the oldest lines up to at least max tokens, and whether these are
// all of them and fit.
func (x *excerpt) front(bodies session.Bodies, max int) (string, bool, error) {
	var b strings.Builder
	size := 0
	for i := range x.entries {
		if size >= max {
			return b.String(), false, nil
		}
		line, whole, err := excerptLine(bodies, &x.entries[i], max, tokens.Head)
		if err != nil {
			return "", false, err
		}
		if !whole {
			size = max
		}
		size += tokens.Count(line)
		b.WriteString(line)
	}
	return strings.TrimSuffix(b.String(), "\n"), size < max, nil
}

// back is the newest lines, at least max tokens of them.
func (x *excerpt) back(bodies session.Bodies, max int) (string, error) {
	var lines []string
	for i, size := len(x.entries)-1, 0; i >= 0 && size < max; i-- {
		line, _, err := excerptLine(bodies, &x.entries[i], max, tokens.Tail)
		if err != nil {
			return "", err
		}
		size += tokens.Count(line)
		lines = append(lines, line)
	}
	var b strings.Builder
	for i := len(lines) - 1; i >= 0; i-- {
		b.WriteString(lines[i])
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// excerptLine is one turn of an excerpt, "" where it says nothing.
func excerptLine(bodies session.Bodies, e *session.Entry, max int, cut func(string, int) string) (string, bool, error) {
	if e.Injected {
		return "", true, nil
	}
	t, err := bodies(e.N)
	if err != nil {
		return "", false, fmt.Errorf("body of e%d: %w", e.N, err)
	}
	text := t.DerivedText()
	if blank(text) {
		return "", true, nil
	}
	part := cut(text, max)
	return fmt.Sprintf("e%d %s: %s\n", e.N, e.Role, Escape(strings.TrimSpace(part))), len(part) == len(text), nil
}

// foldedText tells of the oldest nodes in one line, where not even their
// headers fit.
func foldedText(nodes []session.Node) string {
	return fmt.Sprintf("[lcm:summaries #%d to #%d, %d of them, span e%d..e%d, left out of this view: lcm_describe shows them]",
		nodes[0].N, nodes[len(nodes)-1].N, len(nodes), nodes[0].First, nodes[len(nodes)-1].Last)
}

// compactionText is the part of a foreign compaction.
func (sh *shape) compactionText(i int) string {
	c := &sh.compactions[i]
	text := Escape(strings.TrimSpace(c.Text))
	if sh.compactionMax > 0 {
		if short := tokens.Head(text, max(sh.compactionMax-compactionHead, 1)); len(short) < len(text) {
			text = short + "\n" + cutMark
		}
	}
	return compactionHeader(c) + "\n" + text
}

// compactionHead bounds the tokens of a compaction's header and cut mark.
const compactionHead = 60

func compactionHeader(c *events.HistoryCompacted) string {
	format := "another agent"
	if c.Format != "" {
		format = Escape(quotedID(c.Format))
	}
	return fmt.Sprintf("[lcm:compaction made by %s of earlier turns that are not in the log]", format)
}
