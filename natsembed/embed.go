// Package natsembed runs a NATS server with JetStream inside this process, for
// `lcm serve` without an external server and for tests.
//
// It is an adapter: it imports the engine and no other adapter. What the
// streams are is natslog's business; this package only keeps the server that
// holds them honest: every acknowledged message is on disk (SyncAlways), and
// after an unclean stop the blocks that a crash may have torn are copied aside
// before the server reads, and possibly truncates, them.
package natsembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// DefaultMaxPayload fits the largest event (4 MiB of it inline) with its envelope,
// a dead letter's base64 body, and a micro reply page with room to spare.
const DefaultMaxPayload = 8 << 20

// startTimeout bounds how long recovery of the streams may take: opening a
// million messages over a million subjects was measured at 4.5 s.
const startTimeout = 2 * time.Minute

// maxStore of the streams, bytes: none. The server would take what is free on
// the disk as it starts for a limit that lasts.
const maxStore = 1 << 60

// drainTimeout bounds how long Stop waits for connections to finish.
const drainTimeout = 5 * time.Second

// Options of an embedded server.
type Options struct {
	// Dir holds the streams; created where absent. Required.
	Dir string
	// Listen is a TCP address for other processes, e.g. "127.0.0.1:4222" or
	// port 0 for any; "" = in-process connections only, no socket at all.
	Listen string
	// Token that TCP clients must present, "" = none. In-process connections
	// present it by themselves.
	Token string
	// Name of the server in advisories and logs, "" = "lcm".
	Name string
	// MaxPayload of one message, bytes; 0 = DefaultMaxPayload.
	MaxPayload int32
	// Unsynced leaves flushing to disk to the operating system: acknowledged
	// messages may be lost at a power cut. For benchmarks and tests only.
	Unsynced bool
	// Logger receives the server's warnings and errors; nil = discarded.
	Logger *slog.Logger
}

// Server is a running embedded server.
type Server struct {
	s     *server.Server
	token string
	dir   string
	// unwatch ends the watch over the streams, and waits for its end.
	unwatch func()

	mu    sync.Mutex
	conns []*nats.Conn
}

// Start runs a server until Stop. It returns once JetStream has recovered its
// streams.
func Start(o Options) (*Server, error) {
	opts, err := serverOptions(o)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := beforeStart(o.Dir, log); err != nil {
		return nil, fmt.Errorf("embedded NATS in %s: %w", o.Dir, err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("embedded NATS in %s: %w", o.Dir, err)
	}
	s.SetLoggerV2(&bridge{log: log}, false, false, false)
	go s.Start() // returns at once; ends with Shutdown
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("embedded NATS in %s: not ready after %s", o.Dir, startTimeout)
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("embedded NATS in %s: JetStream did not start; see the log", o.Dir)
	}
	out := &Server{s: s, token: o.Token, dir: o.Dir}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); out.resume(ctx, log) }()
	out.unwatch = func() { cancel(); <-ended }
	return out, nil
}

func serverOptions(o Options) (*server.Options, error) {
	if o.Dir == "" {
		return nil, errors.New("natsembed: Options.Dir is empty")
	}
	opts := &server.Options{
		ServerName: o.Name,
		JetStream:  true, StoreDir: o.Dir,
		DontListen: o.Listen == "", NoSigs: true,
		SyncAlways: !o.Unsynced, MaxPayload: o.MaxPayload,
		JetStreamMaxStore:      maxStore,
		Authorization:          o.Token,
		DisableJetStreamBanner: true,
	}
	if opts.ServerName == "" {
		opts.ServerName = "lcm"
	}
	if opts.MaxPayload == 0 {
		opts.MaxPayload = DefaultMaxPayload
	}
	// What a follower has asked for may wait for it, in the largest events.
	opts.MaxPending = max(server.MAX_PENDING_SIZE, 8*int64(opts.MaxPayload))
	if o.Listen == "" {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("natsembed: listen address %q: %w", o.Listen, err)
	}
	if opts.Port, err = strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("natsembed: listen address %q: port: %w", o.Listen, err)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	opts.Host = host
	return opts, nil
}

// Conn returns a new in-process connection; Stop drains it. It does not
// reconnect: the server lives and dies with this process.
func (s *Server) Conn() (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(s.s), nats.NoReconnect(), nats.Token(s.token),
		nats.Name("lcm in-process"), nats.DrainTimeout(drainTimeout))
	if err != nil {
		return nil, fmt.Errorf("connect to embedded NATS: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, nc)
	return nc, nil
}

// URL is where other processes connect, "" without a listener.
func (s *Server) URL() string {
	if s.s.Addr() == nil {
		return ""
	}
	return s.s.ClientURL()
}

// Stop drains the in-process connections and shuts the server down. It returns
// when everything is on disk, the streams' indexes included.
func (s *Server) Stop() {
	s.unwatch()
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for _, nc := range conns {
		drain(ctx, nc)
	}
	s.s.Shutdown()
	s.s.WaitForShutdown()
	markClean(s.dir)
}

// Kill stops the server without draining or marking the stop as clean, as a
// crash of the process would leave it. For tests.
func (s *Server) Kill() {
	s.unwatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, nc := range s.conns {
		nc.Close()
	}
	s.conns = nil
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

func drain(ctx context.Context, nc *nats.Conn) {
	closed := make(chan struct{})
	nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
	if nc.IsClosed() || nc.Drain() != nil {
		nc.Close()
		return
	}
	select {
	case <-closed:
	case <-ctx.Done():
		nc.Close()
	}
}

// streamsDir is where the server keeps the streams of the only account.
func streamsDir(dir string) string {
	return filepath.Join(dir, "jetstream", "$G", "streams")
}
