package condense

import "lcm/events"

// Sizes that belong to the shape of a session, in tokens. They were chosen by
// the simulation in sim_test.go.
const (
	// pointerOverhead is what the engine's header and frame add to a summary.
	pointerOverhead = 35
	maxLeafTarget   = 1_200
	maxNodeTarget   = 1_600
	minSlot         = 120
	// minTarget: below it a summary cannot say anything, and level 3 could not
	// carry its tag.
	minTarget = 16
	// capFactor: a text up to capFactor times its target is accepted,
	// from smallerFactor on it earns a make-smaller pass.
	capFactor     = 3
	smallerFactor = 2
	// slots of the pointer block: three nodes at each of five depths fit.
	slots = 16
	// KeptMax is the largest user turn shown verbatim at the end of a block.
	KeptMax = 2_000
	// rawPerInput: raw tokens that weigh as one token of summariser input.
	// What the summariser never sees (thinking, media, file bodies) fills the
	// context all the same, so it must close chunks too.
	rawPerInput = 4
	// urgentShare of B: above it even a small gain is worth a cut.
	urgentShare = 0.95
)

// sizes are the thresholds of one session, in tokens.
type sizes struct {
	events.Settings
	budget, soft, urgent      int
	cutTarget, minCut         int
	summary, recutAt, recutTo int
	chunk                     int // summariser input of one leaf
	leafTarget, nodeTarget    int
}

func sizesOf(s events.Settings) sizes {
	z := sizes{
		Settings: s, budget: s.Budget(), soft: s.Soft(), urgent: s.Share(urgentShare),
		minCut: s.Share(s.MinCut), summary: s.Share(s.SummaryBudget),
		recutAt: s.Share(s.RecutThreshold), recutTo: s.Share(s.RecutTarget),
		chunk: s.LeafChunk(),
	}
	// A pass never aims above the line that starts it: the drip's, and that of
	// settings older than this rule.
	z.cutTarget = min(s.Share(s.CutTarget), z.soft)
	if s.ContextThreshold == 0 {
		// The steady drip: a leaf whenever so much has aged.
		z.chunk = min(z.chunk, max(s.LeafTriggerTokens, s.LeafChunkMin))
	}
	slot := max(minSlot, z.summary/slots-pointerOverhead)
	z.nodeTarget = min(maxNodeTarget, slot)
	z.leafTarget = min(maxLeafTarget, slot, z.chunk*15/100)
	return z
}

// leafBounds are the target and the hard cap of a leaf over so much input.
func (z sizes) leafBounds(input int) (target, hardCap int) { return bounds(z.leafTarget, input) }

// nodeBounds are those of a condensed node.
func (z sizes) nodeBounds(input int) (target, hardCap int) { return bounds(z.nodeTarget, input) }

func bounds(target, input int) (int, int) {
	target = max(min(target, input/2), minTarget)
	return target, capFactor * target
}
