package toolsvc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// TestNewestFiles: a session's files are those of its tail, then those its
// summaries cover, each once.
func TestNewestFiles(t *testing.T) {
	v := &session.View{
		Frontier: []session.Node{{NodeCommitted: events.NodeCommitted{Files: []string{"a", "b"}}}, {NodeCommitted: events.NodeCommitted{Files: []string{"c"}}}},
		Kept:     &session.Entry{Files: []string{"a"}},
		Tail:     []session.Entry{{Files: []string{"d"}}, {}, {Files: []string{"b", "e"}}},
	}
	if diff := cmp.Diff([]string{"e", "b", "d", "a", "c"}, newestFiles(v)); diff != "" {
		t.Error(diff)
	}
}

// TestLargeInlineIsShown: a turn says that it holds a large body without a path.
func TestLargeInlineIsShown(t *testing.T) {
	for _, large := range []bool{true, false} {
		made, err := events.MakeTurn(&events.TurnAppended{ID: "t", Role: events.RoleTool, Text: "body", LargeInline: large})
		if err != nil {
			t.Fatal(err)
		}
		out, err := turnOut(api.StoredTurn{Payload: made.Payload(0, 0)}, false)
		if err != nil || out.LargeInline != large {
			t.Errorf("%v is shown as %v, %v", large, out.LargeInline, err)
		}
	}
}
