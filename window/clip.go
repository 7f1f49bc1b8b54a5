package window

import (
	"cmp"
	"slices"

	"lcm/events"
	"lcm/session"
)

// clipShare of B is what a clipped turn still shows.
const clipShare = 0.05

// What a clipped turn needs at least: its message and the mark, and for every
// call and result what makes it valid (providers allow names of 64 characters).
const (
	clipFloor       = MessageTokens + 60
	clipFloorCall   = 80
	clipFloorResult = resultTokens + 50
)

// clipSet tells to how many tokens entries are clipped.
type clipSet map[uint64]int

// clipsOf are the clips of the active cut.
func clipsOf(v *session.View) clipSet {
	if v.Cut == nil || len(v.Cut.Clips) == 0 {
		return nil
	}
	c := make(clipSet, len(v.Cut.Clips))
	for _, k := range v.Cut.Clips {
		c[k.Entry] = k.Tokens
	}
	return c
}

// tokens is what the entry counts in a context, clipped or not.
func (c clipSet) tokens(e *session.Entry) int {
	t, ok := c[e.N]
	if !ok {
		return e.Tokens
	}
	return min(e.Tokens, max(t, leastClip(e)))
}

func leastClip(e *session.Entry) int {
	return clipFloor + clipFloorCall*len(e.Calls) + clipFloorResult*len(e.Results)
}

// ClipPlan names further turns of the tail to be shown by head and tail only,
// until over tokens are saved or nothing is left to clip: tool results before
// any other turn, largest first, each clipped to 0.05·B. What the active cut
// clips already is not named again; the next cut has to list it too. nil:
// nothing helps.
func ClipPlan(v *session.View, over int) []events.Clip {
	return clipPlan(v.Tail, clipsOf(v), v.Settings.Share(clipShare), over)
}

func clipPlan(entries []session.Entry, done clipSet, size, over int) []events.Clip {
	if over <= 0 {
		return nil
	}
	var cand []*session.Entry
	for i := range entries {
		e := &entries[i]
		if _, clipped := done[e.N]; !clipped && e.Tokens > max(size, leastClip(e)) {
			cand = append(cand, e)
		}
	}
	slices.SortFunc(cand, func(a, b *session.Entry) int {
		return cmp.Or(
			-compareBool(isResult(a), isResult(b)),
			-cmp.Compare(a.Tokens, b.Tokens),
			cmp.Compare(a.N, b.N),
		)
	})
	var out []events.Clip
	for _, e := range cand {
		if over <= 0 {
			break
		}
		n := max(size, leastClip(e))
		out = append(out, events.Clip{Entry: e.N, Tokens: n})
		over -= e.Tokens - n
	}
	return out
}

// isResult: what a tool said, so that it can be called again or looked up.
func isResult(e *session.Entry) bool { return e.Role == events.RoleTool || len(e.Results) > 0 }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
