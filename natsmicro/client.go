package natsmicro

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lcm/internal/problem"
	"lcm/internal/request"
)

// errNobody: no service listens on the subject.
var errNobody = errors.New("no responders")

// caller sends requests and takes answers, in parts or whole.
type caller struct{ nc *nats.Conn }

// call sends a request and decodes the answer into out (nil = not wanted). The
// error carries a problem code, except for errNobody and an ended context.
func (c caller) call(ctx context.Context, subject string, question, out any) (nats.Header, error) {
	data, err := encode(question)
	if err != nil {
		return nil, err
	}
	if most := c.most(); len(data) > most {
		return nil, problem.New(problem.TooLarge, "the request to %s takes %d bytes, a message holds %d", subject, len(data), most).
			WithHint("ask for less at once")
	}
	return c.exchange(ctx, subject, nil, data, out)
}

// most that a request in one message takes, bytes.
func (c caller) most() int { return int(c.nc.MaxPayload()) - headerRoom }

// exchange sends a request and takes its answer.
func (c caller) exchange(ctx context.Context, subject string, header nats.Header, data []byte, out any) (h nats.Header, err error) {
	ctx, end := request.Start(ctx, "ask "+subject, request.Client)
	defer func() { end(err) }()
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inbox := c.nc.NewInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, problem.New(problem.Unavailable, "ask %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	_ = sub.SetPendingLimits(-1, -1) // an answer may be larger than a queue of small ones
	m := nats.NewMsg(subject)
	m.Reply, m.Data = inbox, data
	for name, v := range header {
		m.Header[name] = v
	}
	m.Header.Set(headerTimeout, timeoutHeader(ctx))
	request.Inject(ctx, m.Header.Set)
	if token := Bearer(ctx); token != "" {
		m.Header.Set(headerBearer, "Bearer "+token)
	}
	if err := c.nc.PublishMsg(m); err != nil {
		return nil, problem.New(problem.Unavailable, "ask %s: %w", subject, err)
	}
	return receive(ctx, sub, subject, out)
}

// receive takes one answer off the inbox.
func receive(ctx context.Context, sub *nats.Subscription, subject string, out any) (nats.Header, error) {
	var a assembly
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
		case errors.Is(err, nats.ErrNoResponders):
			return nil, errNobody
		case ctx.Err() != nil:
			return nil, problem.New(problem.Unavailable, "%s did not answer in time: %w", subject, ctx.Err())
		default:
			return nil, problem.New(problem.Unavailable, "ask %s: %w", subject, err)
		}
		if len(m.Data) == 0 && m.Header.Get(headerStatus) == "503" {
			return nil, errNobody
		}
		done, err := a.add(m)
		if err != nil {
			return nil, problem.New(problem.Unavailable, "ask %s: %w", subject, err)
		}
		if done {
			return m.Header, decode(m.Header, a.data, subject, out)
		}
	}
}

func decode(h nats.Header, data []byte, subject string, out any) error {
	if h.Get(micro.ErrorCodeHeader) != "" {
		return readError(data, out)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return problem.New(problem.Internal, "answer of %s: %w", subject, err)
	}
	return nil
}
