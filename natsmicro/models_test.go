package natsmicro

import (
	"testing"

	"lcm/internal/api"
)

func TestGatherModels(t *testing.T) {
	dial := connect(t)
	asking := dial()
	if got := GatherModels(t.Context(), asking); got == nil || len(got) != 0 {
		t.Errorf("nobody: %+v", got)
	}
	for _, name := range []string{"a", "b"} {
		nc := dial()
		sub, err := ServeModels(nc, func() api.ModelProcess {
			return api.ModelProcess{Process: name, Models: []api.ModelState{{Model: "m", Breaker: "quota"}}}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	got := GatherModels(t.Context(), asking)
	if len(got) != 2 || got[0].Process == got[1].Process || got[0].Models[0].Breaker != "quota" {
		t.Errorf("%+v", got)
	}
}
