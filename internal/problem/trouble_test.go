package problem

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestTrouble: one line when it begins, one when the last part works again.
func TestTrouble(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var tr Trouble
	tr.Over(log, "a", "works")
	for range 100 {
		tr.Met(log, "a", "broken", errors.New("x"))
		tr.Met(log, "b", "broken", errors.New("x"))
	}
	tr.Over(log, "a", "works")
	if s := out.String(); strings.Count(s, "broken") != 1 || strings.Contains(s, "works") {
		t.Error(s)
	}
	tr.Over(log, "b", "works")
	tr.Over(log, "b", "works")
	tr.Met(log, "a", "broken", errors.New("x"))
	if s := out.String(); strings.Count(s, "broken") != 2 || strings.Count(s, "works") != 1 {
		t.Error(s)
	}
}
