package condense

import (
	"context"
	"errors"
	"fmt"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// PromptVersion names the prompts and the rendering of lines; it is part of a
// node's key.
const PromptVersion = "prompt-1"

// TruncateModel is recorded as the author of level 3.
const TruncateModel = "lcm-truncate-1"

// Limits of the ladder, in tokens.
const (
	truncateMax = 512 // level 3 at most
	// allowance for reasoning, beside the text: level 2 keeps it, so that a
	// reasoning model does not answer nothing.
	reasoningAllowance = 1_500
	// minInput: an input that is still too long at this size is not split.
	minInput = 500
	// maxAsked bounds the requests of one climb, however a model counts.
	maxAsked = 64
)

// ErrNotBetter: a repair ended on level 3 again; nothing is stored.
var ErrNotBetter = errors.New("the repair is no better than what it would replace")

// Ladder climbs from a thorough summary over a terse one to truncation. It is
// safe for concurrent use if its Summarizer is.
type Ladder struct {
	Summarizer Summarizer
	Tenant     string // whose spending it is
}

// Leaf makes the node of a leaf job from the lines of its entries. blocking:
// a reader waits, an outage of the provider costs a level. Errors: ctx's, or
// ErrRefused and ErrUnavailable, wrapped; nothing is to be stored then.
func (l Ladder) Leaf(ctx context.Context, job LeafJob, lines []Line, blocking bool) (*events.NodeCommitted, error) {
	n := &events.NodeCommitted{
		Key: job.Key, First: job.First, Last: job.Last, Entries: job.Entries, Files: job.Files,
		Bounds:     events.Bounds{Target: job.Target, HardCap: job.HardCap, MaxFan: 0},
		Supersedes: job.Supersedes,
	}
	if err := l.fill(ctx, n, clipLines(lines, job.InputMax), blocking); err != nil {
		return nil, fmt.Errorf("leaf e%d..e%d: %w", job.First, job.Last, err)
	}
	return n, nil
}

// Condensed makes the node of a group job from its children's summaries.
func (l Ladder) Condensed(ctx context.Context, job GroupJob, blocking bool) (*events.NodeCommitted, error) {
	n := &events.NodeCommitted{
		Key: job.Key, Depth: job.Depth, First: job.First, Last: job.Last, Files: filesOf(job.Children),
		Bounds:     events.Bounds{Target: job.Target, HardCap: job.HardCap, MaxFan: job.MaxFan},
		Supersedes: job.Supersedes,
	}
	for _, c := range job.Children {
		n.Children = append(n.Children, c.Key)
	}
	if err := l.fill(ctx, n, clipLines(NodeLines(job.Children), job.InputMax), blocking); err != nil {
		return nil, fmt.Errorf("node of depth %d, e%d..e%d: %w", job.Depth, job.First, job.Last, err)
	}
	return n, nil
}

func filesOf(children []session.Node) []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range children {
		for _, id := range c.Files {
			if !seen[id] {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out
}

// climb is one climb up the ladder.
type climb struct {
	l        Ladder
	node     *events.NodeCommitted
	lines    []Line
	shown    []Line // what is asked about: lines, or summaries of parts of them
	input    int    // tokens of lines
	asked    int    // requests
	blocking bool
	down     bool // the provider is out of reach: go to level 3
}

// verdict on a text.
type verdict int

const (
	refused  verdict = iota // no summary at all
	tooLarge                // a summary, refused only for its size
	accepted
)

func (l Ladder) fill(ctx context.Context, n *events.NodeCommitted, lines []Line, blocking bool) error {
	c := &climb{l: l, node: n, lines: lines, shown: lines, input: linesTokens(lines), blocking: blocking}
	n.PromptVersion = PromptVersion
	first, v1, err := c.try(ctx, 1)
	if err != nil {
		return err
	}
	n.InputTokens = c.input
	if v1 == accepted && first.Tokens <= smallerFactor*n.Bounds.Target {
		n.Primary = first
		return nil
	}
	model := n.Model
	second, v2, err := c.try(ctx, 2)
	if err != nil && (v1 != accepted || ctx.Err() != nil) {
		return err
	}
	switch {
	case v2 == accepted && v1 == refused:
		n.Primary, n.InputTokens = second, c.input
	case v2 == accepted && (v1 == tooLarge || second.Tokens < first.Tokens):
		n.Primary = second
	case v1 == accepted:
		n.Primary, n.Model = first, model
		return nil
	case n.Supersedes != "":
		return ErrNotBetter
	default:
		n.Primary, n.Model = c.truncated(), TruncateModel
	}
	if v1 == accepted || v1 == tooLarge && first.Tokens <= n.InputTokens/2 && first.Tokens > n.Primary.Tokens {
		n.Rich = &first
	}
	return nil
}

// try asks for one level and judges the answer. An error ends the climb with
// nothing stored.
func (c *climb) try(ctx context.Context, level int) (events.Tier, verdict, error) {
	for !c.down {
		r, shown, err := c.ask(ctx, level, c.shown)
		switch {
		case ctx.Err() != nil:
			return events.Tier{}, refused, ctx.Err()
		case err == nil:
			c.shown = shown
			t, v := c.judge(r, level)
			if v == accepted {
				c.node.Model = r.Model
			}
			return t, v, nil
		case errors.Is(err, ErrRefused):
			return events.Tier{}, refused, err
		case errors.Is(err, ErrTooLong):
			return events.Tier{}, refused, nil
		case c.blocking:
			c.down = true
		case errors.Is(err, ErrUnavailable):
			return events.Tier{}, refused, err
		default:
			return events.Tier{}, refused, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return events.Tier{}, refused, nil
}

// ask asks for a summary of lines. What is too long for the model is split: its
// halves are summarised, and then their summaries. It answers also with the
// lines that were summarised in the end.
func (c *climb) ask(ctx context.Context, level int, lines []Line) (Response, []Line, error) {
	r, err := c.l.Summarizer.Summarize(ctx, c.request(level, lines))
	c.asked++
	if !errors.Is(err, ErrTooLong) || linesTokens(lines) <= minInput || c.asked >= maxAsked {
		return r, lines, err
	}
	var parts []Line
	for _, half := range halves(lines) {
		r, _, err := c.ask(ctx, level, half)
		if err != nil {
			return r, lines, err
		}
		parts = append(parts, partLines(half, r)...)
	}
	return c.ask(ctx, level, parts)
}

// partLines stand for a part of a record: its summary as one line, or, where
// that is none, its head and tail. They are smaller than the part.
func partLines(part []Line, r Response) []Line {
	size := linesTokens(part)
	first, last := part[0], part[len(part)-1]
	l := Line{Ref: first.Ref, Role: RoleSummary, Time: first.Time, Text: cleaned(r.Text)}
	if last.Ref != first.Ref {
		l.Ref += ".." + last.Ref
	}
	if !isSummary(r, l.Text) || lineTokens(l) >= size {
		return clipLines(part, size/4)
	}
	return []Line{l}
}

func (c *climb) request(level int, lines []Line) Request {
	b := c.node.Bounds
	r := Request{
		Tenant: c.l.Tenant, Continues: c.asked > 0,
		Depth: c.node.Depth, Level: level, Target: b.Target, Limit: b.HardCap + reasoningAllowance, Lines: lines,
	}
	if level == 2 {
		r.Target = max(b.Target/2, 1)
	}
	r.System, r.User = prompt(r)
	return r
}

// isSummary tells a text, cleaned, from what is none.
func isSummary(r Response, text string) bool {
	return text != "" && r.Stop == StopEnd && !errorBody(text)
}

// judge cleans an answer and decides whether it is a summary. Sizes are the
// engine's own counts.
func (c *climb) judge(r Response, level int) (events.Tier, verdict) {
	text := cleaned(r.Text)
	if !isSummary(r, text) {
		return events.Tier{}, refused
	}
	t := events.Tier{Text: text, Tokens: tokens.Count(text), Level: level}
	if t.Tokens >= c.input || t.Tokens > c.node.Bounds.HardCap {
		return t, tooLarge
	}
	if closing := withClosing(text, c.lines); closing != text {
		if n := tokens.Count(closing); n < c.input && n <= c.node.Bounds.Target*smallerFactor {
			t.Text, t.Tokens = closing, n
		}
	}
	return t, accepted
}
