package bleveindex

import (
	"slices"
	"strings"
	"unicode"

	"lcm/internal/problem"
)

// maxQueryBytes and maxQueryTerms bound a query's text.
const (
	maxQueryBytes = 4096
	maxQueryTerms = 256
)

// slot is one position of a sequence: any of its terms stands there.
type slot struct {
	terms  []string
	prefix bool // the term only begins the token (a lone character of a run)
}

// clause is one condition on a text: one of these is set.
type clause struct {
	seq     []slot   // stands in the text at consecutive positions
	written *written // stands in the text as it is written
	// literals: one of these texts; see literal.go.
	literals []literal
}

// written is a string of several words, or of a word with parts, that must
// stand in the text as it is, without regard to case. Its first word may be the
// end of a longer identifier, its last one the beginning of one: a.UserById in
// data.UserByIdOrName. The index knows its words only.
type written struct {
	folded string
	words  []writtenWord
}

// writtenWord is a word of it, or a run: whole in the text, or its parts are.
type writtenWord struct {
	whole stretch
	parts []stretch
	run   []slot // pairs of characters; then the others are empty
}

// stretch is a term and its place in the folded string.
type stretch struct {
	term     string
	from, to int
}

// plan is a parsed query: every clause must hold.
type plan []clause

// loose: the index may find texts that do not match.
func (p plan) loose() bool {
	return slices.ContainsFunc(p, func(c clause) bool { return c.written != nil || c.literals != nil })
}

// parse reads a query's text. There is no syntax in it: quotes, operators and
// brackets are separators like any other. Words are what stands between
// spaces; a word with separators inside (a path, x:y, ERR-4242) must stand in
// the text as it is written, without regard to case.
func parse(text string, phrase bool) (plan, error) {
	if len(text) > maxQueryBytes {
		return nil, problem.New(problem.Invalid, "the pattern has %d bytes, at most %d are searched for", len(text), maxQueryBytes)
	}
	chunks := []string{text}
	if !phrase {
		chunks = strings.FieldsFunc(text, unicode.IsSpace)
	}
	var p plan
	terms := 0
	for _, chunk := range chunks {
		var units []unit
		eachUnit(chunk, func(u unit) {
			units = append(units, u)
			terms += u.width()
		})
		switch {
		case len(units) == 0:
		case len(units) == 1 && !units[0].run:
			p = append(p, wordClause(chunk, units[0]))
		default:
			p = append(p, chunkClause(chunk, units, phrase))
		}
	}
	if terms > maxQueryTerms {
		return nil, problem.New(problem.Invalid, "the pattern has %d words, at most %d are searched for", terms, maxQueryTerms)
	}
	if len(p) == 0 {
		return nil, problem.New(problem.Invalid, "the pattern %q has no letters or digits to search for", text).
			WithHint("search for signs with mode regex")
	}
	return p, nil
}

func one(term string) slot { return slot{terms: []string{term}} }

// wordClause: the word as it is, or, where it has parts, the end of a longer
// identifier: UserById in getUserById.
func wordClause(chunk string, u unit) clause {
	if s := u.symbol(); s != "" {
		return clause{seq: []slot{one(s)}}
	}
	if len(u.parts) > 1 {
		return clause{written: newWritten(chunk, []unit{u})}
	}
	return clause{seq: []slot{one(u.term)}}
}

// chunkClause: the units one behind the other. In a phrase, and in a run,
// positions say it all.
func chunkClause(chunk string, units []unit, phrase bool) clause {
	if !phrase && len(units) > 1 {
		return clause{written: newWritten(chunk, units)}
	}
	var seq []slot
	for i, u := range units {
		last := i == len(units)-1
		if u.run {
			seq = append(seq, runSlots(u, last)...)
			continue
		}
		// The first part stands wherever the word does.
		first := u.term
		if s := u.symbol(); s != "" {
			first = s
		} else if len(u.parts) > 0 {
			first = u.parts[0].term
		}
		seq = append(seq, one(first))
		for _, p := range u.parts[min(1, len(u.parts)):] {
			seq = append(seq, one(p.term))
		}
	}
	return clause{seq: seq}
}

func newWritten(chunk string, units []unit) *written {
	first, last := units[0], units[len(units)-1]
	w := &written{folded: foldString(chunk[first.start : last.end+len(last.suffix)])}
	place := func(at int) int { return len(foldString(chunk[first.start:at])) }
	for _, u := range units {
		var word writtenWord
		switch s := u.symbol(); {
		case u.run:
			word.run = runSlots(u, true)
		case s != "":
			word.whole = stretch{s, place(u.start), place(u.end + len(u.suffix))}
		default:
			word.whole = stretch{u.term, place(u.start), place(u.end)}
			for _, p := range u.parts {
				word.parts = append(word.parts, stretch{p.term, place(p.start), place(p.end)})
			}
		}
		w.words = append(w.words, word)
	}
	return w
}

// runSlots: pairs of characters. The last character of a run stands alone in
// the index only where the run ends, which it does where a word follows.
func runSlots(u unit, last bool) []slot {
	var out []slot
	n := len(u.parts)
	for i := 0; i+1 < n; i++ {
		out = append(out, one(u.parts[i].term+u.parts[i+1].term))
	}
	if !last || n == 1 {
		out = append(out, slot{terms: []string{u.parts[n-1].term}, prefix: last})
	}
	return out
}
