package engine

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// failures are what may die or lie, each with the tests in which it does before
// its effect, and in which it does after it: directory and name.
var failures = []struct {
	what          string
	before, after []string
}{
	{
		"the ingestor, around an append, before its message of the inbox is acknowledged",
		[]string{"internal/ingest.TestHandleInbox", "natslog.TestInbox"},
		[]string{"internal/ingest.TestInboxEndToEnd", "cmd/lcm.TestKillUnderLoad"},
	},
	{
		"a publisher that times out and sends again",
		[]string{"internal/ingest.TestFaultTable"},
		[]string{"internal/ingest.TestFaultTable", "natslog.TestCommitOutcomes"},
	},
	{
		"two ingestors that append to one session",
		[]string{"internal/ingest.TestTwoIngestors"},
		[]string{"internal/ingest.TestAppendsAreNeitherLostNorDoubled", "natslog.TestCommitConflict"},
	},
	{
		"a task while its predecessor is acknowledged",
		[]string{"natslog.TestTasks"},
		[]string{"natslog.TestTaskRetriesAndLongWork", "internal/projector.TestDispatch"},
	},
	{
		"a branch that moves while a cut is made",
		[]string{"session.TestBranchesCutsAndReturn"},
		[]string{"internal/engine.TestEngine"},
	},
	{
		"a condenser, around the model's answer and the commit",
		[]string{"internal/condenser.TestDiesAtEveryStep"},
		[]string{"internal/condenser.TestDiesAtEveryStep", "internal/condenser.TestAPaidAnswerIsNotThrownAway"},
	},
	{
		"two condensers on one session",
		[]string{"internal/condenser.TestTwoCondensersMakeOneNodePerKey"},
		[]string{"internal/condenser.TestConflictThatIsNeverShownIsStale"},
	},
	{
		"the projector, around its rows and its index",
		[]string{"internal/projector.TestIndexFails"},
		[]string{"internal/projector.TestDiesBetweenStoreAndIndex"},
	},
	{
		"rows or index deleted, torn, flipped: before they are opened, and under the service",
		[]string{"cmd/lcm.TestDamage", "boltstore.TestEveryBitOfAClosedStore", "internal/projector.TestStoreDeleted", "internal/projector.TestStoreTornWhileStopped"},
		[]string{"internal/projector.TestFlippedRow", "internal/projector.TestIndexDeletedAndDamaged", "boltstore.TestFlippedBitsAfterACrash", "bleveindex.TestDirectoryRemovedWhileOpen"},
	},
	{
		"a bit of the log, before it is projected, and after it",
		[]string{"internal/verify.TestMissingPositionsAreNamed", "internal/projector.TestGapStopsEverything"},
		[]string{"cmd/lcm.TestDamage", "cmd/lcm.TestRepair", "internal/projector.TestBodyChangedInTheLog"},
	},
	{
		"the whole log, or a part of it, missing or another one",
		[]string{"cmd/lcm.TestNeverMakeItWorse"},
		[]string{"natslog.TestFollowRefuses", "internal/projector.TestRefusesAnotherLog"},
	},
	{
		"an event that cannot be recovered from anything",
		[]string{"internal/backup.TestLoseAnyEvent"},
		[]string{"cmd/lcm.TestRestoreWithALostPosition", "cmd/lcm.TestRepairOfWhatNeitherHas"},
	},
	{
		"a repair, before the logs change places, and while they do",
		[]string{"cmd/lcm.TestRepairKilled"},
		[]string{"internal/node.TestSwapInterrupted"},
	},
	{
		"a client that stores forged events",
		[]string{"cmd/lcm.TestForgedEvents"},
		[]string{"session.TestInvalidEventsDoNotAdvanceTheChain", "internal/verify.TestJudgesAsTheFold"},
	},
	{
		"room on the disk of the log, or of the projections",
		[]string{"internal/projector.TestDoctorSeesAStandstill"},
		[]string{"cmd/lcm.TestFullDisk"},
	},
	{
		"everything, by kill -9 under load",
		[]string{"cmd/lcm.TestKillUnderLoad"},
		[]string{"cmd/lcm.TestKillUnderLoad"},
	},
	{
		"a model provider, for an hour",
		[]string{"internal/condenser.TestOutage"},
		[]string{"internal/engine.TestOutageAndRepair"},
	},
}

// operations are the kinds 41 to 45 of faults that peers of this system were
// reported to have.
var operations = map[int]struct {
	kind  string
	tests []string
}{
	41: {"index or store files damaged while stopped", []string{"cmd/lcm.TestDamage", "boltstore.TestEveryBitOfAClosedStore", "internal/projector.TestIndexDeletedAndDamaged", "bleveindex.TestFlippedByteInASegment"}},
	42: {"eight processes start at once", []string{"cmd/lcm.TestEightStartAtOnce"}},
	43: {"a newer store opened by an older build", []string{"cmd/lcm.TestNewerStoreIsRefused", "boltstore.TestNewerSchemaIsRefused"}},
	44: {"a check of everything at every start", []string{"internal/projector.TestStartChecksNothingWhole", "boltstore.TestCompareBesideReads", "internal/scrub.TestWalks"}},
	45: {"a doctor that is green while ingestion stands still", []string{"internal/projector.TestDoctorSeesAStandstill", "cmd/lcm.TestFullDisk"}},
}

// TestEveryFailureHasItsTests fails where a test that a table names is gone.
func TestEveryFailureHasItsTests(t *testing.T) {
	named := func(what, test string) {
		t.Helper()
		i := strings.LastIndexByte(test, '.')
		if !declared(t, filepath.Join("..", "..", filepath.FromSlash(test[:i])), test[i+1:]) {
			t.Errorf("%s: there is no test %s", what, test)
		}
	}
	for _, f := range failures {
		if len(f.before) == 0 || len(f.after) == 0 {
			t.Errorf("%s: no test before its effect, or none after it", f.what)
		}
		for _, test := range slices.Concat(f.before, f.after) {
			named(f.what, test)
		}
	}
	for n := 41; n <= 45; n++ {
		if len(operations[n].tests) == 0 {
			t.Errorf("no test holds fault %d", n)
		}
		for _, test := range operations[n].tests {
			named(operations[n].kind, test)
		}
	}
}
