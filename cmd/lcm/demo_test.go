package main

import (
	"strings"
	"testing"

	"lcm/internal/demo"
)

func demoSession() []byte { return demo.Bundled() }

func TestDemo(t *testing.T) {
	out := ok(t, t.TempDir(), "demo")
	for _, says := range []string{"0 appended", "depth 1", "abandoned branch", "file:", "byte for byte", "They are the same"} {
		if !strings.Contains(out, says) {
			t.Errorf("the demo does not say %q:\n%s", says, out)
		}
	}
}

// The demo takes the reader's own transcript, of every format.
func TestDemoOnRealTranscripts(t *testing.T) {
	for _, file := range []string{"openai__taubench_airline_gpt4o_subset.jsonl", "codex__rollout_sample.jsonl", "minisweagent__github_issue.traj.json"} {
		out := ok(t, t.TempDir(), "demo", shared(t, "transcripts", file))
		if !strings.Contains(out, "They are the same") {
			t.Errorf("%s: %s", file, out)
		}
	}
}
