// Package verify reads the whole log and checks it: positions without a gap,
// and on every subject contiguous versions with the hash of the predecessor.
// What is valid is judged by package session alone, as in the fold. A payload is
// read where no later event vouches for it with its hash: who wrote that one has
// judged it.
//
// It works over the port below and must never import an engine or an adapter.
package verify

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/session"
)

// Log is the log to verify.
type Log interface {
	Epoch() string
	Partitions() int
	// Extent is the first and last position and the number of messages held.
	Extent(ctx context.Context) (first, last, held uint64, err error)
	// Scan hands over the messages behind after up to until in order; positions
	// that cannot be read are left out. It ends with the error of handle.
	Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error
}

// Options of a run.
type Options struct {
	// Limit of the faults listed; 0 = 1,000.
	Limit int
	// Progress is told how far it is, about ten times a second. nil = nobody.
	Progress func(api.VerifyProgress)
	// EventsPerSecond bounds the speed, for a scrubber beside other work; 0 =
	// as fast as it goes.
	EventsPerSecond int
}

const (
	defaultLimit  = 1_000
	progressEvery = 100 * time.Millisecond
	// decodeAhead batches are decoded at once, beside the reading.
	decodeAhead = 4
)

// Run verifies the log up to where it ends now. Faults are in the reply; an
// error means that the log could not be read at all.
func Run(ctx context.Context, log Log, o Options) (*api.VerifyReply, error) {
	start := time.Now()
	first, last, held, err := log.Extent(ctx)
	if err != nil {
		return nil, err
	}
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	c := newCheck(log, o.Limit)
	c.out.First, c.out.Last = first, last
	if err := c.scan(ctx, log, last, o); err != nil {
		return nil, err
	}
	c.lost(c.next, last+1)
	if held < c.messages {
		c.fault(api.VerifyFault{Seq: last, Kind: api.FaultMissing, Reason: fmt.Sprintf("the log says that it holds %d messages and gives %d", held, c.messages)})
	}
	c.finish()
	c.out.Seconds = time.Since(start).Seconds()
	return c.out, nil
}

// scan decodes in parallel and checks in order.
func (c *check) scan(ctx context.Context, log Log, until uint64, o Options) error {
	ahead := make(chan chan []decoded, decodeAhead) // in order, each one batch
	pace := newPace(o.EventsPerSecond)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(ahead)
		send := func(ctx context.Context, records []events.Record) error {
			one := make(chan []decoded, 1)
			g.Go(func() error { one <- decode(records); return nil })
			select {
			case ahead <- one:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var joiner events.Joiner
		err := log.Scan(gctx, 0, until, func(ctx context.Context, messages []events.Record) error {
			if err := pace.wait(ctx, len(messages)); err != nil {
				return err
			}
			records := make([]events.Record, 0, len(messages))
			for _, m := range messages {
				records = joiner.Add(m, records)
			}
			return send(ctx, records)
		})
		if err != nil {
			return err
		}
		return send(gctx, joiner.Flush(nil))
	})
	g.Go(func() error {
		said := time.Now()
		for one := range ahead {
			batch := <-one
			for i := range batch {
				c.add(&batch[i])
			}
			if now := time.Now(); o.Progress != nil && now.Sub(said) >= progressEvery {
				said = now
				o.Progress(api.VerifyProgress{Seq: c.next - 1, Last: until})
			}
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return problem.New(problem.From(err).Code, "verify the log: %w", err)
	}
	return nil
}

// decoded is a record and what it is, or why its subject is no session's.
type decoded struct {
	session.Decoded
	err error
}

func decode(records []events.Record) []decoded {
	out := make([]decoded, len(records))
	for i := range records {
		out[i].Decoded, out[i].err = session.DecodeLink(records[i])
	}
	return out
}

// pace spreads a scan over time.
type pace struct {
	perSecond int
	start     time.Time
	n         int
}

func newPace(perSecond int) *pace { return &pace{perSecond: perSecond, start: time.Now()} }

func (p *pace) wait(ctx context.Context, n int) error {
	if p.perSecond <= 0 {
		return nil
	}
	p.n += n
	due := p.start.Add(time.Duration(float64(p.n) / float64(p.perSecond) * float64(time.Second)))
	return await.Sleep(ctx, time.Until(due))
}
