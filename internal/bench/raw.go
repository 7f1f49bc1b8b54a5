package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/natsembed"
)

// rawStream opens a bare stream with the log's storage settings.
func (r *rig) rawStream(ctx context.Context) (jetstream.JetStream, func(), error) {
	dir, err := os.MkdirTemp(r.dir, "raw-")
	if err != nil {
		return nil, nil, err
	}
	s, err := natsembed.Start(natsembed.Options{Dir: dir, Logger: r.Log})
	if err != nil {
		return nil, nil, err
	}
	nc, err := s.Conn()
	if err != nil {
		s.Stop()
		return nil, nil, err
	}
	stop := func() { nc.Close(); s.Stop() }
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "RAW", Subjects: []string{"raw.>"}, Storage: jetstream.FileStorage,
			Compression: jetstream.S2Compression, AllowAtomicPublish: true, Duplicates: 100 * time.Millisecond,
		})
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	return js, stop, nil
}

// rawMessages are what the log holds for such turns.
func rawMessages(n int) []*nats.Msg {
	rng := rand.New(rand.NewPCG(1, 2))
	out := make([]*nats.Msg, n)
	for i := range out {
		t := &events.TurnAppended{ID: fmt.Sprint("m", i), Entry: uint64(i) + 1, Role: events.RoleUser, Text: text(rng, i), Tokens: 150, InputTokens: 150, Format: "lcm", Exact: true, RawHash: "0123456789abcdef"}
		m, _, err := events.Encode(fmt.Sprint("raw.", i%64), t, time.Unix(1, 0), events.Link{Version: 1, Hash: events.Hash{1}})
		if err != nil {
			panic(err) // strings and numbers only
		}
		out[i] = nats.NewMsg(m.Subject)
		out[i].Data = m.Data
		for k, v := range m.Header {
			out[i].Header.Set(k, v)
		}
	}
	return out
}

func (r *rig) rawBatches(ctx context.Context, n int) (time.Duration, error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	msgs := rawMessages(n)
	start := time.Now()
	if err := publishBatches(ctx, js, msgs); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

// publishBatches stores messages in atomic batches of 1,000, the most the
// server takes.
func publishBatches(ctx context.Context, js jetstream.JetStream, msgs []*nats.Msg) error {
	for len(msgs) > 0 {
		batch := msgs[:min(1000, len(msgs))]
		msgs = msgs[len(batch):]
		if _, err := jetstreamext.PublishMsgBatch(ctx, js, batch); err != nil {
			return err
		}
	}
	return nil
}

// rawSync publishes n messages, each acknowledged before its publisher sends
// the next one, and answers how long all took and how long each waited.
func (r *rig) rawSync(ctx context.Context, publishers, n int) (time.Duration, []time.Duration, error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer stop()
	msgs := rawMessages(n / publishers)
	return concurrently(ctx, publishers, len(msgs), func(ctx context.Context, s, i int) error {
		c := nats.NewMsg(fmt.Sprint("raw.", s))
		c.Data, c.Header = msgs[i].Data, msgs[i].Header
		_, err := js.PublishMsg(ctx, c)
		return err
	})
}

// concurrently has workers do f each times, one after the other, and answers
// how long all took and each f.
func concurrently(ctx context.Context, workers, each int, f func(ctx context.Context, worker, i int) error) (time.Duration, []time.Duration, error) {
	waits := make([]time.Duration, workers*each)
	g, gctx := errgroup.WithContext(ctx)
	start := time.Now()
	for w := range workers {
		g.Go(func() error {
			for i := range each {
				begin := time.Now()
				if err := f(gctx, w, i); err != nil {
					return err
				}
				waits[w*each+i] = time.Since(begin)
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(start), waits, err
}
