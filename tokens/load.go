package tokens

import (
	"fmt"

	"github.com/tiktoken-go/tokenizer/codec"
)

// loadTokens takes all tokens out of the library: their bytes, one token behind
// the other in the order of their ids, and by id where a token starts, closed
// by where the last ends. It panics if the library is not the version this
// package was written for, as nothing could be counted then.
func loadTokens() (all []byte, start []uint32) {
	lib := codec.NewO200kBase()
	all = make([]byte, 0, 2<<20)
	start = make([]uint32, 0, vocabularySize+1)
	one := make([]uint, 1)
	for one[0] = range uint(vocabularySize) {
		token, err := lib.Decode(one)
		if err != nil {
			panic(fmt.Sprintf("tokens: the library's vocabulary is not o200k_base: %v", err))
		}
		start = append(start, uint32(len(all)))
		all = append(all, token...)
	}
	return all, append(start, uint32(len(all)))
}
