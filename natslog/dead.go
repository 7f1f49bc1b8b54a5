package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// MaxDeadBody is the largest original a dead letter keeps, so that a letter is
// one message; of a larger one size and hash remain, and its origin says where
// it is.
const MaxDeadBody = events.InlineBytes

// Bury keeps what was refused, with the reason. The same bytes of the same
// session are kept once, whenever they come again. Hash and Bytes are filled
// in from Body where they are not set; Time where it is "".
func (l *Log) Bury(ctx context.Context, d api.DeadLetter) error {
	if d.Hash == "" {
		d.Hash = events.HashBytes(d.Body)
	}
	if d.Bytes == 0 {
		d.Bytes = len(d.Body)
	}
	if d.Time == "" {
		d.Time = l.o.Clock().UTC().Format(time.RFC3339Nano)
	}
	if len(d.Body) > MaxDeadBody {
		d.Body = nil
	}
	d.ID = ""
	data, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("dead letter %s: %w", d.Origin, err)
	}
	// One letter per place and content: redelivery and importing again find
	// it, an equal turn from elsewhere is another one.
	m := nats.NewMsg(deadSubject(events.HashBytes([]byte(d.Origin+"\x00"+d.Hash)), d.Ref))
	m.Data = data
	m.Header[jetstream.ExpectedStreamHeader] = []string{StreamDead}
	_, err = l.js.PublishMsg(ctx, m)
	if err == nil || isPending(err) {
		return nil
	}
	return unavailable("dead letter "+d.Origin, err)
}

// deadSubject has the hash in front of the names: one letter, one subject.
func deadSubject(hash string, r events.Ref) string {
	return "lcm.dead." + events.EncodeToken(hash) + "." + events.EncodeToken(r.Tenant) + "." + events.EncodeToken(r.Session)
}

// Dead lists dead letters after an id, oldest first, at most limit: of one
// session, of a tenant where ref names no session, or all where it is nil.
func (l *Log) Dead(ctx context.Context, ref *events.Ref, after uint64, limit int) ([]api.DeadLetter, error) {
	filter := "lcm.dead.*.*.*"
	switch {
	case ref == nil:
	case ref.Session == "":
		filter = "lcm.dead.*." + events.EncodeToken(ref.Tenant) + ".*"
	default:
		filter = "lcm.dead.*." + events.EncodeToken(ref.Tenant) + "." + events.EncodeToken(ref.Session)
	}
	msgs, err := jetstreamext.GetBatch(ctx, l.js, StreamDead, limit,
		jetstreamext.GetBatchSeq(after+1), jetstreamext.GetBatchSubject(filter))
	if err != nil {
		return nil, unavailable("list dead letters", err)
	}
	out := []api.DeadLetter{}
	for m, err := range msgs {
		if errors.Is(err, jetstreamext.ErrNoMessages) {
			break
		}
		if err != nil {
			return nil, unavailable("list dead letters", err)
		}
		d, err := deadLetter(m)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// DeadLetter returns one by its id.
func (l *Log) DeadLetter(ctx context.Context, id string) (api.DeadLetter, error) {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return api.DeadLetter{}, problem.New(problem.Invalid, "dead letter id %q is not a number", id)
	}
	m, err := l.dead.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return api.DeadLetter{}, problem.New(problem.NotFound, "there is no dead letter %s", id)
	}
	if err != nil {
		return api.DeadLetter{}, unavailable("dead letter "+id, err)
	}
	return deadLetter(m)
}

// Unbury removes a dead letter, after it was driven again or given up. One
// that is not there is no error.
func (l *Log) Unbury(ctx context.Context, id string) error {
	seq, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return problem.New(problem.Invalid, "dead letter id %q is not a number", id)
	}
	var apiErr *jetstream.APIError
	err = l.dead.DeleteMsg(ctx, seq)
	if errors.As(err, &apiErr) || errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		if _, gerr := l.dead.GetMsg(ctx, seq); errors.Is(gerr, jetstream.ErrMsgNotFound) {
			return nil
		}
	}
	if err != nil {
		return unavailable("remove dead letter "+id, err)
	}
	return nil
}

func deadLetter(m *jetstream.RawStreamMsg) (api.DeadLetter, error) {
	var d api.DeadLetter
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return d, problem.New(problem.Damaged, "dead letter %d: %w", m.Sequence, err)
	}
	d.ID = strconv.FormatUint(m.Sequence, 10)
	return d, nil
}

// isPending: the store refused a second message of one subject.
func isPending(err error) bool {
	var apiErr *jetstream.APIError
	return errors.As(err, &apiErr) && apiErr.ErrorCode == codeStoreFailed &&
		apiErr.Description == "maximum messages per subject exceeded"
}
