package natslog

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// BucketSpending holds what each process has spent on models for each tenant.
// It is made by the first process that has a limit to keep.
const BucketSpending = "LCM_SPENT"

// spendingAge outlives the hour that counts.
const spendingAge = 2 * time.Hour

func (l *Log) spending(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := l.js.KeyValue(ctx, BucketSpending)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: BucketSpending, Description: "what tenants have spent on models, process by process",
			History: 1, TTL: spendingAge, Storage: jetstream.FileStorage, Replicas: l.o.Replicas,
		})
	}
	if err != nil {
		return nil, unavailable("bucket "+BucketSpending, err)
	}
	return kv, nil
}

// SaveSpending replaces what a process has told of a tenant.
func (l *Log) SaveSpending(ctx context.Context, process, tenant string, value []byte) error {
	kv, err := l.spending(ctx)
	if err != nil {
		return err
	}
	if _, err := kv.Put(ctx, process+"."+hex.EncodeToString([]byte(tenant)), value); err != nil { // keys take no '%'
		return unavailable("spending of tenant "+tenant, err)
	}
	return nil
}

// EachSpending hands over what every process has told last.
func (l *Log) EachSpending(ctx context.Context, each func(process, tenant string, value []byte)) error {
	kv, err := l.spending(ctx)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return unavailable("bucket "+BucketSpending, err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-w.Updates():
			if e == nil { // that is all there was
				return nil
			}
			process, name, _ := strings.Cut(e.Key(), ".")
			if tenant, err := hex.DecodeString(name); err == nil {
				each(process, string(tenant), e.Value())
			}
		}
	}
}
