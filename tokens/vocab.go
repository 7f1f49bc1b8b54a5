package tokens

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// vocabularySize is the number of tokens that bytes merge to. Their ids, 0 to
// vocabularySize-1, are also the order of merging, lowest first. (OpenAI's
// o200k_base.tiktoken; the special tokens have the ids behind these.)
const vocabularySize = 199998

// Sizes of the hash table of tokens. A slot holds a token's id plus one, zero
// being an empty slot, and above that the bits of its hash that tell most
// others apart. The filter is small enough for the second cache, and spares
// the table nine in ten of the questions it would say no to.
const (
	idBits     = 18
	idMask     = 1<<idBits - 1
	slotBits   = 19 // 2 MiB, 38 % full
	filterBits = 21 // 256 KiB
)

// vocabulary finds tokens by their bytes and knows how they are merged.
type vocabulary struct {
	bytes []byte   // all tokens, one behind the other
	start []uint32 // by id: where its bytes start; one more than there are ids

	known  []known // by id
	slots  [1 << slotBits]uint32
	filter [1 << filterBits / 64]uint64

	pairs   [1 << 16]uint32    // by two bytes: the id plus one of their token
	lengths [1 << 16]lengthSet // by hashThree
	long    map[uint64][]int   // by firstEight: lengths of unkeyed tokens, falling
	longest int                // length of the longest token
}

// known is what merging needs of a token, in one place for the cache's sake.
type known struct {
	key     key    // zero for tokens longer than maxKeyed
	lineage uint64 // see lineageOf
}

// lengthSet says which lengths tokens that start with some three bytes have:
// bit n stands for n bytes, longerBit for more than maxKeyed. As it is kept by
// a hash, it may say too much.
type lengthSet uint16

const longerBit = 1

func (s lengthSet) has(n int) bool {
	if n > maxKeyed {
		return s&longerBit != 0
	}
	return s>>n&1 != 0
}

// newVocabulary builds the tables from what loadTokens returns.
func newVocabulary(all []byte, start []uint32) *vocabulary {
	v := &vocabulary{
		bytes: append(all, make([]byte, slack)...),
		start: start,
		known: make([]known, len(start)-1),
		long:  map[uint64][]int{},
	}
	for id := range uint32(len(v.known)) {
		v.add(id)
	}
	for _, lengths := range v.long {
		slices.Sort(lengths)
		slices.Reverse(lengths)
		v.longest = max(v.longest, lengths[0])
	}
	return v
}

// add makes a token of v.bytes one that is found.
func (v *vocabulary) add(id uint32) {
	b := v.token(id)
	n := len(b)
	switch {
	case n > maxKeyed:
		v.lengths[hashThree(b)] |= longerBit
		if lengths := v.long[firstEight(b)]; !slices.Contains(lengths, n) {
			v.long[firstEight(b)] = append(lengths, n)
		}
		v.insert(id, hashLong(b))
		return
	case n > 2:
		v.lengths[hashThree(b)] |= 1 << n
	case n == 2:
		v.pairs[uint(b[0])<<8|uint(b[1])] = id + 1
	}
	k := keyOf(v.bytes, int(v.start[id]), n)
	v.known[id].key = k
	v.insert(id, k.hash())
	bit := k.hash() >> (64 - filterBits)
	v.filter[bit/64] |= 1 << (bit % 64)
}

func (v *vocabulary) insert(id uint32, hash uint64) {
	i := hash >> (64 - slotBits)
	for v.slots[i] != 0 {
		i = (i + 1) % (1 << slotBits)
	}
	v.slots[i] = fingerprint(hash) | id + 1
}

func fingerprint(hash uint64) uint32 { return uint32(hash) &^ idMask }

func (v *vocabulary) token(id uint32) []byte {
	return v.bytes[v.start[id]:v.start[id+1]]
}

// find returns the id of the token text[i:end], if there is one. These must be
// bytes of valid UTF-8, though they may be part of a character.
func (v *vocabulary) find(text []byte, i, end int) (id uint32, ok bool) {
	if n := end - i; n <= maxKeyed {
		return v.findKey(keyOf(text, i, n))
	}
	return v.findLong(text[i:end])
}

func (v *vocabulary) findKey(k key) (id uint32, ok bool) {
	h := k.hash()
	bit := h >> (64 - filterBits)
	if v.filter[bit/64]>>(bit%64)&1 == 0 {
		return 0, false
	}
	for i := h >> (64 - slotBits); ; i = (i + 1) % (1 << slotBits) {
		slot := v.slots[i]
		if slot == 0 {
			return 0, false
		}
		if slot&^idMask == fingerprint(h) {
			if id := slot&idMask - 1; v.known[id].key == k {
				return id, true
			}
		}
	}
}

func (v *vocabulary) findLong(b []byte) (id uint32, ok bool) {
	if !v.lengthsAt(b).has(len(b)) || len(b) > v.longest {
		return 0, false
	}
	h := hashLong(b)
	for i := h >> (64 - slotBits); ; i = (i + 1) % (1 << slotBits) {
		slot := v.slots[i]
		if slot == 0 {
			return 0, false
		}
		if slot&^idMask == fingerprint(h) {
			if id := slot&idMask - 1; string(v.token(id)) == string(b) {
				return id, true
			}
		}
	}
}

// noRank is the rank of two parts that make no token.
const noRank = math.MaxUint32

// rank is the id of the token text[i:end], or noRank.
func (v *vocabulary) rank(text []byte, i, end int) uint32 {
	if end-i == 2 {
		return v.rankOfPair(text[i], text[i+1])
	}
	if id, ok := v.find(text, i, end); ok {
		return id
	}
	return noRank
}

func (v *vocabulary) rankOfPair(a, b byte) uint32 {
	return v.pairs[uint(a)<<8|uint(b)] - 1
}

// prefix returns the longest token of at most most bytes that text[i:end]
// starts with. There is always one of one byte, so if most is not positive it
// returns a length of zero.
func (v *vocabulary) prefix(text []byte, i, end, most int) (id uint32, n int) {
	most = min(most, end-i)
	if most >= 3 {
		set := v.lengthsAt(text[i:])
		if set&longerBit != 0 && most > maxKeyed {
			if id, n := v.longPrefix(text, i, most); n > 0 {
				return id, n
			}
		}
		set &= 1<<(min(most, maxKeyed)+1) - 1 - longerBit
		for set != 0 {
			n := bits.Len16(uint16(set)) - 1
			if id, ok := v.findKey(keyOf(text, i, n)); ok {
				return id, n
			}
			set &^= 1 << n
		}
	}
	if most >= 2 {
		if rank := v.rankOfPair(text[i], text[i+1]); rank != noRank {
			return rank, 2
		}
	}
	if most < 1 {
		return 0, 0
	}
	id, _ = v.findKey(keyOf(text, i, 1))
	return id, 1
}

func (v *vocabulary) longPrefix(text []byte, i, most int) (id uint32, n int) {
	for _, n := range v.long[firstEight(text[i:])] {
		if n <= most {
			if id, ok := v.findLong(text[i : i+n]); ok {
				return id, n
			}
		}
	}
	return 0, 0
}

// lengthsAt returns the lengths of the tokens of three and more bytes that
// text may start with. Three bytes must be readable.
func (v *vocabulary) lengthsAt(text []byte) lengthSet {
	return v.lengths[hashThree(text)]
}

func hashThree(b []byte) uint16 {
	x := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return uint16(x * 0x9E3779B1 >> 16) // Knuth's multiplicative hash
}

func firstEight(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
