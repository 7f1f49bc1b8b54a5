package bleveindex

import (
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/analysis"
)

// Trigrams, where Options ask for them: field "grams" holds every three
// consecutive bytes of the folded text. A literal of three bytes or more then
// stands only where all of its trigrams do, whatever words it is a part of, and
// no dictionary is read for it. Folding is rune by rune, so that what is folded
// alone is folded as in any text.

const gramBytes = 3

// eachGram visits the distinct trigrams of a folded text.
func eachGram(folded string, visit func(gram string)) {
	seen := make(map[[gramBytes]byte]struct{}, len(folded)/2)
	for i := 0; i+gramBytes <= len(folded); i++ {
		gram := folded[i : i+gramBytes]
		key := [gramBytes]byte([]byte(gram))
		if _, ok := seen[key]; !ok {
			seen[key] = struct{}{}
			visit(gram)
		}
	}
}

// gramsOf a literal, nil where it is too short, or no text: half a character
// does not fold as the whole does.
func gramsOf(literal string) (out []string) {
	if utf8.ValidString(literal) {
		eachGram(newFolded(literal).folded, func(gram string) { out = append(out, gram) })
	}
	return out
}

// grams implements analysis.Analyzer.
type grams struct{}

// Analyze implements analysis.Analyzer.
func (grams) Analyze(input []byte) (out analysis.TokenStream) {
	eachGram(newFolded(string(input)).folded, func(gram string) {
		out = append(out, &analysis.Token{Term: []byte(gram), Position: len(out) + 1})
	})
	return out
}

// literal is the documents that may hold it.
func (g *seg) literal(l literal) (*roaring.Bitmap, error) {
	if g.trigrams && len(l.grams) > 0 {
		return all(l.grams, func(gram string) (*roaring.Bitmap, error) { return g.term(fieldGrams, gram) })
	}
	return all(l.chosen(), g.part)
}
