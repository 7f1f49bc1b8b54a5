package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/await"
)

// BucketLease holds who commits. It is disposable: without it every ingestor
// commits for itself, and is fenced by the expectations alone.
const BucketLease = "LCM_LEASE"

const (
	leaseKey = "committer"
	// leaseTTL is after how long the lease of a holder that says nothing ends.
	// It belongs to the bucket: a key's own would end with its first renewal.
	leaseTTL = 3 * time.Second
	// leaseEvery is how often it is renewed, or contended for.
	leaseEvery = leaseTTL / 3
)

// Lease contends for being the one who commits, under a name that no other
// process has, until ctx ends; then it gives a lease it holds back and returns
// ctx's error. tell hears who holds it whenever that changes, "" = nobody is
// known to. The lease avoids contention and excludes nobody: after a stall two
// may believe that they hold it.
func (l *Log) Lease(ctx context.Context, name string, tell func(holder string)) error {
	c := &contender{l: l, name: name}
	last := ""
	for {
		holder, err := c.turn(ctx)
		if ctx.Err() == nil && (holder != last || err != nil && last != "") {
			l.o.Logger.Info("the lease to commit has a holder", "holder", holder, "own", holder == name, "error", err)
			tell(holder)
			last = holder
		}
		if err := await.Sleep(ctx, leaseEvery); err != nil {
			c.giveBack(context.WithoutCancel(ctx))
			return err
		}
	}
}

// contender for the lease. revision is of the lease it holds, 0 = none.
type contender struct {
	l        *Log
	name     string
	kv       jetstream.KeyValue
	revision uint64
}

// turn renews the lease, takes it where it is free, or says who holds it.
func (c *contender) turn(ctx context.Context) (holder string, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseEvery)
	defer cancel()
	if err := c.open(ctx); err != nil {
		return "", err
	}
	if c.revision != 0 {
		if c.revision, err = c.kv.Update(ctx, leaseKey, []byte(c.name), c.revision); err == nil {
			return c.name, nil
		}
		c.revision = 0 // lost, or nobody knows: look
	}
	e, err := c.kv.Get(ctx, leaseKey)
	if err == nil && string(e.Value()) != c.name {
		return string(e.Value()), nil
	}
	if err == nil { // a renewal whose answer was lost
		c.revision = e.Revision()
		return c.name, nil
	}
	if !errors.Is(err, jetstream.ErrKeyNotFound) {
		c.kv = nil // the bucket may be gone: it lives in memory
		return "", err
	}
	if c.revision, err = c.kv.Create(ctx, leaseKey, []byte(c.name)); err == nil {
		return c.name, nil
	}
	return "", nil // somebody was faster: the next turn sees who
}

func (c *contender) open(ctx context.Context) (err error) {
	if c.kv != nil {
		return nil
	}
	c.kv, err = c.l.js.KeyValue(ctx, BucketLease)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		c.kv, err = c.l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: BucketLease, Description: "who commits to the log; disposable",
			History: 1, TTL: leaseTTL, Storage: jetstream.MemoryStorage, Replicas: c.l.o.Replicas,
		})
	}
	if err != nil {
		c.kv = nil
	}
	return err
}

// giveBack lets the next one have the lease at once.
func (c *contender) giveBack(ctx context.Context) {
	if c.revision == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaseEvery)
	defer cancel()
	_ = c.kv.Delete(ctx, leaseKey, jetstream.LastRevision(c.revision)) // else it ends by itself
}
