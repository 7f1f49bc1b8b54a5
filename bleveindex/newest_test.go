package bleveindex_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"lcm/bleveindex"
)

// TestOutOfOrder: segments whose documents do not ascend, documents that were
// written again, and pages of every size answer as a sort would.
func TestOutOfOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x := open(t, filepath.Join(t.TempDir(), "i"), bleveindex.Options{})
	texts := map[uint64]string{}
	for batch := range uint64(12) {
		var docs []bleveindex.Doc
		for range 60 {
			seq := 1 + rng.Uint64N(400)
			texts[seq] = fmt.Sprintf("red %s%d blue fox%d", []string{"", "green "}[rng.IntN(2)], seq%5, seq%3)
			docs = slices.DeleteFunc(docs, func(d bleveindex.Doc) bool { return d.Seq == seq })
			docs = append(docs, doc(seq, "acme", "a", texts[seq]))
		}
		must(t, x.Apply(docs, 500+batch))
	}
	for _, q := range []bleveindex.Query{
		{Text: "red"},
		{Text: "green 3"},
		{Text: "red green", Phrase: true},
		{Text: "red 2 blue", Phrase: true},
		{Text: "4 blue fox1", Phrase: true},
		{Text: "green blue", Phrase: true},
	} {
		words, err := bleveindex.Locator(q.Text, q.Phrase)
		must(t, err)
		var want []uint64
		for seq, text := range texts {
			if words.Locate(words.Fold(text)) != nil {
				want = append(want, seq)
			}
		}
		slices.Sort(want)
		slices.Reverse(want)
		for _, limit := range []int{1, 7, 1000} {
			q.Tenant, q.Limit, q.After = "acme", limit, ""
			var got []uint64
			for {
				h, err := x.Search(context.Background(), q)
				must(t, err)
				if left := len(want) - len(got); !h.Loose && h.Total != uint64(left) {
					t.Errorf("%q: %d in all behind %d of %d", q.Text, h.Total, len(got), len(want))
				}
				if len(h.Hits) == 0 {
					break
				}
				got = append(got, seqs(h)...)
				q.After = h.Hits[len(h.Hits)-1].ID
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q by %d: %v, want %v", q.Text, limit, got, want)
			}
		}
	}
}
