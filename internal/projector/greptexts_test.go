package projector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
)

// TestUnindexedTail: what the index has not reached is found all the same, the
// second time as the first, under other filters, and once it has grown.
func TestUnindexedTail(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	f := setup(t, log)
	f.cfg.IndexEvery = time.Hour
	f.start()
	seqs := func(q api.GrepRequest) (out []uint64) {
		q.Token = events.Position{} // nobody waits for the index
		r := f.grep(q)
		if len(r.NotSearched) > 0 {
			t.Errorf("%+v: %q", q, r.NotSearched)
		}
		for _, h := range r.Hits {
			out = append(out, h.Seq)
		}
		return out
	}
	var user, both []uint64
	for n := range 40 {
		role := []events.Role{events.RoleUser, events.RoleAssistant}[n%2]
		at := log.say(rf, role, fmt.Sprintf("turn %d of the tail", n))
		both = append([]uint64{at.Seq}, both...)
		if role == events.RoleUser {
			user = append([]uint64{at.Seq}, user...)
		}
		_, err := f.Wait(within(t), at)
		must(t, err)
		for range 2 {
			if got := seqs(api.GrepRequest{Pattern: "tail", Limit: 100}); !slices.Equal(got, both) {
				t.Fatalf("after turn %d: %v, want %v", n, got, both)
			}
		}
		if got := seqs(api.GrepRequest{Pattern: "TAIL", Roles: []string{"user"}, Limit: 100}); !slices.Equal(got, user) {
			t.Fatalf("the user's, after turn %d: %v, want %v", n, got, user)
		}
		if got := seqs(api.GrepRequest{Pattern: fmt.Sprintf(`turn %d\b`, n), Mode: "regex"}); !slices.Equal(got, both[:1]) {
			t.Fatalf("turn %d: %v", n, got)
		}
	}
}

// TestHugeTurns: a turn of megabytes, one word of megabytes, and lines without
// end are found at their ends, in every mode, indexed or not.
func TestHugeTurns(t *testing.T) {
	log := newLog("E1")
	rf := ref("a")
	log.configure(rf, nil)
	want := map[string]uint64{}
	for name, body := range map[string]string{
		"prose": strings.Repeat("lorem ipsum dolor\r\n", 60_000),
		"word":  strings.Repeat("abcdefgh", 130_000) + " ",
		"han":   strings.Repeat("数据库连接失败", 50_000) + "。",
		"marks": "e" + strings.Repeat("\u0301", 200_000) + " ",
	} {
		want[name] = log.say(rf, events.RoleUser, body+"theNeedle"+name+" stands 東京都").Seq
	}
	f := setup(t, log).start()
	_, err := f.Wait(within(t), f.end())
	must(t, err)
	for _, indexed := range []bool{false, true} {
		if indexed {
			f.awaitIndex()
		}
		for name, seq := range want {
			for _, q := range []api.GrepRequest{
				{Pattern: "theneedle" + name},
				{Pattern: "theNeedle" + name + " STANDS 東京都", Mode: "phrase"},
				{Pattern: "Needle" + name + " stands", Mode: "substring"},
				{Pattern: `(?i)THENEEDLE` + name + `\s+\w+ 東.都$`, Mode: "regex"},
			} {
				r := f.grep(q)
				if len(r.Hits) != 1 || r.Hits[0].Seq != seq || len(r.NotSearched) > 0 || len(r.Hits[0].Snippet) > 400 {
					t.Errorf("%s (indexed %v), %+v: %d hits, not searched %q", name, indexed, q, len(r.Hits), r.NotSearched)
				}
			}
		}
	}
}
