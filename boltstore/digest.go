package boltstore

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"lcm/events"
)

// Digest implements api.AuditTx. The dump is a sequence of length-prefixed
// fields: the position; then per session in name order its names and its rows
// in key order; then the feed and the rejected events in log order. Ordinals,
// checksums, the hot set (it follows from the heads) and the epoch are left
// out, so that equal logs give equal digests.
func (t *Tx) Digest() (string, error) {
	c, err := t.Checkpoint()
	if err != nil {
		return "", err
	}
	d := dump{h: sha256.New()}
	d.number(c.Seq)
	d.number(uint64(len(c.Partitions)))
	for _, p := range c.Partitions {
		d.number(uint64(p))
	}
	err = t.scan(bucketName, nil, func(k, v []byte) (bool, error) {
		ref, err := parseNameKey(k)
		if err != nil {
			return false, err
		}
		return true, t.digestSession(d, ref, v)
	})
	if err != nil {
		return "", err
	}
	if err := t.digestLists(d); err != nil {
		return "", err
	}
	return hex.EncodeToString(d.h.Sum(nil)), nil
}

func (t *Tx) digestSession(d dump, ref events.Ref, ordinal []byte) error {
	d.text(ref.Tenant)
	d.text(ref.Session)
	return t.scan(bucketRows, ordinal, func(k, v []byte) (bool, error) {
		if string(k[:8]) != string(ordinal) {
			return false, nil
		}
		if !intact(k, v) {
			return false, damaged("row %s of session %s fails its checksum", rowName(k), ref)
		}
		d.bytes(k[8:])
		d.bytes(v[crcBytes:])
		return true, nil
	})
}

func (t *Tx) digestLists(d dump) error {
	err := t.scan(bucketFeed, nil, func(k, v []byte) (bool, error) {
		row, err := t.feedRow(k, v)
		d.number(row.Seq)
		d.text(row.Ref.Tenant)
		d.text(row.Ref.Session)
		d.number(uint64(row.Kind))
		d.number(row.N)
		return true, err
	})
	if err != nil {
		return err
	}
	return t.scan(bucketRejected, nil, func(k, v []byte) (bool, error) {
		d.bytes(k)
		d.bytes(v)
		return true, nil
	})
}

// dump hashes length-prefixed fields.
type dump struct{ h hash.Hash }

func (d dump) number(n uint64) { d.h.Write(binary.BigEndian.AppendUint64(nil, n)) }

func (d dump) bytes(b []byte) {
	d.number(uint64(len(b)))
	d.h.Write(b)
}

func (d dump) text(s string) { d.bytes([]byte(s)) }
