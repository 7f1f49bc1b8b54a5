package eval

import (
	"context"
	"os"
	"strings"
	"testing"

	"lcm/internal/problem"
)

const developmentSet = "../../../shared/beam/dev.jsonl"

// TestRecall holds the search to what the development set was measured at: all
// of it, and the half that no setting was chosen on.
func TestRecall(t *testing.T) {
	if testing.Short() {
		t.Skip("imports ten conversations")
	}
	f, err := os.Open(developmentSet)
	if err != nil {
		t.Skipf("no development set here: %v", err)
	}
	defer func() { _ = f.Close() }()
	chats, err := ReadChats(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := MeasureRecall(context.Background(), chats, Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := rows[len(rows)-1]
	if all.Kind != All || all.Questions != 179 || all.At10 < 58 || all.At50 < 77 {
		t.Errorf("%+v, want R@10 of 58 and R@50 of 77", all)
	}
	held, err := MeasureRecall(context.Background(), chats[5:], Options{})
	if err != nil {
		t.Fatal(err)
	}
	if all := held[len(held)-1]; all.At10 < 58 || all.At50 < 77 {
		t.Errorf("chats 6 to 10: %+v", all)
	}
}

func TestSmallSet(t *testing.T) {
	line := `{"chat": 7, "messages": [{"id": 11, "role": "user", "content": "My sister moves to Porto in May"}, {"id": 12, "role": "assistant", "content": "How nice for her"}, {"id": 13, "role": "user", "content": "We pay 40 euros a month for the server"}], "questions": [{"kind": "b", "question": "What do we pay for the server?", "evidence": [13, 99]}, {"kind": "a", "question": "Where does my sister move?", "evidence": [11]}, {"kind": "none", "question": "x", "evidence": []}]}`
	chats, err := ReadChats(strings.NewReader(line + "\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := MeasureRecall(context.Background(), chats, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Recall{{"a", 1, 100, 100, 100, 100}, {"b", 1, 50, 50, 50, 50}, {All, 2, 75, 75, 75, 75}}
	if len(rows) != len(want) {
		t.Fatalf("%+v", rows)
	}
	for i := range want {
		if rows[i] != want[i] {
			t.Errorf("%+v, want %+v", rows[i], want[i])
		}
	}
}

func TestReadChatsErrors(t *testing.T) {
	for _, text := range []string{"", "\n", "{", `{"messages": 1}`} {
		if _, err := ReadChats(strings.NewReader(text)); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
