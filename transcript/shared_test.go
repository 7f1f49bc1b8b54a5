package transcript

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shared returns the path of a real transcript, which is not part of this
// repository; without it the test is skipped.
func shared(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("LCM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(dir, "transcripts", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared transcripts: set LCM_SHARED to the directory that holds transcripts/ (%v)", err)
	}
	return path
}

// counts is what a source comes to.
type counts struct {
	Turns, Duplicates, Rejected, Compactions, Moves int
	Skipped                                         map[string]int
	Roles                                           map[string]int
	Conversations                                   int
	Exact                                           int
}

func count(items []Item) counts {
	c := counts{Skipped: map[string]int{}, Roles: map[string]int{}}
	ids, convs := map[string]bool{}, map[string]bool{}
	for _, it := range items {
		convs[it.Conversation] = true
		switch it.Kind {
		case KindTurn:
			c.Turns++
			c.Roles[string(it.Turn.Role)]++
			key := it.Conversation + "\x00" + it.Turn.ID
			if it.Turn.ID != "" && ids[key] {
				c.Duplicates++
			}
			ids[key] = true
			if it.Turn.Exact {
				c.Exact++
			}
		case KindSkip:
			c.Skipped[it.Reason]++
		case KindReject:
			c.Rejected++
		case KindCompaction:
			c.Compactions++
		case KindMove:
			c.Moves++
		}
	}
	c.Conversations = len(convs)
	return c
}

// parseAll reads a source and checks what holds for every item.
func parseAll(t testing.TB, src []byte, o Options) []Item {
	t.Helper()
	var items []Item
	for it, err := range Parse(bytes.NewReader(src), o) {
		if err != nil {
			t.Fatal(err)
		}
		checkItem(t, it)
		items = append(items, it)
	}
	return items
}

// checkItem is the invariant of every item of every format.
func checkItem(t testing.TB, it Item) {
	t.Helper()
	switch it.Kind {
	case KindTurn:
		if it.Turn == nil || !it.Turn.Role.Valid() {
			t.Fatalf("line %d: turn %+v", it.Line, it.Turn)
		}
		src, err := Source(it.Turn)
		if err != nil || !bytes.Equal(src, it.Source) {
			t.Fatalf("line %d: source %v\n got %q\nwant %q", it.Line, err, src, it.Source)
		}
		if it.Turn.Exact == (it.Turn.Original != "") {
			t.Fatalf("line %d: exact %v with original of %d bytes", it.Line, it.Turn.Exact, len(it.Turn.Original))
		}
	case KindCompaction:
		if it.Compaction == nil {
			t.Fatalf("line %d: no compaction", it.Line)
		}
	case KindMove:
		if it.ParentID == "" {
			t.Fatalf("line %d: move to nothing", it.Line)
		}
	case KindSkip, KindReject:
		if it.Reason == "" {
			t.Fatalf("line %d: %s without reason", it.Line, it.Kind)
		}
	default:
		t.Fatalf("line %d: kind %q", it.Line, it.Kind)
	}
	if it.SourceHash == "" && it.SourceBytes != int64(len(it.Source)) {
		t.Fatalf("line %d: %d bytes of source, SourceBytes %d", it.Line, len(it.Source), it.SourceBytes)
	}
}

func TestSharedTranscripts(t *testing.T) {
	none := map[string]int{}
	for _, tc := range []struct {
		file   string
		format Format
		want   counts
	}{
		{"claudecode__ccviewer_todo-app.jsonl", ClaudeCode, counts{
			Turns: 437, Skipped: map[string]int{"summary": 1}, Conversations: 6,
			Roles: map[string]int{"assistant": 262, "user": 8, "tool": 167}, // 175 user lines
		}},
		{"claudecode__representative_messages.jsonl", ClaudeCode, counts{
			Turns: 11, Skipped: map[string]int{"summary": 1}, Conversations: 1,
			Roles: map[string]int{"assistant": 5, "user": 4, "tool": 2},
		}},
		{"claudecode__edge_cases.jsonl", ClaudeCode, counts{
			Turns: 12, Rejected: 6, Skipped: map[string]int{"summary": 1}, Conversations: 1,
			Roles: map[string]int{"assistant": 4, "user": 7, "tool": 1},
		}},
		{"pi__before-compaction.jsonl", Pi, counts{
			Turns: 990, Compactions: 2, Conversations: 1,
			Skipped: map[string]int{"session": 1, "model_change": 5, "thinking_level_change": 5},
			Roles:   map[string]int{"assistant": 484, "user": 55 + 3, "tool": 448},
		}},
		{"openai__taubench_airline_gpt4o_subset.jsonl", OpenAI, counts{
			Turns: 2422, Skipped: map[string]int{"conversation": 87}, Conversations: 87, Exact: 2422,
			Roles: map[string]int{"assistant": 1124, "user": 643, "tool": 568, "system": 87},
		}},
		{"codex__rollout_sample.jsonl", Codex, counts{
			Turns: 9, Conversations: 1,
			Skipped: map[string]int{
				"session_meta": 1, "turn_context": 1,
				"event_msg/task_started": 1, "event_msg/token_count": 2, "event_msg/task_complete": 1,
			},
			Roles: map[string]int{"assistant": 5, "user": 1, "developer": 1, "tool": 2},
		}},
		{"minisweagent__github_issue.traj.json", Plain, counts{
			Turns: 22, Skipped: none, Conversations: 1, Exact: 22,
			Roles: map[string]int{"system": 1, "user": 11, "assistant": 10},
		}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			src, err := os.ReadFile(shared(t, tc.file))
			if err != nil {
				t.Fatal(err)
			}
			if f, err := Detect(src[:min(len(src), headBytes)]); f != tc.format {
				t.Fatalf("detected %q, %v; want %q", f, err, tc.format)
			}
			items := parseAll(t, src, Options{})
			if diff := cmp.Diff(tc.want, count(items)); diff != "" {
				t.Error(diff)
			}
			if f := items[len(items)-1]; f.Kind == KindTurn && f.Turn.Format != string(tc.format) {
				t.Errorf("labelled %q", f.Turn.Format)
			}
			for name, ms := range conversations(items) {
				for _, f := range []Format{OpenAI, Anthropic, Plain} {
					if err := encodeAndCheck(f, ms); err != nil {
						t.Errorf("conversation %q: %v", name, err)
					}
				}
			}
		})
	}
}

// conversations gathers the turns of each conversation as messages, in order.
func conversations(items []Item) map[string][]Message {
	out := map[string][]Message{}
	for _, it := range items {
		if it.Kind == KindTurn {
			ms := out[it.Conversation]
			out[it.Conversation] = append(ms, Message{
				Role: it.Turn.Role, Sender: it.Turn.Sender, Blocks: it.Turn.AllBlocks(),
				Entry: uint64(len(ms) + 1), MessageID: it.Turn.MessageID,
			})
		}
	}
	return out
}

func encodeAndCheck(f Format, ms []Message) error {
	e, err := Encode(f, ms)
	if err != nil {
		return err
	}
	if err := Check(f, e); err != nil && len(e.Messages) > 0 {
		return err
	}
	return nil
}

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{
		"claudecode__ccviewer_todo-app.jsonl", "pi__before-compaction.jsonl", "openai__taubench_airline_gpt4o_subset.jsonl",
	} {
		b.Run(name, func(b *testing.B) {
			src, err := os.ReadFile(shared(b, name))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range Parse(bytes.NewReader(src), Options{}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
