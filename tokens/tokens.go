// Package tokens counts text in tokens of OpenAI's o200k_base vocabulary,
// exactly, and cuts text to a number of tokens without breaking a character.
//
// Counting has two steps. The splitter (split.go) cuts text into pieces as
// o200k_base's regular expression does; the merge (merge.go) says how many
// tokens byte-pair encoding makes of one piece. Both are our own: the library
// the vocabulary comes from is an order of magnitude slower and not exact.
// What is exact is what OpenAI's tiktoken says; testdata/ holds its answers.
//
// The package is pure: no I/O, no clock, no logging. It must never import the
// engine's packages, and of the tokenizer library only package codec, whose
// one vocabulary is the only one linked.
package tokens

import (
	"sync"
	"unsafe"
)

// Name is the name of the vocabulary, to be stored beside stored counts.
const Name = "o200k_base"

// Count returns the number of o200k_base tokens in s. Special tokens such as
// <|endoftext|> count as the ordinary text they are spelled with. A byte that
// is not part of valid UTF-8 counts as U+FFFD does, so that Count(s) equals
// Count(string([]rune(s))). Count is safe for concurrent use; the first call
// in a process builds the tables (BenchmarkInit says how long that takes).
func Count(s string) int {
	return CountBytes(bytesOf(s))
}

// CountBytes is Count for a byte slice, which it does not keep or change.
func CountBytes(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	c := borrow()
	defer c.giveBack()
	return c.countAll(b)
}

func (c *counter) countAll(text []byte) int {
	n := 0
	for i := 0; i < len(text); {
		end := c.split(text, i)
		n += c.count(text, i, end)
		i = end
	}
	return n
}

// bytesOf views s as bytes without a copy. Nothing in this package writes to
// text it was given.
func bytesOf(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// tables holds what all counters share and none changes.
type tables struct {
	*classes
	*vocabulary
}

var shared = sync.OnceValue(func() tables {
	return tables{newClasses(), newVocabulary(loadTokens())}
})

// counter is the working memory of one call: the shared tables, the piece
// cache, and scratch space for the merge.
type counter struct {
	tables
	cache [cacheSlots]cached

	padded []byte   // a copy of a piece with readable bytes behind it
	path   []part   // the tokens of the piece last merged, in order
	dead   []uint64 // bit set of positions no valid path starts from
}

var pool = sync.Pool{New: func() any { return &counter{tables: shared()} }}

func borrow() *counter { return pool.Get().(*counter) }

// maxKept bounds, in elements, the scratch space an idle counter keeps, as one
// piece can be as long as the text.
const maxKept = 1 << 16

func (c *counter) giveBack() {
	if max(cap(c.padded), cap(c.path), cap(c.dead)) > maxKept {
		c.padded, c.path, c.dead = nil, nil, nil
	}
	pool.Put(c)
}
