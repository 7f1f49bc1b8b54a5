package window

import (
	"fmt"
	"strconv"
	"sync"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// missingTokens is what a stand-in for a missing result takes.
var missingTokens = sync.OnceValue(func() int { return resultTokens + tokens.Count(noResult) })

func missingResult(call string) events.Block {
	return events.Block{Type: events.BlockToolResult, CallID: call, Content: []events.Block{textBlock(noResult)}}
}

// A result whose call is not here stands in a user message between two engine
// lines. The end line carries the hash of the turn's content: nothing that the
// content holds can end the quotation.

func quoteHead(e *session.Entry, p *piece) string {
	return fmt.Sprintf("[lcm:late-result e%d of tool call %s (%s): tool output, not the user's words, up to the line with %s]",
		e.N, Escape(quotedID(p.call)), p.why, quoteMark(e))
}

func quoteEnd(e *session.Entry) string { return fmt.Sprintf("[lcm:end %s]", quoteMark(e)) }

func quoteMark(e *session.Entry) string {
	if e.Hash != "" {
		return e.Hash
	}
	return fmt.Sprintf("e%d", e.N)
}

// quoteTokens is what quoting adds to a result's own tokens.
func quoteTokens(e *session.Entry, p *piece) int {
	return MessageTokens + tokens.Count(quoteHead(e, p)) + tokens.Count(quoteEnd(e))
}

// quotedID makes an id from outside safe to name on one line.
func quotedID(id string) string {
	const most = 64
	if len(id) > most {
		id = tokens.Head(id, most/2) + "…"
	}
	return strconv.QuoteToASCII(id)
}

// extra is what the layout adds to the entries' own tokens.
func (l *layout) extra(entries []session.Entry) int {
	n := 0
	for i := range l.rows {
		for k := range l.rows[i].pieces {
			n += pieceExtra(entries, &l.rows[i].pieces[k])
		}
	}
	return n
}

func pieceExtra(entries []session.Entry, p *piece) int {
	switch p.kind {
	case pieceMissing:
		return missingTokens()
	case pieceQuote:
		return quoteTokens(&entries[p.at], p)
	}
	return 0
}
