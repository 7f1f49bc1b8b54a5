package tokens

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// The reference is o200k_base in its plainest form: the regular expression run
// by Go's engine, and byte-pair encoding by a map and repeated search. It
// shares nothing with the package but the library the vocabulary comes from,
// and added16.

// referencePattern is o200k_base's expression, but for the white space behind
// its other alternatives, which is one run here because Go has no lookahead;
// referenceSplit does that part. Go's \s is ASCII only.
var referencePattern = regexp.MustCompile(`\A(?:` + strings.NewReplacer(
	`<U>`, `\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}`+added(func(c class) bool { return c&upper != 0 }),
	`<L>`, `\p{Ll}\p{Lm}\p{Lo}\p{M}`+added(func(c class) bool { return c&lower != 0 }),
	`<N>`, `\p{N}`+added(func(c class) bool { return c == digit }),
	`<LN>`, `\p{L}\p{N}`+added(func(c class) bool { return c != mark }),
	`<S>`, `\t-\r\x{85}\p{Z}`,
	`<C>`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`,
).Replace(strings.Join([]string{
	`[^\r\n<LN>]?[<U>]*[<L>]+<C>`,
	`[^\r\n<LN>]?[<U>]+[<L>]*<C>`,
	`[<N>]{1,3}`,
	` ?[^<S><LN>]+[\r\n/]*`,
	`[<S>]*[\r\n]+`,
	`([<S>]+)`,
}, `|`)) + `)`)

// added returns the ranges of added16 that are in a set, as in an expression.
func added(in func(class) bool) string {
	var b strings.Builder
	for _, r := range added16 {
		if in(r.class) {
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, r.first, r.last)
		}
	}
	return b.String()
}

// referenceSplit cuts valid text into pieces.
func referenceSplit(s string) (pieces []string) {
	for s != "" {
		m := referencePattern.FindStringSubmatchIndex(s)
		end := m[1]
		if blank := m[2] >= 0; blank && end < len(s) {
			if _, last := utf8.DecodeLastRuneInString(s[:end]); last < end {
				end -= last
			}
		}
		pieces = append(pieces, s[:end])
		s = s[end:]
	}
	return pieces
}

// referenceRanks is the vocabulary: every token's id.
var referenceRanks = sync.OnceValue(func() map[string]int {
	lib := codec.NewO200kBase()
	ranks := map[string]int{}
	for id := range uint(vocabularySize) {
		token, err := lib.Decode([]uint{id})
		if err != nil {
			panic(err)
		}
		ranks[token] = int(id)
	}
	return ranks
})

// referenceMerge returns the tokens of one piece.
func referenceMerge(piece string) []string {
	if _, ok := referenceRanks()[piece]; ok {
		return []string{piece}
	}
	return bytePairs(piece)
}

// bytePairs is byte-pair encoding as it is defined.
func bytePairs(piece string) (parts []string) {
	ranks := referenceRanks()
	for i := range len(piece) {
		parts = append(parts, piece[i:i+1])
	}
	for {
		best, rank := -1, math.MaxInt
		for i := range len(parts) - 1 {
			if r, ok := ranks[parts[i]+parts[i+1]]; ok && r < rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			return parts
		}
		parts[best] += parts[best+1]
		parts = slices.Delete(parts, best+1, best+2)
	}
}

// referenceCount is what Count must return.
func referenceCount(s string) int {
	n := 0
	for _, piece := range referenceSplit(string([]rune(s))) {
		n += len(referenceMerge(piece))
	}
	return n
}
