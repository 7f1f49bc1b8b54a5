package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A line that only announces a list says nothing without it.
func TestSplitKeepsListsWhole(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"led by a colon", "Please do:\n- run the tests\n- write the notes\nThen stop.", []string{"Please do: run the tests; write the notes", "Then stop."}},
		{"a blank line between", "Rules:\n\n1. never push\n2. small commits", []string{"Rules: never push; small commits"}},
		{"indented", "- the importer\n  - drops rows", []string{"the importer; drops rows"}},
		{"pairs", "- name: Ada\n- city: London", []string{"name: Ada; city: London"}},
		{"bullets that nothing leads", "- one thing is done\n- another thing is not", []string{"one thing is done", "another thing is not"}},
		{"a colon that leads no list", "As follows:\nwe wait.", []string{"As follows:", "we wait."}},
		{"a list that is too long goes on alone", "Do:\n- " + long + "\n- " + long, []string{"Do: " + long, long}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			split(c.text, func(p prose) { got = append(got, p.text) })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
