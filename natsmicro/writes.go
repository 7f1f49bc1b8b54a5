package natsmicro

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Writes is the ingestor. An answer is durable. Writes with ids may be
// repeated: they answer with their first position.
type Writes interface {
	Append(context.Context, api.AppendRequest) (*api.AppendReply, error)
	Configure(context.Context, api.ConfigureRequest) (*api.ConfigureReply, error)
}

// Condenser condenses one session now; doing it twice changes nothing.
type Condenser interface {
	Condense(ctx context.Context, ref events.Ref, token events.Position) (*api.CondenseOut, error)
}

const (
	subjectAppend    = "lcm.w.append"
	subjectConfigure = "lcm.w.configure"
	subjectCondense  = "lcm.c.condense"
	// subjectCommit and an ingestor's name: between ingestors only.
	subjectCommit = "lcm.i.commit."
)

// ServeWrites answers writes; ingestors share them.
func ServeWrites(nc *nats.Conn, w Writes, o Options) (*Server, error) {
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		s.add("append", subjectAppend, s.newSlots(), unary(recounted(w)), nil),
		s.add("configure", subjectConfigure, s.newSlots(), unary(w.Configure), nil),
	)
	return s.orStop(err)
}

// recounted has the ingestor measure every turn itself: a count that came over
// the wire is a claim, and thresholds depend on it.
func recounted(w Writes) func(context.Context, api.AppendRequest) (*api.AppendReply, error) {
	return func(ctx context.Context, q api.AppendRequest) (*api.AppendReply, error) {
		for _, one := range q.Writes {
			if one.Turn != nil {
				one.Turn.Prepared = false
			}
		}
		return w.Append(ctx, q)
	}
}

// orStop returns the server, or stops what could not be set up.
func (s *Server) orStop(err error) (*Server, error) {
	if err != nil {
		_ = s.Stop(context.Background())
		return nil, err
	}
	return s, nil
}

// WritesClient is Writes over NATS.
type WritesClient struct{ caller }

var _ Writes = (*WritesClient)(nil)

// NewWrites makes a client.
func NewWrites(nc *nats.Conn) *WritesClient { return &WritesClient{caller{nc}} }

func (c caller) ask(ctx context.Context, subject, who string, request, out any) error {
	_, err := c.call(ctx, subject, request, out)
	return known(err, who)
}

// known names who should have answered where nobody does.
func known(err error, who string) error {
	if errors.Is(err, errNobody) {
		return problem.New(problem.Unavailable, "no %s answers", who).WithHint("start one, or see `lcm status`")
	}
	return err
}

// Append implements Writes. A request that one message does not hold is sent
// as several, in order, a large turn by itself; where a later one fails, its
// writes and those behind it carry the error, and the answer tells what is
// durable.
func (c *WritesClient) Append(ctx context.Context, q api.AppendRequest) (*api.AppendReply, error) {
	chunks, err := splitWrites(q.Writes, partBytes(c.nc))
	if err != nil {
		return nil, err
	}
	out := &api.AppendReply{Written: make([]api.Written, 0, len(q.Writes))}
	for i, chunk := range chunks {
		ask, reply := q, api.AppendReply{}
		ask.Writes = chunk
		_, err := c.callLarge(ctx, subjectAppend, ask, &reply)
		err = known(err, "ingestor")
		if err == nil && len(reply.Written) != len(chunk) {
			err = problem.New(problem.Internal, "%d writes were answered by %d", len(chunk), len(reply.Written))
		}
		if err != nil && i == 0 {
			return nil, err
		}
		if err != nil {
			out.Written = append(out.Written, refused(q.Writes[len(out.Written):], err)...)
			return out, nil
		}
		out.Written = append(out.Written, reply.Written...)
		if reply.Token.Seq >= out.Token.Seq {
			out.Token = reply.Token
		}
	}
	return out, nil
}

func refused(writes []api.Write, err error) []api.Written {
	p := problem.From(err)
	out := make([]api.Written, len(writes))
	for i, w := range writes {
		out[i] = api.Written{ID: writeID(w), Error: p.Error(), Code: string(p.Code)}
	}
	return out
}

func writeID(w api.Write) string {
	switch {
	case w.Turn != nil:
		return w.Turn.Turn.ID
	case w.Compaction != nil:
		return w.Compaction.ID
	}
	return w.MoveTo
}

// splitWrites cuts writes into runs whose JSON takes at most so many bytes; a
// larger one is a run of its own.
func splitWrites(writes []api.Write, most int) ([][]api.Write, error) {
	if len(writes) == 0 {
		return [][]api.Write{nil}, nil
	}
	var out [][]api.Write
	start, size := 0, 0
	for i, w := range writes {
		b, err := encode(w)
		if err != nil {
			return nil, err
		}
		if i > start && size+len(b) > most {
			out = append(out, writes[start:i])
			start, size = i, 0
		}
		size += len(b) + 1
	}
	return append(out, writes[start:]), nil
}

// Configure implements Writes.
func (c *WritesClient) Configure(ctx context.Context, q api.ConfigureRequest) (*api.ConfigureReply, error) {
	out := new(api.ConfigureReply)
	if err := c.ask(ctx, subjectConfigure, "ingestor", q, out); err != nil {
		return nil, err
	}
	return out, nil
}

type condenseRequest struct {
	Ref   events.Ref      `json:"ref"`
	Token events.Position `json:"token"`
}

// ServeCondenser answers requests to condense a session; condensers share them.
func ServeCondenser(nc *nats.Conn, c Condenser, o Options) (*Server, error) {
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	h := unary(func(ctx context.Context, q condenseRequest) (*api.CondenseOut, error) {
		return c.Condense(ctx, q.Ref, q.Token)
	})
	return s.orStop(s.add("condense", subjectCondense, s.newSlots(), h, nil))
}

// CondenserClient is Condenser over NATS.
type CondenserClient struct{ caller }

var _ Condenser = (*CondenserClient)(nil)

// NewCondenser makes a client.
func NewCondenser(nc *nats.Conn) *CondenserClient { return &CondenserClient{caller{nc}} }

// Condense implements Condenser. With an error the report says what was done.
func (c *CondenserClient) Condense(ctx context.Context, ref events.Ref, token events.Position) (*api.CondenseOut, error) {
	out := &api.CondenseOut{Session: ref.Session}
	return out, c.ask(ctx, subjectCondense, "condenser", condenseRequest{ref, token}, out)
}
