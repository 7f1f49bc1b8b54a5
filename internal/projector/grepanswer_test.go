package projector_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/tokens"
)

// TestMatchOffsets: the offsets name the match in the snippet, between
// graphemes, whatever stands around it.
func TestMatchOffsets(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	log.say(rf, events.RoleUser, strings.Repeat("漢字 ", 60)+"\n\t needle  and\n\nneedle again "+strings.Repeat("é́ ", 90))
	log.say(rf, events.RoleUser, "cafe\u0301 here")
	f := setup(t, log).start()
	f.awaitIndex()
	for _, c := range []struct {
		q    api.GrepRequest
		want []string
	}{
		{api.GrepRequest{Pattern: "needle"}, []string{"needle", "needle"}},
		{api.GrepRequest{Pattern: `needle\s+and`, Mode: "regex"}, []string{"needle and"}},
		{api.GrepRequest{Pattern: "cafe", Mode: "substring"}, []string{"cafe\u0301"}}, // the accent belongs to the e
		{api.GrepRequest{Pattern: "which needles are there?", Mode: "relevance", Kinds: []string{"turn"}}, []string{"needle", "needle"}},
	} {
		h := f.grep(c.q).Hits[0]
		var got []string
		for _, m := range h.Matches {
			got = append(got, h.Snippet[m[0]:m[1]])
			for at := range graphemeStarts(h.Snippet, m) {
				t.Errorf("%q: offset %d cuts a grapheme of %q", c.q.Pattern, at, h.Snippet)
			}
		}
		if !slices.Equal(got, c.want) || !utf8.ValidString(h.Snippet) {
			t.Errorf("%q: %q, want %q in %q", c.q.Pattern, got, c.want, h.Snippet)
		}
	}
}

// graphemeStarts are the ends of a match that are no grapheme boundaries.
func graphemeStarts(s string, m [2]int) map[int]bool {
	out := map[int]bool{m[0]: true, m[1]: true}
	delete(out, 0)
	at := 0
	for it := graphemes.FromString(s); it.Next(); {
		at += len(it.Value())
		delete(out, at)
	}
	return out
}

func TestNeighbours(t *testing.T) {
	log := newLog("E1")
	library(log)
	f := setup(t, log).start()
	f.awaitIndex()
	r := f.grep(api.GrepRequest{Pattern: "better", Neighbours: 2})
	h := r.Hits[0]
	var names []string
	for _, b := range append(h.Before, h.After...) {
		names = append(names, b.Entry)
	}
	if !slices.Equal(names, []string{"e11", "e12"}) { // e13 is of an abandoned branch, e14 the last
		t.Errorf("beside %s: %v", h.Entry, names)
	}
	if _, err := f.Grep(within(t), api.GrepRequest{Tenant: "acme", Pattern: "better", Neighbours: 9}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("too many: %v", err)
	}
}

// TestMaxTokens: the answer as it is sent is within the bound, and the cursor
// goes on where it ended.
func TestMaxTokens(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	for i := range 60 {
		log.say(rf, events.RoleUser, fmt.Sprintf("needle %d among 漢字 and émigrés", i))
	}
	f := setup(t, log).start()
	f.awaitIndex()
	for _, most := range []int{400, 900, 2_500} {
		seen := map[string]bool{}
		q := api.GrepRequest{Pattern: "needle", MaxTokens: most, Neighbours: 1, Limit: 50}
		for {
			r := f.grep(q)
			if n := tokens.Count(encoded(t, r)); n > most {
				t.Errorf("%d tokens, at most %d were asked for", n, most)
			}
			for _, h := range r.Hits {
				seen[h.Entry] = true
			}
			if q.Cursor = r.Cursor; q.Cursor == "" {
				break
			}
		}
		if len(seen) != 60 {
			t.Errorf("max_tokens %d: pages hold %d of 60", most, len(seen))
		}
	}
}

// TestHybrid: hybrid stands between the two orders it is made of.
func TestHybrid(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	log.say(rf, events.RoleUser, strings.Repeat("needle needle needle ", 9))
	for range 30 {
		log.say(rf, events.RoleUser, "one needle in a long turn of many other words that say nothing about it at all, as ever")
	}
	f := setup(t, log).start()
	f.awaitIndex()
	first := func(sort string) string {
		return f.grep(api.GrepRequest{Pattern: "needle", Sort: sort}).Hits[0].Entry
	}
	if first("recency") != "e31" || first("relevance") != "e1" {
		t.Errorf("recency %s, relevance %s", first("recency"), first("relevance"))
	}
	r := f.grep(api.GrepRequest{Pattern: "needle", Sort: "hybrid", Limit: 40})
	at := slices.IndexFunc(r.Hits, func(h api.Hit) bool { return h.Entry == "e1" })
	if len(r.Hits) != 31 || at < 0 || at > 25 {
		t.Errorf("hybrid: e1 is number %d of %d", at, len(r.Hits))
	}
}

// TestSearchChangesNothing: searching and describing leave log and rows alone.
func TestSearchChangesNothing(t *testing.T) {
	log := newLog("E1")
	library(log)
	f := setup(t, log).start()
	f.awaitIndex()
	before, end := f.digest(), f.end()
	for _, mode := range []string{"words", "phrase", "relevance", "regex", "substring"} {
		f.grep(api.GrepRequest{Pattern: "atlas", Mode: mode})
	}
	if f.digest() != before || f.end() != end {
		t.Error("a search changed the rows or the log")
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}
