// Package request carries what belongs to one request from process to process:
// its id, under which every log line about it can be found, and the trace it is
// part of. Both travel as headers, over HTTP and NATS alike.
//
// It knows the interfaces of OpenTelemetry and no exporter: without one its
// spans cost nothing, and a caller's trace is still passed on. It imports
// nothing of the module.
package request

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// HeaderID is the header of a request's id, over HTTP and NATS.
const HeaderID = "X-Request-Id"

// maxID is the longest id that is taken from a caller.
const maxID = 128

type idKey struct{}

// ID of the request that ctx belongs to, "" = none.
func ID(ctx context.Context) string {
	id, _ := ctx.Value(idKey{}).(string)
	return id
}

// WithID gives a request the id its caller chose, or a new one where that is
// missing or could not stand in a log line.
func WithID(ctx context.Context, id string) context.Context {
	if id == "" || len(id) > maxID || strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
		id = rand.Text()
	}
	return context.WithValue(ctx, idKey{}, id)
}

// headers of the trace: W3C trace context and baggage.
var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// Header of a request: http.Header, nats.Header and micro.Headers are such.
type Header interface{ Get(key string) string }

// Set writes one header.
type Set func(key, value string)

// Inject writes id and trace of ctx into the headers of an outgoing request.
func Inject(ctx context.Context, set Set) {
	if id := ID(ctx); id != "" {
		set(HeaderID, id)
	}
	propagator.Inject(ctx, writer{set})
}

// Extract reads id and trace of an incoming request into ctx.
func Extract(ctx context.Context, h Header) context.Context {
	return propagator.Extract(WithID(ctx, h.Get(HeaderID)), reader{h})
}

// Identified gives every request an id, the caller's own where it has one, and
// says it in the answer. Within another one it changes nothing.
func Identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ID(r.Context()) == "" {
			ctx := Extract(r.Context(), r.Header)
			w.Header().Set(HeaderID, ID(ctx))
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// writer and reader are the header carriers of OpenTelemetry. Names are sent as
// they are here, in lower case: NATS tells cases apart.
type writer struct{ set Set }

func (w writer) Set(k, v string) { w.set(k, v) }
func (writer) Get(string) string { return "" }
func (writer) Keys() []string    { return nil }

type reader struct{ h Header }

func (reader) Set(string, string)      {}
func (r reader) Get(key string) string { return r.h.Get(key) }
func (reader) Keys() []string          { return nil }

// Start begins a span of the request's trace. end takes the outcome.
func Start(ctx context.Context, name string, kind trace.SpanKind) (_ context.Context, end func(error)) {
	ctx, span := otel.Tracer("lcm").Start(ctx, name, trace.WithSpanKind(kind))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Kinds of spans.
const (
	Server = trace.SpanKindServer
	Client = trace.SpanKindClient
)

// Logger adds the request's id, and the trace's, to every line about a request.
func Logger(l *slog.Logger) *slog.Logger { return slog.New(handler{l.Handler()}) }

type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := ID(ctx); id != "" {
		r.AddAttrs(slog.String("request", id))
	}
	if s := trace.SpanContextFromContext(ctx); s.HasTraceID() {
		r.AddAttrs(slog.String("trace", s.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(a []slog.Attr) slog.Handler { return handler{h.Handler.WithAttrs(a)} }
func (h handler) WithGroup(name string) slog.Handler   { return handler{h.Handler.WithGroup(name)} }
