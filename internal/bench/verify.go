package bench

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/api"
)

// verifyRounds of each, in turns: the best counts, on a machine others use too.
const verifyRounds = 3

func verifyBench(ctx context.Context, r *rig) (Result, error) {
	r.say("importing %d turns", r.Turns)
	if _, err := r.importTurns(ctx, "bench", r.Turns); err != nil {
		return Result{}, err
	}
	r.say("waiting for the index and the condenser")
	if err := r.idle(ctx); err != nil {
		return Result{}, err
	}
	raw, stop, err := r.rawFilled(ctx, r.Turns)
	if err != nil {
		return Result{}, err
	}
	defer stop()
	var ours, best float64
	for i := range verifyRounds {
		r.say("verifying, and raw ordered replay: round %d", i+1)
		out, err := r.n.Verify(ctx, api.VerifyIn{})
		if err != nil {
			return Result{}, err
		}
		ours = max(ours, float64(out.Events)/out.Seconds)
		took, err := replayOnce(ctx, raw, r.Turns)
		if err != nil {
			return Result{}, err
		}
		best = max(best, rate(r.Turns, took))
	}
	return Result{
		Ours: Figure{"verify: every position, version and hash of the log", ours, "events/s"},
		Raw:  Figure{"raw ordered consumer, same payloads", best, "msgs/s"},
		More: []Figure{{"verifying the whole log", float64(r.Turns) / ours * float64(time.Second/time.Millisecond), "ms"}},
	}, nil
}

// rawFilled is a bare stream with the log's storage settings and payloads.
func (r *rig) rawFilled(ctx context.Context, n int) (jetstream.JetStream, func(), error) {
	js, stop, err := r.rawStream(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := publishBatches(ctx, js, rawMessages(n)); err != nil {
		stop()
		return nil, nil, err
	}
	return js, stop, nil
}

// replayOnce reads n messages in order and does nothing with them.
func replayOnce(ctx context.Context, js jetstream.JetStream, n int) (time.Duration, error) {
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
