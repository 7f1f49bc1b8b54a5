package tokens

import (
	"encoding/binary"
	"math/bits"
)

// maxKeyed is the longest piece a key holds, in bytes.
const maxKeyed = 15

// slack is how many bytes must be readable from where a piece ends, so that
// its key loads as two words from wherever it starts.
const slack = 16

// key is a piece of at most maxKeyed bytes, padded with zeros, and its length
// in the lower half of the last byte. The upper half is zero.
type key struct{ low, high uint64 }

// keyMasks are, by length, the bytes of a key that are part of the piece.
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

// keyOf returns the key of text[i:i+n].
func keyOf(text []byte, i, n int) key {
	b := text[i : i+slack]
	m := &keyMasks[n]
	return key{
		binary.LittleEndian.Uint64(b) & m.low,
		binary.LittleEndian.Uint64(b[8:])&m.high | uint64(n)<<56,
	}
}

// hash is the multiply-and-fold step of wyhash, with two of its constants.
func (k key) hash() uint64 {
	high, low := bits.Mul64(k.low^0xa0761d6478bd642f, k.high^0xe7037ed1a0b428db)
	return high ^ low
}

// hashLong hashes a piece longer than a key.
func hashLong(b []byte) uint64 {
	h := uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		h = key{h, binary.LittleEndian.Uint64(b)}.hash()
	}
	var rest [8]byte
	copy(rest[:], b)
	return key{h, binary.LittleEndian.Uint64(rest[:])}.hash()
}
