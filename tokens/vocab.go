package tokens

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// vocabularySize is the number of tokens that merges can make; their ids, 0 to
// vocabularySize-1, are also the order merges are done in, lowest first
// (o200k_base.tiktoken of OpenAI; the special tokens lie behind them).
const vocabularySize = 199998

// slack is how many bytes must be readable behind a piece, so that keys load
// in two words.
const slack = 16

// maxKeyed is the longest piece a key holds.
const maxKeyed = 15

// key is a piece of at most maxKeyed bytes, padded with zeros, its length in
// the last byte.
type key struct{ low, high uint64 }

var keyMasks = func() (m [maxKeyed + 1]key) {
	for n := range m {
		if n < 8 {
			m[n].low = 1<<(8*n) - 1
			continue
		}
		m[n].low = ^uint64(0)
		m[n].high = 1<<(8*(n-8)) - 1
	}
	return m
}()

// keyOf returns the key of text[i:i+n]; slack bytes must be readable at i.
func keyOf(text []byte, i, n int) key {
	b := text[i : i+slack]
	m := &keyMasks[n]
	return key{
		binary.LittleEndian.Uint64(b) & m.low,
		binary.LittleEndian.Uint64(b[8:])&m.high | uint64(n)<<56,
	}
}

// hash is the multiply-and-fold step of wyhash.
func (k key) hash() uint64 {
	high, low := bits.Mul64(k.low^0xa0761d6478bd642f, k.high^0xe7037ed1a0b428db)
	return high ^ low
}

// hashLong hashes a piece longer than a key.
func hashLong(b []byte) uint64 {
	k := key{uint64(len(b)), 0}
	for len(b) >= 8 {
		k = key{k.hash(), binary.LittleEndian.Uint64(b)}
		b = b[8:]
	}
	var rest [8]byte
	copy(rest[:], b)
	return key{k.hash(), binary.LittleEndian.Uint64(rest[:])}.hash()
}

// A slot of the hash table holds a token's id plus one, zero being an empty
// slot, and above that the bits of its hash that tell most others apart.
const (
	slotBits = 19 // 2 MiB, 38 % full
	idBits   = 18
	idMask   = 1<<idBits - 1
)

// vocabulary finds tokens by their bytes.
type vocabulary struct {
	slots []uint32
	keys  []key    // by id; zero for tokens longer than maxKeyed
	bytes []byte   // all tokens behind each other
	start []uint32 // by id, in bytes; one more than there are tokens

	pair    []uint32        // id+1 of the token of two bytes, by these
	lengths [1 << 16]uint64 // see lengthsAt
	longest int             // bytes

	halfOf []uint64 // by id; see halves
}

func newVocabulary() *vocabulary {
	v := &vocabulary{
		slots: make([]uint32, 1<<slotBits),
		keys:  make([]key, vocabularySize),
		start: make([]uint32, 0, vocabularySize+1),
		pair:  make([]uint32, 1<<16),

		halfOf: make([]uint64, vocabularySize),
	}
	v.load(codec.NewO200kBase())
	for id := range uint32(vocabularySize) {
		v.add(id)
	}
	return v
}

// load takes the tokens out of the library. It decodes an id at a time or many
// at once, and says where tokens end only in the first, slow case. So decode
// them all with a separator between: 0xFF, a token of its own that is part of
// no other, as it is no part of UTF-8.
func (v *vocabulary) load(lib *codec.Codec) {
	separator := findSeparator(lib)
	ids := make([]uint, 0, 2*vocabularySize)
	for id := range uint(vocabularySize) {
		if id == separator {
			// Any token other than the separator stands in for it here.
			ids = append(ids, 0, separator)
			continue
		}
		ids = append(ids, id, separator)
	}
	all := mustDecode(lib, ids...)
	v.bytes = make([]byte, 0, len(all))
	for id := range uint(vocabularySize) {
		token, rest, found := strings.Cut(all, "\xff")
		if !found || token == "" {
			panic(fmt.Sprintf("tokens: the library's vocabulary has no token %d", id))
		}
		if id == separator {
			token = "\xff"
		}
		v.start = append(v.start, uint32(len(v.bytes)))
		v.bytes = append(v.bytes, token...)
		v.longest = max(v.longest, len(token))
		all = rest
	}
	v.start = append(v.start, uint32(len(v.bytes)))
	v.bytes = append(v.bytes, make([]byte, slack)...)
}

func findSeparator(lib *codec.Codec) uint {
	for id := range uint(256) {
		if mustDecode(lib, id) == "\xff" {
			return id
		}
	}
	panic("tokens: the library's vocabulary has no token for byte 0xff")
}

func mustDecode(lib *codec.Codec, ids ...uint) string {
	s, err := lib.Decode(ids)
	if err != nil {
		panic("tokens: the library's vocabulary is not the expected one: " + err.Error())
	}
	return s
}

// add makes a token of v.bytes one that can be found.
func (v *vocabulary) add(id uint32) {
	token := v.token(id)
	var h uint64
	if len(token) <= maxKeyed {
		v.keys[id] = keyOf(v.bytes, int(v.start[id]), len(token))
		h = v.keys[id].hash()
	} else {
		h = hashLong(token)
	}
	i := h >> (64 - slotBits)
	for v.slots[i] != 0 {
		i = (i + 1) % uint64(len(v.slots))
	}
	v.slots[i] = fingerprint(h) | id + 1

	switch n := len(token); {
	case n == 2:
		v.pair[uint(token[0])<<8|uint(token[1])] = id + 1
	case n > 2:
		v.lengths[threeBytes(token)] |= 1 << min(n, manyBytes)
	}
}

func fingerprint(h uint64) uint32 { return uint32(h) &^ idMask }

func (v *vocabulary) token(id uint32) []byte {
	return v.bytes[v.start[id]:v.start[id+1]]
}

func (v *vocabulary) size(id uint32) int {
	return int(v.start[id+1] - v.start[id])
}

// find returns the id of the token text[i:end], if there is one. The bytes
// must be valid UTF-8 or a part of it; slack bytes must be readable behind.
func (v *vocabulary) find(text []byte, i, end int) (id uint32, ok bool) {
	if n := end - i; n > maxKeyed {
		return v.findLong(text[i:end])
	} else {
		return v.findKey(keyOf(text, i, n))
	}
}

func (v *vocabulary) findKey(k key) (id uint32, ok bool) {
	h := k.hash()
	for i := h >> (64 - slotBits); ; i = (i + 1) % (1 << slotBits) {
		slot := v.slots[i]
		if slot == 0 {
			return 0, false
		}
		if slot&^idMask == fingerprint(h) {
			if id := slot&idMask - 1; v.keys[id] == k {
				return id, true
			}
		}
	}
}

func (v *vocabulary) findLong(b []byte) (id uint32, ok bool) {
	if len(b) > v.longest {
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

// manyBytes is the bit that stands for its own length and all longer ones.
const manyBytes = 63

// lengthsAt says how long the tokens of three bytes and more are that text
// starts with, as a bit set. It may say too much but not too little: it is
// kept by a hash of the first three bytes.
func (v *vocabulary) lengthsAt(text []byte) uint64 {
	if len(text) < 3 {
		return 0
	}
	return v.lengths[threeBytes(text)]
}

func threeBytes(b []byte) uint16 {
	x := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	return uint16(x * 0x9E3779B1 >> 16)
}

// prefix returns the longest token of at most max bytes that text[i:end]
// starts with. There is always one if max is positive: every byte is a token.
func (v *vocabulary) prefix(text []byte, i, end, max int) (id uint32, n int) {
	max = min(max, end-i, v.longest)
	set := v.lengthsAt(text[i:end])
	if set>>manyBytes != 0 {
		for n := max; n >= manyBytes; n-- {
			if id, ok := v.find(text, i, i+n); ok {
				return id, n
			}
		}
	}
	set &= 1<<manyBytes - 1
	if max < manyBytes {
		set &= 1<<(max+1) - 1
	}
	for set != 0 {
		n := bits.Len64(set) - 1
		if id, ok := v.find(text, i, i+n); ok {
			return id, n
		}
		set &^= 1 << n
	}
	if max >= 2 {
		if id := v.pair[uint(text[i])<<8|uint(text[i+1])]; id != 0 {
			return id - 1, 2
		}
	}
	if max < 1 {
		return 0, 0
	}
	id, _ = v.find(text, i, i+1)
	return id, 1
}
