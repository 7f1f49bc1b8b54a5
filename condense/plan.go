package condense

import (
	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// Why a plan stops short, as it stands in Actions.Stop. The first three are
// rest, not trouble; the others become the reason of a PassStalled.
const (
	StopPassive  = "passive"       // the context is below the soft threshold
	StopTooSmall = "below-min-cut" // a pass would free too little; it waits for more
	StopInvalid  = "not-configured"

	StopNothing = "nothing-eligible"     // no leaf can be made yet
	StopTail    = "tail-over-target"     // what never condenses is over the target alone
	StopStalled = "condensation-stalled" // no legal group is left and the block is over its budget
)

// Actions is what a session needs next. At most one of Leaves, Groups and Cut
// is set: whoever carries it out plans again afterwards, until nothing is due.
type Actions struct {
	Regime                       events.Regime
	Tokens, Soft, Budget, Target int // of the context

	// Leaves to make, in span order. They are independent of each other and
	// are committed in this order.
	Leaves []LeafJob
	// Groups to condense, oldest first, independent of each other.
	Groups []GroupJob
	// Cut to commit; its nodes are all committed.
	Cut *events.CutCommitted
	// Stall to record (after Cut, where both are set).
	Stall *events.PassStalled
	// Stop says why there is no more to do, "" while there is.
	Stop string
}

// Due reports whether there is something to do.
func (a Actions) Due() bool {
	return len(a.Leaves) > 0 || len(a.Groups) > 0 || a.Cut != nil || a.Stall != nil
}

// LeafJob asks for one leaf.
type LeafJob struct {
	Key         string
	Entries     []events.Range // what it covers: a stretch of the path
	First, Last uint64
	Files       []string // file ids of the entries, in order of first mention
	Target      int      // tokens aimed at
	HardCap     int      // tokens at most
	InputTokens int      // as stored with the entries
	InputMax    int      // what the summariser may be shown
	Blocking    bool     // a reader waits: a provider that is down costs a level, not time
	Supersedes  string   // key of the node this one repairs
}

// GroupJob asks for one condensed node.
type GroupJob struct {
	Key         string
	Depth       int
	Children    []session.Node
	First, Last uint64
	Target      int
	HardCap     int
	MaxFan      int
	InputTokens int
	InputMax    int
	Blocking    bool
	Supersedes  string
}

// pass is one evaluation of the planner.
type pass struct {
	v      *session.View
	z      sizes
	a      Actions
	clips  map[uint64]int // entry → tokens shown of it
	block  int            // tokens of the pointer block now shown
	shrunk bool           // B is smaller than the active cut's
}

// Plan decides what a session needs next. It is the one place that does: it
// keeps no state between calls and, called again with what became of its last
// answer, returns the rest of the pass, then the cut, then nothing. Its cost
// is linear in the tail and the nodes of the view.
func Plan(v *session.View) Actions {
	p := &pass{v: v, z: sizesOf(v.Settings)}
	p.a = Actions{Soft: p.z.soft, Budget: p.z.budget, Target: p.z.cutTarget}
	if p.z.budget < events.MinBudget {
		p.a.Stop = StopInvalid
		return p.a
	}
	p.a.Tokens = window.ContextTokens(v)
	p.a.Regime = window.RegimeOf(p.a.Tokens, v.Settings)
	if p.a.Regime == events.RegimePassive {
		p.a.Stop = StopPassive
		return p.a
	}
	if v.Cut != nil {
		p.block = window.BlockTokens(v.Frontier, v.Cut.Frontier)
		p.shrunk = p.z.budget < v.Cut.Budget
		p.clips = make(map[uint64]int, len(v.Cut.Clips))
		for _, c := range v.Cut.Clips {
			p.clips[c.Entry] = c.Tokens
		}
	}
	p.run()
	return p.a
}

func (p *pass) blocking() bool { return p.a.Regime == events.RegimeBlocking }

// rawTokens is what a turn takes in the context now.
func (p *pass) rawTokens(e session.Entry) int {
	if n, ok := p.clips[e.N]; ok {
		return n
	}
	return e.Tokens
}

// run takes the first stage that has something to do: leaves, groups, cut.
func (p *pass) run() {
	aged := window.TailStart(p.v)
	agedTokens := 0
	for _, e := range p.v.Tail[:aged] {
		agedTokens += p.rawTokens(e)
	}
	spans := p.worthwhile(p.spans(aged))
	n, gain := p.choose(spans)
	urgent := p.a.Tokens > p.z.urgent
	switch {
	case n == 0 && p.blocking():
		p.withoutLeaves(agedTokens)
		return
	case n == 0:
		p.stall(agedTokens)
		return
	case !urgent && (gain < p.z.minCut || agedTokens < p.z.LeafTriggerTokens):
		p.a.Stop = StopTooSmall
		return
	}
	for i, s := range spans[:n] {
		if s.node == nil {
			p.a.Leaves = append(p.a.Leaves, p.leafJob(spans[i]))
		}
	}
	if len(p.a.Leaves) > 0 {
		return
	}
	for n < len(spans) && spans[n].node != nil { // paid for already
		n++
	}
	p.swap(spans[:n], agedTokens)
}

// worthwhile drops the unfinished chunk, unless a reader waits and covering it
// frees something; and never takes one that ends where a branch leaves.
func (p *pass) worthwhile(spans []span) []span {
	n := len(spans)
	if n == 0 || !spans[n-1].unfinished {
		return spans
	}
	if last := spans[n-1]; !p.blocking() || last.raw <= p.estimate(last) || forks(p.v.Tail, last.end) {
		return spans[:n-1]
	}
	return spans
}

// estimate is what the pointer of a leaf is expected to take.
func (p *pass) estimate(s span) int {
	target, _ := p.z.leafBounds(min(s.input, p.z.LeafInputMax))
	return target + pointerOverhead
}

// choose returns how many spans, oldest first, bring the context down to the
// cut target (all of them where even that is not enough), and what the pass
// is expected to free. The expectation takes every leaf for one of its target
// size, so that it does not change as the pass goes on.
func (p *pass) choose(spans []span) (n, gain int) {
	raw, pointers, expected := 0, 0, 0
	for i, s := range spans {
		raw += s.raw
		expected += p.estimate(s)
		if s.node != nil {
			pointers += window.PointerTokens(*s.node, events.TierPrimary)
		} else {
			pointers += p.estimate(s)
		}
		gain = p.a.Tokens - p.after(raw, expected)
		if p.after(raw, pointers) <= p.z.cutTarget {
			return i + 1, gain
		}
	}
	return len(spans), gain
}

// after projects the context behind a cut that covers so many raw tokens with
// so many tokens of new pointers.
func (p *pass) after(raw, pointers int) int {
	block := p.block + pointers
	if p.block == 0 {
		block += window.FrameTokens(1)
	}
	rest := p.a.Tokens - raw - p.block
	if p.recuts(block) {
		block = min(block, p.z.recutTo)
	}
	return rest + block
}

// recuts decides the kind of a cut whose block would take so much.
func (p *pass) recuts(block int) bool {
	return block > p.z.summary || p.a.Tokens > p.z.recutAt || p.shrunk
}

func (p *pass) leafJob(s span) LeafJob {
	entries := p.v.Tail[s.start:s.end]
	j := LeafJob{
		Entries: covered(entries), First: entries[0].N, Last: entries[len(entries)-1].N,
		InputTokens: min(s.input, p.z.LeafInputMax), InputMax: p.z.LeafInputMax, Blocking: p.blocking(),
	}
	seen := map[string]bool{}
	for _, e := range entries {
		for _, id := range e.Files {
			if !seen[id] {
				seen[id] = true
				j.Files = append(j.Files, id)
			}
		}
	}
	j.Target, j.HardCap = p.z.leafBounds(j.InputTokens)
	j.Key = session.LeafKey(j.Entries, PromptVersion, "")
	return j
}

// stall says why nothing can be done. It is recorded once: what is behind the
// active cut and names the same reason stands for it.
func (p *pass) stall(agedTokens int) {
	p.a.Stop = StopNothing
	if p.a.Tokens-agedTokens > p.z.cutTarget {
		p.a.Stop = StopTail
	}
	// In the steady drip the soft threshold is 0 and waiting is no trouble.
	if p.a.Tokens > p.z.Share(p.z.CutTarget) {
		p.record(p.a.Stop, p.z.cutTarget)
	}
}

func (p *pass) record(reason string, target int) {
	if s := p.v.Stall; s != nil && s.Reason == reason {
		return
	}
	p.a.Stall = &events.PassStalled{Reason: reason, Tokens: p.a.Tokens, Target: target, Leaf: p.v.Leaf}
}
