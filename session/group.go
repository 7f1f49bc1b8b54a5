package session

import "lcm/events"

// Group is a stretch of consecutive path entries that stays together: an
// assistant message, its tool calls and all their results, with whatever was
// said in between. Most groups are one turn.
type Group struct {
	Start, End int // index of the first entry, and behind the last
	// Open: a call in it has no result yet.
	Open bool
	// Late: it only answers calls that stand before these entries.
	Late bool
}

// maxReach is how many entries apart a call and its result may stand in one
// group. Further apart they are told apart: an id that was never answered and
// is used again much later must not tie everything between into one group.
const maxReach = 256

// Groups cuts consecutive path entries into whole tool groups. A result pairs
// with the nearest unanswered call of its id before it, or, where it arrived
// early, with the first one behind it; an id used again later is a new call.
func Groups(entries []Entry) []Group {
	reach := make([]int, len(entries)) // last index this one must stay with
	open := make([]bool, len(entries))
	late := make([]bool, len(entries))
	for i := range entries {
		reach[i] = i
	}
	join := func(a, b int) {
		if a > b {
			a, b = b, a
		}
		reach[a] = max(reach[a], b)
	}
	unanswered := map[string][]int{}
	early := map[string][]int{}
	for i, e := range entries {
		for _, id := range e.Calls {
			if q := early[id]; len(q) > 0 && i-q[0] <= maxReach {
				join(q[0], i)
				late[q[0]] = false
				early[id] = q[1:]
				continue
			}
			unanswered[id] = append(unanswered[id], i)
		}
		for _, id := range e.Results {
			if q := unanswered[id]; len(q) > 0 && i-q[len(q)-1] <= maxReach {
				join(q[len(q)-1], i)
				unanswered[id] = q[:len(q)-1]
				continue
			}
			early[id] = append(early[id], i)
			late[i] = true
		}
		if i > 0 && sameMessage(entries[i-1], e) {
			join(i-1, i)
		}
	}
	for _, q := range unanswered {
		for _, i := range q {
			open[i] = true
		}
	}
	return stitch(reach, open, late)
}

// stitch turns overlapping reaches into groups.
func stitch(reach []int, open, late []bool) []Group {
	var out []Group
	for i := 0; i < len(reach); {
		g := Group{Start: i, Late: late[i]}
		end := reach[i]
		for ; i <= end; i++ {
			end = max(end, reach[i])
			g.Open = g.Open || open[i]
			g.Late = g.Late && late[i]
		}
		g.End = i
		out = append(out, g)
	}
	return out
}

// sameMessage: two consecutive turns that are parts of one provider message.
func sameMessage(a, b Entry) bool {
	return b.MessageID != "" && a.MessageID == b.MessageID && a.Role == b.Role && a.Role == events.RoleAssistant
}
