package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// app is one run of the command line.
type app struct {
	ctx      context.Context
	in       io.Reader
	out, err io.Writer
	args     []string // as they were given
	environ  []string

	configPath string
	options    []string // NAME=VALUE, see --option
	json       bool
	started    bool // a command's own code runs: what fails now is no usage error
	works      bool // a node opened for this command works on map jobs
	cfg        config.Config
}

// globalFlags are the settings that every command takes as flags.
var globalFlags = map[string]string{
	"data-dir": "data_dir", "server": "server", "nats": "nats", "tenant": "tenant", "log-level": "log_level",
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lcm",
		Short: "Lossless context management for LLM agents",
		Long: `Every turn an agent takes is kept verbatim in an event log. What the model sees
is a projection: recent turns, and pointers into a tree of summaries that opens
back to the original words.`,
		Example: `  lcm demo                          see the whole thing work, on a session of ours
  lcm import session.jsonl          keep a transcript
  lcm context session --window 32000
  lcm grep "connection refused"
  lcm expand session/n12            a summary back to its turns`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := a.validText(cmd, args); err != nil {
				return err
			}
			return a.load(cmd)
		},
	}
	f := root.PersistentFlags()
	f.StringVar(&a.configPath, "config", "", "configuration file (default $LCM_CONFIG, else lcm.toml in the data directory)")
	f.String("data-dir", "", "data directory (default $LCM_DATA_DIR, else ~/.local/share/lcm)")
	f.String("server", "", "URL of a running lcm server")
	f.String("nats", "", "URL of an external NATS server with JetStream")
	f.String("tenant", "", `tenant (default "default")`)
	f.String("log-level", "", "debug, info, warn, error (default info; commands log warnings only)")
	f.StringArrayVar(&a.options, "option", nil, "a setting, over file and environment: fresh_tail_count=16, condenser.workers=4")
	f.BoolVar(&a.json, "json", false, "print JSON on stdout")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return problem.New(problem.Invalid, "%w", err).WithHint("see `%s --help`", cmd.CommandPath())
	})
	root.AddCommand(
		a.demoCmd(), a.initCmd(), a.serveCmd(), a.importCmd(), a.appendCmd(), a.moveCmd(), a.sessionsCmd(), a.showCmd(),
		a.condenseCmd(), a.configureCmd(), a.contextCmd(), a.grepCmd(), a.describeCmd(), a.expandCmd(),
		a.statusCmd(), a.doctorCmd(), a.rebuildCmd(), a.verifyCmd(), a.backupCmd(), a.restoreCmd(), a.deadCmd(), a.grantCmd(), a.tokenCmd(), a.queryCmd(), a.mcpCmd(), a.hookCmd(), a.benchCmd(), a.evalCmd(), a.mapCmd(),
	)
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // which cobra lets pass with any argument
			cmd.Args = cobra.NoArgs
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		if strings.Contains(cmd.Use, "SESSION") {
			cmd.ValidArgsFunction = a.completeSessions
		}
	}
	return root
}

// validText refuses arguments that are not UTF-8: JSON would carry them
// changed, to another name. File names may be anything.
func (a *app) validText(cmd *cobra.Command, positional []string) error {
	files := strings.Contains(cmd.Use, "FILE")
	for _, arg := range a.args {
		if !utf8.ValidString(arg) && !(files && slices.Contains(positional, arg)) {
			return problem.New(problem.Invalid, "%q is not valid UTF-8", arg)
		}
	}
	return nil
}

// load lays configuration, environment and flags over each other.
func (a *app) load(cmd *cobra.Command) error {
	given := map[string]any{}
	for flag, key := range globalFlags {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			given[key] = f.Value.String()
		}
	}
	for _, flag := range []string{"http", "nats-listen", "ops-listen", "replicas", "partitions"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			given[strings.ReplaceAll(flag, "-", "_")] = f.Value.String()
		}
	}
	for _, o := range a.options {
		name, value, ok := strings.Cut(o, "=")
		key, known := config.Key(name)
		if !ok || !known {
			return problem.New(problem.Invalid, "--option %q: write NAME=VALUE with the name of a setting", o)
		}
		given[key] = value
	}
	cfg, err := config.Load(a.configPath, a.environ, given)
	if err != nil {
		return problem.New(problem.Invalid, "%s", oneLine(err.Error()))
	}
	for _, what := range config.Misspelt(a.environ, cfg) {
		fmt.Fprintln(a.err, "lcm: "+visible(what))
	}
	a.cfg, a.started = cfg, true
	return nil
}

// exit prints a failure as one line and gives its exit code.
func (a *app) exit(cmd *cobra.Command, err error) int {
	if err == nil {
		return problem.ExitOK
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	if errors.Is(err, syscall.EPIPE) {
		return exitPipe
	}
	p := problem.From(err)
	if !a.started && p.Code == problem.Internal {
		p = problem.New(problem.Invalid, "%s", err.Error()).WithHint("see `%s --help`", cmd.CommandPath())
	}
	if errors.Is(err, context.Canceled) || a.ctx.Err() != nil && p.Code == problem.Unavailable {
		fmt.Fprintln(a.err, "lcm: interrupted")
		return problem.ExitFailed
	}
	fmt.Fprintln(a.err, "lcm: "+visible(oneLine(p.Error())))
	return p.Exit()
}

// exitPipe is what a shell says of a command that wrote to a pipe nobody reads.
const exitPipe = 128 + int(syscall.SIGPIPE)

// exitCode ends a command that has said all there is to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// connect finds the server that owns the data, or opens it here.
func (a *app) connect(ctx context.Context) (*client.Client, func() error, error) {
	cfg := a.cfg
	if !a.works { // a look at something else begins no paid calls
		cfg.Map.Calls = 0
	}
	return node.Connect(ctx, cfg, a.logger(slog.LevelWarn), version)
}

// with runs f against the data and closes it again.
func (a *app) with(f func(ctx context.Context, c *client.Client) error) error {
	c, done, err := a.connect(a.ctx)
	if err != nil {
		return err
	}
	err = f(a.ctx, c)
	if cause := done(); cause != nil && (err == nil || !answered(err)) {
		return cause // why the node stopped: what the call met is its echo
	}
	return err
}

// answered reports whether a failure is about the question, and not about a
// part that stopped before it could answer.
func answered(err error) bool {
	switch problem.From(err).Code {
	case problem.Unavailable, problem.Stale, problem.Internal:
		return false
	}
	return true
}

// call runs one tool and returns its answer.
func call[Out any](a *app, tool string, in any) (Out, error) {
	var out Out
	err := a.with(func(ctx context.Context, c *client.Client) error { return c.Call(ctx, tool, in, &out) })
	return out, err
}

// completeSessions offers session names as the first argument.
func (a *app) completeSessions(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || a.load(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if _, err := os.Stat(a.cfg.DataDir); err != nil && a.cfg.Server == "" && a.cfg.NATS == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp // a key press creates nothing
	}
	in := api.SessionsIn{Scope: api.Scope{Tenant: a.cfg.Tenant}, Prefix: prefix, Limit: 50}
	out, err := call[api.SessionsReply](a, "sessions", in)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range out.Sessions {
		names = append(names, r.Session)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// callLong is call with a sign of life on a terminal.
func callLong[Out any](a *app, what, tool string, in any) (Out, error) {
	defer a.busy(what)()
	return call[Out](a, tool, in)
}

func (a *app) logger(least slog.Level) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.cfg.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: max(level, least)}))
}

// scope of a command: everything the log holds when it starts.
func (a *app) scope(session string) api.Scope {
	return api.Scope{Tenant: a.cfg.Tenant, Session: session, Fresh: true}
}

// printJSON writes one value on one line.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// terminal reports whether progress can be drawn on stderr.
func (a *app) terminal() bool {
	f, ok := a.err.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// busy draws a sign of life with the time it has taken, on a terminal, until
// the returned function is called.
func (a *app) busy(what string) (stop func()) {
	if !a.terminal() {
		return func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what),
		progressbar.OptionSpinnerType(14), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_ = bar.Add(1) // only drawing
			case <-done:
				_ = bar.Finish()
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// printer collects text output for people and remembers the first error.
type printer struct{ w *bufio.Writer }

func (a *app) printer() printer { return printer{bufio.NewWriter(a.out)} }

// f prints what people read: also through a pipe, at whose end a terminal is.
func (p printer) f(format string, args ...any) {
	_, _ = p.w.WriteString(visible(fmt.Sprintf(format, args...))) // bufio keeps the error for flush
}

// raw prints what was asked for as it is, but not to a terminal.
func (a *app) raw(p printer, s string) {
	if f, ok := a.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s = visible(s)
	}
	_, _ = p.w.WriteString(s)
}

// visible shows control characters in place of letting them steer a terminal:
// what was stored is other people's text. Line breaks and tabs stay.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20:
			return r + 0x2400 // the control pictures
		case r == 0x7f:
			return 0x2421
		case 0x80 <= r && r < 0xa0, r == 0x202d, r == 0x202e: // C1, and overrides of the direction
			return utf8.RuneError
		}
		return r
	}, s)
}

// name is a session's name on one line: quoted where it would break out of it.
func name(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

func (p printer) flush() error { return p.w.Flush() }
