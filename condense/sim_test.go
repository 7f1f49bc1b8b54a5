package condense

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// The simulation drives Plan over turn sizes, synthetic and real, with a
// summariser that answers at once: on target, three times as long, or never, so
// that everything is level 3. `make sim` prints
// them (simtable_test.go).

// sim is a session whose view is kept by hand: what the fold would say of it.
type sim struct {
	t     testing.TB
	v     *session.View
	nodes map[string]session.Node
	seq   uint64

	cuts, recuts, stalls                int
	stubs, stubCuts, stubsMost, headers int
	over, blockMost, frontierMost       int
	depth, contextMost                  int
	prompt, kept                        int64 // tokens of all prompts; under an unchanged prefix
	leafInput, nodeInput                int64
	rawSum                              int64
	reasons                             map[string]int
	afterSum                            int64
	overFreed                           int // cuts that freed far more than they had to
	calls                               int // of the summariser
	summaries                           summaries
	last                                int // tokens of the context when it was last counted,
	since                               int // and of the turns since
}

// summaries says how the summariser of a simulation answers.
type summaries string

const (
	onTarget  summaries = "on target"
	threefold summaries = "3 x target"
	level3    summaries = "level 3" // it never answers
)

// tier is what became of a job.
func (k summaries) tier(target, hardCap, input int) events.Tier {
	switch k {
	case threefold:
		return events.Tier{Text: simText, Tokens: max(min(3*target, hardCap, input-1), 1), Level: 1}
	case level3:
		return events.Tier{Text: simText, Tokens: max(min(truncateMax, target, input/2), 1), Level: 3}
	}
	return events.Tier{Text: simText, Tokens: target, Level: 1}
}

func newSim(t testing.TB, s events.Settings) *sim {
	return &sim{t: t, v: &session.View{Settings: s}, nodes: map[string]session.Node{}, reasons: map[string]int{}, summaries: onTarget}
}

// quiet: the context is far below the soft threshold, so that counting it turn
// by turn would only take time. What the layout adds to a turn is within the
// margin.
func (s *sim) quiet(e session.Entry) bool {
	margin := 100 * (1 + len(e.Calls) + len(e.Results))
	s.since += e.Tokens + margin
	n := s.last + e.Tokens
	if s.last == 0 || s.last+s.since > s.v.Settings.Soft() {
		s.last, s.since = 0, 0
		return false
	}
	s.last, s.since = n, s.since-e.Tokens
	s.prompt += int64(n)
	s.kept += int64(n - e.Tokens)
	s.reasons[StopPassive]++
	return true
}

func (s *sim) turn(e session.Entry) {
	s.v.Entries++
	e.N = s.v.Entries
	s.v.Leaf = e.N
	if e.Role.Pinned() && len(s.v.Tail) == 0 && s.v.Cut == nil {
		s.v.Pinned = append(s.v.Pinned, e)
	} else {
		s.v.Tail = append(s.v.Tail, e)
	}
	s.rawSum += int64(e.Tokens)
	if s.quiet(e) {
		return
	}
	prefix := -1
	for i := 0; ; i++ {
		a := Plan(s.v)
		if !a.Due() {
			s.reasons[a.Stop]++
			break
		}
		if i > 2_000 {
			s.t.Fatalf("e%d: the plan does not come to rest: %+v", e.N, a)
		}
		for _, j := range a.Leaves {
			s.leafInput += int64(j.InputTokens)
			s.calls++
			s.commit(session.Node{NodeCommitted: events.NodeCommitted{
				Key: j.Key, First: j.First, Last: j.Last, Entries: j.Entries, InputTokens: j.InputTokens,
				Primary: s.summaries.tier(j.Target, j.HardCap, j.InputTokens),
			}, Covered: j.Entries})
		}
		for _, j := range a.Groups {
			s.nodeInput += int64(j.InputTokens)
			s.calls++
			s.commit(session.Node{NodeCommitted: events.NodeCommitted{
				Key: j.Key, Depth: j.Depth, First: j.First, Last: j.Last, InputTokens: j.InputTokens,
				Primary: s.summaries.tier(j.Target, j.HardCap, j.InputTokens),
			}})
			s.depth = max(s.depth, j.Depth)
		}
		if a.Cut != nil {
			prefix = s.cut(a.Cut)
		}
		if a.Stall != nil {
			s.stalls++
			s.v.Stall = a.Stall
		}
	}
	s.measure(e, prefix)
}

// measure takes one model call: the context of now.
func (s *sim) measure(e session.Entry, prefix int) {
	n := window.ContextTokens(s.v)
	s.last = n
	s.contextMost = max(s.contextMost, n)
	if n > s.v.Settings.Budget() {
		s.over++
	}
	if prefix < 0 {
		prefix = n - e.Tokens
	}
	s.prompt += int64(n)
	s.kept += int64(prefix)
}

var simText = strings.Repeat("what was decided, and why ", 12)

func (s *sim) commit(d session.Node) {
	s.seq++
	d.N = s.seq
	if _, ok := s.nodes[d.Key]; ok {
		s.t.Fatalf("node %s made twice", d.Key)
	}
	s.nodes[d.Key] = d
	s.v.Pending = append(s.v.Pending, d)
}

// needed: a pass covers no more than brings it to its target. Without its last
// leaf the context would be over it; that one may hold a single huge result,
// and then frees far more.
func (s *sim) needed(c *events.CutCommitted) {
	old := 0
	if s.v.Cut != nil {
		old = len(s.v.Cut.Frontier)
	}
	if s.summaries != onTarget || c.Kind != events.CutExtend || len(c.Frontier) == old {
		return
	}
	last := s.nodes[c.Frontier[len(c.Frontier)-1].Key]
	without := c.TokensAfter - window.PointerTokens(last, events.TierPrimary)
	for _, e := range s.v.Tail {
		if e.N >= last.First && e.N <= last.Last {
			without += e.Tokens
		}
	}
	rounding := pointerOverhead * (len(c.Frontier) - old) // headers are shorter than planned for
	if target := sizesOf(s.v.Settings).cutTarget; without+rounding <= target {
		s.t.Errorf("a pass to %d tokens ended at %d, and at %d without its last leaf", target, c.TokensAfter, without)
	}
}

// cut applies a cut and returns the tokens of the context's unchanged prefix.
func (s *sim) cut(c *events.CutCommitted) int {
	s.cuts++
	s.needed(c)
	s.afterSum += int64(c.TokensAfter)
	if c.TokensAfter < s.v.Settings.Share(s.v.Settings.CutTarget)*6/10 {
		s.overFreed++
	}
	if c.Kind == events.CutRecut {
		s.recuts++
	}
	var old []events.Shown
	if s.v.Cut != nil {
		old = s.v.Cut.Frontier
	}
	same := 0
	for same < len(old) && same < len(c.Frontier) && old[same] == c.Frontier[same] {
		same++
	}
	var frontier []session.Node
	stubs := 0
	for _, f := range c.Frontier {
		frontier = append(frontier, s.nodes[f.Key])
		switch f.Tier {
		case events.TierStub:
			stubs++
		case events.TierHeader:
			s.headers++
		}
	}
	s.stubs += stubs
	s.stubsMost = max(s.stubsMost, stubs)
	if stubs > 0 {
		s.stubCuts++
	}
	s.v.Cut = &session.Cut{CutCommitted: *c}
	s.v.Frontier, s.v.Stall, s.v.Kept = frontier, nil, nil
	var tail []session.Entry
	for i, e := range s.v.Tail {
		if e.N == c.Kept {
			s.v.Kept = &s.v.Tail[i]
		}
		if e.N > c.Through {
			tail = append(tail, e)
		}
	}
	s.v.Tail, s.v.Pending = tail, nil
	clear(s.nodes)
	for _, d := range frontier {
		s.nodes[d.Key] = d
	}
	s.blockMost = max(s.blockMost, c.BlockTokens)
	s.frontierMost = max(s.frontierMost, len(frontier))
	pinned := 0
	for _, e := range s.v.Pinned {
		pinned += e.Tokens
	}
	return pinned + window.BlockTokens(frontier[:same], c.Frontier[:same])
}

// BenchmarkPlan plans a session at its soft threshold: the dearest view there
// is between two cuts.
func BenchmarkPlan(b *testing.B) {
	s := newSim(b, events.DefaultSettings())
	r := rand.New(rand.NewPCG(1, 2))
	for i := 0; s.cuts < 9; i++ {
		s.turn(chatty(r, i))
	}
	for i := 0; window.ContextTokens(s.v) <= s.v.Settings.Soft(); i++ {
		e := chatty(r, i)
		s.v.Entries++
		e.N = s.v.Entries
		s.v.Tail = append(s.v.Tail, e)
	}
	b.ReportMetric(float64(len(s.v.Tail)), "tail")
	for b.Loop() {
		if a := Plan(s.v); len(a.Leaves) == 0 {
			b.Fatal("nothing planned")
		}
	}
}
