package boltstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// Tx is a transaction. It implements api.StoreTx.
type Tx struct {
	tx *bolt.Tx
	// data and size of the memory map, as far as the file uses it.
	data, size uintptr

	ordinals map[events.Ref]uint64
	refs     map[uint64]events.Ref
	open     map[events.Ref]*Rows
}

var _ api.StoreTx = (*Tx)(nil)

func newTx(tx *bolt.Tx) *Tx {
	return &Tx{tx: tx, data: tx.DB().Info().Data, size: uintptr(tx.Size()), ordinals: map[events.Ref]uint64{}, refs: map[uint64]events.Ref{}, open: map[events.Ref]*Rows{}}
}

func num(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// nameKey orders the sessions of a tenant by name.
func nameKey(ref events.Ref) []byte {
	k := make([]byte, 0, 1+len(ref.Tenant)+len(ref.Session))
	k = append(k, byte(len(ref.Tenant)))
	k = append(k, ref.Tenant...)
	return append(k, ref.Session...)
}

func parseNameKey(k []byte) (events.Ref, error) {
	if len(k) == 0 || len(k) < 1+int(k[0]) {
		return events.Ref{}, damaged("session name %x cannot be read", k)
	}
	n := 1 + int(k[0])
	return events.Ref{Tenant: string(k[1:n]), Session: string(k[n:])}, nil
}

// ordinal of a session, 0 for one that is not known.
func (t *Tx) ordinal(ref events.Ref) (n uint64, err error) {
	if n, ok := t.ordinals[ref]; ok {
		return n, nil
	}
	if len(ref.Tenant) > events.MaxNameBytes || len(ref.Session) > events.MaxNameBytes {
		return 0, nil
	}
	v, err := t.get(bucketName, nameKey(ref))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, damaged("session %s has a number of %d bytes", ref, len(v))
	}
	n = binary.BigEndian.Uint64(v)
	t.ordinals[ref], t.refs[n] = n, ref
	return n, nil
}

// enrol gives a session its ordinal.
func (t *Tx) enrol(ref events.Ref) (uint64, error) {
	n, err := t.ordinal(ref)
	if err != nil || n != 0 {
		return n, err
	}
	if err := ref.Validate(); err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	last, _, err := t.last(bucketSession)
	if err != nil {
		return 0, err
	}
	n = 1
	if last != nil {
		n = binary.BigEndian.Uint64(last) + 1
	}
	if err := t.put(bucketSession, num(n), nameKey(ref)); err != nil {
		return 0, err
	}
	if err := t.put(bucketName, nameKey(ref), num(n)); err != nil {
		return 0, err
	}
	t.ordinals[ref], t.refs[n] = n, ref
	return n, nil
}

// refOf reverses ordinal.
func (t *Tx) refOf(n uint64) (events.Ref, error) {
	if ref, ok := t.refs[n]; ok {
		return ref, nil
	}
	v, err := t.get(bucketSession, num(n))
	if err != nil {
		return events.Ref{}, err
	}
	if v == nil {
		return events.Ref{}, damaged("no session has the number %d", n)
	}
	ref, err := parseNameKey(v)
	if err == nil {
		t.ordinals[ref], t.refs[n] = n, ref
	}
	return ref, err
}

// Known implements api.RowsTx.
func (t *Tx) Known(ref events.Ref) bool {
	n, err := t.ordinal(ref)
	return err == nil && n != 0
}

// Checkpoint implements api.PositionTx.
func (t *Tx) Checkpoint() (api.Checkpoint, error) {
	var c api.Checkpoint
	err := t.getJSON(keyCheckpoint, &c)
	return c, err
}

// SetCheckpoint implements api.PositionTx.
func (t *Tx) SetCheckpoint(c api.Checkpoint) error { return t.putJSON(bucketMeta, keyCheckpoint, c) }

// Counts implements api.PositionTx.
func (t *Tx) Counts() (api.Counts, error) {
	var c api.Counts
	if err := t.getJSON(keyCounts, &c); err != nil {
		return c, err
	}
	last, _, err := t.last(bucketSession) // ordinals have no holes
	if last != nil {
		c.Sessions = int(binary.BigEndian.Uint64(last))
	}
	return c, err
}

// SetCounts implements api.PositionTx.
func (t *Tx) SetCounts(c api.Counts) error { return t.putJSON(bucketMeta, keyCounts, c) }

const feedBytes = 8 + 1 + 8

// PutFeed implements api.FeedTx.
func (t *Tx) PutFeed(f api.FeedRow) error {
	n, err := t.enrol(f.Ref)
	if err != nil {
		return err
	}
	v := make([]byte, 0, feedBytes)
	v = binary.BigEndian.AppendUint64(v, n)
	v = append(v, byte(f.Kind))
	v = binary.BigEndian.AppendUint64(v, f.N)
	return t.put(bucketFeed, num(f.Seq), v)
}

func (t *Tx) feedRow(k, v []byte) (api.FeedRow, error) {
	if len(k) != 8 || len(v) != feedBytes {
		return api.FeedRow{}, damaged("feed row %x cannot be read", k)
	}
	ref, err := t.refOf(binary.BigEndian.Uint64(v))
	return api.FeedRow{
		Seq: binary.BigEndian.Uint64(k), Ref: ref,
		Kind: session.RowKind(v[8]), N: binary.BigEndian.Uint64(v[9:]),
	}, err
}

// FeedAt implements api.FeedTx.
func (t *Tx) FeedAt(seq uint64) (*api.FeedRow, error) {
	v, err := t.get(bucketFeed, num(seq))
	if err != nil || v == nil {
		return nil, err
	}
	row, err := t.feedRow(num(seq), v)
	return &row, err
}

// Feed implements api.FeedTx.
func (t *Tx) Feed(after uint64, limit int) ([]api.FeedRow, error) {
	var out []api.FeedRow
	if after == ^uint64(0) {
		return nil, nil
	}
	err := t.scan(bucketFeed, num(after+1), func(k, v []byte) (bool, error) {
		row, err := t.feedRow(k, v)
		out = append(out, row)
		return len(out) < limit, err
	})
	return out, err
}

// FeedBefore implements api.FeedTx.
func (t *Tx) FeedBefore(seq uint64, limit int) ([]api.FeedRow, error) {
	var out []api.FeedRow
	err := t.scanBack(bucketFeed, num(seq), func(k, v []byte) (bool, error) {
		row, err := t.feedRow(k, v)
		out = append(out, row)
		return len(out) < limit, err
	})
	return out, err
}

// SetHot implements api.MarksTx.
func (t *Tx) SetHot(ref events.Ref, hot bool) error {
	n, err := t.enrol(ref)
	if err != nil {
		return err
	}
	if !hot {
		return t.delete(bucketHot, num(n))
	}
	return t.put(bucketHot, num(n), []byte{})
}

// Hot implements api.MarksTx.
func (t *Tx) Hot() ([]events.Ref, error) {
	var out []events.Ref
	err := t.scan(bucketHot, nil, func(k, _ []byte) (bool, error) {
		ref, err := t.refOf(binary.BigEndian.Uint64(k))
		out = append(out, ref)
		return true, err
	})
	return out, err
}

// PutRejected implements api.MarksTx.
func (t *Tx) PutRejected(r api.RejectedEvent) error {
	return t.putJSON(bucketRejected, num(r.Seq), r)
}

// Rejected implements api.MarksTx.
func (t *Tx) Rejected(after uint64, limit int) ([]api.RejectedEvent, error) {
	var out []api.RejectedEvent
	err := t.scan(bucketRejected, num(after+1), func(k, v []byte) (bool, error) {
		var r api.RejectedEvent
		if err := json.Unmarshal(v, &r); err != nil {
			return false, damaged("rejected event %x: %v", k, err)
		}
		out = append(out, r)
		return len(out) < limit, nil
	})
	return out, err
}

func (t *Tx) getJSON(key []byte, v any) error {
	b, err := t.get(bucketMeta, key)
	if err != nil || b == nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return damaged("%s cannot be read: %v", key, err)
	}
	return nil
}

func (t *Tx) putJSON(bucket, key []byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store %s: %w", bucket, err)
	}
	return t.put(bucket, key, b)
}

// errReadOnly: a write in a View is a fault of the caller.
var errReadOnly = errors.New("store: write in a read transaction")
