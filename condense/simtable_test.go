package condense

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"lcm/events"
)

// simTurns is how long a simulated session is.
func simTurns() int {
	if n, err := strconv.Atoi(os.Getenv("SIM_TURNS")); err == nil {
		return n
	}
	if testing.Short() {
		return 2_000
	}
	return 20_000
}

// simCase is one line of the table.
type simCase struct {
	name             string
	window, overhead int
	next             shape
	// What is claimed: cuts per 1,000 turns at most, prefix at least;
	// 0 = it claims nothing.
	cuts, prefix float64
	drip         bool
	summaries    summaries
}

// claimed are the sessions whose figures are claimed.
var claimed = []simCase{
	{name: "chatty 200k", window: 200_000, overhead: 10_000, next: chatty, cuts: 3, prefix: 99.5},
	{name: "tools 200k", window: 200_000, overhead: 10_000, next: calls(200, 2_800, 0.6), cuts: 25, prefix: 95},
	{name: "3k turns 200k", window: 200_000, overhead: 10_000, next: whole3k, cuts: 55, prefix: 92},
	{name: "coding 200k", window: 200_000, overhead: 10_000, next: calls(160, 460, 1.3), cuts: 5, prefix: 98.8},
	{name: "chatty 32k", window: 32_000, next: chatty, cuts: 19, prefix: 97},
	{name: "tools 32k", window: 32_000, next: calls(200, 2_800, 0.6), cuts: 150, prefix: 84},
	{name: "coding 32k", window: 32_000, next: calls(160, 460, 1.3), cuts: 35, prefix: 95},
	{name: "coding 16k", window: 16_000, next: calls(160, 460, 1.3), cuts: 75, prefix: 92},
	{name: "drip 200k", window: 200_000, overhead: 10_000, next: chatty, cuts: 100, prefix: 80, drip: true},
}

// everywhere is every window with every kind of session and summary.
func everywhere(t *testing.T) []simCase {
	shapes := []struct {
		name string
		next shape
	}{{"chatty", chatty}, {"tools", calls(200, 2_800, 0.6)}, {"huge", huge}, {"real", real(t)}}
	var out []simCase
	for _, w := range []int{32_000, 200_000, 1_000_000} {
		for _, s := range shapes {
			for _, k := range []summaries{onTarget, threefold, level3} {
				if s.next == nil {
					t.Log("no shared transcripts: real turn sizes are left out (set LCM_SHARED)")
					continue
				}
				out = append(out, simCase{name: fmt.Sprintf("%s %dk, %s", s.name, w/1000, k), window: w, overhead: w / 20, next: s.next, summaries: k})
			}
		}
	}
	return out
}

// TestSim holds the planner to its figures. `make sim` prints its table.
func TestSim(t *testing.T) {
	turns := simTurns()
	cases := append(everywhere(t), claimed...)
	rows := make([]string, len(cases))
	t.Run("cases", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = c.run(t, turns)
			})
		}
	})
	if os.Getenv("SIM_TURNS") == "" {
		return
	}
	fmt.Printf("\n%d turns\n%-30s %8s %7s %8s %9s %9s %9s %7s %6s %6s %8s %7s %7s\n", turns, "session", "cuts/1k", "recut",
		"prefix", "calls/1k", "leaf/raw", "cond/leaf", "block", "nodes", "depth", "stubs", "after", "over B")
	for _, row := range rows {
		fmt.Println(row)
	}
}

func (c simCase) run(t *testing.T, turns int) string {
	st := events.DefaultSettings()
	st.Window, st.Overhead = c.window, c.overhead
	if c.drip {
		st.ContextThreshold, st.MinCut = 0, 0
	}
	s := newSim(t, st)
	if c.summaries != "" {
		s.summaries = c.summaries
	}
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
	if turns >= 20_000 && c.cuts > 0 && (per > c.cuts || prefix < c.prefix) {
		t.Errorf("cuts %.1f per 1,000 (at most %.1f wanted), prefix %.2f %% (at least %.1f wanted)", per, c.cuts, prefix, c.prefix)
	}
	return s.row(c.name, turns)
}

func (s *sim) row(name string, turns int) string {
	b := float64(s.v.Settings.Budget())
	share := func(a, of int64) float64 { return 100 * float64(a) / float64(max(of, 1)) }
	return fmt.Sprintf("%-30s %8.1f %6d%% %7.2f%% %9.1f %8.0f%% %8.1f%% %6.1f%% %6d %6d %8d %6.1f%% %7d", name,
		float64(s.cuts)*1000/float64(turns), 100*s.recuts/max(s.cuts, 1), share(s.kept, s.prompt), float64(s.calls)*1000/float64(turns),
		share(s.leafInput, s.rawSum), share(s.nodeInput, s.leafInput), 100*float64(s.blockMost)/b, s.frontierMost, s.depth,
		s.stubs, 100*float64(s.afterSum)/float64(max(s.cuts, 1))/b, s.over)
}

func (s *sim) report(turns int) string {
	b := float64(s.v.Settings.Budget())
	pct := func(n int) float64 { return 100 * float64(n) / b }
	return fmt.Sprintf("%s; stubs in %d cuts (≤ %d), headers %d, context ≤ %.1f%% B, freed far too much %d of %d, stalls %d, stops %v", s.row("", turns),
		s.stubCuts, s.stubsMost, s.headers, pct(s.contextMost), s.overFreed, s.cuts, s.stalls, s.reasons)
}
