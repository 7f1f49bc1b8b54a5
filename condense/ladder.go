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
	// minInput: an input that is still too long at this size is not sent again.
	minInput = 500
)

// ErrNotBetter: a repair ended on level 3 again; nothing is stored.
var ErrNotBetter = errors.New("the repair is no better than what it would replace")

// Ladder climbs from a thorough summary over a terse one to truncation. It is
// safe for concurrent use if its Summarizer is.
type Ladder struct {
	Summarizer Summarizer
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
	input    int // tokens of lines
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
	c := &climb{l: l, node: n, lines: lines, input: linesTokens(lines), blocking: blocking}
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
		r, err := c.l.Summarizer.Summarize(ctx, c.request(level))
		switch {
		case ctx.Err() != nil:
			return events.Tier{}, refused, ctx.Err()
		case err == nil:
			t, v := c.judge(r, level)
			if v == accepted {
				c.node.Model = r.Model
			}
			return t, v, nil
		case errors.Is(err, ErrRefused):
			return events.Tier{}, refused, err
		case errors.Is(err, ErrTooLong):
			if c.input <= minInput {
				return events.Tier{}, refused, nil
			}
			c.halve()
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

// halve shows the summariser half as much as before.
func (c *climb) halve() {
	half := c.input / 2
	c.lines = clipLines(c.lines, half)
	c.input = min(linesTokens(c.lines), half)
}

func (c *climb) request(level int) Request {
	b := c.node.Bounds
	r := Request{Depth: c.node.Depth, Level: level, Target: b.Target, Limit: b.HardCap + reasoningAllowance, Lines: c.lines}
	if level == 2 {
		r.Target = max(b.Target/2, 1)
	}
	r.System, r.User = prompt(r)
	return r
}

// judge cleans an answer and decides whether it is a summary. Sizes are the
// engine's own counts.
func (c *climb) judge(r Response, level int) (events.Tier, verdict) {
	text := cleaned(r.Text)
	if text == "" || r.Stop != StopEnd || errorBody(text) {
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
