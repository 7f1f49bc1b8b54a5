package boltstore

import (
	"bytes"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"lcm/session"
)

// walk reads rows of one kind by ascending number, as views and contexts do: a
// step of a cursor costs a fraction of a search. Only in read transactions:
// writing moves what a cursor stands on.
type walk struct {
	c  *bolt.Cursor // on the row of number at, nil = nowhere
	at uint64
}

// next reads the row of the number behind the last one that was read of this
// kind. used is false where it is another one, or the key is no number.
func (r *Rows) next(kind session.RowKind, key, full []byte) (v []byte, used bool, err error) {
	if len(key) != 8 || r.t.tx.Writable() {
		return nil, false, nil
	}
	n := binary.BigEndian.Uint64(key)
	if r.walks == nil {
		r.walks = map[session.RowKind]*walk{}
	}
	w := r.walks[kind]
	if w == nil {
		w = &walk{}
		r.walks[kind] = w
	}
	follows := w.at != 0 && n == w.at+1
	w.at = n
	if !follows {
		w.c = nil
		return nil, false, nil
	}
	var k []byte
	if w.c != nil {
		k, v, err = r.t.following(w.c)
	} else {
		if w.c, err = r.t.cursor(bucketRows); err != nil {
			return nil, true, err
		}
		k, v, err = r.t.step(func() ([]byte, []byte) { return w.c.Seek(full) })
	}
	if err != nil || !bytes.Equal(k, full) {
		w.at = 0 // no such row: the cursor stands on another
		return nil, true, err
	}
	return v, true, nil
}
