package bleveindex

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lcm/events"
	"lcm/internal/api"
)

// TestTrigrams: an index with trigrams finds every text that holds a literal in
// some case, and none without its trigrams; and it is not taken for one without.
func TestTrigrams(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	dir := filepath.Join(t.TempDir(), "i")
	x, err := Open(dir, Options{Trigrams: true})
	if err != nil {
		t.Fatal(err)
	}
	var docs []Doc
	for n := range uint64(300) {
		docs = append(docs, Doc{Seq: n + 1, Kind: api.KindTurn, Ref: events.Ref{Tenant: "acme", Session: "s"}, Text: strings.ToValidUTF8(stew(rng, 12), "?")})
	}
	if err := x.Apply(docs, 300); err != nil {
		t.Fatal(err)
	}
	narrowed := 0
	for range 2_000 {
		text := []rune(docs[rng.IntN(len(docs))].Text)
		from := rng.IntN(len(text))
		literal := string(text[from:min(len(text), from+1+rng.IntN(8))])
		lists := [][]string{{[]func(string) string{strings.ToLower, strings.ToUpper, strings.Clone}[rng.IntN(3)](literal)}}
		grams := gramsOf(lists[0][0])
		if !x.Narrows(lists) {
			if len(grams) > 0 {
				t.Fatalf("%q does not narrow", literal)
			}
			continue
		}
		h, err := x.Search(context.Background(), Query{Tenant: "acme", Literals: lists, Limit: 1_000})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			folded := foldString(d.Text)
			hit := slices.ContainsFunc(h.Hits, func(h Hit) bool { return h.Seq == d.Seq })
			if !hit && strings.Contains(folded, foldString(lists[0][0])) {
				t.Fatalf("%q is not found in %q", lists[0][0], d.Text)
			}
			lacks := func(gram string) bool { return !strings.Contains(folded, gram) }
			if hit && slices.ContainsFunc(grams, lacks) {
				t.Fatalf("%q is found in %q", lists[0][0], d.Text)
			}
		}
		if len(h.Hits) < len(docs) {
			narrowed++
		}
	}
	if narrowed < 500 {
		t.Errorf("only %d literals narrowed anything down", narrowed)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, api.ErrOutdated) {
		t.Fatal(err)
	}
	none, err := Files{Dir: dir}.Create("E")
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{Trigrams: true}); !errors.Is(err, api.ErrOutdated) {
		t.Fatal(err)
	}
}
