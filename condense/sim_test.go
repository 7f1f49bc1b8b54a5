package condense

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// The simulation drives Plan over synthetic turn sizes with a summariser that
// answers at once and exactly on target. DESIGN 6.1 quotes its figures:
//
//	go test ./condense -run TestSim -v
//	LCM_SIM_TURNS=1000000 go test ./condense -run TestSim -v -timeout 60m

// shape of a synthetic session: the next entry, without number.
type shape func(r *rand.Rand, i int) session.Entry

// lognormal sizes with the given mean: most are small, some are large.
func lognormal(r *rand.Rand, mean, sigma float64) int {
	return max(1, int(mean*math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)))
}

func sized(role events.Role, n int) session.Entry {
	return session.Entry{Role: role, Tokens: n + window.MessageTokens, InputTokens: n + lineOverhead}
}

// chatty: user and assistant in turn, about 150 tokens each.
func chatty(r *rand.Rand, i int) session.Entry {
	if i%2 == 0 {
		return sized(events.RoleUser, lognormal(r, 100, 0.8))
	}
	return sized(events.RoleAssistant, lognormal(r, 200, 0.8))
}

// calls alternates calls and results, with a word of the user's now and then.
func calls(callMean, resultMean, sigma float64) shape {
	return func(r *rand.Rand, i int) session.Entry {
		id := strconv.Itoa(i / 2)
		switch {
		case i%40 == 0:
			return sized(events.RoleUser, lognormal(r, 120, 0.8))
		case i%2 == 1:
			e := sized(events.RoleAssistant, lognormal(r, callMean, 0.7))
			e.Calls = []string{id}
			return e
		case i%40 == 39:
			return sized(events.RoleAssistant, lognormal(r, 250, 0.7))
		}
		e := sized(events.RoleTool, lognormal(r, resultMean, sigma))
		e.Results = []string{strconv.Itoa((i - 1) / 2)}
		return e
	}
}

// whole3k: every entry is a tool turn of 3k tokens, call and result in one.
func whole3k(r *rand.Rand, i int) session.Entry {
	if i%40 == 0 {
		return sized(events.RoleUser, lognormal(r, 120, 0.8))
	}
	return sized(events.RoleAssistant, lognormal(r, 3000, 0.5))
}

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
}

func newSim(t testing.TB, s events.Settings) *sim {
	return &sim{t: t, v: &session.View{Settings: s}, nodes: map[string]session.Node{}, reasons: map[string]int{}}
}

func (s *sim) turn(e session.Entry) {
	s.v.Entries++
	e.N = s.v.Entries
	s.v.Leaf = e.N
	if e.Role.Pinned() {
		s.v.Pinned = append(s.v.Pinned, e)
	} else {
		s.v.Tail = append(s.v.Tail, e)
	}
	s.rawSum += int64(e.Tokens)
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
			s.commit(session.Node{NodeCommitted: events.NodeCommitted{
				Key: j.Key, First: j.First, Last: j.Last, Entries: j.Entries, InputTokens: j.InputTokens,
				Primary: events.Tier{Text: simText, Tokens: j.Target, Level: 1},
			}, Covered: j.Entries})
		}
		for _, j := range a.Groups {
			s.nodeInput += int64(j.InputTokens)
			s.commit(session.Node{NodeCommitted: events.NodeCommitted{
				Key: j.Key, Depth: j.Depth, First: j.First, Last: j.Last, InputTokens: j.InputTokens,
				Primary: events.Tier{Text: simText, Tokens: j.Target, Level: 1},
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

// cut applies a cut and returns the tokens of the context's unchanged prefix.
func (s *sim) cut(c *events.CutCommitted) int {
	s.cuts++
	s.afterSum += int64(c.TokensAfter)
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

func simTurns() int {
	if n, err := strconv.Atoi(os.Getenv("LCM_SIM_TURNS")); err == nil {
		return n
	}
	return 20_000
}

func TestSim(t *testing.T) {
	turns := simTurns()
	if testing.Short() {
		turns = 2_000
	}
	for _, c := range []struct {
		name             string
		window, overhead int
		next             shape
		// what DESIGN 6.1 claims: cuts per 1,000 turns at most, prefix at least
		cuts, prefix float64
		drip         bool
	}{
		{"chatty 200k", 200_000, 10_000, chatty, 3, 99.5, false},
		{"tools 200k", 200_000, 10_000, calls(200, 2_800, 0.6), 25, 95, false},
		{"3k turns 200k", 200_000, 10_000, whole3k, 55, 92, false},
		{"coding 200k", 200_000, 10_000, calls(160, 460, 1.3), 5, 98.8, false},
		{"chatty 32k", 32_000, 0, chatty, 19, 97, false},
		{"tools 32k", 32_000, 0, calls(200, 2_800, 0.6), 150, 84, false},
		{"coding 32k", 32_000, 0, calls(160, 460, 1.3), 35, 95, false},
		{"coding 16k", 16_000, 0, calls(160, 460, 1.3), 75, 92, false},
		{"drip 200k", 200_000, 10_000, chatty, 100, 80, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := events.DefaultSettings()
			st.Window, st.Overhead = c.window, c.overhead
			if c.drip {
				st.ContextThreshold, st.MinCut = 0, 0
			}
			s := newSim(t, st)
			r := rand.New(rand.NewPCG(1, 2))
			s.turn(sized(events.RoleSystem, 400))
			for i := range turns {
				s.turn(c.next(r, i))
			}
			per := float64(s.cuts) * 1000 / float64(turns)
			prefix := 100 * float64(s.kept) / float64(s.prompt)
			t.Log(s.report(turns))
			if s.over > 0 {
				t.Errorf("%d contexts over B", s.over)
			}
			if turns >= 20_000 && (per > c.cuts || prefix < c.prefix) {
				t.Errorf("cuts %.1f per 1,000 (at most %.1f wanted), prefix %.2f %% (at least %.1f wanted)", per, c.cuts, prefix, c.prefix)
			}
		})
	}
}

func (s *sim) report(turns int) string {
	b := float64(s.v.Settings.Budget())
	pct := func(n int) float64 { return 100 * float64(n) / b }
	return fmt.Sprintf("%.1f cuts/1k (%d%% recut), prefix %.2f%%, block ≤ %.1f%% B, ≤ %d nodes, depth %d, stubs %d in %d cuts (≤ %d), headers %d, context ≤ %.1f%% B, after a cut %.1f%%, over B %d, condensing/leaf input %.1f%%, leaf/raw %.0f%%, stalls %d, stops %v",
		float64(s.cuts)*1000/float64(turns), 100*s.recuts/max(s.cuts, 1), 100*float64(s.kept)/float64(s.prompt),
		pct(s.blockMost), s.frontierMost, s.depth, s.stubs, s.stubCuts, s.stubsMost, s.headers, pct(s.contextMost),
		100*float64(s.afterSum)/float64(max(s.cuts, 1))/b, s.over,
		100*float64(s.nodeInput)/float64(max(s.leafInput, 1)), 100*float64(s.leafInput)/float64(s.rawSum), s.stalls, s.reasons)
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
