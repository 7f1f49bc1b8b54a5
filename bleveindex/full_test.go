package bleveindex

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// TestFullDiskIsNoDamage: an index whose disk took no more still answers, is not
// to be thrown away, and takes documents again once it is opened anew.
func TestFullDiskIsNoDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "index")
	x, err := Open(dir, Options{Epoch: "E"})
	if err != nil {
		t.Fatal(err)
	}
	doc := func(seq uint64) []Doc {
		return []Doc{{Seq: seq, Kind: api.KindTurn, Ref: events.Ref{Tenant: "t", Session: "s"}, Depth: api.NoDepth, Text: "needle"}}
	}
	if err := x.Apply(doc(1), 1); err != nil {
		t.Fatal(err)
	}
	x.fail(fmt.Errorf("persist err: %v", syscall.ENOSPC)) // as Bleve says it
	err = x.Apply(doc(2), 2)
	if !errors.Is(err, api.ErrReopen) || problem.IsCode(err, problem.Damaged) {
		t.Errorf("with room on the disk: %v", err)
	}
	hits, err := x.Search(t.Context(), api.IndexQuery{Text: "needle", Tenant: "t", Limit: 5})
	if err != nil || len(hits.Hits) != 1 {
		t.Errorf("a search: %+v, %v", hits, err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if x, err = Open(dir, Options{Epoch: "E"}); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if upto, _ := x.Checkpoint(); upto != 1 {
		t.Errorf("position %d", upto)
	}
	if err := x.Apply(doc(2), 2); err != nil {
		t.Error(err)
	}
}
