package natsmicro

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Reads is the projector's read endpoint. The projector implements it in
// process, ReadsClient over NATS; one conformance suite holds for both. It is
// safe for concurrent use; reads change nothing and may be repeated. Errors
// carry problem codes.
type Reads interface {
	Lookup(context.Context, api.LookupRequest) (*api.LookupReply, error)
	View(context.Context, api.ViewRequest) (*api.ViewReply, error)
	Turns(context.Context, api.TurnsRequest) (*api.TurnsReply, error)
	Node(context.Context, api.NodeRequest) (*api.NodeReply, error)
	File(context.Context, api.FileRequest) (*api.FileReply, error)
	Sessions(context.Context, api.SessionsRequest) (*api.SessionsReply, error)
	Resolve(context.Context, api.ResolveRequest) (*api.ResolveReply, error)
	Grep(context.Context, api.GrepRequest) (*api.GrepReply, error)
	Status(context.Context) (*api.StatusReply, error)
	// Wait returns the watermark, also with the error "stale".
	Wait(context.Context, events.Position) (events.Position, error)
	Doctor(context.Context, api.DoctorRequest) (*api.DoctorReply, error)
	Rebuild(context.Context, api.RebuildRequest) (*api.RebuildReply, error)
}

// The verbs of the read endpoint.
const (
	verbLookup   = "lookup"
	verbView     = "plan"
	verbTurns    = "turns"
	verbNode     = "node"
	verbFile     = "file"
	verbSessions = "sessions"
	verbResolve  = "resolve"
	verbGrep     = "grep"
	verbStatus   = "status"
	verbWait     = "wait"
	verbDoctor   = "doctor"
	verbRebuild  = "rebuild"
	verbWhere    = "where" // nothing but the headers: who serves what
)

func readSubject(part int, verb string) string { return fmt.Sprintf("lcm.q.%d.%s", part, verb) }

// ServeReads answers the reads of some partitions. Replicas with the same
// partitions share the requests; the sets of any two projectors are either the
// same or have nothing in common.
func ServeReads(nc *nats.Conn, partitions []int, r Reads, o Options) (*Server, error) {
	parts := slices.Compact(slices.Sorted(slices.Values(partitions)))
	if len(parts) == 0 || parts[0] < 0 {
		return nil, problem.New(problem.Invalid, "partitions %v: at least one is needed, from 0", partitions)
	}
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	s.header = nats.Header{headerPartitions: {formatParts(parts)}}
	for verb, h := range readHandlers(r) {
		room := s.newSlots()
		for _, p := range parts {
			if err := s.add(fmt.Sprintf("%s-%d", verb, p), readSubject(p, verb), room, h, nil); err != nil {
				_ = s.Stop(context.Background())
				return nil, err
			}
		}
	}
	return s, nil
}

func readHandlers(r Reads) map[string]handler {
	return map[string]handler{
		verbLookup: unary(r.Lookup), verbView: unary(r.View), verbTurns: unary(r.Turns), verbNode: unary(r.Node),
		verbFile: unary(r.File), verbSessions: unary(r.Sessions), verbResolve: unary(r.Resolve), verbGrep: unary(r.Grep),
		verbDoctor: unary(r.Doctor), verbRebuild: unary(r.Rebuild),
		verbStatus: func(ctx context.Context, _ []byte) (any, error) { return orNil(r.Status(ctx)) },
		verbWait: func(ctx context.Context, data []byte) (any, error) {
			var p events.Position
			if err := unmarshal(data, &p); err != nil {
				return nil, err
			}
			return r.Wait(ctx, p) // the watermark goes along with an error
		},
		verbWhere: func(context.Context, []byte) (any, error) { return struct{}{}, nil },
	}
}

// unary adapts a method to a handler.
func unary[Q, A any](f func(context.Context, Q) (*A, error)) handler {
	return func(ctx context.Context, data []byte) (any, error) {
		var q Q
		if err := unmarshal(data, &q); err != nil {
			return nil, err
		}
		return orNil(f(ctx, q))
	}
}

// orNil keeps a nil pointer from becoming a value that says "null".
func orNil[A any](a *A, err error) (any, error) {
	switch {
	case a != nil:
		return a, err
	case err == nil:
		return nil, problem.New(problem.Internal, "no answer and no error")
	}
	return nil, err
}

func unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return problem.New(problem.Invalid, "request: %w", err)
	}
	return nil
}

func formatParts(parts []int) string {
	s := make([]string, len(parts))
	for i, p := range parts {
		s[i] = strconv.Itoa(p)
	}
	return strings.Join(s, ",")
}

func parseParts(s string) ([]int, bool) {
	var out []int
	for f := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}
