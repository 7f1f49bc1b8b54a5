package window

import (
	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// Shares of B in an emergency view. They leave room for each other: even the
// last rung, everything at its share, takes 0.85·B.
const (
	excerptShare    = 0.15 // all excerpts of aged turns
	excerptMost     = 16   // so many excerpts at most; a step is larger beyond
	excerptTokens   = 512  // one excerpt at most, as on the ladder's level 3
	pinnedShare     = 0.25
	blockShare      = 0.20
	compactionShare = 0.05
	lastShare       = 0.10 // the newest group, where it must be an excerpt itself
	leastStep       = 0.02 // of an excerpt, where min_cut is 0
	leastPinned     = 100
)

// emergency is the view for when no cut came in time: a pure function of the
// session and the budget, never over it. Rung by rung: the pointer block within
// its share; aged turns as excerpts, in steps of min_cut, so that between two
// steps the view only grows at its end; clipping, largest first; at last the
// newest group as an excerpt too.
func emergency(v *session.View, s events.Settings) *shape {
	sh := asCut(v, s)
	for _, rung := range []func(){
		func() { sh.shrinkBlock(s.SummaryBudget) },
		sh.excerptAged,
		sh.clipTail,
		sh.clipFront,
		sh.clipHard,
		sh.collapse,
	} {
		if rung(); sh.tokens() <= s.Budget() {
			break
		}
	}
	return sh
}

// shrinkBlock chooses tiers anew where the block was made for a larger budget;
// where not even bare headers fit, the oldest are told by one line.
func (sh *shape) shrinkBlock(share float64) {
	room := sh.s.Share(share) - frameTokens()
	if len(sh.tiers) == 0 || sh.pointerTokens() <= room {
		return
	}
	sh.tiers = tiers(sh.v.Frontier, fit(sh.v.Frontier, room))
	for n := 1; sh.folded < len(sh.tiers) && sh.pointerTokens() > room; n *= 2 {
		sh.folded = min(sh.folded+n, len(sh.tiers))
	}
}

// excerptAged moves the through-entry to the first step at which the view fits.
func (sh *shape) excerptAged() {
	all := sh.v.Tail
	groups := session.Groups(all)
	fresh := tailStart(sh.v, sh.s, sh.clips)
	step := max(sh.s.Share(sh.s.MinCut), sh.s.Share(leastStep))
	rest := make([]int, len(all)+1) // tokens of all[i:], what the layout adds left out
	for i := len(all) - 1; i >= 0; i-- {
		rest[i] = rest[i+1] + sh.clips.tokens(&all[i])
	}
	front := sh.tokens() - sh.tailTokens()
	for ; ; step *= 2 {
		ends := sh.steps(groups, fresh, step)
		for n := 1; n <= min(len(ends), excerptMost); n++ {
			size := sh.excerptSize(n, step)
			if n < len(ends) && front+n*size+rest[ends[n-1]] > sh.s.Budget() {
				continue // surely over
			}
			if sh.excerptTo(all, ends[:n], size); sh.tokens() <= sh.s.Budget() {
				return
			}
		}
		if len(ends) <= excerptMost {
			return
		}
	}
}

// excerptSize is what each of n excerpts may take. It changes when n passes a
// power of two only, so that most steps leave the excerpts before them alone.
func (sh *shape) excerptSize(n, step int) int {
	places := 1
	for places < n {
		places *= 2
	}
	return min(excerptTokens, step/2, sh.s.Share(excerptShare)/places)
}

// steps returns where a step of at least that many tokens ends, whole groups
// before the fresh tail only.
func (sh *shape) steps(groups []session.Group, fresh, step int) []int {
	var ends []int
	size := 0
	for _, g := range groups {
		if g.End > fresh {
			break
		}
		if size += sh.clips.sum(sh.v.Tail[g.Start:g.End]); size >= step {
			ends = append(ends, g.End)
			size = 0
		}
	}
	return ends
}

// excerptTo shows the entries before each end as one excerpt, the rest raw.
func (sh *shape) excerptTo(all []session.Entry, ends []int, size int) {
	sh.excerpts = sh.excerpts[:0]
	from := 0
	for _, end := range ends {
		sh.excerpts = append(sh.excerpts, excerpt{entries: all[from:end], max: size})
		from = end
	}
	sh.setTail(all[from:])
}

func (sh *shape) setTail(entries []session.Entry) {
	sh.tail = entries
	sh.tailRows = layOut(entries, sh.v.Answered, sh.s)
}

// clipTail clips as a cut would, by whole steps of min_cut so that the choice
// outlasts the next few turns.
func (sh *shape) clipTail() {
	step := max(sh.s.Share(sh.s.MinCut), 1)
	over := sh.tokens() - sh.s.Budget()
	over = (over + step - 1) / step * step
	sh.clip(clipPlan(sh.tail, sh.clips, sh.s.Share(clipShare), over))
}

func (sh *shape) clip(plan []events.Clip) {
	clips := make(clipSet, len(sh.clips)+len(plan))
	for e, n := range sh.clips {
		clips[e] = n
	}
	for _, k := range plan {
		clips[k.Entry] = k.Tokens
	}
	sh.clips = clips
}

// clipFront brings pinned turns, foreign compactions and the kept turn down to
// their shares.
func (sh *shape) clipFront() {
	for i := range sh.kept {
		sh.clip([]events.Clip{{Entry: sh.kept[i].N, Tokens: sh.s.Share(clipShare)}})
	}
	if n := len(sh.compactions); n > 0 {
		most := max(sh.s.Share(compactionShare)/(2*compactionHead), 1)
		sh.compactions = sh.compactions[max(n-most, 0):]
		sh.compactionMax = max(sh.s.Share(compactionShare)/len(sh.compactions), 2*compactionHead)
	}
	room := sh.s.Share(pinnedShare)
	if sh.pinnedTokens() <= room {
		return
	}
	if most := room / leastPinned; len(sh.pinned) > most {
		rest := sh.pinned[most-1:]
		sh.pinned = sh.pinned[:most-1]
		sh.excerpts = append([]excerpt{{entries: rest, max: leastPinned}}, sh.excerpts...)
		room -= leastPinned
	}
	sizes := make([]int, len(sh.pinned))
	for i := range sh.pinned {
		sizes[i] = sh.pinned[i].Tokens
	}
	level := tokens.FairShare(sizes, room)
	for i := range sh.pinned {
		if e := &sh.pinned[i]; e.Tokens > level {
			sh.clip([]events.Clip{{Entry: e.N, Tokens: level}})
		}
	}
}

// clipHard clips ever more of every turn that is left.
func (sh *shape) clipHard() {
	for size := sh.s.Share(clipShare) / 2; size > clipFloor && sh.tokens() > sh.s.Budget(); size /= 2 {
		plan := make([]events.Clip, 0, len(sh.tail))
		for i := range sh.tail {
			plan = append(plan, events.Clip{Entry: sh.tail[i].N, Tokens: size})
		}
		sh.clip(plan)
	}
}

// collapse shows all raw turns as an excerpt, and the newest thing the user
// said behind it.
func (sh *shape) collapse() {
	sh.shrinkBlock(min(blockShare, sh.s.SummaryBudget))
	if len(sh.tail) == 0 {
		return
	}
	sh.excerpts = append(sh.excerpts, excerpt{entries: sh.tail, max: sh.s.Share(lastShare)})
	if i := newestUser(sh.tail); i >= 0 {
		sh.setTail(sh.tail[i : i+1])
		sh.clip([]events.Clip{{Entry: sh.tail[0].N, Tokens: sh.s.Share(clipShare)}})
		return
	}
	sh.setTail(nil)
}
