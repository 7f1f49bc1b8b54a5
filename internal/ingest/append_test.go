package ingest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(seq uint64) events.Position { return events.Position{Epoch: "E", Seq: seq} }

func TestAppend(t *testing.T) {
	w := start(t)
	got := w.append(t, "s", said("a", "one"), said("b", "two"), said("a", "one"), said("a", "other"))
	want := []api.Written{
		{ID: "a", Entry: 1, Token: at(2)}, // behind the settings
		{ID: "b", Entry: 2, Token: at(3)},
		{ID: "a", Entry: 1, Duplicate: true, Token: at(2)},
		{ID: "a", Code: string(problem.Conflict)},
	}
	got[3].Error = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Again, from the lane; and by a new process, from the projection.
	for _, step := range []string{"lane", "projection"} {
		got = w.append(t, "s", said("b", "two"), said("c", "three "+step))
		if !got[0].Duplicate || got[0].Entry != 2 || got[0].Token != at(3) {
			t.Errorf("%s: %+v", step, got[0])
		}
		w.open(t, Config{})
	}
	h := w.head(t, "s")
	if h.Entries != 3 || h.Settings.Window != 200_000 || !h.Configured {
		t.Errorf("head %+v", h)
	}
}

func TestEqualTextIsNotAnEqualTurn(t *testing.T) {
	w := start(t)
	var writes []api.Write
	for i := range 50 {
		writes = append(writes, said(fmt.Sprint(i), []string{"ok", ""}[i%2]))
	}
	w.append(t, "s", writes...)
	w.append(t, "s", writes...)
	w.append(t, "s", said("", "ok"), said("", "ok")) // without ids: not idempotent
	if h := w.head(t, "s"); h.Entries != 52 {
		t.Errorf("%d entries", h.Entries)
	}
}

func TestMetadataDoesNotMakeAnotherTurn(t *testing.T) {
	w := start(t)
	first := said("a", "text")
	first.Turn.Turn.Format = "plain"
	now := time.Now()
	second := api.Write{Turn: &api.Turn{Turn: events.TurnAppended{
		ID: "a", Role: events.RoleUser, Sender: "bob", AuthorTime: &now,
		Blocks: []events.Block{{Type: events.BlockText, Text: "text"}},
	}}}
	invalid := said("u", "bad \xff byte")
	got := w.append(t, "s", first, second, invalid)
	w.open(t, Config{})
	got = append(got, w.append(t, "s", invalid)...)
	if !got[1].Duplicate || !got[3].Duplicate {
		t.Errorf("%+v", got)
	}
}

func TestRefusals(t *testing.T) {
	w := start(t)
	big := strings.Repeat("x", events.MaxBytes)
	got := w.append(t, "s", said("big", big), said("ok", "fine"),
		api.Write{}, api.Write{MoveTo: "nobody"}, said("ctrl\x01", "x"),
		api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: "r", Role: "robot"}}})
	codes := []string{"too_large", "", "invalid", "not_found", "invalid", "invalid"}
	for i, w := range got {
		if w.Code != codes[i] || (w.Error == "") != (w.Code == "") {
			t.Errorf("write %d: %+v, want code %q", i, w, codes[i])
		}
	}
	w.append(t, "none", said("big", big))
	if h := w.head(t, "none"); h.Configured {
		t.Error("a session was made for a refused turn")
	}
	for _, r := range []api.AppendRequest{
		{Ref: ref("s")},
		{Ref: ref(""), Writes: []api.Write{said("a", "b")}},
		{Ref: ref("s"), Writes: []api.Write{said("a", "b")}, Settings: &events.Settings{}},
	} {
		if _, err := w.svc.Append(context.Background(), r); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	many := api.AppendRequest{Ref: ref("s"), Writes: make([]api.Write, 5001)}
	if _, err := w.svc.Append(context.Background(), many); !problem.IsCode(err, problem.TooLarge) {
		t.Errorf("many: %v", err)
	}
}

func TestTreesAndMoves(t *testing.T) {
	w := start(t)
	child := func(id, parent string) api.Write {
		c := said(id, id)
		c.Turn.ParentID = parent
		return c
	}
	w.append(t, "s", said("a", "a"), said("b", "b"), child("c", "a"), child("d", "unknown"))
	if h := w.head(t, "s"); h.Leaf != 4 || len(h.Path) != 2 {
		t.Errorf("after the fork: leaf %d, path %v", h.Leaf, h.Path)
	}
	move := []api.Write{child("d", "unknown"), {MoveTo: "b"}}
	got := w.append(t, "s", move...) // as an import that was cut off before the move
	if got[1].Duplicate || got[1].Entry != 2 {
		t.Errorf("move: %+v", got[1])
	}
	if h := w.head(t, "s"); h.Leaf != 2 {
		t.Errorf("leaf %d", h.Leaf)
	}
	w.append(t, "s", said("e", "e"))
	if got := w.append(t, "s", move...); !got[1].Duplicate { // history by now
		t.Errorf("old move: %+v", got[1])
	}
	w.append(t, "s", api.Write{MoveTo: "a"}) // alone it is an order
	if h := w.head(t, "s"); h.Leaf != 1 {
		t.Errorf("leaf %d", h.Leaf)
	}
}

func TestCompactions(t *testing.T) {
	w := start(t)
	marker := api.Write{Compaction: &events.HistoryCompacted{Text: "what happened"}, KeptID: "b"}
	first := w.append(t, "s", said("a", "a"), said("b", "b"), marker, marker)
	if first[2].Duplicate || !first[3].Duplicate || first[2].Token != first[3].Token {
		t.Errorf("%+v", first)
	}
	again := w.append(t, "s", marker)
	w.open(t, Config{})
	again = append(again, w.append(t, "s", marker)...)
	for _, a := range again {
		if !a.Duplicate || a.Token != first[2].Token {
			t.Errorf("again: %+v", a)
		}
	}
	rec := w.log.all()[first[2].Token.Seq-1]
	env, _ := rec.Envelope()
	p, err := rec.DecodePayload(env)
	if c, ok := p.(*events.HistoryCompacted); err != nil || !ok || c.After != 2 || c.Kept != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestConfigure(t *testing.T) {
	w := start(t)
	conf := func(set map[string]any) (*api.ConfigureReply, error) {
		return w.svc.Configure(context.Background(), api.ConfigureRequest{Ref: ref("s"), Set: set})
	}
	r, err := conf(map[string]any{"window": 100_000.0, "labels": map[string]any{"a": "b"}})
	if err != nil || r.Settings.Window != 100_000 || r.Token != at(1) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = conf(map[string]any{"window": 100_000}); err != nil || r.Token != at(1) {
		t.Errorf("no change: %+v, %v", r, err)
	}
	w.append(t, "s", said("a", "a"))
	if r, err = conf(map[string]any{"overhead": 5000, "labels": map[string]any{}}); err != nil || r.Token != at(3) || len(r.Settings.Labels) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if h := w.head(t, "s"); h.Settings.Window != 100_000 || h.Settings.Overhead != 5000 {
		t.Errorf("%+v", h.Settings)
	}
	for _, bad := range []map[string]any{{"windoww": 1}, {"window": 10}, {"window": "big"}, {"window": nil}} {
		if _, err := conf(bad); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	// What goes together is judged with what the session has, not with the defaults.
	if _, err := conf(map[string]any{"cut_target": 0.8}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("a target above the threshold: %v", err)
	}
	if _, err := conf(map[string]any{"context_threshold": 0.95, "recut_threshold": 1}); err != nil {
		t.Error(err)
	}
	if _, err := conf(map[string]any{"cut_target": 0.8}); err != nil {
		t.Error(err)
	}
}

// A session whose shares contradict each other, from before that was refused,
// keeps them until one of them is changed.
func TestConfigureOlderSettings(t *testing.T) {
	have := events.DefaultSettings()
	have.CutTarget = 0.9
	j := &job{set: map[string]any{"window": 100_000}, usage: &api.Usage{Counted: 100, Reported: 120}}
	if got, err := j.configured(have, true); err != nil || got.Window != 100_000 || got.TokenFactor != 1.2 || got.CutTarget != 0.9 {
		t.Errorf("%+v, %v", got, err)
	}
	j = &job{set: map[string]any{"min_cut": 0.2}}
	if _, err := j.configured(have, true); err == nil || !strings.Contains(err.Error(), "cut_target 0.9") {
		t.Errorf("%v", err)
	}
}

func TestFiles(t *testing.T) {
	w := start(t)
	body := strings.Repeat("package main\n", 4000)
	call := func(id, callID, input string) api.Write {
		return api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: id, Role: events.RoleAssistant, Blocks: []events.Block{
			{Type: events.BlockToolUse, CallID: callID, Name: "Read", Input: input},
		}}}}
	}
	result := func(id, callID string) api.Write {
		return api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: id, Role: events.RoleTool, Blocks: []events.Block{
			{Type: events.BlockToolResult, CallID: callID, Content: []events.Block{{Type: events.BlockText, Text: body}}},
		}}}}
	}
	w.append(t, "s", call("1", "c1", `{"file_path":"main.go"}`), result("2", "c1"))
	w.append(t, "s", call("3", "c2", `{"path":"b.go"}`), call("4", "c3", `{"command":"ls"}`))
	w.append(t, "s", result("5", "c2")) // the call is remembered
	w.open(t, Config{})
	w.append(t, "s", result("6", "c2"), result("7", "c3"), result("8", "nobody")) // the projection knows it
	want := map[string]string{"2": "main.go", "5": "b.go", "6": "b.go"}
	for _, rec := range w.log.all() {
		env, _ := rec.Envelope()
		p, _ := rec.DecodePayload(env)
		turn, ok := p.(*events.TurnAppended)
		if !ok || turn.Role != events.RoleTool {
			continue
		}
		path := ""
		if len(turn.Files) == 1 {
			f := turn.Files[0]
			path = f.Path
			if f.ID != events.HashBytes([]byte(body)) || f.Bytes != len(body) || f.Kind != "go" || f.Summary == "" {
				t.Errorf("turn %s: %+v", turn.ID, f)
			}
		}
		if path != want[turn.ID] || turn.LargeInline != (path == "") {
			t.Errorf("turn %s: path %q, large inline %v", turn.ID, path, turn.LargeInline)
		}
	}
}

// A clock that goes back does not turn a session's time back.
func TestTimeIsMonotone(t *testing.T) {
	w := start(t)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	w.svc.d.Clock = func() time.Time { now = now.Add(-time.Minute); return now }
	for i := range 5 {
		w.append(t, "s", said(fmt.Sprint(i), "x"))
	}
	var last time.Time
	for _, rec := range w.log.all() {
		env, err := rec.Envelope()
		if err != nil || env.Time.Before(last) {
			t.Errorf("%v after %v, %v", env.Time, last, err)
		}
		last = env.Time
	}
}

func TestProjectionTroubles(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(w *world)
		want  problem.Code
	}{
		{"not running", func(w *world) { w.proj.fail = func() error { return errors.New("no responder") } }, problem.Unavailable},
		{"behind for ever", func(w *world) {
			w.proj.fail = func() error { return problem.New(problem.Stale, "at 1") }
		}, problem.Unavailable},
		{"of another log", func(w *world) { w.proj.epoch = "other" }, problem.Damaged},
		{"not responsible", func(w *world) { w.proj.sessions = map[events.Ref]*session.Memory{} }, problem.Unavailable},
		{"the log lost a session's last event", func(w *world) {
			w.log.last[events.Subject(events.LaneTimeline, ref("s"), events.DefaultPartitions)] = 1
		}, problem.Damaged},
		{"the log denies a session", func(w *world) { w.log.last = map[string]uint64{} }, problem.Damaged},
		{"the log is down", func(w *world) { w.log.lastOf = func() error { return api.ErrLogUnavailable } }, problem.Unavailable},
		{"every commit is refused", func(w *world) { w.log.commit = func() fault { return faultUnavailable } }, problem.Unavailable},
		{"every commit is lost", func(w *world) { w.log.commit = func() fault { return faultBefore } }, problem.Unavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := start(t)
			w.append(t, "s", said("a", "a"))
			w.head(t, "s")
			w.open(t, Config{})
			before := len(w.log.all())
			tt.spoil(w)
			_, err := w.svc.Append(context.Background(), api.AppendRequest{Ref: ref("s"), Writes: []api.Write{said("b", "b")}})
			if !problem.IsCode(err, tt.want) {
				t.Errorf("err = %v", err)
			}
			if n := len(w.log.all()); n != before {
				t.Errorf("%d events stored", n-before)
			}
		})
	}
}

// A lane far ahead of the projection waits for it, and forgets.
func TestLanesStayBounded(t *testing.T) {
	w := start(t)
	w.open(t, Config{LaneIDs: 10, Unprojected: 50, MaxLanes: 3})
	w.proj.lag = 40
	for i := range 300 {
		w.append(t, "s", said(fmt.Sprint(i), "x"))
		w.append(t, fmt.Sprint("other", i%7), said(fmt.Sprint(i), "x"))
	}
	if n := len(w.svc.lanes.byRef); n > 3 {
		t.Errorf("%d lanes", n)
	}
	for ref, l := range w.svc.lanes.byRef {
		if len(l.recent) > 60 {
			t.Errorf("%s keeps %d ids", ref, len(l.recent))
		}
	}
	if h := w.head(t, "s"); h.Entries != 300 {
		t.Errorf("%d entries", h.Entries)
	}
}

func TestStopping(t *testing.T) {
	w := start(t)
	w.append(t, "s", said("a", "a"))
	w.stop()
	_, err := w.svc.Append(context.Background(), api.AppendRequest{Ref: ref("s"), Writes: []api.Write{said("b", "b")}})
	if !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("err = %v", err)
	}
	svc, err := New(Config{}, Deps{Log: w.log, Lookup: w.proj.lookup, Measures: quickMeasures}) // nobody runs it
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := svc.Append(ctx, api.AppendRequest{Ref: ref("s"), Writes: []api.Write{said("b", "b")}}); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("err = %v", err)
	}
	if _, err := New(Config{Tries: -1}, Deps{Log: w.log, Lookup: w.proj.lookup}); err == nil {
		t.Error("a negative limit was taken")
	}
}
