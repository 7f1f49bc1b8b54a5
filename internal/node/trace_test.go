package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/request"
)

// A trace that a caller began goes through HTTP, over NATS, to the roles that
// answer, and so does the id of its request.
func TestTraceThroughAllRoles(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	defer otel.SetTracerProvider(before)

	address := freeAddress(t)
	opsNode(t, func(c *config.Config) { c.NATSListen = address })
	c := config.Default()
	c.NATS, c.DataDir = "nats://"+address, t.TempDir()
	n, err := Open(t.Context(), c, Roles{Toolsvc: true}, slog.New(slog.DiscardHandler), "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	srv := httptest.NewServer(n.Handler())
	defer srv.Close()
	waitFor(t, "the ingestor to answer", func() bool {
		_, err := client.New(srv.URL).AppendBody(t.Context(), api.AppendIn{Scope: api.Scope{Session: "s"}}, []byte(`{"id":"t1","role":"user","content":"hi"}`))
		return err == nil
	})
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL+"/v1/context?session=s", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	req.Header.Set(request.HeaderID, "r-1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get(request.HeaderID) != "r-1" {
		t.Errorf("%s, request %q", resp.Status, resp.Header.Get(request.HeaderID))
	}
	got := map[string]bool{}
	waitFor(t, "the spans to end", func() bool {
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID().String() == id {
				kind, _, _ := strings.Cut(s.Name(), " ")
				got[kind] = true
			}
		}
		return got["tool"] && got["ask"] && got["answer"]
	})
}

// freeAddress is one that nobody listens on now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestExporterOrAnError(t *testing.T) {
	t.Setenv(otlpEndpoint, "http://127.0.0.1:1")
	stop, err := startTracing(t.Context(), "1.2.3")
	if err == nil { // a build with the exporter
		if stop(t.Context()) != nil {
			t.Log("no collector")
		}
		otel.SetTracerProvider(otel.GetTracerProvider())
		return
	}
	if !strings.Contains(err.Error(), "-tags otlp") {
		t.Error(err)
	}
}
