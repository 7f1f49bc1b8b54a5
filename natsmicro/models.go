package natsmicro

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"

	"lcm/internal/api"
)

// subjectModels is answered by every process that asks models.
const subjectModels = "lcm.c.models"

// gatherWithin is how long answers of an unknown number are waited for.
const gatherWithin = 300 * time.Millisecond

// ServeModels tells about this process's models until the subscription ends.
func ServeModels(nc *nats.Conn, state func() api.ModelProcess) (*nats.Subscription, error) {
	return nc.Subscribe(subjectModels, func(m *nats.Msg) {
		if data, err := json.Marshal(state()); err == nil {
			_ = m.Respond(data) // who asked does not wait for everybody
		}
	})
}

// GatherModels asks every process about its models, and answers with those that
// said something within a moment.
func GatherModels(ctx context.Context, nc *nats.Conn) []api.ModelProcess {
	out := []api.ModelProcess{}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return out
	}
	defer func() { _ = sub.Unsubscribe() }()
	if nc.PublishRequest(subjectModels, inbox, nil) != nil {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, gatherWithin)
	defer cancel()
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil { // the time is over, or nobody listens
			return out
		}
		var p api.ModelProcess
		if json.Unmarshal(m.Data, &p) == nil && p.Process != "" {
			out = append(out, p)
		}
	}
}
