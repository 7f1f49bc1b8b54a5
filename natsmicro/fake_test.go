package natsmicro

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect starts an embedded server and returns a way to connect to it.
func connect(t *testing.T) func() *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(5 * time.Second) {
		t.Fatal("the server does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return func() *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(s))
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
		t.Cleanup(func() { nc.Close(); <-closed })
		return nc
	}
}

const (
	partitions = 8
	epoch      = "01TEST"
	applied    = 1000
)

// fake is Reads over made-up data: sessions s00 to s39 of tenant "t", each
// with one turn that is found by grep. It enforces the contract.
type fake struct {
	parts []int // served; nil = all
	large int   // bytes of a turn's payload
}

const sessions = 40

func sessionName(i int) string { return fmt.Sprintf("s%02d", i) }

func (f fake) serves(r events.Ref) bool {
	p := events.Partition(events.EncodeToken(r.Tenant), events.EncodeToken(r.Session), partitions)
	return f.parts == nil || slices.Contains(f.parts, p)
}

// number of a session, waiting for the token first.
func (f fake) number(ctx context.Context, r events.Ref, token events.Position) (int, error) {
	if _, err := f.Wait(ctx, token); err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.Session, "s"))
	if err != nil || n >= sessions || r.Tenant != "t" || !f.serves(r) {
		return 0, problem.New(problem.NotFound, "session %s is unknown", r).WithHint("names are %s", "s00 to s39")
	}
	return n, nil
}

func mark() events.Position { return events.Position{Epoch: epoch, Seq: applied} }

func (f fake) Lookup(ctx context.Context, q api.LookupRequest) (*api.LookupReply, error) {
	n, err := f.number(ctx, q.Ref, q.Token)
	if err != nil {
		return nil, err
	}
	out := &api.LookupReply{Watermark: mark(), Head: session.Head{Entries: uint64(n)}, Known: map[string]api.Known{}}
	out.Head.Timeline.Hash[3] = 7
	for _, id := range q.IDs {
		out.Known[id] = api.Known{Entry: 1, Seq: uint64(n), Hash: "<&>"}
	}
	return out, nil
}

func (f fake) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	n, err := f.number(ctx, q.Ref, q.Token)
	if err != nil {
		return nil, err
	}
	v := &session.View{Ref: q.Ref, Settings: events.DefaultSettings(), Entries: uint64(n), Answered: map[string]uint64{"c": 2}}
	v.Replaced = map[uint64]session.Node{3: {N: 4}}
	return &api.ViewReply{Watermark: mark(), View: v}, nil
}

func (f fake) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	if _, err := f.number(ctx, q.Ref, q.Token); err != nil {
		return nil, err
	}
	text, _ := encode("<b> & \u2028 " + strings.Repeat("x", f.large))
	turn := api.StoredTurn{Entry: session.Entry{N: 1, ID: "a"}, Payload: json.RawMessage(`{"text":` + string(text) + `}`)}
	return &api.TurnsReply{Watermark: mark(), Turns: []api.StoredTurn{turn}}, nil
}

func (f fake) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	if _, err := f.number(ctx, q.Ref, q.Token); err != nil {
		return nil, err
	}
	return nil, problem.New(problem.NotFound, "node #%d is unknown\nin %s", q.Numbers[0], q.Ref)
}

func (f fake) File(ctx context.Context, q api.FileRequest) (*api.FileReply, error) {
	if _, err := f.number(ctx, q.Ref, q.Token); err != nil {
		return nil, err
	}
	return &api.FileReply{Entry: 1, File: events.File{ID: q.ID}, Body: "body"}, nil
}

func (f fake) Resolve(ctx context.Context, q api.ResolveRequest) (*api.ResolveReply, error) {
	if _, err := f.number(ctx, q.Ref, q.Token); err != nil {
		return nil, err
	}
	if q.At == "" {
		return nil, fmt.Errorf("resolve %q: %w", q.At, problem.New(problem.Invalid, "no position"))
	}
	return &api.ResolveReply{Seq: 12}, nil
}

func (f fake) Sessions(ctx context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	out := &api.SessionsReply{Watermark: mark(), Sessions: []api.SessionRow{}}
	limit := 7
	if q.Limit > 0 {
		limit = min(limit, q.Limit)
	}
	for i := range sessions {
		name := sessionName(i)
		if name <= q.After || !strings.HasPrefix(name, q.Prefix) || !f.serves(events.Ref{Tenant: q.Tenant, Session: name}) {
			continue
		}
		if len(out.Sessions) == limit {
			out.Next = out.Sessions[limit-1].Session
			break
		}
		out.Sessions = append(out.Sessions, api.SessionRow{Session: name, Entries: uint64(i)})
	}
	return out, nil
}

// Grep finds every session; relevance is the order of a session's last digit.
func (f fake) Grep(ctx context.Context, q api.GrepRequest) (*api.GrepReply, error) {
	if q.Pattern == "(" {
		return nil, problem.New(problem.Invalid, "pattern: missing )")
	}
	var all []api.Hit
	for i := range sessions {
		name := sessionName(i)
		if !f.serves(events.Ref{Tenant: q.Tenant, Session: name}) || len(q.Sessions) > 0 && !slices.Contains(q.Sessions, name) {
			continue
		}
		all = append(all, api.Hit{Session: name, Kind: "turn", Entry: "e1", Snippet: "found it", Seq: uint64(i)})
	}
	slices.SortFunc(all, func(a, b api.Hit) int {
		if d := cmp.Compare(a.Seq%10, b.Seq%10); d != 0 && q.Sort == "relevance" {
			return d
		}
		return cmp.Compare(b.Seq, a.Seq)
	})
	start, _ := strconv.Atoi(q.Cursor)
	end := min(len(all), start+max(1, min(q.Limit, 5)))
	out := &api.GrepReply{Hits: all[start:end], Total: len(all), NotSearched: []string{}, Watermark: mark()}
	if end < len(all) {
		out.Cursor = strconv.Itoa(end)
	}
	return out, nil
}

func (f fake) served() []int {
	if f.parts == nil {
		return allParts()
	}
	return f.parts
}

func allParts() []int {
	out := make([]int, partitions)
	for i := range out {
		out[i] = i
	}
	return out
}

func (f fake) Status(context.Context) (*api.StatusReply, error) {
	n := 0
	for i := range sessions {
		if f.serves(events.Ref{Tenant: "t", Session: sessionName(i)}) {
			n++
		}
	}
	return &api.StatusReply{Epoch: epoch, Partitions: f.served(), LogSeq: applied + 5, Applied: applied, Lag: 5, Sessions: n}, nil
}

func (f fake) Wait(ctx context.Context, p events.Position) (events.Position, error) {
	if p.Seq <= applied {
		return mark(), nil
	}
	if _, ok := ctx.Deadline(); ok {
		<-ctx.Done()
	}
	return mark(), problem.New(problem.Stale, "applied %d, want %d", applied, p.Seq)
}

func (f fake) Doctor(context.Context, api.DoctorRequest) (*api.DoctorReply, error) {
	return &api.DoctorReply{OK: true, Checks: []api.Check{{Name: "chain", OK: true}}}, nil
}

func (f fake) Rebuild(_ context.Context, q api.RebuildRequest) (*api.RebuildReply, error) {
	return &api.RebuildReply{Events: applied, Turns: uint64(len(f.served())), Digest: fmt.Sprint(f.served())}, nil
}
