package window

import (
	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// A shape says what a context shows, from metadata alone: everything but the
// bodies. The usual shape is what the active cut says; an emergency makes others.
type shape struct {
	v *session.View
	s events.Settings

	pinned []session.Entry
	// compactions shown, each with at most compactionMax tokens (0 = whole).
	compactions   []events.HistoryCompacted
	compactionMax int
	tiers         []events.TierName // of v.Frontier
	folded        int               // oldest nodes told by one line
	excerpts      []excerpt
	kept          []session.Entry // at most one
	tail          []session.Entry
	clips         clipSet

	keptRows layout
	tailRows layout
}

// asCut is the shape the active cut describes.
func asCut(v *session.View, s events.Settings) *shape {
	sh := &shape{v: v, s: s, pinned: v.Pinned, compactions: v.Compactions, tail: v.Tail, clips: clipsOf(v)}
	if v.Cut != nil {
		sh.tiers = tiers(v.Frontier, v.Cut.Frontier)
	}
	if v.Kept != nil {
		sh.kept = []session.Entry{*v.Kept}
		sh.keptRows = layOut(sh.kept, v.Answered, s)
	}
	sh.tailRows = layOut(sh.tail, v.Answered, s)
	return sh
}

// ContextTokens is the size of the active context, from metadata alone. It
// equals what Render counts.
func ContextTokens(v *session.View) int { return asCut(v, v.Settings).tokens() }

func (sh *shape) tokens() int {
	return sh.pinnedTokens() + sh.blockTokens() + sh.keptTokens() + sh.tailTokens()
}

func (sh *shape) pinnedTokens() int { return sh.clips.sum(sh.pinned) }

func (sh *shape) keptTokens() int {
	return sh.clips.sum(sh.kept) + sh.keptRows.extra(sh.kept)
}

func (sh *shape) tailTokens() int {
	return sh.clips.sum(sh.tail) + sh.tailRows.extra(sh.tail)
}

// framed is how many parts stand within the frame.
func (sh *shape) framed() int { return len(sh.tiers) + len(sh.compactions) + len(sh.excerpts) }

func (sh *shape) blockTokens() int {
	n := FrameTokens(sh.framed()) + sh.pointerTokens()
	for i := range sh.compactions {
		n += tokens.Count(sh.compactionText(i))
	}
	for i := range sh.excerpts {
		n += sh.excerpts[i].max
	}
	return n
}

func (sh *shape) pointerTokens() int {
	n := 0
	if sh.folded > 0 {
		n = tokens.Count(foldedText(sh.v.Frontier[:sh.folded]))
	}
	for i := sh.folded; i < len(sh.tiers); i++ {
		n += PointerTokens(sh.v.Frontier[i], sh.tiers[i])
	}
	return n
}

func (c clipSet) sum(entries []session.Entry) int {
	n := 0
	for i := range entries {
		n += c.tokens(&entries[i])
	}
	return n
}
