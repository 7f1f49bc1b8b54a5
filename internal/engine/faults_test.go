package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/condense"
	"lcm/events"
	"lcm/window"
)

// faults are kinds of faults that peers of this system were reported to have, of
// identity and order (1 to 12), condensing and the context (13 to 32), and of
// starting (42), each with the tests that hold it: directory and name.
var faults = map[int]struct {
	kind  string
	tests []string
}{
	1:  {"one turn over two paths, with other metadata", []string{"internal/ingest.TestMetadataDoesNotMakeAnotherTurn", "internal/ingest.TestTwoIngestors"}},
	2:  {"a batch delivered twice, overlapping", []string{"internal/ingest.TestOverlappingBatches", "internal/ingest.TestAppendsAreNeitherLostNorDoubled"}},
	3:  {"fifty equal turns with ids of their own", []string{"internal/ingest.TestEqualTextIsNotAnEqualTurn"}},
	4:  {"a call id used again", []string{"internal/ingest.TestCallIDs"}},
	5:  {"a result before its call", []string{"internal/ingest.TestCallIDs"}},
	6:  {"a checkpoint lost, a projection deleted", []string{"internal/projector.TestStoreDeleted", "internal/projector.TestIndexDeletedAndDamaged", "internal/ingest.TestImportSidechainsAndSkips"}},
	7:  {"a handler that fails in the middle of a batch", []string{"natslog.TestFollowGoesOnAtAFailure", "internal/projector.TestDiesBetweenStoreAndIndex"}},
	8:  {"old turns imported", []string{"internal/ingest.TestOldTurnsKeepTheirTime"}},
	9:  {"a foreign compaction beside its originals", []string{"internal/ingest.TestForeignCompactionIsAFact"}},
	10: {"telemetry in a transcript", []string{"internal/ingest.TestImportSidechainsAndSkips", "transcript.TestFixtures"}},
	11: {"an old message edited at the source", []string{"internal/ingest.TestImportSidechainsAndSkips"}},
	12: {"prose with markers of our own", []string{"window.TestFrameHolds", "cmd/lcm.TestHostileTurnsAreData"}},
	13: {"a crash between a summary's commit and the swap", []string{"internal/condenser.TestDiesAtEveryStep", "internal/engine.TestEngine"}},
	14: {"a summary of 95 % of its input, or more than it", []string{"condense.TestGateIsTheInput", "condense.TestLadder", "internal/condenser.TestBadSummarisers", "internal/engine.TestEngine"}},
	15: {"an empty, thinking-only, unclosed or cut-off answer", []string{"condense.TestLadder", "condense.TestCleaned", "internal/condenser.TestBadSummarisers"}},
	16: {"a provider's error as a summary", []string{"condense.TestCleaned", "internal/condenser.TestBadSummarisers", "internal/condenser.TestOutage", "llm.TestFailures"}},
	17: {"a fresh tail that is over the target alone", []string{"internal/condenser.TestTailOverTargetIsReportedOnce", "internal/engine.TestStallIsRecordedOnce"}},
	18: {"nothing eligible", []string{"internal/engine.TestNothingEligible", "internal/condenser.TestPassiveSessionCallsNobody"}},
	19: {"a burst of small turns", []string{"internal/engine.TestBurstOfSmallTurns", "condense.TestSim", "window.TestContextsExtend", "internal/engine.TestTooSmallAPassWaits"}},
	20: {"a pass that makes little progress", []string{"internal/condenser.TestPassLimit", "internal/condenser.TestRejectedNodesStopThePass", "internal/engine.TestEngine"}},
	21: {"tiny chunks", []string{"internal/engine.TestTinyChunksStayRaw", "internal/engine.TestUnfinishedChunkStaysRaw", "internal/engine.TestTooSmallAPassWaits", "condense.TestChunks"}},
	22: {"a chunk boundary between a call and its result", []string{"condense.TestChunks", "internal/engine.TestEngine"}},
	23: {"level 3 on emoji, combining marks, CJK", []string{"condense.TestTruncate", "tokens.TestCutRandom"}},
	24: {"level-3 nodes after an outage", []string{"internal/engine.TestOutageAndRepair", "internal/condenser.TestOutage", "internal/engine.TestEngine"}},
	25: {"a tool result that quotes instructions", []string{"extract.TestToolsNeverInstruct", "condense.TestLinesOf", "condense.TestRecordCannotBeForged"}},
	26: {"work paid for and then interrupted", []string{"internal/condenser.TestCancelKeepsWhatIsPaidFor", "internal/condenser.TestAPaidAnswerIsNotThrownAway", "internal/condenser.TestAFailureKeepsWhatIsInHand"}},
	27: {"contexts that a provider refuses", []string{"window.TestAnySession", "transcript.TestWhatEncodeWritesPassesCheck", "transcript.TestAnthropicStartsWithAUser", "internal/engine.TestEngine"}},
	28: {"parallel tool calls", []string{"window.TestLayout", "transcript.TestCallsKeepTheirResults"}},
	29: {"vendor fields", []string{"transcript.TestVendorFieldsComeBackUnchanged", "transcript.TestThinkingIsSignedOrAbsent"}},
	30: {"images and base64", []string{"window.TestImagesReachTheModel", "window.TestTurnTokens", "window.TestUnknownBlocksWithPayload"}},
	31: {"an estimate that is not what is rendered", []string{"window.TestAnySession", "tokens.TestOracle", "tokens.TestReference", "internal/engine.TestEngine"}},
	32: {"a missing window or budget", []string{"condense.TestNotConfigured", "window.TestBudgetTooSmall", "internal/config.TestLoadRefuses", "internal/engine.TestNoWindowIsAnError"}},
	42: {"eight processes on a fresh directory", []string{"cmd/lcm.TestEightStartAtOnce"}},
}

// TestEveryFaultHasItsTest fails where a test that the table names is gone.
func TestEveryFaultHasItsTest(t *testing.T) {
	for n := 1; n <= 42; n++ {
		if n > 32 && n < 42 {
			continue // of search and operations: beside what they test
		}
		if len(faults[n].tests) == 0 {
			t.Errorf("no test holds fault %d", n)
		}
		for _, name := range faults[n].tests {
			i := strings.LastIndexByte(name, '.')
			if !declared(t, filepath.Join("..", "..", filepath.FromSlash(name[:i])), name[i+1:]) {
				t.Errorf("fault %d (%s): there is no test %s", n, faults[n].kind, name)
			}
		}
	}
}

func declared(t *testing.T, dir, test string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(src, []byte("\nfunc "+test+"(")) {
			return true
		}
	}
	return false
}

func small() events.Settings {
	s := events.DefaultSettings()
	s.Window = 16_000
	return s
}

func say(w *world, role events.Role, n int) {
	w.turn(&events.TurnAppended{Role: role, Text: words(n)})
}

// silent fails the test when a summariser is called.
func silent(t *testing.T) condense.Ladder {
	return condense.Ladder{Summarizer: answer(func(r condense.Request) string {
		t.Errorf("a summariser was called for %d lines", len(r.Lines))
		return "x"
	})}
}

// Fault 18: a session over its threshold of which nothing may condense says so
// at once, and says it once.
func TestNothingEligible(t *testing.T) {
	w := newWorld(t, small())
	say(w, events.RoleSystem, 9_500) // pinned: never condensed
	say(w, events.RoleUser, 10)
	for range 3 {
		a := w.rest(silent(t), 0)
		if a.Stop != condense.StopTail || a.Due() {
			t.Fatalf("%+v", a)
		}
	}
	stalls := 0
	for _, rec := range w.log {
		if env, err := rec.Envelope(); err == nil && env.Type == events.TypePassStalled {
			stalls++
		}
	}
	if stalls != 1 || w.view().Cut != nil {
		t.Errorf("%d stalls recorded, cut %v", stalls, w.view().Cut)
	}
}

// Fault 19: a burst of small turns does not cost a summary a turn; between cuts
// the context only grows.
func TestBurstOfSmallTurns(t *testing.T) {
	w := newWorld(t, small())
	c := newChecker(w, func(n int) int { return n / 2 })
	cuts, calls := 0, 0
	l := condense.Ladder{Summarizer: answer(func(r condense.Request) string {
		calls++
		return "they talked"
	})}
	turns := 1_500
	if testing.Short() {
		turns = 700
	}
	for i := range turns {
		say(w, []events.Role{events.RoleUser, events.RoleAssistant}[i%2], 20)
		w.rest(l, 0)
		if i%10 == 0 {
			c.run()
		}
	}
	cuts = int(w.fold.Head().Cuts)
	if cuts > turns/100 || calls > turns/20 || cuts == 0 {
		t.Errorf("%d cuts and %d calls for %d turns", cuts, calls, turns)
	}
}

// Fault 21: what is too little for a chunk stays raw, and no model is called.
func TestTinyChunksStayRaw(t *testing.T) {
	s := small()
	s.FreshTailCount = 4
	w := newWorld(t, s)
	say(w, events.RoleSystem, 7_000)
	for range 4 {
		say(w, events.RoleUser, 50) // aged, and far below a quarter of a chunk
	}
	for range 4 {
		say(w, events.RoleUser, 600)
	}
	v := w.view()
	if n := window.ContextTokens(v); n <= v.Settings.Soft() || n > v.Settings.Budget() {
		t.Fatalf("%d tokens are not between soft and B", n)
	}
	if a := w.rest(silent(t), 0); w.fold.Head().Nodes != 0 || a.Stop == "" {
		t.Errorf("%+v", a)
	}
}

// Fault 32: no window is an error, never "silently off".
func TestNoWindowIsAnError(t *testing.T) {
	for name, spoil := range map[string]func(*events.Settings){
		"no window":       func(s *events.Settings) { s.Window = 0 },
		"negative":        func(s *events.Settings) { s.Window = -1 },
		"nothing left":    func(s *events.Settings) { s.Overhead = s.Window },
		"capped to death": func(s *events.Settings) { s.MaxContextTokens = 100 },
		"no factor":       func(s *events.Settings) { s.TokenFactor = 1_000 },
	} {
		s := events.DefaultSettings()
		spoil(&s)
		if s.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
		w := newWorld(t, small())
		if _, reason := w.try(&events.SessionConfigured{Settings: s}); reason == "" {
			t.Errorf("%s: the fold accepted it", name)
		}
		if w.view().Settings.Window != 16_000 {
			t.Errorf("%s: the session's settings changed", name)
		}
	}
}
