package bleveindex_test

import (
	"bufio"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/token/porter"

	"lcm/rank"
)

// TestStem holds our stemmer against Bleve's, on words made to reach every
// suffix and on whatever word list this machine has.
func TestStem(t *testing.T) {
	words := strings.Fields(`caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled
sized hopping tanned falling hissing fizzed failing filing happy sky relational conditional rational valenci hesitanci
digitizer conformabli radicalli differentli vileli analogousli vietnamization predication operator feudalism
decisiveness hopefulness callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti
electrical hopeful goodness revival allowance inference airliner gyroscopic adjustable defensible irritant replacement
adjustment dependent adoption homologou communism activate angulariti homologous effective bowdlerize probate rate
cease controll roll databases caching cached settings queries deployment scheduled summarizing generalization`)
	if f, err := os.Open("/usr/share/dict/words"); err == nil {
		defer func() { _ = f.Close() }()
		for s := bufio.NewScanner(f); s.Scan(); {
			words = append(words, strings.ToLower(s.Text()))
		}
	}
	if raw, err := os.ReadFile("../../shared/beam/dev.jsonl"); err == nil {
		words = append(words, regexp.MustCompile(`\b[a-z]+\b`).FindAllString(string(raw[:min(len(raw), 1<<20)]), -1)...)
	}
	for _, w := range words {
		in := analysis.TokenStream{{Term: []byte(w)}}
		if want := string(porter.NewPorterStemmer().Filter(in)[0].Term); rank.Stem(w) != want {
			t.Errorf("%s: %s, want %s", w, rank.Stem(w), want)
		}
	}
}
