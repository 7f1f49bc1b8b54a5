package bleveindex

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// locateWhole reads the whole text into words: what locate must agree with.
func (p plan) locateWhole(text string) bool {
	a, f := analyse(text), newFolded(text)
	for _, c := range p {
		if len(c.locateIn(a, f)) == 0 {
			return false
		}
	}
	return true
}

var fragments = []string{
	"getUserById", "user_repo", ".", "go", ":", "42", "C++", "c#", "+", "#", " ", " ", "\n", "\r\n", "\u00a0", "\u3000", "東", "京都", "𠮷野", "한국", "ไทย",
	"e\u0301", "\u0301", "ﬁ", "İ", "ſ", "K", "Ａ", "ß", "ẞ", "'", "’", "\xff", "\xe4", "x", "AB", "01J9ZK4TQ8X2V5M7", "_", "--", "Ⱥ", "the", "of",
}

func stew(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range 1 + rng.IntN(n) {
		b.WriteString(fragments[rng.IntN(len(fragments))])
	}
	if rng.IntN(20) == 0 {
		b.WriteString(strings.Repeat("long", 40))
		b.WriteString(fragments[rng.IntN(len(fragments))])
	}
	return b.String()
}

// TestWindows: looking around an anchor finds what reading the whole text
// does, and every query that is a stretch of words of a text finds it.
func TestWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	agreed := map[bool]int{}
	for range 20_000 {
		text := stew(rng, 30)
		query := stew(rng, 3)
		if rng.IntN(2) == 0 {
			words := strings.FieldsFunc(text, unicode.IsSpace)
			if len(words) == 0 {
				continue
			}
			from := rng.IntN(len(words))
			query = strings.Join(words[from:min(len(words), from+1+rng.IntN(4))], " ")
		}
		for _, phrase := range []bool{false, true} {
			p, err := parse(query, phrase)
			if err != nil {
				continue
			}
			spans := p.locate(newFolded(text))
			want := p.locateWhole(text)
			if (spans != nil) != want {
				t.Fatalf("%q in %q (phrase %v): %v, whole %v", query, text, phrase, spans, want)
			}
			agreed[want]++
			for _, s := range spans {
				if s[0] < 0 || s[0] >= s[1] || s[1] > len(text) {
					t.Fatalf("%q in %q: span %v", query, text, s)
				}
			}
			if !slices.IsSortedFunc(spans, func(a, b [2]int) int { return a[0] - b[0] }) {
				t.Fatalf("%q in %q: %v", query, text, spans)
			}
		}
	}
	if agreed[true] < 3_000 || agreed[false] < 3_000 {
		t.Errorf("too one-sided: %v", agreed)
	}
}

// TestFoldedPlaces: each byte of the folded form comes from where it should.
func TestFoldedPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 5_000 {
		text := stew(rng, 12)
		f := newFolded(text)
		if want := foldString(text); f.folded != want {
			t.Fatalf("%q folds to %q, want %q", text, f.folded, want)
		}
		n := 0
		for i, r := range text {
			if f.at(n) != i {
				t.Fatalf("%q: byte %d of %q comes from %d, not %d", text, n, f.folded, i, f.at(n))
			}
			n += len(string(fold(r)))
		}
		if f.at(n) != len(text) {
			t.Fatalf("%q: the end comes from %d", text, f.at(n))
		}
	}
}
