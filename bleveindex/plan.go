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

// clause is one condition on a text.
type clause struct {
	seqs [][]slot // any of these stands in the text, at consecutive positions
	// all: or else, all of these terms, anywhere. Only with a literal.
	all []string
	// literal, folded, must stand in the text between token boundaries; it
	// then decides alone, and the index only narrows down. "" = the sequences
	// are exact.
	literal string
	// literals: one of these texts; see literal.go.
	literals []literal
}

// plan is a parsed query: every clause must hold.
type plan []clause

// loose: the index may find texts that do not match.
func (p plan) loose() bool {
	return slices.ContainsFunc(p, func(c clause) bool { return c.literal != "" || c.literals != nil })
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
			p = append(p, wordClause(units[0]))
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
func wordClause(u unit) clause {
	if s := u.symbol(); s != "" {
		return clause{seqs: [][]slot{{one(s)}}}
	}
	c := clause{seqs: [][]slot{{one(u.term)}}}
	if len(u.parts) > 1 {
		var parts []slot
		for _, p := range u.parts {
			parts = append(parts, one(p.term))
		}
		c.seqs = append(c.seqs, parts)
		c.literal = u.term
	}
	return c
}

// chunkClause: the units one behind the other.
func chunkClause(chunk string, units []unit, phrase bool) clause {
	var seq []slot
	var all []string
	for i, u := range units {
		last := i == len(units)-1
		if u.run {
			seq = append(seq, runSlots(u, last)...)
			continue
		}
		// The first part stands wherever the word does. Both as alternatives
		// would be two ways through each word of Bleve's phrase search, which
		// walks all of them: 2ⁿ.
		term, first := u.term, u.term
		if s := u.symbol(); s != "" {
			term, first = s, s
		} else if len(u.parts) > 0 {
			first = u.parts[0].term
		}
		all = append(all, term)
		seq = append(seq, one(first))
		for _, p := range u.parts[min(1, len(u.parts)):] {
			seq = append(seq, one(p.term))
		}
	}
	c := clause{seqs: [][]slot{seq}}
	if phrase || len(units) == 1 {
		return c // the positions say it all
	}
	end := units[len(units)-1]
	c.literal = foldString(chunk[units[0].start : end.end+len(end.suffix)])
	if len(all) == len(units) {
		c.all = all
	}
	return c
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
