package events

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Sizes of a payload, bytes. They are part of the wire format.
const (
	// InlineBytes: up to here an event is one message.
	InlineBytes = 512 << 10
	// ChunkBytes of a larger one go into each of its chunks.
	ChunkBytes = 256 << 10
	// MaxBytes is the largest payload there is.
	MaxBytes = 64 << 20
	// MaxSourceBytes is the largest source of a turn that is read: such a
	// payload with what formats write around it.
	MaxSourceBytes = MaxBytes + 4<<20
)

// maxChunks of one event; an atomic batch holds a thousand messages.
const maxChunks = MaxBytes / ChunkBytes

// Headers of a chunk, beside those of its event, which every chunk carries.
const (
	HeaderChunk   = "Lcm-Chunk"    // "<i>/<n>", decimal, from 1
	HeaderChunkOf = "Lcm-Chunk-Of" // ChainHash of the whole event behind the zero Hash, hex
)

// ErrTooLarge: the payload exceeds MaxBytes.
var ErrTooLarge = errors.New("event too large")

// Cut gives the messages that an event is stored as: itself, or chunks of a
// payload above InlineBytes. Chunks stand at contiguous positions, and become
// visible all at once or never. They share the payload's memory.
func Cut(m Message) ([]Message, error) {
	if len(m.Data) <= InlineBytes {
		return []Message{m}, nil
	}
	if len(m.Data) > MaxBytes {
		return nil, fmt.Errorf("%w: a payload of %d bytes, at most %d", ErrTooLarge, len(m.Data), MaxBytes)
	}
	of := m.ChainHash(Hash{}).String()
	n := (len(m.Data) + ChunkBytes - 1) / ChunkBytes
	out := make([]Message, 0, n)
	for part := range slices.Chunk(m.Data, ChunkBytes) {
		out = append(out, Message{Subject: m.Subject, Header: chunkHeader(m.Header, len(out)+1, n, of), Data: part})
	}
	return out, nil
}

func chunkHeader(event Header, i, n int, of string) Header {
	h := make(Header, len(event)+2)
	maps.Copy(h, event)
	h[HeaderChunk], h[HeaderChunkOf] = strconv.Itoa(i)+"/"+strconv.Itoa(n), of
	return h
}

// Abandon gives the message that ends the chunks up to m, which is one of
// them, where no further ones will come; false where m ends them itself. They
// are no event then, and what follows need not wait for the rest.
func Abandon(m Message) (Message, bool) {
	c, ok := chunkOf(m)
	if !ok || c.ends(m) {
		return Message{}, false
	}
	event := maps.Clone(m.Header)
	return Message{Subject: m.Subject, Header: chunkHeader(event, c.i+1, c.n, m.Header[HeaderChunkOf])}, true
}

// chunk is what a chunk says of its place.
type chunk struct{ i, n int }

// chunkOf reads the place; false: m is no chunk. One whose place cannot be read
// has the zero place.
func chunkOf(m Message) (chunk, bool) {
	place, ok := m.Header[HeaderChunk]
	if !ok {
		return chunk{}, false
	}
	a, b, _ := strings.Cut(place, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if err1 != nil || err2 != nil || i < 1 || i > n || n < 2 || n > maxChunks {
		return chunk{}, true
	}
	return chunk{i, n}, true
}

// ends: no chunk continues this one.
func (c chunk) ends(m Message) bool {
	return c.i == c.n || len(m.Data) == 0 || len(m.Data) > ChunkBytes
}

// Around is where the event that has m at seq begins and ends at most: seq
// itself where m is no chunk.
func Around(m Message, seq uint64) (first, last uint64) {
	c, ok := chunkOf(m)
	if !ok || c.i == 0 {
		return seq, seq
	}
	first = uint64(1)
	if seq > uint64(c.i) {
		first = seq - uint64(c.i) + 1
	}
	return first, seq + uint64(c.n-c.i)
}

// Joiner makes events of the messages of a log, in order. Chunks that stand at
// contiguous positions and each continue the one before are a run; a run from
// the first to the last chunk with the hash that they name is an event. Any
// other run is one broken record, and so is a chunk alone: how they are told
// apart needs nothing but the run and the message behind it.
//
// The zero Joiner is at the beginning, or behind any message that is no chunk.
type Joiner struct {
	run   []Record
	at    chunk // of the last one
	bytes int
}

// Add takes the next message and appends the records that it ends to out: the
// run before it, its own, both or none. It keeps the message's memory.
func (j *Joiner) Add(r Record, out []Record) []Record {
	c, ok := chunkOf(r.Message)
	if len(j.run) > 0 && (!ok || !j.continues(r, c)) {
		out = j.Flush(out)
	}
	if !ok {
		return append(out, r)
	}
	j.run, j.at = append(j.run, r), c
	j.bytes += len(r.Data)
	if c.ends(r.Message) {
		return j.Flush(out)
	}
	return out
}

// Flush ends an open run: nothing that continues it will come.
func (j *Joiner) Flush(out []Record) []Record {
	if len(j.run) == 0 {
		return out
	}
	out = append(out, j.join())
	*j = Joiner{}
	return out
}

// Open is the position of the first message of an open run, 0 = none is open.
func (j *Joiner) Open() uint64 {
	if len(j.run) == 0 {
		return 0
	}
	return j.run[0].Seq
}

func (j *Joiner) continues(r Record, c chunk) bool {
	last := j.run[len(j.run)-1]
	return r.Seq == last.Seq+1 && c.i == j.at.i+1 && c.n == j.at.n && r.Subject == last.Subject && sameEvent(r.Header, last.Header)
}

// sameEvent compares all headers but the chunk's place.
func sameEvent(a, b Header) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; name != HeaderChunk && (!ok || v != w) {
			return false
		}
	}
	return true
}

// join makes the record of a run.
func (j *Joiner) join() Record {
	first, last := j.run[0], j.run[len(j.run)-1]
	whole := Record{Message: first.Message, Seq: last.Seq, Messages: len(j.run)}
	if len(j.run) > 1 {
		whole.Data = make([]byte, 0, j.bytes)
		for _, r := range j.run {
			whole.Data = append(whole.Data, r.Data...)
		}
	}
	start, _ := chunkOf(first.Message)
	if whole.Broken = j.broken(start); whole.Broken != "" {
		return whole
	}
	event := whole
	event.Header = maps.Clone(first.Header)
	delete(event.Header, HeaderChunk)
	delete(event.Header, HeaderChunkOf)
	if event.ChainHash(Hash{}).String() != first.Header[HeaderChunkOf] {
		whole.Broken = fmt.Sprintf("the %d chunks of a large event do not give the hash that they name", start.n)
		return whole
	}
	return event
}

// broken says why a run that begins with a chunk is not whole, "" = it is.
func (j *Joiner) broken(start chunk) string {
	last := j.run[len(j.run)-1]
	switch {
	case j.at.i == 0:
		return fmt.Sprintf("%s is %q", HeaderChunk, clip(last.Header[HeaderChunk], 40))
	case len(last.Data) > ChunkBytes:
		return fmt.Sprintf("chunk %d of a large event has %d bytes, at most %d", j.at.i, len(last.Data), ChunkBytes)
	case len(last.Data) == 0:
		return fmt.Sprintf("a large event was given up after chunk %d of %d", j.at.i-1, j.at.n)
	case start.i != 1 || j.at.i != j.at.n:
		return fmt.Sprintf("of a large event of %d chunks only %d to %d stand together", j.at.n, start.i, j.at.i)
	}
	return ""
}
