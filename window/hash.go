package window

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"lcm/events"
	"lcm/tokens"
	"lcm/transcript"
)

func count(s string) int { return tokens.Count(s) }

// prefixHash identifies messages by what they say: two contexts with equal
// hashes begin with the same bytes in every format.
func prefixHash(ms []transcript.Message) string {
	h := sha256.New()
	size := 0
	for i := range ms {
		size = max(size, hashedBytes(ms[i].Blocks))
	}
	buf := make([]byte, 0, size)
	for i := range ms {
		buf = field(append(buf[:0], 'm'), string(ms[i].Role))
		buf = field(buf, ms[i].Sender)
		for k := range ms[i].Blocks {
			buf = appendBlock(buf, &ms[i].Blocks[k])
		}
		h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// hashedBytes is about what the blocks of a message take in the hash.
func hashedBytes(blocks []events.Block) int {
	n := 64
	for i := range blocks {
		b := &blocks[i]
		n += 64 + len(b.Text) + len(b.Input) + len(b.Data) + len(b.Raw)
	}
	return n
}

func appendBlock(buf []byte, b *events.Block) []byte {
	buf = append(buf, 'b')
	for _, s := range []string{string(b.Type), b.Text, b.Signature, b.CallID, b.Name, b.Input, b.MediaType, b.Data, b.URL, b.Raw} {
		buf = field(buf, s)
	}
	if b.IsError {
		buf = append(buf, 'e')
	}
	buf = strconv.AppendInt(buf, int64(len(b.Content)), 10)
	for i := range b.Content {
		buf = appendBlock(buf, &b.Content[i])
	}
	return buf
}

// field appends a length-prefixed string.
func field(buf []byte, s string) []byte {
	buf = strconv.AppendInt(buf, int64(len(s)), 10)
	buf = append(buf, ':')
	return append(buf, s...)
}
