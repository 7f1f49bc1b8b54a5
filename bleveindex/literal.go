package bleveindex

import (
	"unicode/utf8"
)

// A literal is a stretch of text that is looked for as it stands, somewhere in
// a text: by substring search, and by a regex that cannot match without it.
// What the index knows of it are its pieces:
//
//	literal     refused: dial tc     東京
//	pieces      …refused, dial, tc…  東京
//
// A piece with something of the literal on both sides is a whole word of the
// text; the first and the last may be the end and the beginning of one.
type literal struct {
	pieces []part
	grams  []string // see trigram.go
}

// part is a word, or a pair of characters, of a literal.
type part struct {
	term        string
	left, right bool // more of the word may stand there
}

// minOpenBytes: a shorter part of a word stands in too many words.
const minOpenBytes = 3

func newLiteral(text string) literal {
	l := literal{grams: gramsOf(text)}
	eachUnit(text, func(u unit) {
		if u.run {
			l.addRun(u)
			return
		}
		l.pieces = append(l.pieces, part{u.term, openLeft(text[:u.start]), u.end == len(text)})
	})
	return l
}

// addRun: every pair of characters of a run is a term, wherever the run begins
// and ends; a single character begins one.
func (l *literal) addRun(u unit) {
	for i := 0; i+1 < len(u.parts); i++ {
		l.pieces = append(l.pieces, part{term: u.parts[i].term + u.parts[i+1].term})
	}
	if len(u.parts) == 1 {
		l.pieces = append(l.pieces, part{term: u.parts[0].term, right: true})
	}
}

// openLeft: what stands before a piece does not end the word before it. A mark
// belongs to whatever it follows, which is not there to be seen.
func openLeft(before string) bool {
	for _, r := range before {
		if classOf(narrow(r)) != mark {
			return false
		}
	}
	return true
}

// cost orders pieces by how dearly they are looked up: terms, prefixes, and
// words that hold the piece, for which the dictionary is read.
func (p part) cost() int {
	switch {
	case p.left:
		return 2
	case p.right:
		return 1
	}
	return 0
}

func (p part) usable() bool {
	r, _ := utf8.DecodeRuneInString(p.term)
	return p.cost() == 0 || len(p.term) >= minOpenBytes || classOf(r) == runRune
}

// chosen are the pieces that are looked up: whole terms, prefixes, and the
// longest part of a word if it is longer than those, and so likely rarer: for
// it the dictionary is read.
func (l literal) chosen() (out []part) {
	var widest *part
	longest := 0
	for i, p := range l.pieces {
		switch {
		case !p.usable():
		case p.cost() < 2:
			out = append(out, p)
			longest = max(longest, len(p.term))
		case widest == nil || len(p.term) > len(widest.term):
			widest = &l.pieces[i]
		}
	}
	if widest != nil && len(widest.term) > longest {
		out = append(out, *widest)
	}
	return out
}

// narrowing is the plan of literals: those lists whose strings all have a
// piece, or trigrams, to look up.
func narrowing(lists [][]string, trigrams bool) plan {
	var p plan
	for _, list := range lists {
		c := clause{}
		for _, text := range list {
			l := newLiteral(text)
			if len(l.chosen()) == 0 && !(trigrams && len(l.grams) > 0) {
				c.literals = nil
				break
			}
			c.literals = append(c.literals, l)
		}
		if c.literals != nil {
			p = append(p, c)
		}
	}
	return p
}

// Narrows implements api.IndexReader.
func (x *Index) Narrows(lists [][]string) bool { return len(narrowing(lists, x.trigrams)) > 0 }
