package session

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"lcm/events"
)

// Rows that contexts and appends read have an encoding of their own instead of
// JSON: the fields in a fixed order, numbers as varints, texts and lists with
// their length before them. A value has one encoding, so that equal rows are
// equal bytes. What is added to a row changes SchemaVersion.

var errRow = errors.New("a row that cannot be read")

// rowWriter appends fields to a row.
type rowWriter struct{ b []byte }

func (w *rowWriter) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *rowWriter) signed(n int64)  { w.b = binary.AppendVarint(w.b, n) }
func (w *rowWriter) int(n int)       { w.signed(int64(n)) }

func (w *rowWriter) float(f float64) { w.b = binary.BigEndian.AppendUint64(w.b, math.Float64bits(f)) }

func (w *rowWriter) text(s string) {
	w.number(uint64(len(s)))
	w.b = append(w.b, s...)
}

func (w *rowWriter) texts(list []string) {
	w.number(uint64(len(list)))
	for _, s := range list {
		w.text(s)
	}
}

func (w *rowWriter) numbers(list []uint64) {
	w.number(uint64(len(list)))
	for _, n := range list {
		w.number(n)
	}
}

// ranges are ascending: each is written as the distance from the one before and
// its length.
func (w *rowWriter) ranges(list []events.Range) {
	w.number(uint64(len(list)))
	last := uint64(0)
	for _, r := range list {
		w.number(r.First - last)
		w.number(r.Last - r.First)
		last = r.Last
	}
}

func (w *rowWriter) hash(h events.Hash) { w.b = append(w.b, h[:]...) }

// time keeps the offset of the zone, as RFC 3339 does, to the second.
func (w *rowWriter) time(t time.Time) {
	_, offset := t.Zone()
	w.signed(t.Unix())
	w.number(uint64(t.Nanosecond()))
	w.int(offset)
}

// flags packs up to 64 truths.
func (w *rowWriter) flags(set ...bool) {
	n := uint64(0)
	for i, is := range set {
		if is {
			n |= 1 << i
		}
	}
	w.number(n)
}

// rowReader takes fields off the front of a row. Texts share one copy of it.
type rowReader struct {
	b   []byte // what is left
	s   string // the whole row
	bad bool
}

func readRow(row []byte) *rowReader { return &rowReader{b: row, s: string(row)} }

// end reports whether the row was read, and all of it.
func (r *rowReader) end() error {
	if r.bad || len(r.b) != 0 {
		return errRow
	}
	return nil
}

func (r *rowReader) advance(n int) {
	if n <= 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return
	}
	r.b = r.b[n:]
}

func (r *rowReader) number() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		n := uint64(r.b[0])
		r.b = r.b[1:]
		return n
	}
	v, n := binary.Uvarint(r.b)
	r.advance(n)
	return v
}

func (r *rowReader) signed() int64 {
	u := r.number()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *rowReader) int() int { return int(r.signed()) }

func (r *rowReader) float() float64 {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	f := math.Float64frombits(be64(r.b))
	r.b = r.b[8:]
	return f
}

// length of what follows, which takes at least a byte for each.
func (r *rowReader) length() int {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *rowReader) text() string {
	n := r.length()
	if n == 0 {
		return ""
	}
	at := len(r.s) - len(r.b)
	r.b = r.b[n:]
	return r.s[at : at+n]
}

func (r *rowReader) texts() []string {
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

func (r *rowReader) numbers() []uint64 {
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

func (r *rowReader) ranges() []events.Range {
	n := r.length()
	if n == 0 {
		return nil
	}
	out := make([]events.Range, n)
	last := uint64(0)
	for i := range out {
		out[i].First = last + r.number()
		out[i].Last = out[i].First + r.number()
		last = out[i].Last
	}
	return out
}

func (r *rowReader) hash() (h events.Hash) {
	if len(r.b) < len(h) {
		r.bad, r.b = true, nil
		return h
	}
	r.b = r.b[copy(h[:], r.b):]
	return h
}

func (r *rowReader) time() time.Time {
	t := time.Unix(r.signed(), int64(r.number())).UTC()
	if offset := r.int(); offset != 0 {
		t = t.In(time.FixedZone("", offset))
	}
	return t
}

// flags fills in the truths that flags of a writer packed.
func (r *rowReader) flags(set ...*bool) {
	n := r.number()
	for i, is := range set {
		*is = n&(1<<i) != 0
	}
}
