package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"lcm/boltstore"
	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/condenser"
	"lcm/internal/config"
	"lcm/internal/grants"
	"lcm/internal/ingest"
	"lcm/internal/mapper"
	"lcm/internal/mcp"
	"lcm/internal/metrics"
	"lcm/internal/problem"
	"lcm/internal/projector"
	"lcm/internal/request"
	"lcm/internal/toolsvc"
	"lcm/llm"
	"lcm/natsembed"
	"lcm/natslog"
)

// Roles a node runs.
type Roles struct {
	Ingestor, Condenser, Projector, Toolsvc bool
	Mapper                                  bool // keeps map jobs; one per log
	MapWorkers                              bool // work on their rows; any number
}

// All roles: what one process on one machine runs.
func All() Roles { return Roles{true, true, true, true, true, true} }

// Node is an open node. Run runs its roles; Close releases what Open took.
type Node struct {
	cfg     config.Config
	roles   Roles
	version string
	slog    *slog.Logger
	// name of this process among the ingestors.
	name string

	embedded *natsembed.Server
	conn     *nats.Conn
	log      *natslog.Log

	metrics   *metrics.Set
	reads     reads
	models    *llm.Chain // nil = everything is done by rule
	mapModel  *llm.Chain // nil = that of the others
	readModel *llm.Chain // nil = that of the others
	projector *projector.Service
	ingest    *ingest.Service
	condenser *condenser.Service
	maps      *mapper.Service
	mapStore  *boltstore.Jobs
	tools     *toolsvc.Service
	grants    *grants.Authority
	others    *mcp.Remotes // servers whose tools sub-agents use
	inner     http.Handler // the tools, for whoever comes with a caller

	// loops of the roles; Run starts them all, the first exit stops all.
	loops []loop
	// stopped ends when Run does, with its error as the cause.
	stopped context.Context
	stop    context.CancelCauseFunc
}

type loop struct {
	name string
	run  func(context.Context) error
}

// loopError says which role failed.
type loopError struct {
	name string
	err  error
}

func (e *loopError) Error() string { return e.name + ": " + e.err.Error() }
func (e *loopError) Unwrap() error { return e.err }

// gcPercent: a node allocates fast and keeps little. At the runtime's default
// of 100 the collector takes a tenth of the processor from appends.
const gcPercent = 300

// Open connects the engines and builds the services of the roles. Streams are
// created in an empty data directory only; on an external server `lcm init`
// or `lcm serve` makes them.
func Open(ctx context.Context, c config.Config, r Roles, log *slog.Logger, version string) (n *Node, err error) {
	n = &Node{name: ulid.Make().String(), cfg: c, roles: r, version: version, slog: request.Logger(log), metrics: metrics.New(version)}
	n.stopped, n.stop = context.WithCancelCause(context.Background())
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	defer func() {
		if err != nil {
			_ = n.Close()
			n = nil
		}
	}()
	if err = n.openLog(ctx); err != nil {
		return n, err
	}
	return n, n.openRoles(ctx)
}

// openLog connects to the server and opens the streams.
func (n *Node) openLog(ctx context.Context) error {
	o := natslog.Options{Partitions: n.cfg.Partitions, Replicas: n.cfg.Replicas, Logger: n.slog}
	var err error
	if n.cfg.NATS != "" {
		if n.conn, err = dial(n.cfg); err != nil {
			return err
		}
		o.Create = n.roles == All()
		n.log, err = natslog.Open(ctx, n.conn, o)
		return err
	}
	if o.Create, err = n.mayCreate(); err != nil {
		return err
	}
	n.embedded, err = natsembed.Start(natsembed.Options{Dir: n.logDir(), Listen: n.cfg.NATSListen, Logger: n.slog})
	if err != nil {
		return problem.New(problem.Unavailable, "embedded server in %s: %w", n.logDir(), err)
	}
	if n.conn, err = n.embedded.Conn(); err != nil {
		return fmt.Errorf("embedded server: %w", err)
	}
	n.log, err = natslog.Open(ctx, n.conn, o)
	return n.missing(ctx, o, err)
}

// missing says that a log is lost, in place of that it was never made, where
// projections remember it.
func (n *Node) missing(ctx context.Context, o natslog.Options, err error) error {
	if err == nil || o.Create {
		return err
	}
	if _, ierr := natslog.Inspect(ctx, n.conn, o); !problem.IsCode(ierr, problem.NotFound) {
		return err
	}
	projection := filepath.Dir(n.rowsPath())
	return problem.New(problem.Damaged, "the log is missing: the server in %s has no stream %s, but %s was made from one", n.logDir(), natslog.StreamLog, projection).
		WithHint("restore a backup into an empty directory with `lcm restore`, or put the log back; move %s aside to begin anew", projection)
}

func dial(c config.Config) (*nats.Conn, error) {
	opts := []nats.Option{nats.Name("lcm"), nats.MaxReconnects(-1), nats.Timeout(5 * time.Second)}
	if c.NATSCreds != "" {
		opts = append(opts, nats.UserCredentials(c.NATSCreds))
	}
	nc, err := nats.Connect(c.NATS, opts...)
	if err != nil {
		return nil, problem.New(problem.Unavailable, "NATS server %s: %w", shown(c.NATS), err).WithHint("is it running, with JetStream on?")
	}
	return nc, nil
}

// shown is a URL list as it may stand in messages: without passwords.
func shown(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if u, err := url.Parse(strings.TrimSpace(p)); err == nil {
			parts[i] = u.Redacted()
		} else {
			parts[i] = "(unreadable URL)"
		}
	}
	return strings.Join(parts, ",")
}

func (n *Node) logDir() string   { return filepath.Join(n.cfg.DataDir, "jetstream") }
func (n *Node) rowsPath() string { return filepath.Join(n.cfg.DataDir, "projection", "lcm.bolt") }
func (n *Node) witnessPath() string {
	return filepath.Join(n.cfg.DataDir, "projection", "witness.json")
}
func (n *Node) indexDir() string { return filepath.Join(n.cfg.DataDir, "projection", "index") }

// mayCreate allows new streams where nothing of a projection remembers older
// ones: a log that went missing is never silently made anew.
func (n *Node) mayCreate() (bool, error) {
	if n.interruptedRepair() {
		return false, problem.New(problem.Damaged, "a repair of the log in %s was interrupted", n.cfg.DataDir).
			WithHint("run `lcm doctor --repair --from DIR` again: it goes on where it stopped")
	}
	projection := filepath.Dir(n.rowsPath())
	remembers, err := holdsFiles(projection)
	if err != nil {
		return false, problem.New(problem.Damaged, "the projection cannot be read: %w", err).WithHint("move %s aside: it is made anew from the log", projection)
	}
	if !remembers {
		return true, nil
	}
	log, err := holdsFiles(n.logDir())
	if err != nil {
		return false, problem.New(problem.Damaged, "the log cannot be read: %w", err).WithHint("put the log back in its place")
	}
	if !log {
		return false, problem.New(problem.Damaged, "the log is missing: there is nothing in %s, but %s was made from one", n.logDir(), projection).
			WithHint("put the log back; or delete %s to begin anew, without what was in it", projection)
	}
	return false, nil
}

// holdsFiles reports whether a directory exists and is not empty.
func holdsFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// Epoch names the log.
func (n *Node) Epoch() string { return n.log.Epoch() }

// Handler serves the tools to the operator, in this process; it needs the
// toolsvc role.
func (n *Node) Handler() http.Handler { return auth.As(api.Operator(), n.inner) }

// Run runs the roles until ctx ends or one of them fails.
func (n *Node) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, l := range n.loops {
		g.Go(func() error {
			if err := l.run(gctx); err != nil && gctx.Err() == nil {
				return &loopError{l.name, err}
			}
			return nil
		})
	}
	err := g.Wait()
	if err == nil && ctx.Err() == nil {
		err = problem.New(problem.Internal, "all roles ended by themselves")
	}
	cause := err
	if cause == nil {
		cause = problem.New(problem.Unavailable, "the node has stopped")
	}
	n.stop(cause)
	return err
}

// runWithHTTP runs the roles and serves their tools on some listeners.
func (n *Node) runWithHTTP(ctx context.Context, fronts []front) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, f := range fronts {
		g.Go(func() error { return serveUntil(gctx, f.server(n), f.serve) })
	}
	g.Go(func() error { return n.Run(gctx) })
	return g.Wait()
}

// Close releases the connection and stops the embedded server. Run must have
// ended.
func (n *Node) Close() error {
	n.stop(problem.New(problem.Unavailable, "the node has stopped"))
	for _, c := range n.chains() {
		c.Close()
	}
	if n.others != nil {
		_ = n.others.Close() // whoever is gone needs no end
	}
	if n.mapStore != nil {
		_ = n.mapStore.Close() // its commits are durable
	}
	if n.conn != nil {
		n.conn.Close()
	}
	if n.embedded != nil {
		n.embedded.Stop()
	}
	return nil
}

// Made is what Init found or created.
type Made struct {
	Epoch      string
	Partitions int
}

// Init creates the streams on an external server.
func Init(ctx context.Context, c config.Config) (Made, error) {
	if c.NATS == "" {
		return Made{}, problem.New(problem.Invalid, "init needs an external server").WithHint("name it with --nats; an embedded store creates itself")
	}
	nc, err := dial(c)
	if err != nil {
		return Made{}, err
	}
	defer nc.Close()
	l, err := natslog.Open(ctx, nc, natslog.Options{Create: true, Repair: true, Partitions: c.Partitions, Replicas: c.Replicas})
	if err != nil {
		return Made{}, err
	}
	if _, err := l.Jobs(ctx, natslog.JobOptions{Create: true}); err != nil {
		return Made{}, err
	}
	return Made{l.Epoch(), l.Partitions()}, nil
}

// Writes is the append path; nil without the ingestor role.
func (n *Node) Writes() toolsvc.Writes { return n.ingest }

// Tools are the node's tools; nil without the toolsvc role.
func (n *Node) Tools() *toolsvc.Service { return n.tools }
