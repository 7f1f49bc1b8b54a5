package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func (a *app) importCmd() *cobra.Command {
	var session, format string
	cmd := &cobra.Command{
		Use:   "import FILE…",
		Short: "Import transcripts: Claude Code, Pi, OpenAI, Anthropic, Codex, plain",
		Long: `Import transcripts. A file becomes the session of its base name; further
conversations in it become sessions of their own. What is known already is
recognised: importing a file again appends nothing. Lines that are broken are
kept as dead letters (lcm dead list).`,
		Example: `  lcm import ~/.claude/projects/x/4f0c….jsonl
  lcm import --session support-42 --format openai chat.json
  lcm import --json *.jsonl`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			return a.with(func(ctx context.Context, c *client.Client) error {
				for _, file := range files {
					in := api.ImportIn{Scope: api.Scope{Tenant: a.cfg.Tenant, Session: session}, File: file, Format: format}
					if err := a.importFile(ctx, c, in); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "name of the session (default: the file's base name)")
	cmd.Flags().StringVar(&format, "format", "auto", "auto, claude-code, pi, openai, anthropic, codex, plain, lcm")
	return cmd
}

func (a *app) importFile(ctx context.Context, c *client.Client, in api.ImportIn) error {
	f, size, err := openFile(in.File)
	if err != nil {
		return err
	}
	defer f.Close()
	var progress func(api.ImportProgress)
	if a.terminal() {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(a.err), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription(in.File), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		progress = func(p api.ImportProgress) { _ = bar.Set64(min(p.Bytes, size)) }
		defer bar.Finish() //nolint:errcheck // only drawing
	}
	in.File = strings.ToValidUTF8(in.File, "\uFFFD") // a name for reports from here on
	reports, err := c.Import(ctx, in, f, progress)
	for _, r := range reports {
		if perr := a.printImport(r); perr != nil {
			return perr
		}
	}
	return err
}

// openFile opens a regular file, and says what else it is if it is not one.
func openFile(name string) (*os.File, int64, error) {
	st, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, problem.New(problem.NotFound, "there is no file %s", name)
	case err != nil:
		return nil, 0, problem.New(problem.Invalid, "%w", err)
	case st.IsDir():
		return nil, 0, problem.New(problem.Invalid, "%s is a directory", name).WithHint("name the files in it: lcm import %s/*", strings.TrimRight(name, "/"))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, problem.New(problem.Invalid, "%w", err)
	}
	return f, st.Size(), nil
}

func (a *app) printImport(r api.ImportReport) error {
	if r.Skipped == nil {
		r.Skipped = map[string]int{}
	}
	if a.json {
		return a.printJSON(r)
	}
	p := a.printer()
	p.f("%s  %s: %d turns, %d appended, %d known already", name(r.Session), r.Format, r.Turns, r.Appended, r.Duplicates)
	if r.Facts > 0 {
		p.f(", %d facts", r.Facts)
	}
	if n := sum(r.Skipped); n > 0 {
		p.f(", %d records skipped (%s)", n, kinds(r.Skipped))
	}
	if r.Rejected > 0 {
		p.f(", %d REJECTED (lcm dead list)", r.Rejected)
	}
	p.f("\n")
	for _, text := range r.Problems {
		p.f("  %s\n", text)
	}
	return p.flush()
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func kinds(m map[string]int) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	sort.Strings(names)
	for i, k := range names {
		names[i] = fmt.Sprintf("%s %d", k, m[k])
	}
	return strings.Join(names, ", ")
}

func (a *app) appendCmd() *cobra.Command {
	var format, usage string
	cmd := &cobra.Command{
		Use:   "append SESSION",
		Short: "Append turns from stdin, as JSON lines",
		Long: `Append turns, one JSON object a line. When the command prints a turn, it is
durable. A turn with an id can be sent again: it is recognised. Without an id
it cannot be told from an equal one. A turn follows the newest one, or the one
whose id it names as its parent: a branch begins there.`,
		Example: `  echo '{"role":"user","content":"hello"}' | lcm append chat
  echo '{"id":"m1","role":"user","content":"hello"}' | lcm append chat --json
  echo '{"id":"m9","parent":"m1","role":"user","content":"another way"}' | lcm append chat
  lcm append chat --usage 81000:90500 < answer.jsonl    what the context call counted, and the model`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			reported, err := parseUsage(usage)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(a.in)
			if err != nil {
				return problem.New(problem.Invalid, "reading stdin: %w", err)
			}
			var out *api.AppendOut
			err = a.with(func(ctx context.Context, c *client.Client) (err error) {
				scope := api.Scope{Tenant: a.cfg.Tenant, Session: args[0]}
				if out, err = c.AppendBody(ctx, api.AppendIn{Scope: scope, Format: format}, body); err != nil || reported == nil {
					return err
				}
				_, err = c.Configure(ctx, api.ConfigureIn{Scope: scope, Usage: reported})
				return err
			})
			if err != nil {
				return err
			}
			return a.printAppended(out)
		},
	}
	cmd.Flags().StringVar(&format, "format", "auto", "auto, lcm, openai, anthropic, plain, claude-code, pi, codex")
	usageFlag(cmd, &usage)
	return cmd
}

func usageFlag(cmd *cobra.Command, usage *string) {
	cmd.Flags().StringVar(usage, "usage", "", "COUNTED:REPORTED input tokens of one model call: ours and the model's; moves token_factor")
}

// parseUsage reads COUNTED:REPORTED, nil where nothing is given.
func parseUsage(text string) (*api.Usage, error) {
	if text == "" {
		return nil, nil
	}
	counted, reported, _ := strings.Cut(text, ":")
	var u api.Usage
	var err1, err2 error
	u.Counted, err1 = strconv.Atoi(counted)
	u.Reported, err2 = strconv.Atoi(reported)
	if err1 != nil || err2 != nil || u.Counted <= 0 || u.Reported <= 0 {
		return nil, problem.New(problem.Invalid, "--usage %q is not COUNTED:REPORTED, two positive numbers of tokens", text)
	}
	return &u, nil
}

func (a *app) printAppended(out *api.AppendOut) error {
	p := a.printer()
	refused := 0
	for _, t := range out.Turns {
		switch {
		case a.json:
			if err := a.printJSON(t); err != nil {
				return err
			}
		case t.Error != "":
			p.f("refused  %s  %s\n", t.ID, t.Error)
		case t.Duplicate:
			p.f("%s  %s  known already\n", t.Entry, t.ID)
		default:
			p.f("%s  %s\n", t.Entry, t.ID)
		}
		if t.Error != "" {
			refused++
		}
	}
	if err := p.flush(); err != nil || refused == 0 {
		return err
	}
	fmt.Fprintf(a.err, "lcm: %d of %d turns were refused\n", refused, len(out.Turns))
	return exitCode(problem.ExitFailed)
}

func (a *app) moveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "move SESSION ENTRY",
		Short: "Make another turn the leaf: go back, or to another branch",
		Long: `Make another turn the leaf of a session: the next turn follows it. Turns that
are not on the way to it leave the context, and are kept; moving back brings
them back. A turn is named as an entry or by its id.`,
		Example: `  lcm move chat e12
  lcm move chat m7 --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := call[api.MoveOut](a, "move", api.MoveIn{Scope: a.scope(args[0]), To: args[1]})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			p.f("session %s: the leaf is %s\n", name(out.Session), out.Leaf)
			return p.flush()
		},
	}
}

func (a *app) configureCmd() *cobra.Command {
	var window, overhead int
	var set []string
	var usage string
	cmd := &cobra.Command{
		Use:   "configure SESSION",
		Short: "Show or change the settings of a session",
		Example: `  lcm configure chat                                 show them
  lcm configure chat --window 32000 --overhead 4000
  lcm configure chat --set fresh_tail_count=16 --set context_threshold=0.6`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := api.ConfigureIn{Scope: a.scope(args[0])}
			var err error
			if in.Set, err = settings(set); err != nil {
				return err
			}
			if in.Usage, err = parseUsage(usage); err != nil {
				return err
			}
			if cmd.Flags().Changed("window") {
				in.Set["window"] = window
			}
			if cmd.Flags().Changed("overhead") {
				in.Set["overhead"] = overhead
			}
			tool := "configure"
			var params any = in
			if len(in.Set) == 0 && in.Usage == nil {
				tool, params = "settings", api.StatusIn{Scope: in.Scope}
			}
			out, err := call[api.ConfigureOut](a, tool, params)
			if err != nil {
				return err
			}
			return a.printSettings(out)
		},
	}
	cmd.Flags().IntVar(&window, "window", 0, "the model's context window, tokens")
	cmd.Flags().IntVar(&overhead, "overhead", 0, "system prompt and tools outside the session, tokens")
	cmd.Flags().StringArrayVar(&set, "set", nil, "setting=value, repeatable")
	usageFlag(cmd, &usage)
	return cmd
}

// settings reads setting=value pairs by the types of the settings; what there
// is no setting for is the server's to refuse.
func settings(pairs []string) (map[string]any, error) {
	kinds := map[string]reflect.Kind{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[events.Settings]()) {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kinds[key] = f.Type.Kind()
	}
	out := map[string]any{}
	for _, kv := range pairs {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, problem.New(problem.Invalid, "--set %q is not setting=value", kv)
		}
		switch kinds[k] {
		case reflect.Int:
			n, err := strconv.Atoi(v)
			if f, ferr := strconv.ParseFloat(v, 64); err != nil && ferr == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				n, err = int(f), nil // 2e5
			}
			if err != nil {
				return nil, problem.New(problem.Invalid, "setting %s: %q is no whole number", k, v)
			}
			out[k] = n
		case reflect.Float64:
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, problem.New(problem.Invalid, "setting %s: %q is no number", k, v)
			}
			out[k] = f
		default:
			out[k] = v
		}
	}
	return out, nil
}

func (a *app) printSettings(out api.ConfigureOut) error {
	if a.json {
		return a.printJSON(out)
	}
	s := out.Settings
	p := a.printer()
	p.f("session %s: budget %d tokens (window %d, reserve %d, overhead %d)\n", name(out.Session), out.Budget, s.Window, s.Reserve(), s.Overhead)
	p.f("  context_threshold %v (%d tokens)   cut_target %v   min_cut %v\n", s.ContextThreshold, s.Soft(), s.CutTarget, s.MinCut)
	p.f("  summary_budget %v   recut_threshold %v   recut_target %v\n", s.SummaryBudget, s.RecutThreshold, s.RecutTarget)
	p.f("  fresh_tail_count %d   fresh_tail_max %v   leaf_trigger_tokens %d\n", s.FreshTailCount, s.FreshTailMax, s.LeafTriggerTokens)
	p.f("  leaf_chunk %d (%d..%d)   fanout %d..%d   large_file_chars %d\n", s.LeafChunk(), s.LeafChunkMin, s.LeafChunkMax, s.FanoutMin, s.FanoutMax, s.LargeFileChars)
	set, err := unusual(s)
	if err != nil {
		return err
	}
	for _, line := range set {
		p.f("  set: %s\n", line)
	}
	return p.flush()
}

// unusual names the settings that are not the engine's defaults, with their
// values as JSON.
func unusual(s events.Settings) ([]string, error) {
	var have, usual map[string]json.RawMessage
	for _, side := range []struct {
		of   events.Settings
		into *map[string]json.RawMessage
	}{{s, &have}, {events.DefaultSettings(), &usual}} {
		data, err := json.Marshal(side.of)
		if err == nil {
			err = json.Unmarshal(data, side.into)
		}
		if err != nil {
			return nil, err
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if string(have[key]) != string(usual[key]) {
			out = append(out, fmt.Sprintf("%s = %s", key, have[key]))
		}
	}
	return out, nil
}

func (a *app) condenseCmd() *cobra.Command {
	var window int
	cmd := &cobra.Command{
		Use:   "condense SESSION",
		Short: "Condense a session now",
		Example: `  lcm condense chat
  lcm condense chat --window 32000    configure the window first`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := callLong[api.CondenseOut](a, "condensing "+args[0], "condense", api.CondenseIn{Scope: a.scope(args[0]), Window: window})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			if out.Compacted {
				p.f("%s: %d summaries made, cut %d, context %d -> %d tokens (%s)\n", args[0], out.Nodes, out.Cut, out.TokensBefore, out.TokensAfter, out.Stop)
			} else {
				p.f("%s: nothing to do, context %d tokens (%s)\n", args[0], out.TokensAfter, out.Stop)
			}
			return p.flush()
		},
	}
	cmd.Flags().IntVar(&window, "window", 0, "configure this context window first, tokens")
	return cmd
}

func (a *app) deadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "Refused input: list it, show it, retry it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var session string
	cmd.PersistentFlags().StringVar(&session, "session", "", "only this session's")
	list := &cobra.Command{
		Use: "list [ID]", Short: "List dead letters, or show one with its original bytes", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := api.DeadIn{Scope: a.scope(session)}
			if len(args) == 1 {
				in.ID = args[0]
			}
			return a.listDead(in)
		},
	}
	retry := &cobra.Command{
		Use: "retry [ID]", Short: "Drive dead letters through the append path again", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := api.DeadIn{Scope: a.scope(session)}
			if len(args) == 1 {
				in.ID = args[0]
			}
			out, err := call[api.RetryOut](a, "dead-retry", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			p.f("%d accepted, %d refused again\n", out.Retried, out.Still)
			for _, text := range out.Problems {
				p.f("  %s\n", text)
			}
			return p.flush()
		},
	}
	cmd.AddCommand(list, retry)
	return cmd
}

func (a *app) listDead(in api.DeadIn) error {
	return a.with(func(ctx context.Context, c *client.Client) error {
		for {
			var out api.DeadOut
			if err := c.Call(ctx, "dead", in, &out); err != nil {
				return err
			}
			p := a.printer()
			for _, d := range out.Letters {
				if a.json {
					if err := a.printJSON(d); err != nil {
						return err
					}
					continue
				}
				p.f("%s  %s  %s  %d bytes  %s\n    %s\n", d.ID, name(d.Ref.Session), name(d.Origin), d.Bytes, d.Time, d.Reason)
				if in.ID != "" {
					p.f("%s\n", d.Body)
				}
			}
			if err := p.flush(); err != nil || out.Next == "" {
				return err
			}
			in.After = out.Next
		}
	})
}
