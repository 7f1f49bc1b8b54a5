package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errNothing: no message waits.
var errNothing = errors.New("nothing waits")

// fetchOne takes one message, waiting up to wait (0 = not at all).
func fetchOne(ctx context.Context, c jetstream.Consumer, wait time.Duration) (jetstream.Msg, error) {
	var batch jetstream.MessageBatch
	var err error
	if wait > 0 {
		fctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		batch, err = c.Fetch(1, jetstream.FetchContext(fctx))
	} else {
		batch, err = c.FetchNoWait(1)
	}
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	err = batch.Error()
	if err == nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, jetstream.ErrNoMessages) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, errNothing
	}
	return nil, err
}

// alive runs fn and tells the server every third of ackWait that the message
// is still being worked on.
func alive(m jetstream.Msg, ackWait time.Duration, fn func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		t := time.NewTicker(ackWait / 3)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				_ = m.InProgress() // a lost beat is redelivery, which is harmless
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	fn()
}
