package extract

import (
	"context"
	"strings"

	"lcm/condense"
	"lcm/tokens"
)

// Version names the rules; it is recorded as the model of a node. Any change
// that gives other bytes for the same request needs a new one.
const Version = "extract-3"

// Summarizer is the condense.Summarizer that needs no model. Its zero value is
// ready and safe for concurrent use.
type Summarizer struct{}

var _ condense.Summarizer = Summarizer{}

// Summarize implements condense.Summarizer. It fails only when ctx has ended.
func (Summarizer) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	if err := ctx.Err(); err != nil {
		return condense.Response{}, err
	}
	return condense.Response{Text: Summarize(r), Stop: condense.StopEnd, Model: Version}, nil
}

const (
	maxBudgetTokens  = 1 << 20 // keeps sums of sizes far from overflow
	bareBudgetTokens = 48      // below it headings would cost more than they tell
)

// Summarize returns a summary of r.Lines: aimed at r.Target tokens or half the
// input, whichever is less, never above r.Limit, and strictly smaller than the
// input in tokens and bytes. A Limit or Target that is not positive counts as
// not given. The text is empty where nothing fits.
func Summarize(r condense.Request) string {
	budget, hard := bounds(r)
	if hard <= 0 {
		return ""
	}
	d := newDraft(r, budget)
	var text string
	if budget < bareBudgetTokens {
		text = d.bare(budget)
	} else {
		text = d.compose(budget)
	}
	return clamp(text, hard, inputBytes(r.Lines)-1)
}

// bounds returns the tokens to aim at and the tokens never to exceed.
func bounds(r condense.Request) (budget, hard int) {
	target, limit := r.Target, r.Limit
	if limit <= 0 || limit > maxBudgetTokens {
		limit = maxBudgetTokens
	}
	if target <= 0 || target > limit {
		target = limit
	}
	in := inputTokens(r.Lines, 2*target+2)
	return max(min(target, in/2), min(1, in-1)), min(limit, in-1)
}

// inputTokens counts the input, but not much further than enough.
func inputTokens(lines []condense.Line, enough int) int {
	const piece = 1 << 16 // bytes counted at a time
	n := 0
	for _, l := range lines {
		for t := l.Text; t != "" && n < enough; {
			head := t
			if len(head) > piece {
				head = strings.ToValidUTF8(head[:piece], "")
			}
			n += tokens.Count(head)
			t = t[min(len(t), piece):]
		}
	}
	return n
}

func inputBytes(lines []condense.Line) int {
	n := 0
	for _, l := range lines {
		n += len(l.Text)
	}
	return n
}

// clamp is the last word on size: what the accounting let through is cut.
func clamp(s string, maxTokens, maxBytes int) string {
	for s != "" && (len(s) > maxBytes || tokens.Count(s) > maxTokens) {
		cut := tokens.Head(s, maxTokens)
		for len(cut) > max(maxBytes, 0) {
			cut = tokens.Head(cut, tokens.Count(cut)-1-(len(cut)-maxBytes)/16)
		}
		if cut == s { // a counter that is not monotone: go down by force
			cut = tokens.Head(s, tokens.Count(s)-1)
		}
		if len(cut) >= len(s) {
			return ""
		}
		s = strings.TrimRight(cut, " \n")
	}
	return s
}
