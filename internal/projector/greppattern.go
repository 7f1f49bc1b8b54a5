package projector

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/rank"
)

// matcher returns the byte ranges of the matches in a text, nil for none.
type matcher func(*text) [][2]int

// plain is a matcher of the text as it stands.
func plain(match func(string) [][2]int) matcher {
	return func(t *text) [][2]int { return match(t.text) }
}

// maxSpans bounds how many matches of a text are looked for: a snippet shows
// few.
const maxSpans = 8

// pattern is what is looked for.
type pattern struct {
	match matcher
	// literals, of regex and substring: of each list the text holds one string,
	// in some case. nil = nothing is known.
	literals [][]string
	sieve    sieve
	question rank.Question
}

// prepare makes the matcher. A pattern that cannot be searched for is invalid,
// never zero hits.
func (s *Service) prepare(q *query) error {
	switch q.Mode {
	case modeRegex:
		return q.prepareRegex(q.Pattern)
	case modeSubstring:
		if q.IgnoreCase {
			return q.prepareRegex(regexp.QuoteMeta(q.Pattern))
		}
		q.expect([]need{{any: []string{q.Pattern}}})
		q.match = plain(func(text string) [][2]int { return occurrences(text, q.Pattern) })
		return nil
	}
	q.question = rank.Parse(q.Pattern, rank.Default())
	if q.Mode == modeRelevance {
		if len(q.question.Terms) == 0 {
			return problem.New(problem.Invalid, "the question %q has no words that say what it is about", q.Pattern).
				WithHint("search for these very words with mode words or phrase")
		}
		q.match = plain(q.question.Spans)
		return nil
	}
	return s.use(func(_ api.Store, index api.Index) error {
		words, err := index.Locator(q.Pattern, q.Mode == modePhrase)
		q.match = func(t *text) [][2]int { return words.Locate(t.in(words)) }
		return err
	})
}

func (q *query) prepareRegex(expr string) error {
	flags := ""
	if q.IgnoreCase {
		flags += "i"
	}
	if q.Multiline {
		flags += "m"
	}
	if flags != "" {
		expr = "(?" + flags + ":" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return problem.New(problem.Invalid, "the pattern is no regular expression (RE2): %w", err)
	}
	q.expect(needsOf(expr))
	q.match = plain(func(text string) (out [][2]int) {
		for _, at := range re.FindAllStringIndex(text, maxSpans) {
			out = append(out, [2]int{at[0], at[1]})
		}
		return out
	})
	return nil
}

func occurrences(text, part string) (out [][2]int) {
	for i := 0; len(out) < maxSpans; {
		j := strings.Index(text[i:], part)
		if j < 0 {
			break
		}
		out = append(out, [2]int{i + j, i + j + len(part)})
		i += j + len(part)
	}
	return out
}

// expect notes what every text that matches holds.
func (q *query) expect(needs []need) { q.literals, q.sieve = stringsOf(needs), newSieve(needs) }

func needsOf(expr string) []need {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil
	}
	return required(tree.Simplify())
}

// required lists what every match of an expression holds.
func required(re *syntax.Regexp) []need {
	switch re.Op {
	case syntax.OpLiteral:
		return []need{{[]string{string(re.Rune)}, re.Flags&syntax.FoldCase != 0}}
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0])
		}
	case syntax.OpConcat:
		var out []need
		for _, sub := range re.Sub {
			out = append(out, required(sub)...)
		}
		return out
	case syntax.OpAlternate:
		return alternatives(re.Sub)
	}
	return nil
}

// maxAlternatives: longer lists narrow nothing down.
const maxAlternatives = 16

// alternatives: one branch matches, so one of the longest literals of each
// branch is there.
func alternatives(branches []*syntax.Regexp) []need {
	var out need
	for _, b := range branches {
		var best need
		for _, n := range required(b) {
			if shortest(n.any) > shortest(best.any) {
				best = n
			}
		}
		if best.any == nil {
			return nil
		}
		out.any, out.fold = append(out.any, best.any...), out.fold || best.fold
	}
	if len(out.any) > maxAlternatives {
		return nil
	}
	return []need{out}
}

func shortest(list []string) int {
	n := 0
	for i, s := range list {
		if i == 0 || len(s) < n {
			n = len(s)
		}
	}
	return n
}
