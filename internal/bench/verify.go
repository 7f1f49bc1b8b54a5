package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/verify"
	"lcm/natsembed"
	"lcm/natslog"
)

const (
	// verifyRounds of each, in turns: the best counts, on a machine others use.
	verifyRounds   = 5
	verifySessions = 64
)

// verifyBench reads one log by both: verified, and by a bare ordered consumer.
func verifyBench(ctx context.Context, r *rig) (Result, error) {
	s, err := natsembed.Start(natsembed.Options{Dir: filepath.Join(r.dir, "verify"), Logger: r.Log})
	if err != nil {
		return Result{}, err
	}
	defer s.Stop()
	nc, err := s.Conn()
	if err != nil {
		return Result{}, err
	}
	log, err := natslog.Open(ctx, nc, natslog.Options{Create: true, Logger: r.Log})
	if err != nil {
		return Result{}, err
	}
	r.say("writing %d turns of %d sessions", r.Turns, verifySessions)
	if err := writeChains(ctx, log, r.Turns); err != nil {
		return Result{}, err
	}
	var ours, raw float64
	for i := range verifyRounds {
		r.say("round %d", i+1)
		out, err := verify.Run(ctx, log, verify.Options{})
		if err != nil {
			return Result{}, err
		}
		if !out.OK || out.Events != uint64(r.Turns) {
			return Result{}, fmt.Errorf("the log does not verify: %+v", out)
		}
		ours = max(ours, float64(out.Events)/out.Seconds)
		took, err := replayOnce(ctx, nc, r.Turns)
		if err != nil {
			return Result{}, err
		}
		raw = max(raw, rate(r.Turns, took))
	}
	return Result{
		Ours: Figure{"verify: every position, version and hash of the log", ours, "events/s"},
		Raw:  Figure{"raw ordered consumer over the same log", raw, "msgs/s"},
	}, nil
}

// writeChains fills a log with the turns of many sessions, in turns.
func writeChains(ctx context.Context, log *natslog.Log, n int) error {
	rng := rand.New(rand.NewPCG(1, 2))
	links := make([]events.Link, verifySessions)
	last := make([]uint64, verifySessions)
	var batch []api.Append
	var of []int
	for i := range n {
		k := i % verifySessions
		ref := events.Ref{Tenant: "default", Session: fmt.Sprint("s", k)}
		t := &events.TurnAppended{ID: fmt.Sprint("m", i), Entry: links[k].Version + 1, Role: events.RoleUser, Text: text(rng, i), Tokens: 150, InputTokens: 150, Format: "lcm", Exact: true, RawHash: "0123456789abcdef"}
		m, link, err := events.Encode(events.Subject(events.LaneTimeline, ref, log.Partitions()), t, time.Unix(1, 0), links[k])
		if err != nil {
			return err
		}
		links[k] = link
		batch, of = append(batch, api.Append{Message: m, Expect: last[k]}), append(of, k)
		if len(batch) == 1000 || i == n-1 {
			seqs, err := log.Commit(ctx, batch)
			if err != nil {
				return err
			}
			for j, k := range of {
				last[k] = seqs[j]
			}
			batch, of = batch[:0], of[:0]
		}
	}
	return nil
}

// replayOnce reads n messages in order and does nothing with them.
func replayOnce(ctx context.Context, nc *nats.Conn, n int) (time.Duration, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	c, err := js.OrderedConsumer(ctx, natslog.StreamLog, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return 0, err
	}
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
