package bleveindex

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestFoldOrbits: what RE2 takes for one letter in (?i) is folded to one, so
// that the index can be asked for it.
func TestFoldOrbits(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if next := unicode.SimpleFold(r); fold(next) != fold(r) {
			t.Errorf("%q folds to %q, %q to %q", r, fold(r), next, fold(next))
		}
	}
}

// TestLiteralPieces: what an index is asked for of a literal.
func TestLiteralPieces(t *testing.T) {
	for text, want := range map[string][]part{
		"refused: dial tc": {{"refused", true, false}, {"dial", false, false}, {"tc", false, true}},
		" dial ":           {{"dial", false, false}},
		"東京都":              {{term: "東京"}, {term: "京都"}},
		"京":                {{term: "京", right: true}},
		"\u0301abc ":       {{"abc", true, false}}, // the mark may belong to a word before it
		"->":               nil,
		"a京b":              {{"a", true, false}, {"京", false, true}, {"b", false, true}},
	} {
		got := newLiteral(text).pieces
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", text, got, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
	}
}

// FuzzLiteral: a text that holds a literal is never refused by its pieces.
func FuzzLiteral(f *testing.F) {
	f.Add("call getUserById(東京) ERR-4242 e\u0301a", 3, 9)
	f.Fuzz(func(t *testing.T, text string, from, n int) {
		if from < 0 || n < 1 || n > 1000 || from > len(text)-n || !utf8.ValidString(text) || !utf8.ValidString(text[from:from+n]) {
			return
		}
		terms := map[string]bool{}
		tokenize(text, func(x token) { terms[x.term] = true })
		for _, p := range newLiteral(text[from : from+n]).chosen() {
			if !p.heldBy(terms) {
				t.Fatalf("%q in %q: no term holds %+v", text[from:from+n], text, p)
			}
		}
	})
}

func (p part) heldBy(terms map[string]bool) bool {
	if terms[longWord] && p.cost() == 2 {
		return true
	}
	for term := range terms {
		switch p.cost() {
		case 0:
			if term == p.term {
				return true
			}
		case 1:
			if len(term) >= len(p.term) && term[:len(p.term)] == p.term {
				return true
			}
		default:
			if p.in(term) {
				return true
			}
		}
	}
	return false
}
