package lcm_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lcm/client"
)

// follow takes events until there are n turns, and says what they were.
func follow(ctx context.Context, t *testing.T, c *client.Client, after string, n int) (kinds []string, last string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	turns := 0
	for ev, err := range c.Events(ctx, "s", after) {
		if err != nil {
			t.Fatalf("after %v: %v", kinds, err)
		}
		last = ev.Token
		switch {
		case ev.Turn != nil:
			kinds = append(kinds, ev.Turn.Entry)
			turns++
		case ev.Node != nil:
			kinds = append(kinds, ev.Node.ID)
		case ev.Cut != nil:
			kinds = append(kinds, fmt.Sprintf("cut %d", ev.Cut.Cut))
		}
		if turns >= n {
			return kinds, last
		}
	}
	t.Fatal("the stream ended")
	return nil, ""
}

func TestEventsOfASession(t *testing.T) {
	s := opened(t)
	say := func(i int) string {
		t.Helper()
		out, err := s.Append(t.Context(), "s", client.Turn{ID: fmt.Sprint(i), Role: "user", Content: fmt.Sprintf("turn %d %s", i, strings.Repeat("word ", 500))})
		if err != nil {
			t.Fatal(err)
		}
		return out.Token
	}
	first := say(1)
	for i := 2; i <= 150; i++ { // more than a page
		say(i)
	}
	kinds, mid := follow(t.Context(), t, s.Client, "start", 150)
	if len(kinds) < 150 || kinds[0] != "e1" {
		t.Errorf("from the start: %v", kinds)
	}
	if kinds, _ := follow(t.Context(), t, s.Client, first, 149); kinds[0] != "e2" {
		t.Errorf("behind the first append: %v", kinds)
	}

	// Live, and nodes and cuts among them.
	if _, err := s.Configure(t.Context(), client.ConfigureIn{Scope: client.Scope{Session: "s"}, Set: map[string]any{"window": 20_000}}); err != nil {
		t.Fatal(err)
	}
	live := make(chan []string, 1)
	go func() {
		kinds, _ := follow(t.Context(), t, s.Client, mid, 1)
		live <- kinds
	}()
	if err := s.Call(t.Context(), "condense", client.Scope{Session: "s"}, new(struct{})); err != nil {
		t.Fatal(err)
	}
	say(151)
	got := strings.Join(<-live, " ")
	if !strings.Contains(got, "#1 ") || !strings.Contains(got, "e151") {
		t.Errorf("live: %s", got)
	}
	// The whole history told again: every turn, node and cut once.
	all, end := follow(t.Context(), t, s.Client, "start", 151)
	seen := map[string]int{}
	for _, k := range all {
		if seen[k]++; seen[k] > 1 {
			t.Errorf("%s is told %d times", k, seen[k])
		}
	}
	if seen["#1"] != 1 || seen["e151"] != 1 {
		t.Errorf("%v", all)
	}
	// What was seen to the end goes on with what is new.
	say(152)
	if kinds, _ := follow(t.Context(), t, s.Client, end, 1); kinds[len(kinds)-1] != "e152" || strings.Contains(strings.Join(kinds, " "), "#1 ") {
		t.Errorf("behind the end: %v", kinds)
	}
	for ev, err := range s.Events(t.Context(), "s", "OTHER@5") {
		if err == nil || !strings.Contains(err.Error(), "another log") {
			t.Errorf("a token of another log: %+v, %v", ev, err)
		}
		break
	}
}
