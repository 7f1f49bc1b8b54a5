package tokens

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// The reference is o200k_base in its plainest form: the regular expression run
// by Go's engine, and byte-pair encoding by a map and repeated search. It
// shares nothing with the package but the library the vocabulary comes from.

// referencePattern is o200k_base's expression with \s spelled out, which in Go
// is ASCII only, and with white space behind other alternatives reduced to one
// run, because Go has no lookahead: referenceSplit does that part.
var referencePattern = regexp.MustCompile(`\A(?:` + strings.NewReplacer(
	`<S>`, `\t-\r\x{85}\p{Z}`,
	`<U>`, `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`,
	`<L>`, `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`,
	`<C>`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`,
).Replace(strings.Join([]string{
	`[^\r\n\p{L}\p{N}]?<U>*<L>+<C>`,
	`[^\r\n\p{L}\p{N}]?<U>+<L>*<C>`,
	`\p{N}{1,3}`,
	` ?[^<S>\p{L}\p{N}]+[\r\n/]*`,
	`[<S>]*[\r\n]+`,
	`([<S>]+)`,
}, `|`)) + `)`)

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
	ranks := referenceRanks()
	if _, ok := ranks[piece]; ok {
		return []string{piece}
	}
	parts := strings.Split(piece, "")
	if !utf8.ValidString(piece) {
		panic("the reference takes valid text only")
	}
	parts = parts[:0]
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
		parts = append(parts[:best+1], parts[best+2:]...)
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
