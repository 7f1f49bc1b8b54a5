package window

import (
	"lcm/events"
	"lcm/session"
)

// RegimeOf names the regime a context of that many tokens is in.
func RegimeOf(tokens int, s events.Settings) events.Regime {
	switch {
	case tokens <= s.Soft():
		return events.RegimePassive
	case tokens <= s.Budget():
		return events.RegimeAsync
	}
	return events.RegimeBlocking
}

// TailStart is the index in v.Tail from which turns never condense: the newest
// fresh_tail_count turns, back to the newest thing the user said, in whole tool
// groups. The cap fresh_tail_max wins over both; the newest group always stays.
func TailStart(v *session.View) int { return tailStart(v, v.Settings, clipsOf(v)) }

func tailStart(v *session.View, s events.Settings, clips clipSet) int {
	groups := session.Groups(v.Tail)
	user := newestUser(v.Tail)
	limit := s.Share(s.FreshTailMax)
	start, size := len(v.Tail), 0
	for i := len(groups) - 1; i >= 0; i-- {
		g := groups[i]
		count := len(v.Tail) - start
		if start < len(v.Tail) && count >= s.FreshTailCount && (user < 0 || start <= user) {
			break
		}
		for _, e := range v.Tail[g.Start:g.End] {
			size += tailTokens(clips.tokens(&e), s)
		}
		if start < len(v.Tail) && limit > 0 && size > limit {
			break
		}
		start = g.Start
	}
	return start
}

// tailTokens is what a turn counts against the tail's cap. One that no context
// can show beside a pointer block will be clipped, and counts as it will then:
// a single huge result does not push everything else out of the tail.
func tailTokens(tokens int, s events.Settings) int {
	if tokens > s.Budget()-s.Share(s.SummaryBudget) {
		return s.Share(clipShare)
	}
	return tokens
}

// newestUser is the index of the newest turn in which the user speaks, -1 for none.
func newestUser(entries []session.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Spoken() {
			return i
		}
	}
	return -1
}
