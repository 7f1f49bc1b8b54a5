package projector_test

import (
	"fmt"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

// TestIndexIsRebuiltBesideTheLiveOne: searches go on and miss nothing while a
// new index is filled, turns that come meanwhile are found afterwards, and
// nothing is left lying about.
func TestIndexIsRebuiltBesideTheLiveOne(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	for i := range 1_500 {
		log.say(rf, events.RoleUser, fmt.Sprintf("needle %d", i))
	}
	f := setup(t, log)
	f.cfg.IndexDocs = 50 // many batches
	f.start()
	f.awaitIndex()
	done := make(chan error, 1)
	go func() {
		_, err := f.Rebuild(within(t), api.RebuildRequest{Index: true})
		done <- err
	}()
	said := 1_500
	for rebuilding := true; rebuilding; {
		select {
		case err := <-done:
			must(t, err)
			rebuilding = false
		default:
		}
		log.say(rf, events.RoleUser, fmt.Sprintf("needle %d", said))
		said++
		r := f.grep(api.GrepRequest{Pattern: "needle", Limit: 1, Token: f.end()})
		if r.Total != said || len(r.NotSearched) > 0 {
			t.Fatalf("%d of %d found, %v", r.Total, said, r.NotSearched)
		}
	}
	f.healthy()
	if r := f.grep(api.GrepRequest{Pattern: "needle", Limit: 1}); r.Total != said {
		t.Errorf("%d of %d found afterwards", r.Total, said)
	}
	must(t, f.halt())
	f.start()
	f.healthy()
}
