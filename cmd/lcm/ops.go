package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lcm/internal/api"
	"lcm/internal/backup"
	"lcm/internal/bench"
	"lcm/internal/demo"
	"lcm/internal/node"
	"lcm/internal/problem"
)

func (a *app) demoCmd() *cobra.Command {
	var keep string
	cmd := &cobra.Command{
		Use:   "demo [FILE]",
		Short: "See the whole thing work, on a session of ours or on your transcript",
		Example: `  lcm demo
  lcm demo ~/.claude/projects/x/4f0c….jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			o := demo.Options{Out: a.out, Source: demo.Bundled(), Name: demo.BundledName}
			if len(args) == 1 {
				f, _, err := openFile(args[0])
				if err != nil {
					return err
				}
				defer f.Close()
				if o.Source, err = io.ReadAll(f); err != nil {
					return problem.New(problem.Invalid, "%w", err)
				}
				o.Name = args[0]
			}
			dir := keep
			if dir == "" {
				tmp, err := os.MkdirTemp("", "lcm-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(tmp)
				dir = tmp
			}
			cfg := a.cfg
			cfg.DataDir, cfg.Server, cfg.NATS = dir, "", ""
			c, done, err := node.Connect(a.ctx, cfg, a.logger(slog.LevelWarn), version)
			if err != nil {
				return err
			}
			o.Client, o.DataDir, o.Kept = c, dir, keep != ""
			if err := demo.Run(a.ctx, o); err != nil {
				_ = done() // the demo's own error says more
				return err
			}
			return done()
		},
	}
	cmd.Flags().StringVar(&keep, "keep", "", "keep the data in this directory and go on with it afterwards")
	return cmd
}

func (a *app) initCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Create the streams on an external NATS server",
		Example: "  lcm init --nats nats://127.0.0.1:4222 --replicas 3",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			epoch, err := node.Init(a.ctx, a.cfg)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.out, "log %s is ready, %d partitions\n", epoch.Epoch, epoch.Partitions)
			return nil
		},
	}
	cmd.Flags().Int("replicas", 1, "copies of each stream: 1, 3 or 5")
	cmd.Flags().Int("partitions", 16, "partitions of the log, fixed for ever")
	return cmd
}

func (a *app) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run every role in one process, with HTTP",
		Example: `  lcm serve
  lcm serve --http 127.0.0.1:9000 --data-dir /var/lib/lcm
  lcm serve --nats nats://127.0.0.1:4222      on an external server`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return node.Serve(a.ctx, a.cfg, a.logger(slog.LevelDebug), version, func(url string) {
				fmt.Fprintf(a.out, "lcm serves %s at %s\n", a.cfg.DataDir, url)
			})
		},
	}
	cmd.Flags().String("http", "", "address to listen on (default 127.0.0.1:8420)")
	cmd.Flags().String("ops-listen", "", "address of health, metrics and, on loopback, /debug/pprof/ (default none: --http has all but pprof)")
	cmd.Flags().String("nats-listen", "", "let the embedded NATS server listen here too, such as 127.0.0.1:4222")
	return cmd
}

// report is what status and doctor print.
type report struct {
	OK     bool              `json:"ok"`
	Checks []api.Check       `json:"checks"`
	Status *api.SystemStatus `json:"status,omitempty"`
	Repair *backup.Repaired  `json:"repair,omitempty"`
}

// busyLag is how many events rows may be behind before status calls it a
// fault: a bulk import is half a second ahead of them.
const busyLag = 10_000

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Health, lag and sizes", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := call[api.SystemStatus](a, "status", api.StatusIn{Scope: a.scope("")})
			if err != nil {
				return err
			}
			r := report{OK: true, Status: &s}
			add := func(name string, ok bool, format string, args ...any) {
				r.Checks = append(r.Checks, api.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
				r.OK = r.OK && ok
			}
			add("log", true, "epoch %s, last position %d", s.Epoch, s.LogSeq)
			add("rows", s.Lag <= busyLag, "%d sessions, %d turns, %d summaries; %d events behind; %d bytes", s.Sessions, s.Entries, s.Nodes, s.Lag, s.StoreBytes)
			add("index", true, "%d events behind; %d bytes", s.IndexLag, s.IndexBytes)
			add("condensing", true, "%s", debt(&s))
			if l := s.Log; l != nil {
				add("streams", true, "log %d bytes; %d messages in the inbox%s; %d tasks; %d dead letters", l.LogBytes, l.InboxWaiting, since(", the oldest for ", l.InboxOldest), l.Tasks, l.Dead)
			}
			for _, p := range s.Models {
				for _, m := range p.Models {
					add("model", m.Breaker == "", "%s", modelLine(m))
				}
				if b := p.Spending; b != nil && (b.LimitTokensPerHour > 0 || b.TokensLastHour > 0) {
					add("spending", true, "%s", spendingLine(b))
				}
			}
			add("events", s.Rejected == 0, "%d rejected, %d of a later build, %d lost for good", s.Rejected, s.Unknown, s.Lost)
			if c := s.Scrub; c != nil {
				text := "not read to its end yet"
				if !c.Ended.IsZero() {
					text = fmt.Sprintf("read up to position %d by %s: %d missing, %d broken", c.Last, c.Ended.Format(time.RFC3339), c.Missing, c.Broken)
				}
				if c.Running {
					text += fmt.Sprintf("; being read, at %d of %d", c.Position, c.Last)
				}
				add("scrub", c.Missing == 0, "%s", text)
			}
			return a.printReport(r)
		},
	}
}

func since(what string, at *time.Time) string {
	if at == nil {
		return ""
	}
	return what + time.Since(*at).Round(time.Second).String()
}

func debt(s *api.SystemStatus) string {
	return fmt.Sprintf("%d sessions over their threshold", s.Due) + since(", the first waits for ", s.OldestDue)
}

func modelLine(m api.ModelState) string {
	line := fmt.Sprintf("%s, %s: %d calls, %d failed, %d tokens in, %d out", m.Model, m.Provider, m.Calls, m.Failed, m.InputTokens, m.OutputTokens)
	if m.Breaker != "" {
		line += fmt.Sprintf("; not called (%s)", m.Breaker)
		if m.Retry != nil {
			line += fmt.Sprintf(" until %s", m.Retry.Local().Format(time.TimeOnly))
		}
	}
	if m.LastError != "" {
		line += fmt.Sprintf("; last error%s: %s", since(" before ", m.LastErrorAt), m.LastError)
	}
	return line
}

func spendingLine(b *api.Spending) string {
	line := fmt.Sprintf("%d tokens in the last hour", b.TokensLastHour)
	if b.LimitTokensPerHour > 0 {
		line += fmt.Sprintf(", of %d for each tenant", b.LimitTokensPerHour)
	}
	var waits []string
	for _, t := range b.Tenants {
		if t.Spent {
			waits = append(waits, fmt.Sprintf("%s (%d calls refused)", t.Tenant, t.Refused))
		}
	}
	if waits != nil {
		line += "; waiting: " + strings.Join(waits, ", ")
	}
	return line
}

func (a *app) doctorCmd() *cobra.Command {
	var in api.DoctorIn
	from := ""
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check every invariant of the stored data", Args: cobra.NoArgs,
		Long: `Check every invariant of the stored data. With --repair, make anew from the log
what can be: rows and index.

With --repair --from DIR, make a damaged log anew from what it still has and a
backup of it in DIR. No server may run. Where the two disagree about an event
that both have whole, it is named and nothing is changed. The damaged log is kept
beside the new one, which has the same positions under a new epoch; what neither
copy has stands there as lost. A repair that was interrupted is run again.`,
		Example: "  lcm doctor\n  lcm doctor --deep --json\n  lcm doctor --repair --from /mnt/copy",
		RunE: func(*cobra.Command, []string) error {
			if from != "" {
				if !in.Repair {
					return problem.New(problem.Invalid, "--from is where --repair takes lost events from").WithHint("give both")
				}
				return a.repairLog(from)
			}
			in.Scope = a.scope("")
			d, err := callLong[api.DoctorReply](a, "checking", "doctor", in)
			if err != nil {
				return err
			}
			return a.printReport(report{OK: d.OK, Checks: d.Checks})
		},
	}
	cmd.Flags().BoolVar(&in.Deep, "deep", false, "read and verify every row and document, and name every fault (1,000 of a kind)")
	cmd.Flags().StringVar(&from, "from", "", "with --repair: repair the log itself, from the backup in this directory")
	cmd.Flags().BoolVar(&in.Repair, "repair", false, "repair what can be made anew from the log")
	return cmd
}

func (a *app) printReport(r report) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		p := a.printer()
		for _, c := range r.Checks {
			mark := "ok  "
			if !c.OK {
				mark = "FAIL"
			}
			p.f("%s  %-16s %s\n", mark, c.Name, c.Detail)
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	if !r.OK {
		return exitCode(problem.ExitDegraded)
	}
	return nil
}

func (a *app) rebuildCmd() *cobra.Command {
	var in api.RebuildIn
	cmd := &cobra.Command{
		Use: "rebuild", Short: "Drop the projections and replay the log into new ones", Args: cobra.NoArgs,
		Long: `Drop the rows (--store), the full-text index (--index) or both, and make them
anew from the log. The digest is a hash over all rows: equal logs give equal
digests, on every machine.`,
		RunE: func(*cobra.Command, []string) error {
			in.Scope = a.scope("")
			r, err := callLong[api.RebuildReply](a, "replaying the log", "rebuild", in)
			if node.RefusedProjection(err) && !in.Index { // nothing runs on these rows: without them it does
				if err := node.DropProjections(a.ctx, a.cfg); err != nil {
					return err
				}
				r, err = callLong[api.RebuildReply](a, "replaying the log", "rebuild", in)
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(r)
			}
			fmt.Fprintf(a.out, "%d events, %d turns, %d summaries in %.2f s\ndigest %s\n", r.Events, r.Turns, r.Nodes, r.Seconds, r.Digest)
			return nil
		},
	}
	cmd.Flags().BoolVar(&in.Store, "store", false, "only the rows")
	cmd.Flags().BoolVar(&in.Index, "index", false, "only the index")
	return cmd
}

func (a *app) benchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench " + strings.Join(bench.Names(), "|"),
		Short: "Measure this machine, beside the raw engine in the same run",
		Long: `Measure in a fresh temporary directory. Each figure stands beside the raw
engine's figure of the same run: ratios transfer between machines, times do not.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: bench.Names(),
	}
	turns := cmd.Flags().Int("turns", 0, "turns to measure with (default: the benchmark's own)")
	duration := cmd.Flags().Duration("duration", 0, "how long `agents` work, as in 10s (default 5m)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		res, err := bench.Run(a.ctx, args[0], bench.Options{Turns: *turns, Duration: *duration, Log: a.logger(slog.LevelWarn), Progress: func(text string) {
			if !a.json {
				fmt.Fprintln(a.err, text)
			}
		}})
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(res)
		}
		fmt.Fprint(a.out, res.Text())
		return nil
	}
	return cmd
}
