package condense

import (
	"strings"

	"lcm/events"
	"lcm/tokens"
)

// TruncatedTag marks a text that no model wrote: the head and the tail of its
// input.
const TruncatedTag = "[lcm:truncated]"

// The line that says what expanding recovers takes about closingTokens; where a
// text has less than leastToClose, they are worth more than the line.
const (
	closingTokens = 20
	leastToClose  = 80
)

// truncated is level 3. It always succeeds and is always strictly smaller than
// the input: a line costs lineOverhead tokens before it says anything, more
// than the tag alone.
func (c *climb) truncated() events.Tier {
	limit := min(truncateMax, c.node.Bounds.Target, c.input/2)
	text := withClosing(Truncate(c.lines, limit-closingTokens), c.lines)
	if limit < leastToClose || tokens.Count(text) > limit {
		text = Truncate(c.lines, limit)
	}
	return events.Tier{Text: text, Tokens: tokens.Count(text), Level: 3}
}

// Truncate renders lines and keeps head and tail in max tokens, the tag
// included, on whole characters. Where max is too small for anything, the tag
// alone is left.
func Truncate(lines []Line, max int) string {
	var full strings.Builder
	for _, l := range lines {
		full.WriteString(who(l))
		full.WriteString(": ")
		full.WriteString(strings.TrimSpace(l.Text))
		full.WriteByte('\n')
	}
	body := plainText(full.String())
	for room := max - tokens.Count(TruncatedTag+"\n"); room > 0; room -= 1 + room/16 {
		cut := strings.TrimSpace(tokens.HeadTail(body, room, "\n[…]\n"))
		if out := TruncatedTag + "\n" + cut; cut != "" && tokens.Count(out) <= max {
			return out
		}
	}
	return TruncatedTag
}
