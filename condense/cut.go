package condense

import (
	"cmp"
	"slices"

	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// swap brings committed leaves into the context: appended behind the block
// where there is room and time, otherwise with the block condensed.
func (p *pass) swap(spans []span, agedTokens int) {
	var fresh []session.Node
	pointers := 0
	for _, s := range spans {
		fresh = append(fresh, *s.node)
		pointers += window.PointerTokens(*s.node, events.TierPrimary)
	}
	end := spans[len(spans)-1].end
	frame := window.FrameTokens(len(p.v.Frontier) + len(fresh))
	if p.block > 0 {
		frame = 0 // counted in the block
	}
	if p.recuts(p.block + frame + pointers) {
		p.recut(fresh, end, agedTokens)
		return
	}
	var old []events.Shown
	if p.v.Cut != nil {
		old = p.v.Cut.Frontier
	}
	// Rich tiers fill the block up to the recut target only: beyond it they
	// would turn the next extend into a recut.
	room := max(pointers, p.z.recutTo-p.block-frame)
	shown := window.Extend(old, fresh, room)
	p.commit(events.CutExtend, slices.Concat(p.v.Frontier, fresh), shown, end, agedTokens)
}

// recut condenses the block and then swaps it in.
func (p *pass) recut(fresh []session.Node, end, agedTokens int) {
	row := p.row(fresh)
	jobs, total := p.condense(row, p.z.recutTo)
	if len(jobs) > 0 {
		p.a.Groups = jobs
		return
	}
	nodes, shown := p.retier(row, total)
	p.commit(events.CutRecut, nodes, shown, end, agedTokens)
	if total > p.z.summary && p.a.Cut != nil {
		p.stallBehind(StopStalled, p.z.summary)
	}
}

// retier chooses the tiers of a condensed row. Primary texts that fit the
// summary budget all stand; rich ones only fill up to the recut target.
func (p *pass) retier(row []cell, total int) ([]session.Node, []events.Shown) {
	nodes := make([]session.Node, len(row))
	for i, c := range row {
		nodes[i] = c.node
	}
	return nodes, window.Retier(nodes, min(max(total, p.z.recutTo), p.z.summary))
}

// withoutLeaves is the last rung of the blocking regime: the block alone is
// condensed, and what stands raw is clipped.
func (p *pass) withoutLeaves(agedTokens int) {
	if p.block > p.z.recutTo {
		row := p.row(nil)
		jobs, total := p.condense(row, p.z.recutTo)
		if p.a.Groups = jobs; len(jobs) > 0 {
			return
		}
		nodes, shown := p.retier(row, total)
		if window.BlockTokens(nodes, shown) < p.block {
			p.commit(events.CutRecut, nodes, shown, 0, agedTokens)
			return
		}
	}
	var shown []events.Shown
	if p.v.Cut != nil {
		shown = p.v.Cut.Frontier
	}
	p.commit(events.CutExtend, p.v.Frontier, shown, 0, agedTokens)
}

// commit plans the cut that shows these nodes and the tail from end on, and
// clips where that is still over B. A cut that would not make the context
// smaller is no cut.
func (p *pass) commit(kind events.CutKind, nodes []session.Node, shown []events.Shown, end, agedTokens int) {
	c := &events.CutCommitted{
		Frontier: shown, Budget: p.z.budget, Window: p.z.Window, Overhead: p.z.Overhead,
		Renderer: window.Renderer, TokensBefore: p.a.Tokens, Kind: kind, Regime: p.a.Regime,
		BlockTokens: window.BlockTokens(nodes, shown),
	}
	if p.v.Cut != nil {
		c.Through = p.v.Cut.Through
	}
	if end > 0 {
		c.Through = p.v.Tail[end-1].N
	}
	after := *p.v
	after.Frontier, after.Tail = nodes, p.v.Tail[end:]
	after.Pending, after.Replaced, after.Stall = nil, nil, nil
	after.Answered = p.answered(end)
	after.Kept = p.kept(end)
	if after.Kept != nil {
		c.Kept = after.Kept.N
	}
	c.Clips = p.standing(c.Through)
	after.Cut = &session.Cut{CutCommitted: *c}
	c.TokensAfter = window.ContextTokens(&after)
	if c.TokensAfter > p.z.budget {
		p.clip(c, &after)
	}
	if c.TokensAfter >= p.a.Tokens {
		p.stall(agedTokens)
		return
	}
	p.a.Cut = c
	if c.TokensAfter > p.z.budget {
		p.stallBehind(StopTail, p.z.budget)
	}
}

// stallBehind records what the planned cut leaves undone.
func (p *pass) stallBehind(reason string, target int) {
	p.a.Stall = &events.PassStalled{Reason: reason, Tokens: p.a.Cut.TokensAfter, Target: target, Leaf: p.v.Leaf}
}

// standing are the clips that hold on: those of turns still raw.
func (p *pass) standing(through uint64) []events.Clip {
	if p.v.Cut == nil {
		return nil
	}
	var out []events.Clip
	for _, c := range p.v.Cut.Clips {
		if c.Entry > through {
			out = append(out, c)
		}
	}
	return out
}

// clip shortens the largest raw turns of the context behind the cut, and a
// little more than needed: not every further turn should cost a cut.
func (p *pass) clip(c *events.CutCommitted, after *session.View) {
	clips := slices.Concat(c.Clips, window.ClipPlan(after, c.TokensAfter-(p.z.budget-p.z.minCut)))
	slices.SortFunc(clips, func(a, b events.Clip) int { return cmp.Compare(a.Entry, b.Entry) })
	c.Clips = clips
	after.Cut = &session.Cut{CutCommitted: *c}
	c.TokensAfter = window.ContextTokens(after)
}

// answered names the calls that the tail from end on answers and that a leaf
// covers then, as the view will: such results are quoted, which takes other
// tokens.
func (p *pass) answered(end int) map[string]uint64 {
	out := map[string]uint64{}
	for _, e := range p.v.Tail[end:] {
		for i, call := range e.CallEntries {
			if call == 0 || call >= p.v.Tail[end].N {
				continue
			}
			if n := p.leafOver(call); n != 0 {
				out[e.Results[i]] = n
			} else if n, ok := p.v.Reanswered[e.Results[i]]; ok {
				out[e.Results[i]] = n
			} else if n, ok := p.v.Answered[e.Results[i]]; ok {
				out[e.Results[i]] = n
			}
		}
	}
	return out
}

// leafOver is the committed leaf over an entry of the tail, the newest of
// several, 0 where there is none.
func (p *pass) leafOver(entry uint64) uint64 {
	found := uint64(0)
	for _, d := range p.v.Pending {
		if d.Depth == 0 && d.First <= entry && entry <= d.Last {
			found = max(found, d.N)
		}
	}
	return found
}

// kept is the newest user turn where the cut leaves none in the tail.
func (p *pass) kept(end int) *session.Entry {
	if lastUserTurn(p.v.Tail[end:]) >= 0 {
		return nil
	}
	kept := p.v.Kept
	if i := lastUserTurn(p.v.Tail[:end]); i >= 0 {
		kept = &p.v.Tail[i]
	}
	if kept == nil || kept.Tokens > KeptMax {
		return nil
	}
	return kept
}
