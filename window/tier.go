package window

import (
	"lcm/events"
	"lcm/session"
)

// BlockTokens counts a pointer block: the frame and one part per node. The
// tiers belong to the nodes by key, in whatever order they are given.
func BlockTokens(nodes []session.Node, shown []events.Shown) int {
	n := FrameTokens(len(nodes))
	for i, tier := range tiers(nodes, shown) {
		n += PointerTokens(nodes[i], tier)
	}
	return n
}

// tiers returns the tier of each node, primary where none is named.
func tiers(nodes []session.Node, shown []events.Shown) []events.TierName {
	out := make([]events.TierName, len(nodes))
	var byKey map[string]events.TierName
	for i := range nodes {
		if i < len(shown) && shown[i].Key == nodes[i].Key {
			out[i] = shown[i].Tier
			continue
		}
		if byKey == nil {
			byKey = make(map[string]events.TierName, len(shown))
			for _, s := range shown {
				byKey[s.Key] = s.Tier
			}
		}
		if out[i] = byKey[nodes[i].Key]; out[i] == "" {
			out[i] = events.TierPrimary
		}
	}
	return out
}

// Extend returns the old block, untouched, and the fresh nodes behind it. The
// fresh ones take at most room tokens (the frame not counted) if they can:
// rich while every other still has its primary text, newest first; where not
// even those fit, stubs and then headers, oldest first. No node is left out.
func Extend(old []events.Shown, fresh []session.Node, room int) []events.Shown {
	out := make([]events.Shown, 0, len(old)+len(fresh))
	return append(append(out, old...), fit(fresh, room)...)
}

// Retier chooses the tiers of a whole block anew, so that frame and pointers
// take at most budget tokens if they can: rich newest first; where the primary
// texts do not fit, stubs oldest first, then bare headers oldest first. No
// node is left out.
func Retier(nodes []session.Node, budget int) []events.Shown {
	return fit(nodes, budget-FrameTokens(len(nodes)))
}

// fit chooses tiers for nodes, oldest first in the slice, within room tokens.
func fit(nodes []session.Node, room int) []events.Shown {
	out := make([]events.Shown, len(nodes))
	size := make([]int, len(nodes))
	total := 0
	for i := range nodes {
		out[i] = events.Shown{Key: nodes[i].Key, Tier: events.TierPrimary}
		size[i] = PointerTokens(nodes[i], events.TierPrimary)
		total += size[i]
	}
	change := func(i int, tier events.TierName, n int) {
		total += n - size[i]
		out[i].Tier, size[i] = tier, n
	}
	for i := len(nodes) - 1; i >= 0 && total <= room; i-- {
		if nodes[i].Rich == nil {
			continue
		}
		n := PointerTokens(nodes[i], events.TierRich)
		if total+n-size[i] > room {
			break
		}
		change(i, events.TierRich, n)
	}
	for _, tier := range []events.TierName{events.TierStub, events.TierHeader} {
		for i := 0; i < len(nodes) && total > room; i++ {
			if n := PointerTokens(nodes[i], tier); n < size[i] {
				change(i, tier, n)
			}
		}
	}
	return out
}
