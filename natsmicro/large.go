package natsmicro

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lcm/internal/problem"
)

// A request that one message does not hold is fetched by whoever answers it: the
// message says where its parts are, how many there are and what they add up to.
const (
	headerFrom  = "Lcm-From"  // subject that answers i, from 0, with part i; one of the client's inboxes
	headerParts = "Lcm-Parts" // how many, decimal
)

// MaxRequestBytes of a request in parts: the largest turn there is, in JSON,
// beside its original.
const MaxRequestBytes = MaxReplyBytes

// callLarge is call for a request that may be large.
func (c caller) callLarge(ctx context.Context, subject string, question, out any) (nats.Header, error) {
	data, err := encode(question)
	if err != nil {
		return nil, err
	}
	if len(data) <= c.most() {
		return c.exchange(ctx, subject, nil, data, out)
	}
	if len(data) > MaxRequestBytes {
		return nil, problem.New(problem.TooLarge, "the request to %s takes %d bytes, at most %d are sent", subject, len(data), MaxRequestBytes).
			WithHint("ask for less at once")
	}
	size := partBytes(c.nc)
	n := (len(data) + size - 1) / size
	from := c.nc.NewInbox()
	sub, err := c.nc.Subscribe(from, func(m *nats.Msg) {
		i, err := strconv.Atoi(string(m.Data))
		if err == nil && i >= 0 && i < n {
			_ = m.Respond(data[i*size : min(len(data), (i+1)*size)]) // who does not get it asks no more
		}
	})
	if err != nil {
		return nil, problem.New(problem.Unavailable, "ask %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	sum := sha256.Sum256(data)
	h := nats.Header{headerFrom: {from}, headerParts: {strconv.Itoa(n)}, headerSum: {hex.EncodeToString(sum[:])}}
	return c.exchange(ctx, subject, h, nil, out)
}

// fetch gives the whole of a request.
func (s *Server) fetch(ctx context.Context, r micro.Request) ([]byte, error) {
	from := r.Headers().Get(headerFrom)
	if from == "" || r.Subject() != subjectAppend { // nothing else is that large
		return r.Data(), nil
	}
	n, err := strconv.Atoi(r.Headers().Get(headerParts))
	if err != nil || n < 1 || n > MaxRequestBytes/partBytes(s.nc)+1 || !strings.HasPrefix(from, nats.InboxPrefix) {
		return nil, problem.New(problem.Invalid, "a request in %q parts from %q", r.Headers().Get(headerParts), from)
	}
	var data []byte
	for i := range n {
		m, err := s.nc.RequestWithContext(ctx, from, []byte(strconv.Itoa(i)))
		if err != nil {
			return nil, problem.New(problem.Unavailable, "part %d of %d of a request did not come: %w", i+1, n, err)
		}
		if data = append(data, m.Data...); len(data) > MaxRequestBytes {
			return nil, problem.New(problem.TooLarge, "a request of more than %d bytes", MaxRequestBytes)
		}
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != r.Headers().Get(headerSum) {
		return nil, problem.New(problem.Unavailable, "a request in %d parts is not what was sent", n)
	}
	return data, nil
}
