package main

import (
	"testing"

	"lcm/internal/api"
)

// Sessions whose names look like ids, or like each other's, can all be named.
func TestSessionsNamedLikeIDs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"e12", "a/e12", "a", "session:a", "file:x"} {
		if r := lcmIn(t, dir, `{"id":"1","role":"user","content":"turn of `+name+`"}`, "append", name); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	for _, tt := range []struct {
		args             []string
		session, id, txt string
	}{
		{[]string{"session:e12"}, "e12", "e12", ""},
		{[]string{"session:a/e12"}, "a/e12", "a/e12", ""},
		{[]string{"session:file:x"}, "file:x", "file:x", ""},
		{[]string{"session:session:a"}, "session:a", "session:a", ""},
		{[]string{"a"}, "a", "a", ""},
		{[]string{"a/e12/e1"}, "a/e12", "e1", "turn of a/e12"},
		{[]string{"e12/e1"}, "e12", "e1", "turn of e12"},
		{[]string{"e1", "--session", "session:a"}, "session:a", "e1", "turn of session:a"},
	} {
		d := decode[api.DescribeOut](t, ok(t, dir, append([]string{"describe", "--json"}, tt.args...)...))
		if d.Session != tt.session || d.ID != tt.id || d.Text != tt.txt {
			t.Errorf("describe %v: %s of %s: %q", tt.args, d.ID, d.Session, d.Text)
		}
	}
	turns := lines[api.TurnOut](t, ok(t, dir, "expand", "--json", "e1", "--session", "session:a"))
	if len(turns) != 1 || turns[0].Text != "turn of session:a" {
		t.Errorf("expand: %+v", turns)
	}
}
