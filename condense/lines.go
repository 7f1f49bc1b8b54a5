package condense

import (
	"fmt"
	"strings"
	"time"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// What the lines of a turn cost and keep, in tokens.
const (
	// lineOverhead stands for the header of a line: its number, role and time.
	lineOverhead = 8
	// injectedMax: of text its author did not write the summariser sees only
	// what it is about.
	injectedMax = 200
	// fileHeadMax is how much of a file's head stands in its descriptor line.
	fileHeadMax = 150
)

// RoleSummary is the role of a line that is a child's summary.
const RoleSummary = "summary"

// LinesOf renders turns as the summariser's input: at least one line a turn,
// results of tools as lines of their own under the tool's role, whoever's turn
// they came in. Thinking and media are named, not shown; reminders are left
// out; files stand as descriptors. The lines are not clipped: the ladder does
// that, for the input it may show.
func LinesOf(entries []session.Entry, bodies session.Bodies) ([]Line, error) {
	var out []Line
	names := map[string]string{} // call id → tool
	for _, e := range entries {
		t, err := bodies(e.N)
		if err != nil {
			return nil, fmt.Errorf("body of e%d: %w", e.N, err)
		}
		for _, b := range t.Blocks {
			if b.Type == events.BlockToolUse && b.CallID != "" {
				names[b.CallID] = b.Name
			}
		}
		for _, l := range turnLines(t, names) {
			l.Ref, l.Time = fmt.Sprintf("e%d", e.N), e.When()
			out = append(out, l)
		}
	}
	return out, nil
}

// NodeLines renders summaries as the input of a condensed node.
func NodeLines(nodes []session.Node) []Line {
	out := make([]Line, len(nodes))
	for i, d := range nodes {
		out[i] = Line{Ref: fmt.Sprintf("#%d", d.N), Role: RoleSummary, Time: d.FirstTime, Text: d.Primary.Text}
		if !d.LastTime.IsZero() {
			out[i].Sender = "until " + d.LastTime.UTC().Format(time.DateTime) + "Z"
		}
	}
	return out
}

// InputTokens counts what the summariser reads of a turn, before clipping. It
// is stored with the turn at ingest, and chunks are cut by it.
func InputTokens(t *events.TurnAppended) int { return linesTokens(turnLines(t, nil)) }

func linesTokens(lines []Line) int {
	n := 0
	for _, l := range lines {
		n += lineTokens(l)
	}
	return n
}

func lineTokens(l Line) int { return lineOverhead + tokens.Count(l.Text) }

// halves divides lines into two parts of about the same size; a single line is
// cut in its text.
func halves(lines []Line) [2][]Line {
	if len(lines) == 1 {
		l := lines[0]
		head := tokens.Head(l.Text, tokens.Count(l.Text)/2)
		if i := strings.LastIndexAny(head, " \n") + 1; i > len(head)/2 {
			head = head[:i] // between words
		}
		a, b := l, l
		a.Text, b.Text = head, l.Text[len(head):]
		return [2][]Line{{a}, {b}}
	}
	half, n, i := linesTokens(lines)/2, 0, 0
	for i < len(lines)-1 && (i == 0 || n+lineTokens(lines[i])/2 < half) {
		n += lineTokens(lines[i])
		i++
	}
	return [2][]Line{lines[:i], lines[i:]}
}

// turnLines are the lines of a turn, without reference and time.
func turnLines(t *events.TurnAppended, names map[string]string) []Line {
	own := Line{Role: string(t.Role), Sender: t.Sender, Injected: t.Injected}
	if t.Text != "" && len(t.Files) == 0 {
		// A derived text that does not follow from the blocks was chosen by
		// whoever read the source: it is what the turn says.
		if len(t.Results()) > 0 {
			own.Role = string(events.RoleTool)
			own.Sender, own.Error = resultOf(t.Blocks, names)
		}
		own.Text = t.Text
		return []Line{finish(own)}
	}
	var results []Line
	var said []string
	for i, b := range t.AllBlocks() {
		if b.Type != events.BlockToolResult {
			if s := blockText(b); s != "" {
				said = append(said, s)
			}
			continue
		}
		l := Line{Role: string(events.RoleTool), Sender: toolName(b, names), Error: b.IsError, Injected: t.Injected}
		if f := fileOf(t.Files, i); f != nil {
			l.Text = descriptor(*f)
		} else {
			l.Text = resultText(b)
		}
		results = append(results, finish(l))
	}
	if len(said) == 0 && len(results) > 0 {
		return results
	}
	own.Text = strings.Join(said, "\n")
	return append(results, finish(own))
}

// finish leaves reminders out, bounds injected text, and says where nothing is
// left: no turn is without a line.
func finish(l Line) Line {
	text, left := withoutReminders(l.Text)
	if l.Injected {
		text = tokens.HeadTail(text, injectedMax, " […] ")
	}
	if l.Text = strings.TrimSpace(text); l.Text != "" {
		return l
	}
	l.Text = "(nothing readable)"
	if left {
		l.Text = "(a reminder, left out)"
	}
	return l
}

// blockText is what the summariser sees of a block.
func blockText(b events.Block) string {
	switch b.Type {
	case events.BlockText:
		return b.Text
	case events.BlockThinking:
		return ""
	case events.BlockToolUse:
		return strings.TrimSpace(b.Name + " " + b.Input)
	case events.BlockToolResult:
		return resultText(b)
	case events.BlockImage:
		if b.Width > 0 && b.Height > 0 {
			return fmt.Sprintf("(an image, %d×%d, left out)", b.Width, b.Height)
		}
		return "(an image, left out)"
	case events.BlockDocument:
		if b.Text != "" {
			return b.Text
		}
		return strings.TrimSpace("(a document, left out) " + b.MediaType)
	}
	return "(a block of unknown type, left out)"
}

func resultText(b events.Block) string {
	var parts []string
	if b.Text != "" {
		parts = append(parts, b.Text)
	}
	for _, c := range b.Content {
		if s := blockText(c); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}

func toolName(b events.Block, names map[string]string) string {
	if b.Name != "" {
		return b.Name
	}
	return names[b.CallID]
}

// resultOf names the tool of a turn's results and whether one of them failed.
func resultOf(blocks []events.Block, names map[string]string) (name string, failed bool) {
	for _, b := range blocks {
		if b.Type == events.BlockToolResult {
			if name == "" {
				name = toolName(b, names)
			}
			failed = failed || b.IsError
		}
	}
	return name, failed
}

func fileOf(files []events.File, block int) *events.File {
	for i := range files {
		if files[i].Block == block {
			return &files[i]
		}
	}
	return nil
}

// descriptor stands for a file in the summariser's input.
func descriptor(f events.File) string {
	s := fmt.Sprintf("file:%s %s (%s, %d bytes)", f.ID, f.Path, f.Kind, f.Bytes)
	if f.Summary != "" {
		s += "\n" + f.Summary
	}
	if head := strings.TrimSpace(tokens.Head(f.Head, fileHeadMax)); head != "" {
		s += "\nbegins: " + head
	}
	return s
}

// Reminders that agents inject into the turns of others.
const (
	reminderOpen  = "<system-reminder>"
	reminderClose = "</system-reminder>"
)

// withoutReminders cuts injected reminders out of a text. An unclosed one is
// ordinary text: it may be prose about reminders.
func withoutReminders(s string) (string, bool) {
	if !strings.Contains(s, reminderOpen) {
		return s, false
	}
	var out strings.Builder
	left := false
	for {
		i := strings.Index(s, reminderOpen)
		if i < 0 {
			break
		}
		n := strings.Index(s[i:], reminderClose)
		if n < 0 {
			break
		}
		out.WriteString(s[:i])
		s, left = s[i+n+len(reminderClose):], true
	}
	out.WriteString(s)
	return out.String(), left
}
