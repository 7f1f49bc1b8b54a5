package tokens

import "unicode"

// class says which sets of o200k_base's regular expression a character is in.
type class uint8

const (
	upper   class = 1 << iota // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	digit                     // \p{N}
	space                     // \s
	newline                   // [\r\n]
	punct                     // [^\s\p{L}\p{N}]
	prefix                    // [^\r\n\p{L}\p{N}]
)

// Modifier letters, other letters and marks are in both sets of cases. Marks
// are, besides, no letters: they are in punct and prefix as well.
const (
	bothCases = upper | lower
	mark      = bothCases | punct | prefix
)

// A block is this many characters, and has one entry in classes.block.
const (
	blockBits = 7
	blockSize = 1 << blockBits
)

// classes is a two-stage table: most blocks of Unicode are alike, and what is
// left fits the first cache. Block 0 is ASCII.
type classes struct {
	block [(unicode.MaxRune + 1) / blockSize]uint8
	class [][blockSize]class
}

// newClasses builds the table from the standard library's Unicode tables and
// what these lack. TestClasses notices when they change.
func newClasses() *classes {
	flat := make([]class, unicode.MaxRune+1)
	for i := range flat {
		flat[i] = punct | prefix
	}
	fill(flat, unicode.L, bothCases)
	fill(flat, unicode.Lu, upper)
	fill(flat, unicode.Lt, upper)
	fill(flat, unicode.Ll, lower)
	fill(flat, unicode.M, mark)
	fill(flat, unicode.N, digit)
	fill(flat, unicode.White_Space, space|prefix)
	for _, r := range added16 {
		for i := r.first; i <= r.last; i++ {
			flat[i] = r.class
		}
	}
	flat['\r'], flat['\n'] = space|newline, space|newline
	return compress(flat)
}

func fill(flat []class, set *unicode.RangeTable, c class) {
	for _, r := range set.R16 {
		for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
			flat[i] = c
		}
	}
	for _, r := range set.R32 {
		for i := int(r.Lo); i <= int(r.Hi); i += int(r.Stride) {
			flat[i] = c
		}
	}
}

func compress(flat []class) *classes {
	t := new(classes)
	seen := map[[blockSize]class]uint8{}
	for b := range t.block {
		content := [blockSize]class(flat[b*blockSize:])
		at, ok := seen[content]
		if !ok {
			if len(t.class) == 256 {
				panic("tokens: too many kinds of blocks of characters for a byte")
			}
			at = uint8(len(t.class))
			seen[content] = at
			t.class = append(t.class, content)
		}
		t.block[b] = at
	}
	return t
}

// of returns the class of r, which must be a valid code point.
func (t *classes) of(r rune) class {
	return t.class[t.block[r>>blockBits]][r&(blockSize-1)]
}
