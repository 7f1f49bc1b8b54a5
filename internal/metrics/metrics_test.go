package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func scrape(t *testing.T, m *Set) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.String()
}

func TestCounts(t *testing.T) {
	m := New("1.2.3")
	r := api.AppendRequest{Writes: []api.Write{
		{Turn: &api.Turn{Turn: events.TurnAppended{Role: "user"}}},
		{Turn: &api.Turn{Turn: events.TurnAppended{Role: "tool"}}},
		{Turn: &api.Turn{Turn: events.TurnAppended{Role: "user"}}},
		{MoveTo: "x"},
	}}
	m.Appended(r, &api.AppendReply{Written: []api.Written{{}, {Duplicate: true}, {Error: "no", Code: "conflict"}, {}}}, nil, time.Second)
	m.Appended(r, nil, problem.New(problem.Unavailable, "gone"), time.Second)
	m.Committed(7, 2)
	m.Task(api.TaskResult{Retry: 1})
	m.Derived(&events.NodeCommitted{Depth: 1, InputTokens: 100, Primary: events.Tier{Tokens: 10, Level: 3}})
	m.Derived(&events.CutCommitted{Kind: events.CutRecut})
	m.Context(&api.ContextOut{Tokens: 900, Degraded: true, PrefixChange: "x"}, time.Second)
	m.Called("grep", errors.New("boom"), time.Second)
	m.Model("openai", "m", 429, 5, -1)
	m.Called("show", nil, time.Second)
	m.Called("expand", problem.New(problem.Forbidden, "no"), time.Second)
	m.MapRow("llm_map", "done")
	m.MapRow("agentic_map", "turns")
	m.WatchMaps(func() map[string]int { return map[string]int{"running": 2, "paused": 1} }, nil)
	m.WatchMaps(nil, func() (int, int) { return 3, 40 })
	got := scrape(t, m)
	for _, want := range []string{
		`lcm_turns_appended_total{role="user"} 1`, `lcm_turns_rejected_total{reason="conflict"} 1`, `lcm_turns_rejected_total{reason="unavailable"} 3`,
		`lcm_append_duration_seconds_count 2`, `lcm_append_batch_events_sum 7`, `lcm_append_conflicts_total 2`, `lcm_tasks_total{outcome="retry"} 1`,
		`lcm_nodes_total{depth="1",level="3"} 1`, `lcm_summary_ratio_sum 0.1`, `lcm_cuts_total{kind="recut"} 1`,
		`lcm_context_duration_seconds_count 1`, `lcm_context_tokens_sum{kind="all"} 900`, `lcm_context_degraded_total 1`, `lcm_prefix_changes_total{reason="degraded"} 1`,
		`lcm_tool_calls_total{outcome="internal",tool="grep"} 1`, `lcm_tool_duration_seconds_count{tool="grep"} 1`,
		`lcm_llm_requests_total{code="429",model="m",provider="openai"} 1`, `lcm_llm_tokens_total{direction="input"} 5`, `lcm_llm_tokens_total{direction="output"} 0`,
		`lcm_grant_refusals_total{reason="forbidden"} 1`, `lcm_map_rows_total{kind="llm_map",outcome="done"} 1`, `lcm_map_rows_total{kind="agentic_map",outcome="turns"} 1`,
		`lcm_map_jobs{state="running"} 2`, `lcm_map_jobs{state="paused"} 1`, `lcm_map_worker_jobs 3`, `lcm_map_worker_rows 40`, `lcm_build_info{version="1.2.3"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}
