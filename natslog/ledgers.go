package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/grant"
)

// BucketGrants holds one ledger per root grant. Losing it loses no turn: the
// grants of before are refused.
const BucketGrants = "LCM_GRANTS"

// ledgerAge outlives every grant.
const ledgerAge = grant.MaxTTL + time.Hour

// ledgers opens the bucket, making it where there is none.
func (l *Log) ledgers(ctx context.Context) (jetstream.KeyValue, error) {
	if kv := l.bucket.Load(); kv != nil {
		return *kv, nil
	}
	kv, err := l.js.KeyValue(ctx, BucketGrants)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: BucketGrants, Description: "what grants have spent; ledgers end with their grants",
			History: 1, TTL: ledgerAge, Storage: jetstream.FileStorage, Replicas: l.o.Replicas,
		})
	}
	if err != nil {
		return nil, unavailable("bucket "+BucketGrants, err)
	}
	l.bucket.Store(&kv)
	return kv, nil
}

// lostLedger is an error of the bucket, which is looked for again.
func (l *Log) lostLedger(root string, err error) error {
	l.bucket.Store(nil)
	return unavailable("ledger "+root, err)
}

// LoadLedger gives the newest value of a root grant's ledger and its revision;
// nil and 0 where there is none.
func (l *Log) LoadLedger(ctx context.Context, root string) ([]byte, uint64, error) {
	kv, err := l.ledgers(ctx)
	if err != nil {
		return nil, 0, err
	}
	e, err := kv.Get(ctx, root)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrInvalidKey):
		return nil, 0, nil
	case err != nil:
		return nil, 0, l.lostLedger(root, err)
	}
	return e.Value(), e.Revision(), nil
}

// SaveLedger writes a ledger where its revision still is the newest.
func (l *Log) SaveLedger(ctx context.Context, root string, value []byte, revision uint64) (bool, error) {
	kv, err := l.ledgers(ctx)
	if err != nil {
		return false, err
	}
	_, err = kv.Update(ctx, root, value, revision) // revision 0: only where there is none
	switch {
	case err == nil:
		return true, nil
	case errors.Is(classify(err), errConflict):
		return false, nil
	}
	return false, l.lostLedger(root, err)
}
