package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/backup"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// withLog runs f against what needs the log alone, however damaged it is.
func (a *app) withLog(f func(ctx context.Context, c *client.Client) error) error {
	c, done, err := node.ConnectLog(a.ctx, a.cfg, a.logger(slog.LevelError), version)
	if err != nil {
		return err
	}
	return errors.Join(f(a.ctx, c), done())
}

// bar draws progress over positions on a terminal; end removes it.
func (a *app) bar(what string) (at func(seq, last uint64), end func()) {
	if !a.terminal() {
		return func(uint64, uint64) {}, func() {}
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.err), progressbar.OptionSetDescription(what),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("events"), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	return func(seq, last uint64) {
			bar.ChangeMax64(int64(last))
			_ = bar.Set64(int64(min(seq, last))) // only drawing
		}, func() {
			_ = bar.Finish()
		}
}

func (a *app) verifyCmd() *cobra.Command {
	var in api.VerifyIn
	cmd := &cobra.Command{
		Use: "verify", Short: "Read the whole log and check every position and chain", Args: cobra.NoArgs,
		Long: `Read every event of the log, check that no position is missing, and that on each
session's subjects versions are contiguous and every event carries the hash of
the one before it. Every damaged or missing position is named. It works on a log
that is too damaged to be served. Exit code 4: something is wrong.`,
		Example: "  lcm verify\n  lcm verify --json | jq '.faults[]'",
		RunE: func(*cobra.Command, []string) error {
			var r *api.VerifyReply
			err := a.withLog(func(ctx context.Context, c *client.Client) (err error) {
				at, end := a.bar("verifying")
				defer end()
				r, err = client.Stream[api.VerifyProgress, api.VerifyReply](ctx, c, "verify", in, func(p api.VerifyProgress) { at(p.Seq, p.Last) })
				return err
			})
			if err != nil {
				return err
			}
			return a.printVerify(r)
		},
	}
	cmd.Flags().IntVar(&in.Limit, "limit", 0, "list at most this many faults; all are counted (default 1,000)")
	return cmd
}

func (a *app) printVerify(r *api.VerifyReply) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		p := a.printer()
		for _, f := range r.Faults {
			p.f("position %d", f.Seq)
			if f.Session != "" {
				p.f("  session %s", f.Session)
				if f.Tenant != a.cfg.Tenant {
					p.f(" of tenant %s", f.Tenant)
				}
			}
			if f.Version > 0 {
				p.f("  %s version %d", f.Lane, f.Version)
			}
			p.f("  %s: %s", f.Kind, f.Reason)
			if f.Behind > 0 {
				p.f("; %d later events link to it", f.Behind)
			}
			p.f("\n")
		}
		if r.More > 0 {
			p.f("and %d more\n", r.More)
		}
		p.f("log %s: %d events of %d sessions in %.2f s (%.0f a second), positions 1 to %d\n",
			r.Epoch, r.Events, r.Sessions, r.Seconds, float64(r.Events)/max(r.Seconds, 1e-9), r.Last)
		if r.Lost > 0 {
			p.f("%d positions could not be recovered by a restore or repair and are LOST\n", r.Lost)
		}
		if r.OK {
			p.f("every event is there and links to the one before it\n")
		} else {
			p.f("%d positions are MISSING, %d events are BROKEN\n", r.Missing, r.Broken)
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

func (a *app) backupCmd() *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use: "backup DIR", Short: "Copy the log, the inbox and the dead letters into checksummed segments", Args: cobra.ExactArgs(1),
		Long: `Write an independent copy into DIR: files that describe themselves and can be read
without NATS. The next run into the same DIR adds what came since; one that was
interrupted goes on behind the last whole segment. It runs beside a server.`,
		Example: "  lcm backup /mnt/copy\n  lcm backup --check /mnt/copy",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := backup.OpenDir(args[0], !check)
			if err != nil {
				return err
			}
			if check {
				defer a.busy("reading the backup")()
				s, err := dir.Check(a.ctx)
				if err != nil {
					return err
				}
				return a.printBackup(s, "holds")
			}
			next, err := dir.Next()
			if err != nil {
				return err
			}
			var s backup.Summary
			err = a.withLog(func(ctx context.Context, c *client.Client) error {
				stream, err := c.Export(ctx, next)
				if err != nil {
					return err
				}
				defer stream.Close()
				at, end := a.bar("copying")
				defer end()
				s, err = dir.Receive(ctx, stream, func(p backup.Progress) { at(p.Seq, p.Until) })
				return err
			})
			if err != nil {
				return err
			}
			s.Last, s.Whole = max(s.Last, uint64(next.After)), true
			return a.printBackup(s, "added")
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "read the backup in DIR and compare it with its checksums")
	return cmd
}

func (a *app) printBackup(s backup.Summary, verb string) error {
	if a.json {
		if err := a.printJSON(s); err != nil {
			return err
		}
	} else {
		n := s.Added
		if verb == "holds" {
			n = s.Events
		}
		fmt.Fprintf(a.out, "%s: log %s up to position %d; %s %d events in %d segments; %d inbox messages, %d dead letters, %d events of map jobs\n",
			s.Dir, s.Epoch, s.Last, verb, n, s.Segments, s.Inbox, s.Dead, s.Jobs)
		if !s.Whole {
			fmt.Fprintln(a.out, "the last backup was interrupted: run `lcm backup` again")
		}
		if s.Lost > 0 {
			fmt.Fprintf(a.out, "%d positions could not be read: `lcm verify` names them\n", s.Lost)
		}
	}
	if s.Lost > 0 {
		return exitCode(problem.ExitDegraded)
	}
	return nil
}

func (a *app) restoreCmd() *cobra.Command {
	return &cobra.Command{
		Use: "restore DIR", Short: "Make a store anew from a backup", Args: cobra.ExactArgs(1),
		Long: `Check the backup in DIR and write it into an empty data directory, or an empty
external server, as a new log with a new epoch and the same positions.
Projections are made from it when it is first opened.`,
		Example: "  lcm restore /mnt/copy --data-dir /var/lib/lcm-new",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := backup.OpenDir(args[0], false)
			if err != nil {
				return err
			}
			at, end := a.bar("restoring")
			s, err := node.Restore(a.ctx, a.cfg, dir, a.logger(slog.LevelError), func(p backup.Progress) { at(p.Seq, p.Until) })
			end()
			if err != nil {
				return err
			}
			return a.printBackup(s, "holds")
		},
	}
}

// repairLog makes a damaged log anew, with a backup.
func (a *app) repairLog(from string) error {
	dir, err := backup.OpenDir(from, false)
	if err != nil {
		return err
	}
	at, end := a.bar("repairing")
	r, kept, err := node.Repair(a.ctx, a.cfg, dir, a.logger(slog.LevelError), func(p backup.Progress) { at(p.Seq, p.Until) })
	end()
	if err != nil {
		return err
	}
	out := report{OK: r.Lost == 0, Repair: &r}
	add := func(name string, ok bool, format string, args ...any) {
		out.Checks = append(out.Checks, api.Check{Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case !r.Needed:
		add("log", true, "all %d positions are in the log as they are in the backup: nothing to repair", r.Last)
	case r.Last > 0:
		add("log", r.Lost == 0, "%d positions: %d of the log, %d of the backup, %d lost", r.Last, r.FromLog, r.FromBackup, r.Lost)
	}
	for _, seq := range r.LostAt {
		add("lost", false, "position %d is neither in the log nor in the backup", seq)
	}
	for _, n := range r.Notes {
		add("note", true, "%s", n)
	}
	if kept != "" {
		add("damaged log", true, "kept in %s; projections are made anew at the next start", kept)
	}
	return a.printReport(out)
}
