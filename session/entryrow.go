package session

import (
	"encoding/binary"
	"errors"
	"time"

	"lcm/events"
)

// Entry rows are the ones read most, hundreds for every context, so they have
// an encoding of their own instead of JSON: the fields in the order below,
// numbers as varints, texts and lists with their length before them.

const (
	flagInjected = 1 << iota
	flagBig
	flagAuthorTime
)

func (e *Entry) encode() []byte {
	b := make([]byte, 0, 160+len(e.ID)+len(e.Sender)+len(e.MessageID))
	flags := uint64(0)
	if e.Injected {
		flags |= flagInjected
	}
	if e.Big {
		flags |= flagBig
	}
	if e.AuthorTime != nil {
		flags |= flagAuthorTime
	}
	for _, n := range []uint64{flags, e.N, e.Seq, e.Parent} {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.AppendVarint(b, int64(e.Tokens))
	b = binary.AppendVarint(b, int64(e.InputTokens))
	for _, s := range []string{e.ID, string(e.Role), e.Sender, e.MessageID, e.Hash, e.SourceHash} {
		b = appendText(b, s)
	}
	for _, list := range [][]string{e.Calls, e.Results, e.Files} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = appendText(b, s)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(e.CallEntries)))
	for _, n := range e.CallEntries {
		b = binary.AppendUvarint(b, n)
	}
	b = appendTime(b, e.Time)
	if e.AuthorTime != nil {
		b = appendTime(b, *e.AuthorTime)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendTime keeps the offset of the zone, as RFC 3339 does, to the second.
func appendTime(b []byte, t time.Time) []byte {
	_, offset := t.Zone()
	b = binary.AppendVarint(b, t.Unix())
	b = binary.AppendUvarint(b, uint64(t.Nanosecond()))
	return binary.AppendVarint(b, int64(offset))
}

var errEntryRow = errors.New("an entry row that cannot be read")

func (e *Entry) decode(row []byte) error {
	r := entryReader{b: row, s: string(row)}
	flags := r.number()
	*e = Entry{
		Injected: flags&flagInjected != 0, Big: flags&flagBig != 0,
		N: r.number(), Seq: r.number(), Parent: r.number(),
		Tokens: int(r.signed()), InputTokens: int(r.signed()),
		ID: r.text(), Role: events.Role(r.text()), Sender: r.text(), MessageID: r.text(), Hash: r.text(), SourceHash: r.text(),
		Calls: r.texts(), Results: r.texts(), Files: r.texts(), CallEntries: r.numbers(),
		Time: r.time(),
	}
	if flags&flagAuthorTime != 0 {
		t := r.time()
		e.AuthorTime = &t
	}
	if r.bad || len(r.b) != 0 {
		return errEntryRow
	}
	return nil
}

// entryReader takes fields off the front of a row. Texts share one copy of it.
type entryReader struct {
	b   []byte // what is left
	s   string // the whole row
	bad bool
}

func (r *entryReader) advance(n int) {
	if n <= 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return
	}
	r.b = r.b[n:]
}

func (r *entryReader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	r.advance(n)
	return v
}

func (r *entryReader) signed() int64 {
	v, n := binary.Varint(r.b)
	r.advance(n)
	return v
}

// length of what follows, which takes at least a byte for each.
func (r *entryReader) length() int {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *entryReader) text() string {
	n := r.length()
	if n == 0 {
		return ""
	}
	at := len(r.s) - len(r.b)
	r.b = r.b[n:]
	return r.s[at : at+n]
}

func (r *entryReader) texts() []string {
	n := r.length()
	if n == 0 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = r.text()
	}
	return out
}

func (r *entryReader) numbers() []uint64 {
	n := r.length()
	if n == 0 {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.number()
	}
	return out
}

func (r *entryReader) time() time.Time {
	t := time.Unix(r.signed(), int64(r.number())).UTC()
	if offset := int(r.signed()); offset != 0 {
		t = t.In(time.FixedZone("", offset))
	}
	return t
}
