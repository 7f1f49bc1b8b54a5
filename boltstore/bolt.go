package boltstore

import (
	"bytes"
	"fmt"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// The calls of bbolt, each guarded against the panics of damaged pages. What
// they return is valid until the next write of the transaction.

func begin(db *bolt.DB, write bool) (tx *bolt.Tx, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return db.Begin(write)
}

func commit(tx *bolt.Tx) (err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return tx.Commit()
}

func rollback(tx *bolt.Tx) (err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return tx.Rollback()
}

func (t *Tx) cursor(bucket []byte) (c *bolt.Cursor, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return t.tx.Bucket(bucket).Cursor(), nil
}

func (t *Tx) get(bucket, key []byte) (v []byte, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	v = t.tx.Bucket(bucket).Get(key)
	t.inside(v)
	return v, nil
}

func (t *Tx) put(bucket, key, value []byte) (err error) {
	if !t.tx.Writable() {
		return errReadOnly
	}
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	b := t.tx.Bucket(bucket)
	if bytes.Equal(bucket, bucketFeed) || bytes.Equal(bucket, bucketSession) {
		b.FillPercent = 1 // ascending keys: split pages full
	}
	if err := b.Put(key, value); err != nil {
		return fmt.Errorf("store %s: %w", bucket, err)
	}
	return nil
}

func (t *Tx) delete(bucket, key []byte) (err error) {
	if !t.tx.Writable() {
		return errReadOnly
	}
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return t.tx.Bucket(bucket).Delete(key)
}

func (t *Tx) last(bucket []byte) (k, v []byte, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	k, v = t.tx.Bucket(bucket).Cursor().Last()
	t.inside(k)
	t.inside(v)
	return k, v, nil
}

// scan visits the rows from a key on, ascending, until visit says no.
func (t *Tx) scan(bucket, from []byte, visit func(k, v []byte) (bool, error)) error {
	c, err := t.cursor(bucket)
	if err != nil {
		return err
	}
	k, v, err := t.step(func() ([]byte, []byte) { return c.Seek(from) })
	for err == nil && k != nil {
		var more bool
		if more, err = visit(k, v); err != nil || !more {
			return err
		}
		k, v, err = t.following(c)
	}
	return err
}

// scanBack visits the rows below a key, descending, until visit says no.
func (t *Tx) scanBack(bucket, below []byte, visit func(k, v []byte) (bool, error)) error {
	c, err := t.cursor(bucket)
	if err != nil {
		return err
	}
	k, v, err := t.step(func() ([]byte, []byte) { return before(c, below) })
	for err == nil && k != nil {
		var more bool
		if more, err = visit(k, v); err != nil || !more {
			return err
		}
		k, v, err = t.step(c.Prev)
	}
	return err
}

// before is the greatest row below key.
func before(c *bolt.Cursor, key []byte) ([]byte, []byte) {
	if k, _ := c.Seek(key); k == nil {
		return c.Last()
	}
	return c.Prev()
}

func (t *Tx) step(move func() ([]byte, []byte)) (k, v []byte, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	k, v = move()
	t.inside(k)
	t.inside(v)
	return k, v, nil
}

// following is step(c.Next) without a closure: reads of many rows live on it.
func (t *Tx) following(c *bolt.Cursor) (k, v []byte, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	k, v = c.Next()
	t.inside(k)
	t.inside(v)
	return k, v, nil
}

// inside checks that what a page says is a key or a value lies in the file: a
// damaged length or place leads beyond it. What stands elsewhere is small, of a
// bucket that bbolt keeps within another, or was written by this transaction.
func (t *Tx) inside(b []byte) {
	if len(b) == 0 {
		return
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	end := t.data + t.size
	in := at >= t.data && at < end
	if in && uintptr(len(b)) > end-at || !in && len(b) > inlineBytes && !t.tx.Writable() {
		panic("a row reaches beyond the file")
	}
	if !in {
		touch(b)
	}
}

// inlineBytes bounds a bucket within another: a quarter of the largest page.
const inlineBytes = 16 << 10

// touch reads a place of every page that b lies on, while a fault is caught.
//
//go:noinline
func touch(b []byte) (sum byte) {
	for i := 0; i < len(b); i += 4096 {
		sum += b[i]
	}
	return sum + b[len(b)-1]
}
