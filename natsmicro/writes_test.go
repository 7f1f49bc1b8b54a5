package natsmicro

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// ingestor is Writes over a list; it fails from the n-th request on.
type ingestor struct {
	mu       sync.Mutex
	requests int
	ids      []string
	failFrom int
}

func (g *ingestor) Append(_ context.Context, q api.AppendRequest) (*api.AppendReply, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	if g.failFrom > 0 && g.requests >= g.failFrom {
		return nil, problem.New(problem.Unavailable, "the log is gone")
	}
	out := &api.AppendReply{Written: []api.Written{}}
	for _, w := range q.Writes {
		g.ids = append(g.ids, w.Turn.Turn.ID)
		out.Token = events.Position{Epoch: epoch, Seq: uint64(len(g.ids))}
		out.Written = append(out.Written, api.Written{ID: w.Turn.Turn.ID, Entry: uint64(len(g.ids)), Token: out.Token})
	}
	return out, nil
}

func (g *ingestor) Configure(_ context.Context, q api.ConfigureRequest) (*api.ConfigureReply, error) {
	if _, ok := q.Set["window"]; !ok {
		return nil, problem.New(problem.Invalid, "nothing to set")
	}
	return &api.ConfigureReply{Settings: events.DefaultSettings()}, nil
}

func turns(n, bytes int) api.AppendRequest {
	q := api.AppendRequest{Ref: events.Ref{Tenant: "t", Session: "s"}}
	for i := range n {
		q.Writes = append(q.Writes, api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: fmt.Sprint("t", i), Role: events.RoleUser, Text: strings.Repeat("x", bytes)}}})
	}
	return q
}

func serveWrites(t *testing.T, w Writes) *WritesClient {
	t.Helper()
	dial := connect(t)
	c := NewWrites(dial())
	if w == nil {
		return c
	}
	nc := dial()
	s, err := ServeWrites(nc, w, Options{Name: "lcm-ingestor", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.Flush()
	t.Cleanup(func() { stop(t, s) })
	return c
}

// TestWritesConformance: the same answers in process and over NATS, where a
// request of 5 MB takes many messages.
func TestWritesConformance(t *testing.T) {
	for _, q := range []api.AppendRequest{turns(3, 10), turns(50, 100_000), turns(0, 0)} {
		local, remote := &ingestor{}, &ingestor{}
		want, err := local.Append(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		c := serveWrites(t, remote)
		got, err := c.Append(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if _, err := c.Configure(t.Context(), api.ConfigureRequest{Set: map[string]any{"window": 1}}); err != nil {
			t.Error(err)
		}
		if _, err := c.Configure(t.Context(), api.ConfigureRequest{}); !problem.IsCode(err, problem.Invalid) {
			t.Error(err)
		}
	}
}

func TestAppendFailsHalfWay(t *testing.T) {
	g := &ingestor{failFrom: 3}
	c := serveWrites(t, g)
	got, err := c.Append(t.Context(), turns(50, 100_000))
	if err != nil || len(got.Written) != 50 || got.Token.Seq != uint64(len(g.ids)) {
		t.Fatalf("%v, %d answers", err, len(got.Written))
	}
	for i, w := range got.Written {
		if durable := i < len(g.ids); durable != (w.Error == "") || w.ID != fmt.Sprint("t", i) || !durable && w.Code != string(problem.Unavailable) {
			t.Errorf("write %d of %d durable ones: %+v", i, len(g.ids), w)
		}
	}
	if _, err := c.Append(t.Context(), turns(1, 1)); !problem.IsCode(err, problem.Unavailable) {
		t.Error(err)
	}
	if _, err := serveWrites(t, nil).Append(t.Context(), turns(1, 1)); !problem.IsCode(err, problem.Unavailable) || !strings.Contains(err.Error(), "ingestor") {
		t.Error(err)
	}
}

// TestLargeTurns: a turn that no message holds is fetched in parts, by itself.
func TestLargeTurns(t *testing.T) {
	var got []api.AppendRequest
	c := serveWrites(t, appends(func(q api.AppendRequest) { got = append(got, q) }))
	q := turns(3, 100)
	for i, size := range []int{3 << 20, 100, PartBytes} {
		turn := *q.Writes[i].Turn
		turn.Turn.Text = strings.Repeat("<é>", size/4)
		q.Writes[i].Turn = &turn
	}
	out, err := c.Append(t.Context(), q)
	if err != nil || len(out.Written) != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	var writes []api.Write
	for _, one := range got {
		writes = append(writes, one.Writes...)
	}
	if len(got) != 3 || len(writes) != 3 {
		t.Fatalf("%d requests with %d writes", len(got), len(writes))
	}
	for i, w := range writes {
		if w.Turn.Turn.ID != q.Writes[i].Turn.Turn.ID || w.Turn.Turn.Text != q.Writes[i].Turn.Turn.Text {
			t.Errorf("write %d came as %q with %d bytes", i, w.Turn.Turn.ID, len(w.Turn.Turn.Text))
		}
	}
	if _, err := c.Append(t.Context(), turns(1, MaxRequestBytes)); !problem.IsCode(err, problem.TooLarge) {
		t.Error(err)
	}
	// Parts from elsewhere than an inbox are not asked for.
	m := nats.NewMsg(subjectAppend)
	m.Header.Set(headerFrom, "lcm.ev.0.t.s")
	m.Header.Set(headerParts, "1")
	answer, err := c.nc.RequestMsg(m, 5*time.Second)
	if err != nil || answer.Header.Get("Nats-Service-Error-Code") != string(problem.Invalid) {
		t.Errorf("%+v, %v", answer, err)
	}
}

// appends is Writes that stores nothing.
type appends func(api.AppendRequest)

func (f appends) Append(_ context.Context, q api.AppendRequest) (*api.AppendReply, error) {
	f(q)
	return &api.AppendReply{Written: make([]api.Written, len(q.Writes))}, nil
}

func (f appends) Configure(context.Context, api.ConfigureRequest) (*api.ConfigureReply, error) {
	return &api.ConfigureReply{}, nil
}

type condenserFunc func(context.Context, events.Ref, events.Position) (*api.CondenseOut, error)

func (f condenserFunc) Condense(ctx context.Context, r events.Ref, p events.Position) (*api.CondenseOut, error) {
	return f(ctx, r, p)
}

func TestCondenser(t *testing.T) {
	dial := connect(t)
	nc := dial()
	s, err := ServeCondenser(nc, condenserFunc(func(_ context.Context, r events.Ref, p events.Position) (*api.CondenseOut, error) {
		out := &api.CondenseOut{Session: r.Session, Nodes: int(p.Seq)}
		if p.Seq == 2 {
			return out, problem.New(problem.Unavailable, "the provider is down")
		}
		return out, nil
	}), Options{Name: "lcm-condenser", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_ = nc.Flush()
	c := NewCondenser(dial())
	ref := events.Ref{Tenant: "t", Session: "s"}
	if out, err := c.Condense(t.Context(), ref, events.Position{Seq: 1}); err != nil || out.Nodes != 1 || out.Session != "s" {
		t.Errorf("%+v, %v", out, err)
	}
	if out, err := c.Condense(t.Context(), ref, events.Position{Seq: 2}); !problem.IsCode(err, problem.Unavailable) || out.Nodes != 2 {
		t.Errorf("%+v, %v: the report must come with the error", out, err)
	}
}

func TestTools(t *testing.T) {
	dial := connect(t)
	nc := dial()
	schema := json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)
	s, err := ServeTools(nc, []Tool{{
		Name: "lcm_echo", Description: "says it again", Schema: schema,
		Handle: func(ctx context.Context, tenant string, args json.RawMessage) (any, error) {
			if tenant != "支付 co" {
				return nil, problem.New(problem.Forbidden, "tenant %q", tenant)
			}
			if Bearer(ctx) != "tok" {
				return nil, problem.New(problem.Unauthorized, "who are you")
			}
			return map[string]json.RawMessage{"echo": args}, nil
		},
	}}, Options{Name: "lcm-tools", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	_ = nc.Flush()
	c := NewTools(dial(), "支付 co")
	var out struct{ Echo struct{ Q string } }
	if err := c.Call(WithBearer(t.Context(), "tok"), "lcm_echo", map[string]string{"q": "<hi>"}, &out); err != nil || out.Echo.Q != "<hi>" {
		t.Errorf("%+v, %v", out, err)
	}
	if err := c.Call(t.Context(), "lcm_echo", nil, nil); !problem.IsCode(err, problem.Unauthorized) {
		t.Error(err)
	}
	if err := c.Call(t.Context(), "lcm_nothing", nil, nil); !problem.IsCode(err, problem.Unavailable) || !strings.Contains(err.Error(), "lcm_nothing") {
		t.Error(err)
	}
	m, err := nc.Request("$SRV.INFO.lcm-tools", nil, DefaultTimeout)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil || len(info.Endpoints) != 1 || info.Endpoints[0].Metadata["schema"] != string(schema) {
		t.Errorf("%+v, %v", info, err)
	}
	if m, err = nc.Request("$SRV.STATS.lcm-tools", nil, DefaultTimeout); err != nil || !strings.Contains(string(m.Data), `"errors":1`) {
		t.Errorf("%s, %v", m.Data, err)
	}
	if _, err := ServeTools(nc, []Tool{{Name: "x", Schema: json.RawMessage("{")}}, options); !problem.IsCode(err, problem.Invalid) {
		t.Error(err)
	}
}
