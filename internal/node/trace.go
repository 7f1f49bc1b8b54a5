package node

import (
	"context"
	"log/slog"
	"time"
)

// The standard variables that name a collector of traces.
const (
	otlpEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otlpTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// traced runs a server with its traces exported, where a collector is named.
func traced(ctx context.Context, version string, log *slog.Logger, run func() error) error {
	stop, err := startTracing(ctx, version)
	if err != nil {
		return err
	}
	defer func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := stop(grace); err != nil {
			log.Warn("the last traces were not sent", "error", err)
		}
	}()
	return run()
}
