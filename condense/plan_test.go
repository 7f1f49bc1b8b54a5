package condense

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/session"
)

// small: B 15,000, soft 11,250, leaf chunk 1,500.
func small() events.Settings {
	s := events.DefaultSettings()
	s.Window = 20_000
	return s
}

// entry builds a tail entry from a short form: role u, a, t (call and result
// ids behind it: "a+x" calls x, "t-x" answers it) and its size.
func entry(n int, form string, size int) session.Entry {
	e := session.Entry{N: uint64(n), Tokens: size, InputTokens: size}
	switch form[0] {
	case 'u':
		e.Role = events.RoleUser
	case 'a':
		e.Role = events.RoleAssistant
	case 't':
		e.Role = events.RoleTool
	}
	for _, f := range strings.Fields(strings.NewReplacer("+", " +", "-", " -").Replace(form[1:])) {
		if f[0] == '+' {
			e.Calls = append(e.Calls, f[1:])
		} else {
			e.Results = append(e.Results, f[1:])
		}
	}
	return e
}

func TestChunks(t *testing.T) {
	type turn struct {
		form string
		size int
	}
	repeat := func(n int, t turn) []turn {
		var out []turn
		for range n {
			out = append(out, t)
		}
		return out
	}
	u := func(n int) turn { return turn{"u", n} }
	for _, c := range []struct {
		name  string
		turns []turn
		limit int    // aged entries, 0 = all
		want  string // last entries of the chunks, ? = unfinished
	}{
		{"fills up", []turn{u(600), u(600), u(600), u(600), u(600), u(600)}, 0, "2 4 6?"},
		{"the next group may stand in the fresh tail", []turn{u(600), u(600), u(600)}, 2, "2"},
		{"a chunk that may still grow is unfinished", []turn{u(600), u(600), u(200)}, 2, "2?"},
		{"a full chunk closes by itself", []turn{u(1500)}, 0, "1"},
		{"below a quarter it takes the next group anyway", []turn{u(300), u(9000), u(10)}, 0, "2 3?"},
		{"from a quarter on it does not", []turn{u(375), u(9000), u(10)}, 0, "1 2 3?"},
		{"a call stays with its results", []turn{u(900), {"a+x+y", 300}, {"t-y", 500}, {"t-x", 500}, u(10)}, 0, "1 5?"},
		{"an open group holds everything behind it back", []turn{u(1500), {"a+x", 900}, {"a", 900}, {"a", 900}}, 0, "1"},
		{"until the user speaks again", []turn{u(1500), {"a+x", 900}, {"a", 900}, u(10)}, 0, "1 2 4?"},
		{"or 32 entries later", append([]turn{{"a+x", 900}}, repeat(32, turn{"a", 40})...), 1, "1?"},
		{"not 31", append([]turn{{"a+x", 900}}, repeat(31, turn{"a", 40})...), 1, ""},
		{"a late result is a group of its own", []turn{u(1500), {"t-z", 1400}, u(200)}, 0, "1 2 3?"},
		{"an id used again pairs with its own call", []turn{{"a+x", 700}, {"t-x", 700}, {"a+x", 700}, {"t-x", 700}, u(10)}, 0, "2 5?"},
		{"many tiny turns", repeat(400, u(9)), 0, "166 332 400?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var entries []session.Entry
			for i, turn := range c.turns {
				entries = append(entries, entry(i+1, turn.form, turn.size))
			}
			if c.limit == 0 {
				c.limit = len(entries)
			}
			p := &pass{z: sizesOf(small()), v: &session.View{}}
			p.z.chunk = 1_500
			var got []string
			for _, s := range p.chunks(entries, c.limit, false) {
				mark := ""
				if s.unfinished {
					mark = "?"
				}
				got = append(got, fmt.Sprint(entries[s.end-1].N)+mark)
			}
			if diff := cmp.Diff(strings.Fields(c.want), got); len(got)+len(c.want) > 0 && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the summariser does not see closes chunks all the same.
func TestChunksByRawTokens(t *testing.T) {
	p := &pass{z: sizesOf(small()), v: &session.View{}}
	var entries []session.Entry
	for i := range 20 {
		e := entry(i+1, "u", 20)
		e.Tokens = 1_600 // images
		entries = append(entries, e)
	}
	got := p.chunks(entries, len(entries), false)
	if len(got) < 5 {
		t.Errorf("%d chunks of 32,000 raw tokens", len(got))
	}
}

// After branch moves leaves may overlap: those are taken that reach furthest.
func TestLayLeaves(t *testing.T) {
	var tail []session.Entry
	for n := 10; n <= 40; n++ {
		tail = append(tail, entry(n, "u", 10))
	}
	leaf := func(first, last uint64) session.Node {
		return session.Node{NodeCommitted: events.NodeCommitted{Key: fmt.Sprintf("%d-%d", first, last), First: first, Last: last}}
	}
	for _, c := range []struct {
		name    string
		pending []session.Node
		want    map[int]string
		covered int
	}{
		{"none", nil, map[int]string{}, 0},
		{"nested: the longer one", []session.Node{leaf(10, 12), leaf(10, 30)}, map[int]string{0: "10-30"}, 21},
		{"nested, complete: the longer one", []session.Node{leaf(10, 12), leaf(13, 30), leaf(10, 30)}, map[int]string{0: "10-30", 3: "13-30"}, 21},
		{"the short one where the long one is stuck", []session.Node{leaf(10, 20), leaf(10, 15), leaf(16, 30)}, map[int]string{0: "10-15", 6: "16-30"}, 21},
		{"reaching in from below the cut", []session.Node{leaf(5, 15)}, map[int]string{}, 6},
		{"below the cut", []session.Node{leaf(2, 9)}, map[int]string{}, 0},
		{"a gap before", []session.Node{leaf(20, 25)}, map[int]string{10: "20-25"}, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := layLeaves(tail, c.pending)
			got := map[int]string{}
			for i, d := range l.chosen {
				if i > 0 && c.want[i] == "" {
					continue // never started from
				}
				got[i] = d.Key
			}
			covered := 0
			for _, is := range l.covered {
				if is {
					covered++
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || covered != c.covered {
				t.Errorf("covered %d, want %d; %s", covered, c.covered, diff)
			}
		})
	}
}

func TestNotConfigured(t *testing.T) {
	if a := Plan(&session.View{}); a.Due() || a.Stop != StopInvalid {
		t.Errorf("plan: %+v", a)
	}
}

func TestSizesFitFiveDepths(t *testing.T) {
	for _, win := range []int{16_000, 32_000, 128_000, 200_000, 1_000_000} {
		s := events.DefaultSettings()
		s.Window = win
		z := sizesOf(s)
		if got := 15 * (z.nodeTarget + pointerOverhead); got > z.summary && z.nodeTarget > minSlot {
			t.Errorf("window %d: 15 nodes take %d of %d", win, got, z.summary)
		}
		if z.leafTarget*4 > z.chunk {
			t.Errorf("window %d: a leaf of %d for a chunk of %d", win, z.leafTarget, z.chunk)
		}
	}
}
