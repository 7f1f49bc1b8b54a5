package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/internal/auth"
	"lcm/internal/config"
	"lcm/internal/problem"
	"lcm/internal/toolsvc"
)

// readyWithin bounds what /readyz asks of the log and the projections.
const readyWithin = 5 * time.Second

// opsPorts of roles that have no HTTP of their own.
func (r Roles) opsPort() string {
	switch {
	case r.Toolsvc:
		return ""
	case r.Ingestor:
		return "8421"
	case r.Condenser:
		return "8422"
	case r.Mapper && !r.Projector:
		return "8425"
	case r.MapWorkers && !r.Projector:
		return "8426"
	}
	return "8423"
}

// listenOps opens the port for operators; nil where the role's HTTP is enough.
func listenOps(c config.Config, r Roles) (net.Listener, error) {
	if c.OpsListen != "" {
		l, err := net.Listen("tcp", c.OpsListen)
		if err != nil {
			return nil, problem.New(problem.Unavailable, "listen on %s: %w", c.OpsListen, err).WithHint("choose another address with --ops-listen")
		}
		return l, nil
	}
	port := r.opsPort()
	if port == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil { // another of its kind on this machine: nobody chose the port
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	return l, err
}

// serveOps answers operators on a listener while the node runs.
func (n *Node) serveOps(l net.Listener) {
	if l == nil {
		return
	}
	mux := n.withMetrics(http.NotFoundHandler())
	mux.HandleFunc("GET /livez", n.livez)
	mux.HandleFunc("GET /readyz", n.readyz)
	if auth.LoopbackHost(l.Addr().String()) {
		mux.HandleFunc("/debug/pprof/", local(pprof.Index))
		mux.HandleFunc("/debug/pprof/cmdline", local(pprof.Cmdline))
		mux.HandleFunc("/debug/pprof/profile", local(pprof.Profile))
		mux.HandleFunc("/debug/pprof/symbol", local(pprof.Symbol))
		mux.HandleFunc("/debug/pprof/trace", local(pprof.Trace))
	}
	n.add("ops", func(ctx context.Context) error { return n.serveHTTP(ctx, l, mux) })
}

// withMetrics adds the scrape to a handler.
func (n *Node) withMetrics(next http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.metrics.Handler())
	mux.Handle("/", next)
	return mux
}

func (n *Node) livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Lcm-Epoch", n.Epoch())
	if n.stopped.Err() != nil {
		http.Error(w, context.Cause(n.stopped).Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (n *Node) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	if err := n.Ready(ctx); err != nil {
		http.Error(w, problem.From(err).Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Ready says what keeps the node from doing its work, nil where nothing does:
// the log is reachable, and who answers reads has projections that are open and
// not far behind. A model provider that is down is no reason.
func (n *Node) Ready(ctx context.Context) error {
	if n.stopped.Err() != nil {
		return context.Cause(n.stopped)
	}
	if _, err := n.log.LastSeq(ctx); err != nil {
		return problem.New(problem.Unavailable, "the log cannot be reached: %w", err)
	}
	if !n.roles.Projector && !n.roles.Toolsvc {
		return nil
	}
	st, err := n.reads.Status(ctx)
	if err != nil {
		return err
	}
	return toolsvc.Ready(st, uint64(n.cfg.ReadyLag))
}

// local refuses what a page of another origin sends to this machine.
func local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !auth.LoopbackHost(r.Host) || r.Header.Get("Origin") != "" {
			http.Error(w, "loopback requests only", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// serveHTTP answers on a listener until ctx ends; requests in hand get a grace.
func (n *Node) serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(n.slog.Handler(), slog.LevelWarn)}
	return serveUntil(ctx, srv, func(s *http.Server) error { return s.Serve(l) })
}

// serveUntil runs a server until ctx ends, and lets requests in hand end.
func serveUntil(ctx context.Context, srv *http.Server, serve func(*http.Server) error) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := serve(srv); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-gctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(gctx), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(grace); err != nil {
			return srv.Close()
		}
		return nil
	})
	return g.Wait()
}
