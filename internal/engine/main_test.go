package engine

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain: the state machine makes much garbage and keeps little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
