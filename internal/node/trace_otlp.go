//go:build otlp

package node

import (
	"context"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// startTracing sends spans to the collector that the standard variables name
// (OTEL_EXPORTER_OTLP_ENDPOINT and others); without one it does nothing.
func startTracing(ctx context.Context, version string) (stop func(context.Context) error, err error) {
	if os.Getenv(otlpEndpoint) == "" && os.Getenv(otlpTracesEndpoint) == "" {
		return func(context.Context) error { return nil }, nil
	}
	e, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	r, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "lcm"), attribute.String("service.version", version)),
		resource.WithFromEnv(), resource.WithHost(), resource.WithProcessPID())
	if err != nil {
		return nil, err
	}
	p := trace.NewTracerProvider(trace.WithBatcher(e), trace.WithResource(r))
	otel.SetTracerProvider(p)
	return p.Shutdown, nil
}
