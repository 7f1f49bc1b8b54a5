package natslog

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/await"
	"lcm/internal/problem"
)

const (
	// A batch handed to a follower: what is there, within these bounds.
	maxFollowRecords = 2000
	maxFollowBytes   = 8 << 20
	// followAhead is how many decoded messages wait for the handler.
	followAhead = 512
	// The server drops a follower's consumer when nobody asks for this long.
	followIdle = 30 * time.Second
	// followStall: a follower that is behind and hears nothing for this long
	// asks for the next event itself. The server skips nothing and says nothing
	// where it cannot read a block.
	followStall = 3 * time.Second
	// A restart of the consumer waits, doubling up to the second figure.
	followBackoff    = 50 * time.Millisecond
	followBackoffMax = 5 * time.Second
)

// Follow hands every event after a position to handle, in log order, without a
// gap, in batches of what is there, and goes on with live ones until ctx ends;
// then it returns ctx's error. An error of handle ends it at once and is
// returned: nothing behind the failed batch was handed over.
//
// A gap, a log shorter than after, or another log in its place is "damaged".
// Connections that break are waited for.
func (l *Log) Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error {
	return l.follow(ctx, followed{StreamLog, l.End, l.Message}, after, handle)
}

// followed is a stream without gaps: its end, and its message at a position.
type followed struct {
	name    string
	lastSeq func(context.Context) (uint64, error)
	read    func(context.Context, uint64) (events.Record, error)
}

func (l *Log) follow(ctx context.Context, s followed, after uint64, handle func(context.Context, []events.Record) error) error {
	f := &follower{l: l, stream: s, last: after, handle: handle, backoff: followBackoff}
	for {
		err := f.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != errRestart {
			return err
		}
		l.followTrouble.Met(l.o.Logger, f.stream.name, "follower starts its consumer anew until it hears something", fmt.Errorf("after %d: %w", f.last, f.cause))
		if err := await.Sleep(ctx, f.backoff); err != nil {
			return err
		}
		f.backoff = min(2*f.backoff, followBackoffMax)
	}
}

// errRestart asks for a new consumer; follower.cause says why.
var errRestart = fmt.Errorf("restart")

type follower struct {
	l       *Log
	stream  followed
	last    uint64 // position of the last event that was handled
	seen    uint64 // of the last message: behind it in a large event
	joiner  events.Joiner
	handle  func(context.Context, []events.Record) error
	backoff time.Duration
	cause   error
}

// run follows with one consumer until something happens to it.
func (f *follower) run(ctx context.Context) error {
	// A consumer that starts beyond the end hears nothing, so compare first.
	end, err := f.stream.lastSeq(ctx)
	if err != nil {
		return f.restart(err)
	}
	if end < f.last {
		return problem.New(problem.Damaged, "the log ends at %d, position %d has been seen", end, f.last).
			WithHint("the log was shortened or replaced: restore a backup with `lcm restore`, or drop the projections with `lcm rebuild`")
	}
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: followIdle}
	if f.last > 0 {
		// From the last one seen, which is there, and skip it.
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.last
	}
	cons, err := f.l.js.OrderedConsumer(ctx, f.stream.name, cfg)
	if err != nil {
		return f.restart(err)
	}
	f.seen, f.joiner = f.last, events.Joiner{}
	runCtx, cancel := context.WithCancel(ctx)
	msgs := make(chan jetstream.Msg, followAhead)
	errs := make(chan error, 1)
	cc, err := cons.Consume(func(m jetstream.Msg) {
		select {
		case msgs <- m:
		case <-runCtx.Done():
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(maxFollowRecords, maxFollowBytes),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case errs <- err:
			default:
			}
		}))
	if err != nil {
		cancel()
		return f.restart(err)
	}
	defer func() {
		cancel()
		cc.Stop()
		<-cc.Closed()
	}()
	return f.loop(ctx, msgs, errs)
}

// restart passes damage on and makes anything else a reason to try again.
func (f *follower) restart(err error) error {
	if problem.IsCode(err, problem.Damaged) {
		return err
	}
	f.cause = err
	return errRestart
}

func (f *follower) loop(ctx context.Context, msgs <-chan jetstream.Msg, errs <-chan error) error {
	stall := time.NewTimer(followStall)
	defer stall.Stop()
	for {
		select {
		case <-stall.C:
			if err := f.stalled(ctx); err != nil {
				return err
			}
			stall.Reset(followStall)
		case <-ctx.Done():
			return ctx.Err()
		case err := <-errs:
			return f.restart(err)
		case m := <-msgs:
			before := f.seen
			batch, err := f.gather(m, msgs)
			if len(batch) > 0 {
				if herr := f.handle(ctx, batch); herr != nil {
					return herr
				}
				f.last, f.backoff = batch[len(batch)-1].Seq, followBackoff
				f.l.followTrouble.Over(f.l.o.Logger, f.stream.name, "follower hears events again")
			}
			if f.seen > before {
				stall.Reset(followStall)
			}
			if err != nil {
				return err
			}
		}
	}
}

// stalled finds out why nothing comes: there is nothing, the consumer has to
// be started anew, or the log cannot give the next event, which is damage.
func (f *follower) stalled(ctx context.Context) error {
	end, err := f.stream.lastSeq(ctx)
	if err != nil {
		return f.restart(err)
	}
	if end <= f.last {
		return nil
	}
	if _, err := f.stream.read(ctx, f.seen+1); err != nil {
		return f.restart(err)
	}
	return f.restart(fmt.Errorf("nothing came for %s, and position %d is there", followStall, f.seen+1))
}

// gather takes what is there behind m. A gap ends the batch before it.
func (f *follower) gather(m jetstream.Msg, msgs <-chan jetstream.Msg) ([]events.Record, error) {
	var out []events.Record
	bytes := 0
	for {
		seq, _, err := sequence(m)
		if err != nil {
			return out, f.restart(err)
		}
		switch {
		case seq == f.seen+1:
			out = f.joiner.Add(record(m.Subject(), m.Headers(), m.Data(), seq), out)
			f.seen, bytes = seq, bytes+len(m.Data())
		case seq > f.seen+1:
			return out, lost(f.seen + 1)
		}
		if len(out) >= maxFollowRecords || bytes >= maxFollowBytes {
			return out, nil
		}
		select {
		case m = <-msgs:
		default:
			return out, nil
		}
	}
}
