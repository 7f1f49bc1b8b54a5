package bleveindex

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"lcm/events"
	"lcm/internal/api"
)

// TestIndexMissesNothing: what a text holds, by Locator, the index finds: texts
// and queries of words glued to each other in every way, in any case.
// LCM_SEARCH_QUERIES makes longer runs, LCM_SEARCH_SEED other ones.
func TestIndexMissesNothing(t *testing.T) {
	fromEnv := func(name string, d int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return d
	}
	rng := rand.New(rand.NewPCG(uint64(fromEnv("LCM_SEARCH_SEED", 11)), 12))
	x, err := Open(filepath.Join(t.TempDir(), "i"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Close() }()
	var docs []Doc
	for n := range uint64(300) {
		docs = append(docs, Doc{
			Seq: n + 1, Kind: api.KindTurn, Ref: events.Ref{Tenant: "acme", Session: "s"}, Role: "user",
			Depth: api.NoDepth, Time: time.Unix(int64(n), 0), Text: stew(rng, 25),
		})
	}
	if err := x.Apply(docs, 300); err != nil {
		t.Fatal(err)
	}
	found := 0
	for range fromEnv("LCM_SEARCH_QUERIES", 1_000) {
		words := strings.FieldsFunc(docs[rng.IntN(len(docs))].Text, unicode.IsSpace)
		query := stew(rng, 3)
		if len(words) > 0 && rng.IntN(4) > 0 {
			from := rng.IntN(len(words))
			runes := []rune(strings.Join(words[from:min(len(words), from+1+rng.IntN(3))], " "))
			from = rng.IntN(len(runes))
			query = string(runes[from:min(len(runes), from+1+rng.IntN(25))])
		}
		query = []func(string) string{strings.ToLower, strings.ToUpper, strings.Clone}[rng.IntN(3)](query)
		q := Query{Text: query, Phrase: rng.IntN(3) == 0, Tenant: "acme", Limit: 1_000}
		loc, err := Locator(q.Text, q.Phrase)
		if err != nil {
			continue
		}
		h, err := x.Search(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			held := loc.Locate(loc.Fold(d.Text)) != nil
			hit := slices.ContainsFunc(h.Hits, func(h Hit) bool { return h.Seq == d.Seq })
			if held && !hit || hit && !held && !h.Loose {
				t.Fatalf("%q (phrase %v) in %q: held %v, found %v", q.Text, q.Phrase, d.Text, held, hit)
			}
			if held {
				found++
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d found", found)
	}
}
