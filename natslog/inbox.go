package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
)

// HeaderFormat of an inbox message names its transcript format, "" = auto.
const HeaderFormat = "Lcm-Format"

const (
	// inboxWait is how long one request for a message stands.
	inboxWait = 30 * time.Second
	// inboxRetry delays a message whose handler could not work: its partition
	// waits with it, so it is short, and doubles up to the second figure.
	inboxRetry    = 250 * time.Millisecond
	inboxRetryMax = 15 * time.Second
)

// Inbox hands what agents published to handle until ctx ends; then it returns
// ctx's error. Messages of one session come in order, one at a time; sessions
// of different partitions concurrently. nil acknowledges. An error delivers
// the message again after a short while and holds its partition up meanwhile,
// so it is for what passes, never for bad input: that is buried. A message may
// come twice, always with the same Seq.
func (l *Log) Inbox(ctx context.Context, handle func(context.Context, api.InboxMessage) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for p := range inboxPartitions {
		g.Go(func() error { return l.inboxPartition(ctx, p, handle) })
	}
	return g.Wait()
}

func (l *Log) inboxPartition(ctx context.Context, p int, handle func(context.Context, api.InboxMessage) error) error {
	var c jetstream.Consumer
	backoff := inboxRetry
	for ctx.Err() == nil {
		var err error
		if c == nil {
			c, err = l.js.CreateOrUpdateConsumer(ctx, StreamInbox, jetstream.ConsumerConfig{
				Durable: "ingest-" + strconv.Itoa(p), FilterSubject: fmt.Sprintf("lcm.in.%d.*.*", p),
				AckPolicy: jetstream.AckExplicitPolicy, AckWait: l.o.AckWait,
				MaxDeliver: -1, MaxAckPending: 1,
			})
		}
		var m jetstream.Msg
		if err == nil {
			m, err = fetchOne(ctx, c, inboxWait)
		}
		switch {
		case err == nil:
			backoff = inboxRetry
			l.inboxTrouble.Over(l.o.Logger, "read "+strconv.Itoa(p), inboxWorks)
			l.runInbox(ctx, p, m, handle)
		case ctx.Err() != nil:
		case errors.Is(err, errNothing):
			l.inboxTrouble.Over(l.o.Logger, "read "+strconv.Itoa(p), inboxWorks)
		default:
			l.inboxTrouble.Met(l.o.Logger, "read "+strconv.Itoa(p), inboxFails, err)
			c = nil
			_ = await.Sleep(ctx, backoff)
			backoff = min(2*backoff, inboxRetryMax)
		}
	}
	return ctx.Err()
}

// inboxFails and inboxWorks are said once for all partitions: what keeps one from
// working keeps them all.
const (
	inboxFails = "the inbox waits: its messages come again"
	inboxWorks = "the inbox works again"
)

func (l *Log) runInbox(ctx context.Context, p int, m jetstream.Msg, handle func(context.Context, api.InboxMessage) error) {
	in := api.InboxMessage{Data: m.Data(), Format: m.Headers().Get(HeaderFormat), Origin: m.Headers().Get(api.HeaderInboxOrigin)}
	meta, err := m.Metadata()
	if err == nil {
		in.Seq = meta.Sequence.Stream
		in.Ref, err = events.ParseInboxSubject(m.Subject())
	}
	if err != nil {
		// The names are no session's: kept where they can be looked at.
		err = l.Bury(ctx, api.DeadLetter{
			Ref: events.Ref{Tenant: "lcm", Session: "unknown"}, Origin: "inbox " + strconv.FormatUint(in.Seq, 10),
			Reason: fmt.Sprintf("subject %q: %v", m.Subject(), err), Body: m.Data(),
		})
	} else {
		alive(m, l.o.AckWait, func() { err = handle(ctx, in) })
	}
	if err != nil {
		l.inboxTrouble.Met(l.o.Logger, "handle "+strconv.Itoa(p), inboxFails, fmt.Errorf("message %d: %w", in.Seq, err))
		tries := uint64(1)
		if meta != nil {
			tries = meta.NumDelivered
		}
		err = m.NakWithDelay(retryDelay(tries))
	} else {
		l.inboxTrouble.Over(l.o.Logger, "handle "+strconv.Itoa(p), inboxWorks)
		err = m.Ack()
	}
	if err != nil {
		l.inboxTrouble.Met(l.o.Logger, "acknowledge "+strconv.Itoa(p), inboxFails, fmt.Errorf("message %d: %w", in.Seq, err))
		return
	}
	l.inboxTrouble.Over(l.o.Logger, "acknowledge "+strconv.Itoa(p), inboxWorks)
}

func retryDelay(tries uint64) time.Duration {
	return min(inboxRetry<<min(tries-min(tries, 1), 10), inboxRetryMax)
}
