package reader

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeep(t *testing.T) {
	there := []Cited{{"work", 1}, {"work", 2}, {"a/b, c", 7}}
	for _, tt := range []struct {
		text, def, kept string
		dropped         []string
	}{
		{"Port 9042 [e1].", "work", "Port 9042 [e1].", nil},
		{"Port 9042 [work/e1].", "work", "Port 9042 [e1].", nil},
		{"Port 9042 [work/e1].", "", "Port 9042 [work/e1].", nil},
		{"It moved [work/e1, e2; e9].", "", "It moved [work/e1, work/e2].", []string{"work/e9"}},
		{"It moved [e1..e2], or not [e1-e9].", "work", "It moved [e1..e2], or not.", []string{"e1-e9"}},
		{"No session [e1].", "", "No session.", []string{"e1"}},
		{"Elsewhere [other/e1] [#3] [work/n4].", "work", "Elsewhere.", []string{"other/e1", "#3", "work/n4"}},
		{"A comma [a/b, c/e7].", "", "A comma [a/b, c/e7].", nil},
		{"Not citations: [1] [TODO] a[e] [e0] [x e1] []", "work", "Not citations: [1] [TODO] a[e] [e0] [x e1] []", nil},
		{"Huge [e99999999999999999999999]", "work", "Huge [e99999999999999999999999]", nil},
	} {
		kept, dropped := Keep(tt.text, tt.def, func(c Cited) bool { return slices.Contains(there, c) })
		if kept != tt.kept || !slices.Equal(dropped, tt.dropped) {
			t.Errorf("%s: %q %q, want %q %q", tt.text, kept, dropped, tt.kept, tt.dropped)
		}
	}
}

func TestCitations(t *testing.T) {
	got := Citations("a [e3, e1] b [e1] c [s/e2..e4, e9]", "d")
	if diff := cmp.Diff([]Cited{{"d", 3}, {"d", 1}, {"s", 2}, {"s", 4}, {"s", 9}}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever a model writes: what is kept names nothing that does not hold, and
// keeping again changes nothing.
func FuzzKeep(f *testing.F) {
	for _, s := range []string{"[e1]", "x [a/e1, e2] [#1]", "[[e1]]", "[e1..e2..e3]", "[/e1]", "[e1 [e2] e3]", strings.Repeat("[e1,", 9)} {
		f.Add(s, "s")
	}
	f.Fuzz(func(t *testing.T, text, def string) {
		odd := func(c Cited) bool { return c.Entry%2 == 1 }
		kept, _ := Keep(text, def, odd)
		for _, c := range Citations(kept, def) {
			if !odd(c) {
				t.Fatalf("%q keeps %v: %q", text, c, kept)
			}
		}
		if again, dropped := Keep(kept, def, odd); again != kept || dropped != nil {
			t.Fatalf("%q, again %q, dropping %q", kept, again, dropped)
		}
	})
}
