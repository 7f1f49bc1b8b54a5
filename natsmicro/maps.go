package natsmicro

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/mapjob"
)

// Maps is the service of map jobs. Beginning one twice makes two.
type Maps interface {
	MapRun(context.Context, api.MapRunIn) (*api.MapOut, error)
	MapAgent(context.Context, api.MapAgentRequest) (*api.MapOut, error)
	MapRetry(context.Context, api.MapRetryIn) (*api.MapOut, error)
	MapCancel(context.Context, api.MapIn) (*api.MapOut, error)
	MapStatus(context.Context, api.MapIn) (*api.MapOut, error)
	MapList(context.Context, api.MapListIn) (*api.MapListOut, error)
	MapOutput(context.Context, api.MapOutputIn) (*api.MapOutputOut, error)
	MapAggregate(context.Context, api.MapAggregateIn) (*api.MapAggregateOut, error)
	// AgentOpen mints the grant of a sub-agent, AgentPay charges it, and
	// AgentClose ends it with all that descend from it.
	AgentOpen(context.Context, api.AgentOpenIn) (*api.AgentGrant, error)
	AgentPay(context.Context, api.AgentPayIn) error
	AgentClose(context.Context, grant.Claims) error
	// Finished reports whether a row needs no work in a round.
	Finished(ctx context.Context, ref mapjob.Ref, row uint64, round int) (bool, error)
}

const subjectMaps = "lcm.m."

type finishedRequest struct {
	Ref   mapjob.Ref `json:"ref"`
	Row   uint64     `json:"row"`
	Round int        `json:"round"`
}

type finishedReply struct {
	Finished bool `json:"finished"`
}

// ServeMaps answers for map jobs.
func ServeMaps(nc *nats.Conn, m Maps, o Options) (*Server, error) {
	s, err := newServer(nc, o)
	if err != nil {
		return nil, err
	}
	finished := func(ctx context.Context, q finishedRequest) (*finishedReply, error) {
		done, err := m.Finished(ctx, q.Ref, q.Row, q.Round)
		return &finishedReply{done}, err
	}
	pay := func(ctx context.Context, in api.AgentPayIn) (*struct{}, error) {
		return &struct{}{}, m.AgentPay(ctx, in)
	}
	end := func(ctx context.Context, c grant.Claims) (*struct{}, error) { return &struct{}{}, m.AgentClose(ctx, c) }
	add := func(verb string, h handler) error { return s.add(verb, subjectMaps+verb, s.newSlots(), h, nil) }
	return s.orStop(errors.Join(
		add("run", unary(m.MapRun)), add("agent", unary(m.MapAgent)), add("retry", unary(m.MapRetry)), add("cancel", unary(m.MapCancel)),
		add("status", unary(m.MapStatus)), add("list", unary(m.MapList)), add("output", unary(m.MapOutput)),
		add("aggregate", unary(m.MapAggregate)), add("finished", unary(finished)),
		add("agent-open", unary(m.AgentOpen)), add("agent-pay", unary(pay)), add("agent-close", unary(end)),
	))
}

// MapsClient is Maps over NATS.
type MapsClient struct{ caller }

var _ Maps = (*MapsClient)(nil)

// NewMaps makes a client.
func NewMaps(nc *nats.Conn) *MapsClient { return &MapsClient{caller{nc}} }

func askMaps[Out any](ctx context.Context, c *MapsClient, verb string, in any) (*Out, error) {
	out := new(Out)
	if err := c.ask(ctx, subjectMaps+verb, "mapper", in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// MapRun implements Maps.
func (c *MapsClient) MapRun(ctx context.Context, in api.MapRunIn) (*api.MapOut, error) {
	return askMaps[api.MapOut](ctx, c, "run", in)
}

// MapAgent implements Maps.
func (c *MapsClient) MapAgent(ctx context.Context, in api.MapAgentRequest) (*api.MapOut, error) {
	return askMaps[api.MapOut](ctx, c, "agent", in)
}

// MapRetry implements Maps.
func (c *MapsClient) MapRetry(ctx context.Context, in api.MapRetryIn) (*api.MapOut, error) {
	return askMaps[api.MapOut](ctx, c, "retry", in)
}

// MapCancel implements Maps.
func (c *MapsClient) MapCancel(ctx context.Context, in api.MapIn) (*api.MapOut, error) {
	return askMaps[api.MapOut](ctx, c, "cancel", in)
}

// MapStatus implements Maps.
func (c *MapsClient) MapStatus(ctx context.Context, in api.MapIn) (*api.MapOut, error) {
	return askMaps[api.MapOut](ctx, c, "status", in)
}

// MapList implements Maps.
func (c *MapsClient) MapList(ctx context.Context, in api.MapListIn) (*api.MapListOut, error) {
	return askMaps[api.MapListOut](ctx, c, "list", in)
}

// MapOutput implements Maps.
func (c *MapsClient) MapOutput(ctx context.Context, in api.MapOutputIn) (*api.MapOutputOut, error) {
	return askMaps[api.MapOutputOut](ctx, c, "output", in)
}

// MapAggregate implements Maps.
func (c *MapsClient) MapAggregate(ctx context.Context, in api.MapAggregateIn) (*api.MapAggregateOut, error) {
	return askMaps[api.MapAggregateOut](ctx, c, "aggregate", in)
}

// Finished implements Maps.
func (c *MapsClient) Finished(ctx context.Context, ref mapjob.Ref, row uint64, round int) (bool, error) {
	out, err := askMaps[finishedReply](ctx, c, "finished", finishedRequest{ref, row, round})
	if err != nil {
		return false, err
	}
	return out.Finished, nil
}

// AgentOpen implements Maps.
func (c *MapsClient) AgentOpen(ctx context.Context, in api.AgentOpenIn) (*api.AgentGrant, error) {
	return askMaps[api.AgentGrant](ctx, c, "agent-open", in)
}

// AgentPay implements Maps.
func (c *MapsClient) AgentPay(ctx context.Context, in api.AgentPayIn) error {
	return c.ask(ctx, subjectMaps+"agent-pay", "mapper", in, nil)
}

// AgentClose implements Maps.
func (c *MapsClient) AgentClose(ctx context.Context, g grant.Claims) error {
	return c.ask(ctx, subjectMaps+"agent-close", "mapper", g, nil)
}
