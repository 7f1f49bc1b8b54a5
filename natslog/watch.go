package natslog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
)

// Watch tells that something was published for a session: a value is there to
// be taken whenever it has been since the last one was. It may tell before the
// event can be read, and too often; what happens while a connection is broken
// it does not tell. The returned function ends it.
func (l *Log) Watch(_ context.Context, ref events.Ref) (<-chan struct{}, func(), error) {
	woken := make(chan struct{}, 1)
	var subs []*nats.Subscription
	stop := func() {
		for _, s := range subs {
			_ = s.Unsubscribe() // of a connection that is gone, which ends it too
		}
	}
	for _, lane := range []events.Lane{events.LaneTimeline, events.LaneDerived} {
		sub, err := l.nc.Subscribe(events.Subject(lane, ref, l.Partitions()), func(*nats.Msg) {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("watch %s: %w: %w", ref, api.ErrLogUnavailable, err)
		}
		subs = append(subs, sub)
	}
	return woken, stop, nil
}
