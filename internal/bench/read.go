package bench

import (
	"context"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	bolt "go.etcd.io/bbolt"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/session"
)

func replayBench(ctx context.Context, r *rig) (Result, error) {
	r.say("importing %d turns", r.Turns)
	if _, err := r.importTurns(ctx, "bench", r.Turns); err != nil {
		return Result{}, err
	}
	r.say("waiting for the index and the condenser")
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	r.say("replaying the log into new rows")
	start := time.Now()
	out, err := r.n.Tools().Rebuild(ctx, api.RebuildIn{Store: true})
	if err != nil {
		return Result{}, err
	}
	took := time.Since(start)
	r.say("raw ordered replay")
	raw, err := r.rawReplay(ctx, r.Turns)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"replay into rows: decoded, checked, folded, stored", rate(int(out.Turns), took), "turns/s"},
		Raw:  Figure{"raw ordered consumer, same payloads, nothing stored", rate(r.Turns, raw), "msgs/s"},
	}, nil
}

// idle waits until nothing works in the background any more: what is measured
// next is measured alone. A condenser that works writes to the log.
func (r *rig) idle(ctx context.Context) error {
	for last := uint64(0); ; {
		st, err := r.n.Tools().Status(ctx, api.StatusIn{})
		if err != nil {
			return err
		}
		if st.LogSeq == last && st.Lag == 0 && st.IndexLag == 0 {
			return nil
		}
		last = st.LogSeq
		if err := await.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

func (r *rig) rawReplay(ctx context.Context, n int) (time.Duration, error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	if err := publishBatches(ctx, js, rawMessages(n)); err != nil {
		return 0, err
	}
	c, err := js.OrderedConsumer(ctx, "RAW", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	it, err := c.Messages()
	if err != nil {
		return 0, err
	}
	defer it.Stop()
	for range n {
		if _, err := it.Next(); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// contextRounds is how often a context is read.
const contextRounds = 500

func contextBench(ctx context.Context, r *rig) (Result, error) {
	r.say("importing %d turns", r.Turns)
	if _, err := r.importTurns(ctx, "bench", r.Turns); err != nil {
		return Result{}, err
	}
	scope := api.Scope{Session: "bench", Fresh: true}
	r.say("condensing for a window of 128,000 tokens")
	start := time.Now()
	cut, err := r.n.Tools().Condense(ctx, api.CondenseIn{Scope: scope, Window: 128_000})
	if err != nil {
		return Result{}, err
	}
	condensed := time.Since(start)
	if err := r.fillContext(ctx, scope); err != nil {
		return Result{}, err
	}
	r.say("reading the context %d times", contextRounds)
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	in := api.ContextIn{Scope: api.Scope{Session: "bench"}}
	assembled, err := timed(func() error {
		_, err := r.n.Tools().Assemble(ctx, in)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	var last *api.ContextOut
	encoded, err := timed(func() (err error) {
		last, err = r.n.Tools().Context(ctx, in)
		return err
	})
	if err != nil {
		return Result{}, err
	}
	raw, err := r.rawReads(len(last.Messages) + len(last.Pointers))
	if err != nil {
		return Result{}, err
	}
	return Result{
		Ours: Figure{"context of the condensed session, p50", quantile(assembled, 0.50), "ms"},
		Raw:  Figure{"raw bbolt reads of as many rows, p50", raw, "ms"},
		More: []Figure{
			{"context, p99", quantile(assembled, 0.99), "ms"},
			{"context in a provider's JSON, p50", quantile(encoded, 0.50), "ms"},
			{"context in a provider's JSON, p99", quantile(encoded, 0.99), "ms"},
			{"tokens of the context", float64(last.Tokens), "tokens"},
			{"pointers", float64(len(last.Pointers)), ""},
			{"summaries made", float64(cut.Nodes), ""},
			{"condensing (extractive summariser)", condensed.Seconds(), "s"},
		},
	}, nil
}

// fillContext talks on after a cut, up to just below the threshold of the next:
// the largest context that stands between two cuts.
func (r *rig) fillContext(ctx context.Context, scope api.Scope) error {
	for said := r.Turns; ; {
		c, err := r.n.Tools().Assemble(ctx, api.ContextIn{Scope: scope})
		if err != nil {
			return err
		}
		more := (c.Soft*95/100 - c.Tokens) * len(c.Parts) / c.Tokens
		if more <= 0 {
			return nil
		}
		if _, err := r.importMore(ctx, scope.Session, said, more); err != nil {
			return err
		}
		said += more
	}
}

// rawReads reads rows of a turn's size from a bare bbolt file.
func (r *rig) rawReads(rows int) (float64, error) {
	db, err := bolt.Open(filepath.Join(r.dir, "raw.bolt"), 0o600, nil)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	bucket := []byte("b")
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		if err != nil {
			return err
		}
		for i, m := range rawMessages(r.Turns) {
			if err := b.Put(session.Num(uint64(i)), m.Data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	waits, err := timed(func() error {
		return db.View(func(tx *bolt.Tx) error {
			b, size := tx.Bucket(bucket), 0
			for i := range rows {
				size += len(b.Get(session.Num(uint64(r.Turns - 1 - i))))
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return quantile(waits, 0.50), nil
}

// timed runs what a context call does, contextRounds times.
func timed(run func() error) ([]time.Duration, error) {
	var waits []time.Duration
	for range contextRounds {
		begin := time.Now()
		if err := run(); err != nil {
			return nil, err
		}
		waits = append(waits, time.Since(begin))
	}
	return waits, nil
}
