package ingest

import (
	"context"
	"testing"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// A session that is configured with a model gets what is configured for that
// model, once; what the caller names counts above it, and so does what was
// changed since.
func TestModelDefaults(t *testing.T) {
	w := start(t)
	w.open(t, Config{Models: map[string]map[string]any{"large": {"window": 1_000_000, "max_context_tokens": 200_000, "overhead": 6_000}}})
	conf := func(set map[string]any) *api.ConfigureReply {
		t.Helper()
		r, err := w.svc.Configure(context.Background(), api.ConfigureRequest{Ref: ref("s"), Set: set})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.append(t, "s", said("a", "a"))
	if s := conf(map[string]any{"model": "large", "overhead": 300_000}).Settings; s.Window != 1_000_000 || s.Overhead != 300_000 || s.Budget() != 200_000 || s.Model != "large" {
		t.Errorf("%+v", s)
	}
	if s := conf(map[string]any{"window": 500_000.0}).Settings; s.Window != 500_000 {
		t.Errorf("%+v", s)
	}
	if s := conf(map[string]any{"model": "large"}).Settings; s.Window != 500_000 {
		t.Errorf("the same model again undoes a change: %+v", s)
	}
	if s := conf(map[string]any{"model": "unknown"}).Settings; s.Window != 500_000 || s.Model != "unknown" {
		t.Errorf("a model nobody configured: %+v", s)
	}
	if h := w.head(t, "s"); h.Settings.Model != "unknown" || h.Settings.Overhead != 300_000 {
		t.Errorf("written: %+v", h.Settings)
	}
}

// What the model reports moves B, by an event where it moves it much.
func TestReportedUsage(t *testing.T) {
	w := start(t)
	report := func(counted, reported int) (*api.ConfigureReply, error) {
		return w.svc.Configure(context.Background(), api.ConfigureRequest{Ref: ref("s"), Usage: &api.Usage{Counted: counted, Reported: reported}})
	}
	w.append(t, "s", said("a", "a"))
	before := w.head(t, "s")
	for _, step := range []struct {
		counted, reported int
		factor            float64
	}{{10_000, 10_100, 0}, {10_000, 12_000, 1.2}, {10_000, 12_050, 1.2}, {10_000, 15_000, 1.26}, {10_000, 90_000, 2.81}} {
		r, err := report(step.counted, step.reported)
		if err != nil || r.Settings.TokenFactor != step.factor {
			t.Fatalf("%+v: %+v, %v", step, r, err)
		}
	}
	h := w.head(t, "s")
	if b := h.Settings.Budget(); b != int(float64(before.Settings.Budget())/2.81) {
		t.Errorf("B is %d", b)
	}
	if n := h.Timeline.Version - before.Timeline.Version; n != 3 {
		t.Errorf("%d events for three changes", n)
	}
	if _, err := report(0, 5); !problem.IsCode(err, problem.Invalid) {
		t.Error(err)
	}
}
