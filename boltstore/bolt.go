package boltstore

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"
)

// The calls of bbolt, each guarded against the panics of damaged pages. What
// they return is valid until the next write of the transaction.

func begin(db *bolt.DB, write bool) (tx *bolt.Tx, err error) {
	defer guard(&err)()
	return db.Begin(write)
}

func commit(tx *bolt.Tx) (err error) {
	defer guard(&err)()
	return tx.Commit()
}

func rollback(tx *bolt.Tx) (err error) {
	defer guard(&err)()
	return tx.Rollback()
}

func (t *Tx) cursor(bucket []byte) (c *bolt.Cursor, err error) {
	defer guard(&err)()
	return t.tx.Bucket(bucket).Cursor(), nil
}

func (t *Tx) get(bucket, key []byte) (v []byte, err error) {
	defer guard(&err)()
	return t.tx.Bucket(bucket).Get(key), nil
}

func (t *Tx) put(bucket, key, value []byte) (err error) {
	if !t.tx.Writable() {
		return errReadOnly
	}
	defer guard(&err)()
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
	defer guard(&err)()
	return t.tx.Bucket(bucket).Delete(key)
}

func (t *Tx) last(bucket []byte) (k, v []byte, err error) {
	defer guard(&err)()
	k, v = t.tx.Bucket(bucket).Cursor().Last()
	return k, v, nil
}

// scan visits the rows from a key on, ascending, until visit says no.
func (t *Tx) scan(bucket, from []byte, visit func(k, v []byte) (bool, error)) error {
	c, err := t.cursor(bucket)
	if err != nil {
		return err
	}
	k, v, err := step(func() ([]byte, []byte) { return c.Seek(from) })
	for err == nil && k != nil {
		var more bool
		if more, err = visit(k, v); err != nil || !more {
			return err
		}
		k, v, err = step(c.Next)
	}
	return err
}

// scanBack visits the rows below a key, descending, until visit says no.
func (t *Tx) scanBack(bucket, below []byte, visit func(k, v []byte) (bool, error)) error {
	c, err := t.cursor(bucket)
	if err != nil {
		return err
	}
	k, v, err := step(func() ([]byte, []byte) { return before(c, below) })
	for err == nil && k != nil {
		var more bool
		if more, err = visit(k, v); err != nil || !more {
			return err
		}
		k, v, err = step(c.Prev)
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

func step(move func() ([]byte, []byte)) (k, v []byte, err error) {
	defer guard(&err)()
	k, v = move()
	return k, v, nil
}
