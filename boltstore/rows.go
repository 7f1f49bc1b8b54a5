package boltstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"

	"lcm/events"
	"lcm/session"
)

// maxRowKey: longer row keys are stored by their hash. Floor is exact for
// keys up to this length.
const maxRowKey = 1024

const (
	prefixBytes = 8 + 1 // ordinal, kind
	crcBytes    = 4
)

// Rows are the rows of one session in one transaction. It implements
// session.Rows.
type Rows struct {
	t       *Tx
	ref     events.Ref
	ordinal uint64 // 0 = not known yet
	key     []byte // scratch
	walks   map[session.RowKind]*walk
}

// Rows implements api.RowsTx.
func (t *Tx) Rows(ref events.Ref) (session.Rows, error) {
	if r, ok := t.open[ref]; ok {
		return r, nil
	}
	n, err := t.ordinal(ref)
	if err != nil {
		return nil, err
	}
	r := &Rows{t: t, ref: ref, ordinal: n}
	t.open[ref] = r
	return r, nil
}

// fullKey builds the key in the scratch buffer.
func (r *Rows) fullKey(kind session.RowKind, key []byte) []byte {
	r.key = binary.BigEndian.AppendUint64(r.key[:0], r.ordinal)
	r.key = append(r.key, byte(kind))
	if len(key) <= maxRowKey {
		r.key = append(r.key, key...)
		return r.key
	}
	sum := sha256.Sum256(key)
	r.key = append(r.key, key[:maxRowKey+1-len(sum)]...) // one byte longer than any key kept whole
	r.key = append(r.key, sum[:]...)
	return r.key
}

// Get implements session.Rows.
func (r *Rows) Get(kind session.RowKind, key []byte) ([]byte, error) {
	if r.ordinal == 0 {
		return nil, nil
	}
	k := r.fullKey(kind, key)
	v, used, err := r.next(kind, key, k)
	if !used {
		v, err = r.t.get(bucketRows, k)
	}
	if err != nil || v == nil {
		return nil, err
	}
	return r.verified(k, v)
}

// Floor implements session.Rows.
func (r *Rows) Floor(kind session.RowKind, key []byte) (k, v []byte, err error) {
	if r.ordinal == 0 {
		return nil, nil, nil
	}
	want := r.fullKey(kind, key)
	c, err := r.t.cursor(bucketRows)
	if err != nil {
		return nil, nil, err
	}
	k, v, err = r.t.step(func() ([]byte, []byte) {
		if k, v := c.Seek(want); k != nil && bytes.Equal(k, want) {
			return k, v
		} else if k == nil {
			return c.Last()
		}
		return c.Prev()
	})
	if err != nil || !bytes.HasPrefix(k, want[:prefixBytes]) {
		return nil, nil, err
	}
	v, err = r.verified(k, v)
	return k[prefixBytes:], v, err
}

// Put implements session.Rows.
func (r *Rows) Put(kind session.RowKind, key, value []byte) error {
	if r.ordinal == 0 {
		n, err := r.t.enrol(r.ref)
		if err != nil {
			return err
		}
		r.ordinal = n
	}
	k := r.fullKey(kind, key)
	// bbolt copies the key and keeps the value until the commit.
	v := make([]byte, 0, crcBytes+len(value))
	v = binary.BigEndian.AppendUint32(v, checksum(k, value))
	return r.t.put(bucketRows, k, append(v, value...))
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, value)
}

// verified checks a stored row and strips its checksum.
func (r *Rows) verified(k, v []byte) ([]byte, error) {
	if !intact(k, v) {
		return nil, damaged("row %s of session %s fails its checksum", rowName(k), r.ref)
	}
	return v[crcBytes:], nil
}

func intact(k, v []byte) bool {
	return len(v) >= crcBytes && binary.BigEndian.Uint32(v) == checksum(k, v[crcBytes:])
}
