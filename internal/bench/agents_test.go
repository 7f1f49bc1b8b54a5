package bench

import (
	"os"
	"testing"
	"time"
)

// Agents that work at once, with a provider of every mood, meet no error, do
// not wait, and leave no memory behind. LCM_AGENTS_FOR=5m runs it for longer.
func TestAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	o := Options{Duration: 10 * time.Second}
	if s := os.Getenv("LCM_AGENTS_FOR"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		o.Duration = d
	}
	r, err := Run(t.Context(), "agents", o)
	t.Log("\n" + r.Text())
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string]float64{}
	for _, f := range r.More {
		figures[f.Name] = f.Value
	}
	if o.Duration >= time.Minute { // a machine that others use too is slow for seconds
		if r.Ours.Value > agentsLimit {
			t.Errorf("the 99th percentile is %.0f ms, above %d; the disk itself takes %.0f", r.Ours.Value, agentsLimit, r.Raw.Value)
		}
		if was, is := figures["live heap after a quarter"], figures["live heap at the end"]; is > was*agentsGrowth {
			t.Errorf("the heap grew from %.0f to %.0f MB", was, is)
		}
	}
	if n := figures["goroutines at the end"]; n > 2*figures["goroutines after a quarter"] {
		t.Errorf("%.0f goroutines at the end", n)
	}
	if figures["calls of the provider"] == 0 {
		t.Error("nothing was condensed")
	}
	for _, what := range []string{"append", "context", "grep"} {
		if figures[what+" requests"] < agents {
			t.Errorf("%.0f requests of %s", figures[what+" requests"], what)
		}
	}
}
