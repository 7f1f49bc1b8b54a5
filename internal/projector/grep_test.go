package projector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func TestGrep(t *testing.T) {
	log := newLog("E1")
	rf, _ := library(log)
	log.configure(ref("else"), nil)
	log.say(ref("else"), events.RoleUser, "an atlas elsewhere")
	log.say(events.Ref{Tenant: "other", Session: "library"}, events.RoleUser, "a foreign atlas")
	f := setup(t, log).start()
	f.awaitIndex()
	lib := []string{rf.Session}
	for name, c := range map[string]struct {
		q    api.GrepRequest
		want []string
	}{
		"words":            {api.GrepRequest{Pattern: "atlas answer"}, []string{"library/e14"}},
		"tenant only":      {api.GrepRequest{Pattern: "an atlas elsewhere"}, []string{"else/e1"}},
		"newest first":     {api.GrepRequest{Pattern: "atlas", Sessions: lib, Limit: 3}, []string{"library/e14", "library/e12", "library/e9"}},
		"removed":          {api.GrepRequest{Pattern: "wrong answer", IncludeRemoved: true}, []string{"library/e13 removed"}},
		"not removed":      {api.GrepRequest{Pattern: "wrong answer"}, nil},
		"summaries":        {api.GrepRequest{Pattern: "summed up"}, []string{"library/#2", "library/#1"}},
		"kind":             {api.GrepRequest{Pattern: "shelves", Kinds: []string{"summary"}, Depths: []int{0}}, []string{"library/#2", "library/#1"}},
		"no such depth":    {api.GrepRequest{Pattern: "shelves", Depths: []int{1}}, nil},
		"role":             {api.GrepRequest{Pattern: "atlas", Sessions: lib, Roles: []string{"assistant"}, Limit: 2}, []string{"library/e14", "library/e9"}},
		"inside a node":    {api.GrepRequest{Pattern: "atlas", Sessions: lib, Node: 1}, []string{"library/e5", "library/e4", "library/e3", "library/e2"}},
		"node itself":      {api.GrepRequest{Pattern: "summed", Sessions: lib, Node: 1}, []string{"library/#1"}},
		"large body":       {api.GrepRequest{Pattern: "needle"}, []string{"library/e11"}},
		"file body":        {api.GrepRequest{Pattern: "func shelve", Kinds: []string{"file"}}, []string{"library/e10 file"}},
		"file path":        {api.GrepRequest{Pattern: "cmd/shelve.go", Kinds: []string{"file"}}, []string{"library/e10 file"}},
		"file and turn":    {api.GrepRequest{Pattern: "func", Kinds: []string{"file", "turn"}}, []string{"library/e10", "library/e10 file"}},
		"phrase":           {api.GrepRequest{Pattern: "question about", Mode: "phrase"}, []string{"library/e12"}},
		"phrase in order":  {api.GrepRequest{Pattern: "about question", Mode: "phrase"}, nil},
		"since":            {api.GrepRequest{Pattern: "atlas", Sessions: lib, Since: log.now.Add(-5 * time.Second).Format(time.RFC3339)}, []string{"library/e14", "library/e12"}},
		"until":            {api.GrepRequest{Pattern: "region3 region4", Until: "2026-01-02T00:00:00Z"}, nil},
		"relevance":        {api.GrepRequest{Pattern: "better", Sort: "relevance"}, []string{"library/e14"}},
		"regex":            {api.GrepRequest{Pattern: `region[34]$`, Mode: "regex", Sessions: lib}, []string{"library/e4", "library/e3"}},
		"regex everywhere": {api.GrepRequest{Pattern: `\batlas (else|of region9)`, Mode: "regex"}, []string{"else/e1", "library/e9"}},
		"regex removed":    {api.GrepRequest{Pattern: `wr.ng`, Mode: "regex", IncludeRemoved: true}, []string{"library/e13 removed"}},
		"regex in a node":  {api.GrepRequest{Pattern: `region\d`, Mode: "regex", Sessions: lib, Node: 2, Limit: 2}, []string{"library/e9", "library/e8"}},
		"regex files":      {api.GrepRequest{Pattern: `^cmd/`, Mode: "regex", Kinds: []string{"file"}}, []string{"library/e10 file"}},
		"regex role":       {api.GrepRequest{Pattern: `atlas`, Mode: "regex", Roles: []string{"user"}, Sessions: lib, Limit: 1}, []string{"library/e12"}},
		"no session":       {api.GrepRequest{Pattern: "atlas", Sessions: []string{"nobody"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.grep(c.q)
			if got := places(r); !slices.Equal(got, c.want) {
				t.Errorf("hits %v, want %v", got, c.want)
			}
			if len(r.NotSearched) > 0 {
				t.Errorf("not searched: %v", r.NotSearched)
			}
		})
	}
	r := f.grep(api.GrepRequest{Pattern: "region3"})
	if h := r.Hits[0]; h.CoveredBy != "#1" || h.Depth != api.NoDepth || h.Role != "user" && h.Role != "assistant" || !strings.Contains(h.Snippet, "region3") {
		t.Errorf("hit: %+v", h)
	}
	if h := f.grep(api.GrepRequest{Pattern: "better"}).Hits[0]; h.CoveredBy != "" {
		t.Errorf("a raw turn is covered by %q", h.CoveredBy)
	}
}

func TestGrepErrors(t *testing.T) {
	log := newLog("E1")
	library(log)
	f := setup(t, log).start()
	f.awaitIndex()
	good := f.grep(api.GrepRequest{Pattern: "atlas", Limit: 1})
	for name, q := range map[string]api.GrepRequest{
		"empty pattern":     {},
		"bad regex":         {Pattern: "(", Mode: "regex"},
		"bad mode":          {Pattern: "x", Mode: "fuzzy"},
		"bad sort":          {Pattern: "x", Sort: "best"},
		"bad kind":          {Pattern: "x", Kinds: []string{"thought"}},
		"bad time":          {Pattern: "x", Since: "yesterday"},
		"no words":          {Pattern: "+++"},
		"node, no session":  {Pattern: "x", Node: 1},
		"regex, relevance":  {Pattern: "x", Mode: "regex", Sort: "relevance"},
		"no cursor":         {Pattern: "atlas", Cursor: "rubbish"},
		"another's cursor":  {Pattern: "shelf", Cursor: good.Cursor},
		"pattern too large": {Pattern: strings.Repeat("x ", 5_000)},
	} {
		q.Tenant = "acme"
		if _, err := f.Grep(within(t), q); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Grep(within(t), api.GrepRequest{Pattern: "x"}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("no tenant: %v", err)
	}
	if _, err := f.Grep(within(t), api.GrepRequest{Tenant: "acme", Pattern: "atlas", Sessions: []string{"library"}, Node: 99}); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("no node: %v", err)
	}
}

// TestGrepPages: pages hold every hit once, in order, with one total, while
// new turns arrive; by index and by scan alike.
func TestGrepPages(t *testing.T) {
	log := newLog("E1")
	const turns = 700
	for i := range turns {
		rf := ref(fmt.Sprintf("s%d", i%3))
		if i < 3 {
			log.configure(rf, nil)
		}
		text := "nothing"
		if i%2 == 0 {
			text = fmt.Sprintf("match %d", i)
		}
		log.say(rf, events.RoleUser, text)
	}
	log.event(ref("s1"), &events.LeafMoved{Entry: 100}) // most of s1 is removed
	f := setup(t, log).start()
	f.awaitIndex()
	for name, q := range map[string]api.GrepRequest{
		"words": {Pattern: "match"}, "relevance": {Pattern: "match", Sort: "relevance"},
		"regex": {Pattern: "^match", Mode: "regex"}, "regex in sessions": {Pattern: "^match", Mode: "regex", Sessions: []string{"s0", "s1", "s2"}},
	} {
		q.Tenant, q.Limit = "acme", 60
		all := f.grep(api.GrepRequest{Pattern: "^match", Mode: "regex", Limit: 200})
		var got []api.Hit
		total := -1
		for page := 0; ; page++ {
			r := f.grep(q)
			if total >= 0 && r.Total != total || len(r.NotSearched) > 0 {
				t.Errorf("%s: total %d after %d on page %d, %v", name, r.Total, total, page, r.NotSearched)
			}
			total = r.Total
			got = append(got, r.Hits...)
			log.say(ref("s0"), events.RoleUser, "match, but later")
			f.awaitIndex()
			if q.Cursor = r.Cursor; q.Cursor == "" {
				break
			}
			if page > 20 {
				t.Fatalf("%s: no end of pages", name)
			}
		}
		if len(got) != total || total != all.Total {
			t.Errorf("%s: %d hits on pages, total %d, a scan finds %d", name, len(got), total, all.Total)
		}
		seen := map[uint64]bool{}
		for i, h := range got {
			if seen[h.Seq] {
				t.Errorf("%s: position %d twice", name, h.Seq)
			}
			seen[h.Seq] = true
			if name != "relevance" && i > 0 && got[i-1].Seq <= h.Seq {
				t.Errorf("%s: %d before %d", name, got[i-1].Seq, h.Seq)
			}
		}
	}
}

// TestGrepSaysWhatItDidNotSearch: a lagging index, a deadline.
func TestGrepSaysWhatItDidNotSearch(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	f := setup(t, log)
	faults := &faultyIndexes{Indexes: f.deps.Indexes}
	f.deps.Indexes = faults
	f.cfg.ScanWait = time.Nanosecond
	f.start()
	for i := range 100 {
		log.say(rf, events.RoleUser, fmt.Sprintf("old needle %d", i))
	}
	f.awaitIndex()
	dead := errors.New("dead")
	faults.before.Store(&dead)
	for i := range 3_000 {
		log.say(rf, events.RoleUser, fmt.Sprintf("new thing %d", i))
	}
	_, err := f.Wait(within(t), f.end())
	must(t, err)
	r := f.grep(api.GrepRequest{Pattern: "o.d", Mode: "regex"})
	if len(r.NotSearched) != 1 || r.Cursor == "" {
		t.Errorf("a scan out of time: %+v", r)
	}
	must(t, f.halt())

	f.cfg.ScanWait = 0
	f.start()
	_, err = f.Wait(within(t), f.end())
	must(t, err)
	r = f.grep(api.GrepRequest{Pattern: "needle"})
	if r.Total != 100 || len(r.NotSearched) != 1 || !strings.Contains(r.NotSearched[0], "positions 10") {
		t.Errorf("a lagging index: total %d, %v", r.Total, r.NotSearched)
	}
	if r = f.grep(api.GrepRequest{Pattern: "needle", Sort: "relevance"}); len(r.NotSearched) != 1 {
		t.Errorf("relevance with a lagging index: %v", r.NotSearched)
	}
	if r = f.grep(api.GrepRequest{Pattern: `needle \d+$`, Mode: "regex"}); r.Total != 100 || len(r.NotSearched) > 0 {
		t.Errorf("a scan needs no index: %d, %v", r.Total, r.NotSearched)
	}
}

// TestRegexGoesOn: a scan that ran out of time goes on behind its cursor until
// everything was searched.
func TestRegexGoesOn(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	for i := range 2_000 {
		log.say(rf, events.RoleUser, fmt.Sprintf("%s %d", strings.Repeat("a", 400), i%100))
	}
	f := setup(t, log)
	f.cfg.ScanWait = 8 * time.Millisecond
	f.start()
	q := api.GrepRequest{Tenant: "acme", Pattern: `(a|aa)+ 7$`, Mode: "regex", Token: f.end()}
	found, rounds := 0, 0
	for ; rounds < 500; rounds++ {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		r, err := f.Grep(ctx, q)
		cancel()
		must(t, err)
		found += len(r.Hits)
		if q.Cursor = r.Cursor; q.Cursor == "" {
			break
		}
	}
	if q.Cursor == "" && found != 20 {
		t.Errorf("%d of 20 found in %d rounds", found, rounds)
	}
}

func TestSnippets(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	family := "👩‍👩‍👧‍👦"
	log.say(rf, events.RoleUser, strings.Repeat(family+" ", 60)+"needle"+strings.Repeat(" "+family, 60))
	log.say(rf, events.RoleUser, strings.Repeat("é", 300)+"\n\nneedle\t\tin lines\n"+strings.Repeat("漢", 300))
	log.say(rf, events.RoleUser, "short needle")
	f := setup(t, log).start()
	f.awaitIndex()
	r := f.grep(api.GrepRequest{Pattern: "needle"})
	if len(r.Hits) != 3 {
		t.Fatalf("%d hits", len(r.Hits))
	}
	if r.Hits[0].Snippet != "short needle" {
		t.Errorf("short: %q", r.Hits[0].Snippet)
	}
	for _, h := range r.Hits[1:] {
		s := h.Snippet
		if !strings.Contains(s, "needle") || len(s) > 240 || !utf8.ValidString(s) || !strings.HasPrefix(s, "…") || !strings.HasSuffix(s, "…") || strings.ContainsAny(s, "\n\t") {
			t.Errorf("snippet of %d bytes: %q", len(s), s)
		}
	}
	if s := strings.ReplaceAll(r.Hits[2].Snippet, family, ""); strings.ContainsAny(s, "👩👧\u200d") {
		t.Errorf("a broken cluster in %q", r.Hits[2].Snippet)
	}
	small := f.grep(api.GrepRequest{Pattern: "needle", MaxTokens: 60})
	if len(small.Hits) != 1 || small.Cursor == "" || small.Total != 3 {
		t.Errorf("max_tokens: %d hits of %d, cursor %q", len(small.Hits), small.Total, small.Cursor)
	}
}
