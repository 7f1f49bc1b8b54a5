package natsmicro

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// ReadsClient is Reads over NATS. Reads of a session go to its partition;
// others go to every projector and are merged.
type ReadsClient struct {
	caller
	partitions int

	mu   sync.Mutex
	sets [][]int // partitions served together, as last learnt; nil = unknown
}

var _ Reads = (*ReadsClient)(nil)

// NewReads makes a client for a log of so many partitions.
func NewReads(nc *nats.Conn, partitions int) *ReadsClient {
	return &ReadsClient{caller: caller{nc}, partitions: partitions}
}

func (c *ReadsClient) partition(r events.Ref) int {
	return events.Partition(events.EncodeToken(r.Tenant), events.EncodeToken(r.Session), c.partitions)
}

// nobody is the error of a partition without a projector.
func nobody(part int) error {
	return problem.New(problem.Unavailable, "no projector answers for partition %d", part).
		WithHint("start a projector that serves it; see `lcm status`")
}

// read asks the partition of a session.
func read[A any](ctx context.Context, c *ReadsClient, ref events.Ref, verb string, request any) (*A, error) {
	if err := ref.Validate(); err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	part := c.partition(ref)
	out := new(A)
	if _, err := c.call(ctx, readSubject(part, verb), request, out); err != nil {
		if errors.Is(err, errNobody) {
			err = nobody(part)
		}
		return nil, err
	}
	return out, nil
}

// Lookup implements Reads.
func (c *ReadsClient) Lookup(ctx context.Context, q api.LookupRequest) (*api.LookupReply, error) {
	return read[api.LookupReply](ctx, c, q.Ref, verbLookup, q)
}

// View implements Reads.
func (c *ReadsClient) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	return read[api.ViewReply](ctx, c, q.Ref, verbView, q)
}

// Turns implements Reads.
func (c *ReadsClient) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	return read[api.TurnsReply](ctx, c, q.Ref, verbTurns, q)
}

// Node implements Reads.
func (c *ReadsClient) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	return read[api.NodeReply](ctx, c, q.Ref, verbNode, q)
}

// File implements Reads.
func (c *ReadsClient) File(ctx context.Context, q api.FileRequest) (*api.FileReply, error) {
	return read[api.FileReply](ctx, c, q.Ref, verbFile, q)
}

// Resolve implements Reads.
func (c *ReadsClient) Resolve(ctx context.Context, q api.ResolveRequest) (*api.ResolveReply, error) {
	return read[api.ResolveReply](ctx, c, q.Ref, verbResolve, q)
}
