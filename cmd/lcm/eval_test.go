package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/internal/eval"
)

func TestEvalRecall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "set.jsonl")
	set := `{"chat": 1, "messages": [{"id": 5, "role": "user", "content": "We pay 40 euros a month for the server"}], "questions": [{"kind": "fact", "question": "What do we pay for the server?", "evidence": [5]}]}`
	if err := os.WriteFile(file, []byte(set+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := lines[eval.Recall](t, ok(t, dir, "--json", "eval", "recall", file))
	if len(rows) != 2 || rows[0].Kind != "fact" || rows[1].Kind != eval.All || rows[1].At5 != 100 {
		t.Errorf("%+v", rows)
	}
	if out := ok(t, dir, "eval", "recall", file); !strings.Contains(out, "R@50") {
		t.Errorf("for people: %s", out)
	}
	if r := lcm(t, dir, "eval", "recall", file, "--last", "2"); r.code != 2 {
		t.Errorf("chats that are not there: exit %d, %s", r.code, r.err)
	}
	if r := lcm(t, dir, "eval", "recall", filepath.Join(dir, "none")); r.code != 3 {
		t.Errorf("no file: exit %d, %s", r.code, r.err)
	}
}

func TestGrepModes(t *testing.T) {
	dir := t.TempDir()
	in := `{"id":"1","role":"user","content":"Let us call Retry::Budget(3) after lunch"}
{"id":"2","role":"assistant","content":"It has a budget of three retries"}
{"id":"3","role":"user","content":"thanks"}`
	if r := lcmIn(t, dir, in, "append", "chat"); r.code != 0 {
		t.Fatal(r.err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"y::B", "--mode", "substring"}, "e1"},
		{[]string{"Y::b", "--mode", "substring"}, ""},
		{[]string{"Y::b", "--mode", "substring", "--ignore-case"}, "e1"},
		{[]string{`^it.*retries$`, "--mode", "regex", "--ignore-case"}, "e2"},
		{[]string{"budget", "--sort", "hybrid"}, "e1 e2"},
	} {
		r := decode[api.GrepReply](t, ok(t, dir, append([]string{"--json", "grep"}, c.args...)...))
		var got []string
		for _, h := range r.Hits {
			got = append(got, h.Entry)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %v, want %s", c.args, got, c.want)
		}
	}
	r := decode[api.GrepReply](t, ok(t, dir, "--json", "grep", "three retries", "--neighbours", "1"))
	if len(r.Hits) != 1 || len(r.Hits[0].Before) != 1 || r.Hits[0].After[0].Text != "thanks" || len(r.Hits[0].Matches) != 2 {
		t.Errorf("neighbours: %+v", r.Hits)
	}
	if r := decode[api.GrepReply](t, ok(t, dir, "--json", "grep", "What is the number of retries we allow in the budget?", "--mode", "relevance")); r.Hits[0].Entry != "e1" || r.Hits[1].Entry != "e2" {
		t.Errorf("relevance: %+v", r.Hits)
	}
}
