package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"lcm/internal/config"
	"lcm/internal/problem"
)

// version of the role binaries, set by the linker for releases.
var version = "dev"

// Main is the main function of a role's binary: it runs the role until it is
// told to stop, and returns the exit code.
func Main(name string, r Roles, args []string, stdout, stderr io.Writer) int {
	signal.Ignore(syscall.SIGPIPE) // whoever reads the log may go away
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runRole(ctx, name, r, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return problem.ExitOK
	}
	p := problem.From(err)
	fmt.Fprintf(stderr, "%s: %s\n", name, strings.Join(strings.Fields(p.Error()), " "))
	return p.Exit()
}

func runRole(ctx context.Context, name string, r Roles, args []string, stdout, stderr io.Writer) error {
	c, err := roleConfig(name, r, args, stderr)
	if err != nil {
		return err
	}
	if c.NATS == "" {
		return problem.New(problem.Invalid, "a role of its own needs an external NATS server").WithHint("name it with --nats or LCM_NATS; `lcm serve` runs all roles without one")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return problem.New(problem.Invalid, "log_level is %q", c.LogLevel)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if r.Projector || r.Mapper { // the roles that keep something here
		lock, err := lockDir(c.DataDir)
		if errors.Is(err, errHeld) {
			return problem.New(problem.Unavailable, "data directory %s is in use by process %s", c.DataDir, holder(c.DataDir))
		}
		if err != nil {
			return err
		}
		defer lock.release()
	}
	var fronts []front
	if r.Toolsvc {
		if fronts, _, err = listen(c); err != nil {
			return err
		}
		defer closeAll(fronts)
	}
	ops, err := listenOps(c, r)
	if err != nil {
		return err
	}
	if ops != nil {
		defer ops.Close()
	}
	n, err := Open(ctx, c, r, log, version)
	if err != nil {
		return err
	}
	n.serveOps(ops)
	if ops != nil {
		fmt.Fprintf(stdout, "%s tells operators at http://%s/metrics\n", name, ops.Addr())
	}
	fmt.Fprintf(stdout, "%s runs on %s, log %s\n", name, shown(c.NATS), n.Epoch())
	run := func() error { return n.Run(ctx) }
	if fronts != nil {
		fmt.Fprintf(stdout, "%s answers at %s\n", name, fronts[0].url())
		run = func() error { return n.runWithHTTP(ctx, fronts) }
	}
	return errors.Join(traced(ctx, version, log, run), n.Close())
}

// roleConfig reads a role's flags, environment and file.
func roleConfig(name string, r Roles, args []string, stderr io.Writer) (config.Config, error) {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	file := fs.String("config", "", "configuration file (default $LCM_CONFIG, else lcm.toml in the data directory)")
	given := map[string]any{}
	setting := func(flagName, key, usage string) {
		fs.Func(flagName, usage, func(v string) error { given[key] = v; return nil })
	}
	setting("nats", "nats", "`URL` of the NATS server ($LCM_NATS)")
	setting("nats-creds", "nats_creds", "credentials `file` for it ($LCM_NATS_CREDS)")
	setting("ops-listen", "ops_listen", "`address` of /livez, /readyz, /metrics and, on loopback, /debug/pprof/")
	setting("log-level", "log_level", "debug, info, warn, error")
	setting("data-dir", "data_dir", "`directory` of the configuration, and of a projector's rows and index")
	if r.Projector {
		setting("partitions", "projector.partitions", "partitions kept here, as in 0-7 or 0,3 (default all)")
	}
	if r.Toolsvc {
		setting("http", "http", "`address` to listen on; beyond loopback auth.mode must be set")
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return config.Config{}, err
		}
		return config.Config{}, problem.New(problem.Invalid, "%w", err)
	}
	if fs.NArg() > 0 {
		return config.Config{}, problem.New(problem.Invalid, "unexpected argument %q", fs.Arg(0))
	}
	if given["data_dir"] == nil && os.Getenv("LCM_DATA_DIR") == "" {
		given["data_dir"] = filepath.Join(config.Default().DataDir, name)
	}
	c, err := config.Load(*file, os.Environ(), given)
	if err != nil {
		return c, problem.New(problem.Invalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	for _, what := range config.Misspelt(os.Environ(), c) {
		fmt.Fprintf(stderr, "%s: %s\n", name, what)
	}
	return c, nil
}
