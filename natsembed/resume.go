package natsembed

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A server that could not write to its disk takes nothing more into that stream,
// or turns JetStream off, until it is started again. The process that holds it
// must not have to be: so resume opens JetStream anew once the disk takes data.

const (
	// watchEvery is how often the streams are asked.
	watchEvery = time.Second
	// probeBytes must fit on the disk before it is tried again.
	probeBytes = 1 << 20
)

// resume watches the streams until ctx ends.
func (s *Server) resume(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		why := s.Stuck()
		if why == "" {
			said = false
			continue
		}
		if !said {
			said = true
			log.Error("the streams take nothing more until the disk can be written again", "dir", s.dir, "cause", why)
		}
		if probe(s.dir) != nil || ctx.Err() != nil {
			continue
		}
		if err := s.reopen(); err != nil {
			log.Error("the streams do not open, trying again", "error", err)
			continue
		}
		log.Info("the disk can be written again: the streams are open", "dir", s.dir)
	}
}

// Stuck says why the streams take nothing, "" where they do.
func (s *Server) Stuck() string {
	if !s.s.JetStreamEnabled() {
		return "JetStream has been turned off"
	}
	h := s.s.Healthz(&server.HealthzOptions{Details: true})
	for _, e := range h.Errors {
		if strings.Contains(e.Error, "write error") { // others no reopening mends
			return e.Error
		}
	}
	return ""
}

// probe writes what must fit on the disk.
func probe(dir string) error {
	path := filepath.Join(dir, "lcm-probe")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	if _, err = f.Write(make([]byte, probeBytes)); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// reopen starts JetStream anew over the same files.
func (s *Server) reopen() error {
	if s.s.JetStreamEnabled() {
		if err := s.s.ShutdownJetStream(); err != nil {
			return err
		}
	}
	// What is not given here comes from the server's options, SyncAlways too.
	return s.s.EnableJetStream(&server.JetStreamConfig{StoreDir: s.dir, MaxStore: maxStore})
}
