package natslog

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/api"
)

// State reads what the streams hold.
func (l *Log) State(ctx context.Context) (*api.LogState, error) {
	out := &api.LogState{}
	for _, s := range []struct {
		name string
		into func(jetstream.StreamState)
	}{
		{StreamLog, func(s jetstream.StreamState) { out.LogBytes = s.Bytes }},
		{StreamInbox, func(s jetstream.StreamState) {
			if out.InboxWaiting = s.Msgs; s.Msgs > 0 {
				out.InboxFirst, out.InboxOldest = s.FirstSeq, &s.FirstTime
			}
		}},
		{StreamTasks, func(s jetstream.StreamState) { out.Tasks = s.Msgs }},
		{StreamDead, func(s jetstream.StreamState) { out.Dead = s.Msgs }},
	} {
		stream, err := l.js.Stream(ctx, s.name)
		if s.name == StreamTasks && errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // it lives in memory, and is made anew when it is needed
		}
		if err != nil {
			return nil, unavailable("state of "+s.name, err)
		}
		s.into(stream.CachedInfo().State)
	}
	return out, nil
}
