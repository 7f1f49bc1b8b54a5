package natsmicro

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"lcm/internal/problem"
	"lcm/internal/request"
)

// Options of a server.
type Options struct {
	// Name and Version of the micro service, as discovery shows them. Name is
	// of letters, digits, '-' and '_'; Version is semantic. Required.
	Name, Version string
	// Concurrency bounds the requests in hand per verb or tool, over all
	// partitions. Verbs do not share it: reads that wait for a position do not
	// keep others out. Default 64. A request that finds no room waits for it,
	// and is told "limited" at its deadline.
	Concurrency int
	// Logger for answers that could not be sent; default: none.
	Logger *slog.Logger
}

// Server is a running micro service. Stop it before its connection closes.
type Server struct {
	nc     *nats.Conn
	svc    micro.Service
	o      Options
	ctx    context.Context // of all handlers
	cancel context.CancelFunc
	header nats.Header // of all answers

	mu       sync.Mutex
	stopping bool
	inHand   sync.WaitGroup
	stats    map[string]*counters // endpoint name
}

// counters of one endpoint; micro's own only see the handing over.
type counters struct {
	Requests atomic.Int64
	Errors   atomic.Int64
	InHand   atomic.Int64
}

// handler does one request. reply and err may both be set: what can be said
// in spite of the error.
type handler func(ctx context.Context, data []byte) (reply any, err error)

func newServer(nc *nats.Conn, o Options) (*Server, error) {
	if o.Concurrency == 0 {
		o.Concurrency = 64
	}
	if o.Concurrency < 0 {
		return nil, problem.New(problem.Invalid, "concurrency is %d, at least 1 is needed", o.Concurrency)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{nc: nc, o: o, stats: map[string]*counters{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	svc, err := micro.AddService(nc, micro.Config{Name: o.Name, Version: o.Version, StatsHandler: s.endpointStats})
	if err != nil {
		s.cancel()
		return nil, err
	}
	s.svc = svc
	return s, nil
}

func (s *Server) endpointStats(e *micro.Endpoint) any {
	s.mu.Lock()
	c := s.stats[e.Name]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	return map[string]int64{"requests": c.Requests.Load(), "errors": c.Errors.Load(), "in_hand": c.InHand.Load()}
}

// slots bounds the requests in hand of one verb.
type slots chan struct{}

func (s *Server) newSlots() slots { return make(slots, s.o.Concurrency) }

// add registers an endpoint. Its requests run beside each other: micro hands
// them over one by one.
func (s *Server) add(name, subject string, room slots, h handler, metadata map[string]string) error {
	c := &counters{}
	s.mu.Lock()
	s.stats[name] = c
	s.mu.Unlock()
	f := func(r micro.Request) { s.receive(r, room, c, h) }
	return s.svc.AddEndpoint(name, micro.HandlerFunc(f), micro.WithEndpointSubject(subject), micro.WithEndpointMetadata(metadata))
}

func (s *Server) receive(r micro.Request, room slots, c *counters, h handler) {
	c.Requests.Add(1)
	if r.Reply() == "" {
		return // nobody listens
	}
	if !s.begin() {
		s.sendError(r, c, problem.New(problem.Unavailable, "%s is stopping", s.o.Name), nil)
		return
	}
	ctx, cancel := context.WithTimeout(request.Extract(s.ctx, r.Headers()), readTimeout(r.Headers()))
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		s.sendError(r, c, problem.New(problem.Limited, "%s: %d requests are in hand", r.Subject(), cap(room)), nil)
		cancel()
		s.inHand.Done()
		return
	}
	if token, ok := strings.CutPrefix(r.Headers().Get(headerBearer), "Bearer "); ok {
		ctx = WithBearer(ctx, token)
	}
	ctx = context.WithValue(ctx, subjectKey{}, r.Subject())
	c.InHand.Add(1)
	go func() {
		defer s.inHand.Done()
		defer c.InHand.Add(-1)
		defer func() { <-room }()
		defer cancel()
		ctx, end := request.Start(ctx, "answer "+r.Subject(), request.Server)
		reply, err := s.guarded(ctx, r, h)
		end(err)
		s.send(r, c, reply, err)
	}()
}

// guarded turns a panic of a handler into a failed request: one line in the
// log, and the process goes on.
func (s *Server) guarded(ctx context.Context, r micro.Request, h handler) (reply any, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.o.Logger.ErrorContext(ctx, "a request panicked", "subject", r.Subject(), "panic", v, "stack", string(debug.Stack()))
			reply, err = nil, problem.New(problem.Internal, "%s failed inside", r.Subject())
		}
	}()
	data, err := s.fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	return h(ctx, data)
}

// send answers by itself, not through micro's Request: that one may not be
// used after its handler has returned.
func (s *Server) send(r micro.Request, c *counters, reply any, err error) {
	if err != nil {
		s.sendError(r, c, err, reply)
		return
	}
	data, err := encode(reply)
	if err == nil && len(data) > MaxReplyBytes {
		err = problem.New(problem.TooLarge, "the answer to %s takes %d bytes, at most %d are sent", r.Subject(), len(data), MaxReplyBytes).
			WithHint("ask for less at once")
	}
	if err != nil {
		s.sendError(r, c, err, nil)
		return
	}
	if err := answer(s.nc, r.Reply(), s.header, data); err != nil {
		s.lost(r, c, err)
	}
}

func (s *Server) sendError(r micro.Request, c *counters, err error, reply any) {
	c.Errors.Add(1)
	if err := answerError(s.nc, r.Reply(), s.header, err, reply); err != nil {
		s.lost(r, c, err)
	}
}

func (s *Server) lost(r micro.Request, c *counters, err error) {
	c.Errors.Add(1)
	if !errors.Is(err, nats.ErrConnectionClosed) {
		s.o.Logger.Warn("an answer could not be sent", "subject", r.Subject(), "error", err)
	}
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.inHand.Add(1)
	return true
}

// Stop takes no more requests and waits for those in hand until ctx ends;
// then their contexts end too, and it waits for them to notice. Requests that
// come after it has begun find a replica, or nobody, at once.
func (s *Server) Stop(ctx context.Context) error {
	err := s.svc.Stop()
	_ = s.nc.FlushWithContext(ctx) // the server routes no more requests here
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.inHand.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.cancel()
		<-done
	}
	s.cancel()
	return err
}

type (
	bearerKey  struct{}
	subjectKey struct{} // of the request
)

// WithBearer gives a request the caller's token; clients of this package send
// it, servers put it into the handler's context.
func WithBearer(ctx context.Context, token string) context.Context {
	return context.WithValue(ctx, bearerKey{}, token)
}

// Bearer is the caller's token, "" = none.
func Bearer(ctx context.Context) string {
	s, _ := ctx.Value(bearerKey{}).(string)
	return s
}
