package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/mapper"
	"lcm/internal/problem"
)

func (a *app) mapCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "map",
		Short: "One prompt over every row of a file, outside any context",
		Long: `A map asks a model once per row of a JSONL file and checks each answer against a
JSON Schema. The engine iterates, retries with what was wrong, and keeps every
result in the log: a job that is interrupted goes on where it was.

The model is that of [map] in lcm.toml (kind, base_url, model, key_env), else
the summarizer's.`,
		Example: `  lcm map run mails.jsonl --prompt 'Is this spam? {{subject}}: {{text}}' \
    --schema '{"type":"object","properties":{"label":{"enum":["ham","spam"]}},"required":["label"]}'
  lcm map aggregate JOB --count-by label
  lcm map output JOB --to labels.jsonl`,
	}
	cmd.AddCommand(a.mapRunCmd(), a.mapStatusCmd(), a.mapWatchCmd(), a.mapOutputCmd(), a.mapRetryCmd(), a.mapCancelCmd(), a.mapListCmd(), a.mapAggregateCmd())
	return cmd
}

// mapLimits are the flags that a run and a retry share.
func mapLimits(cmd *cobra.Command, in *api.MapRetryIn) {
	f := cmd.Flags()
	f.IntVar(&in.Concurrency, "concurrency", 0, "rows worked on at once (default 16)")
	f.IntVar(&in.Batch, "batch", 0, "rows asked for in one call; those whose answer is wrong are asked for again (default 1)")
	f.IntVar(&in.Attempts, "attempts", 0, "attempts at a row (default 3)")
	f.IntVar(&in.TimeoutSeconds, "timeout", 0, "seconds one attempt may take (default 120)")
	f.IntVar(&in.MaxOutputTokens, "max-output-tokens", 0, "tokens of the answer to one row (default 1024)")
	f.Float64Var(&in.RowsPerSecond, "rate", 0, "rows a second at most (default no limit)")
	f.IntVar(&in.MaxTokens, "max-tokens", 0, "tokens the whole job may take, in and out (default no limit)")
	f.Float64Var(&in.MaxCost, "max-cost", 0, "what the whole job may cost, by map.input_price and map.output_price")
}

func (a *app) mapRunCmd() *cobra.Command {
	var in api.MapAgentIn
	var limits api.MapRetryIn
	var schema, promptFile, output string
	var agentic, detach bool
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Ask the model once per row of a JSONL file (- = standard input)",
		Long: `Ask the model once per row of a JSONL file. {{field}} in the prompt stands for a
field of the row, {{a.b}} for one inside it; without any the whole row follows.

It waits for the end, and prints a summary; --detach leaves the job to the
running server. --output gets a line per row, in the order of the input, whole
or not at all: {"row", "ok", "result" or "error", "attempts"}. Exit code 4: some
rows failed; ` + "`lcm map retry JOB`" + ` does them again.

--agentic gives each row to a sub-agent with tools over the sessions and nodes
that are named, and those of the MCP servers in [[map.mcp]]; without --may-write
only tools that say they change nothing. --depth lets it begin maps of its own.`,
		Example: `  lcm map run mails.jsonl --prompt 'Spam? {{text}}' --schema @schema.json --output labels.jsonl
  zcat big.gz | lcm map run - --prompt-file ask.txt --schema @schema.json --concurrency 64 --max-cost 20
  lcm map run questions.jsonl --agentic --session chat --prompt 'Answer: {{q}}' --schema @answer.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := mapTexts(&in.MapRunIn, schema, promptFile); err != nil {
				return err
			}
			if !agentic && len(in.Sessions)+len(in.Nodes) > 0 {
				return problem.New(problem.Invalid, "--session and --node are what sub-agents may reach").WithHint("add --agentic")
			}
			if output != "" {
				if _, err := os.Lstat(output); err == nil {
					return problem.New(problem.Conflict, "output %s exists", output).WithHint("name a new file: nothing is overwritten")
				}
			}
			in.Scope = a.mapScope()
			in.Concurrency, in.Batch, in.Attempts, in.TimeoutSeconds, in.MaxOutputTokens = limits.Concurrency, limits.Batch, limits.Attempts, limits.TimeoutSeconds, limits.MaxOutputTokens
			in.RowsPerSecond, in.MaxTokens, in.MaxCost = limits.RowsPerSecond, limits.MaxTokens, limits.MaxCost
			a.works = true
			return a.with(func(ctx context.Context, c *client.Client) error {
				job, err := a.beginMap(ctx, c, args[0], agentic, in)
				if err != nil || detach {
					return errors.Join(err, a.printMap(job))
				}
				return a.followMap(ctx, c, job.Job, output)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Prompt, "prompt", "", "the prompt")
	f.StringVar(&promptFile, "prompt-file", "", "a file that holds it")
	f.StringVar(&schema, "schema", "", "JSON Schema of a row's result, or @FILE")
	f.StringVar(&output, "output", "", "a new file for the results")
	f.StringVar(&in.Model, "model", "", "another model of the configured provider")
	f.BoolVar(&in.NoDedupe, "no-dedupe", false, "ask for every row, also for equal ones")
	f.BoolVar(&detach, "detach", false, "print the job and leave it to the server")
	f.BoolVar(&agentic, "agentic", false, "give each row to a sub-agent with tools")
	f.StringArrayVar(&in.Sessions, "session", nil, "a session the sub-agents may reach; may be given again")
	f.StringArrayVar(&in.Nodes, "node", nil, "a summary they may reach, SESSION/n12; may be given again")
	f.BoolVar(&in.MayWrite, "may-write", false, "also tools that change something")
	f.IntVar(&in.Depth, "depth", 0, "generations of maps that sub-agents may begin (default none)")
	f.IntVar(&in.MaxTurns, "max-turns", 0, "calls of the model for one row (default 20)")
	f.IntVar(&in.RowTokens, "row-tokens", 0, "tokens one sub-agent may take, in and out (default 200000)")
	mapLimits(cmd, &limits)
	return cmd
}

// mapTexts reads prompt and schema from where they are.
func mapTexts(in *api.MapRunIn, schema, promptFile string) error {
	if promptFile != "" {
		b, err := os.ReadFile(promptFile)
		if err != nil {
			return problem.New(problem.NotFound, "%w", err)
		}
		in.Prompt = string(b)
	}
	if in.Prompt == "" || schema == "" {
		return problem.New(problem.Invalid, "a map needs --prompt and --schema").WithHint("see `lcm map run --help`")
	}
	if schema[0] == '@' {
		b, err := os.ReadFile(schema[1:])
		if err != nil {
			return problem.New(problem.NotFound, "%w", err)
		}
		schema = string(b)
	}
	if !json.Valid([]byte(schema)) {
		return problem.New(problem.Invalid, "--schema is not JSON").WithHint("write @FILE for a file")
	}
	in.OutputSchema = json.RawMessage(schema)
	return nil
}

func (a *app) mapScope() api.Scope { return api.Scope{Tenant: a.cfg.Tenant} }

// beginMap sends the file and begins the job.
func (a *app) beginMap(ctx context.Context, c *client.Client, file string, agentic bool, in api.MapAgentIn) (*api.MapOut, error) {
	src := a.in
	if in.Name = file; file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, problem.New(problem.NotFound, "%w", err)
		}
		defer f.Close()
		src = f
	}
	up, err := c.MapUpload(ctx, in.Scope, src)
	if err != nil {
		return nil, err
	}
	in.InputObject = up.Object
	out := new(api.MapOut)
	if agentic {
		err = c.Call(ctx, "agentic_map", in, out)
	} else {
		err = c.Call(ctx, "llm_map", in.MapRunIn, out)
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(a.err, "job %s: %d rows\n", out.Job, out.Rows)
	return out, nil
}

// followMap shows a job's progress to its end, and what came of it.
func (a *app) followMap(ctx context.Context, c *client.Client, job, output string) error {
	at, end := a.mapProgress()
	out, err := c.WatchMap(ctx, api.MapIn{Scope: a.mapScope(), Job: job}, at)
	end()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(a.err, "job %s is kept: `lcm map watch %s` goes on with it\n", job, job)
		}
		return err
	}
	if output != "" && out.Pending == 0 {
		if err := a.writeMap(ctx, c, job, output); err != nil {
			return err
		}
		out.Output = output
	}
	if err := a.printMap(out); err != nil {
		return err
	}
	if out.Failed > 0 || out.Pending > 0 || out.OutputError != "" {
		return exitCode(problem.ExitDegraded)
	}
	return nil
}

// mapProgress draws a job's progress: a bar on a terminal, else a line now and
// then.
func (a *app) mapProgress() (at func(api.MapOut), end func()) {
	line := func(o api.MapOut) string {
		s := fmt.Sprintf("%d of %d rows, %d failed, %.0f/s", o.OK+o.Failed, o.Rows, o.Failed, o.RowsPerSecond)
		if o.SecondsLeft > 0 {
			s += ", " + time.Duration(o.SecondsLeft*float64(time.Second)).Round(time.Second).String() + " left"
		}
		if o.Paused != "" {
			s += ", paused: " + oneLine(o.Paused)
		}
		return visible(s)
	}
	if !a.terminal() {
		last := time.Now()
		return func(o api.MapOut) {
			if now := time.Now(); now.Sub(last) >= 10*time.Second {
				last = now
				fmt.Fprintln(a.err, line(o))
			}
		}, func() {}
	}
	const width = 24
	return func(o api.MapOut) {
			full := 0
			if o.Rows > 0 {
				full = int(width * (o.OK + o.Failed) / o.Rows)
			}
			fmt.Fprintf(a.err, "\r\x1b[K[%-*s] %s", width, stars[:full], line(o))
		}, func() {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
}

const stars = "########################"

// writeMap writes a job's whole output to a new file.
func (a *app) writeMap(ctx context.Context, c *client.Client, job, path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return problem.New(problem.NotFound, "output %s: %w", path, err)
	}
	defer root.Close()
	return mapper.WriteWhole(root, filepath.Base(path), func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return a.mapRows(ctx, c, api.MapOutputIn{Scope: a.mapScope(), Job: job}, true, func(r api.MapRow) error { return enc.Encode(r) })
	})
}

// mapRows reads every page of a job's output. whole: every row must be there.
func (a *app) mapRows(ctx context.Context, c *client.Client, in api.MapOutputIn, whole bool, each func(api.MapRow) error) error {
	in.Limit = 1000
	next := uint64(1)
	for {
		var page api.MapOutputOut
		if err := c.Call(ctx, "map-output", in, &page); err != nil {
			return err
		}
		if whole && !page.Whole {
			return problem.New(problem.Conflict, "map job %s has rows without a result", in.Job).WithHint("wait for it with `lcm map watch %s`", in.Job)
		}
		for _, r := range page.Rows {
			if whole && r.Row != next {
				return problem.New(problem.Damaged, "map job %s: row %d comes where row %d should", in.Job, r.Row, next)
			}
			next++
			if err := each(r); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return nil
		}
		in.After = int(page.Next)
	}
}

func (a *app) printMap(o *api.MapOut) error {
	if o == nil {
		return nil
	}
	if a.json {
		return a.printJSON(o)
	}
	p := a.printer()
	p.f("job      %s  %s", o.Job, o.State)
	if o.Paused != "" {
		p.f(", paused: %s", oneLine(o.Paused))
	}
	p.f("\ninput    %s, %d rows\n", o.Input, o.Rows)
	p.f("rows     %d ok, %d failed, %d pending\n", o.OK, o.Failed, o.Pending)
	for _, k := range slices.Sorted(maps.Keys(o.Kinds)) {
		p.f("         %d %s\n", o.Kinds[k], k)
	}
	p.f("spent    %d calls, %d tokens in, %d out", o.Calls, o.InputTokens, o.OutputTokens)
	if o.Cost > 0 {
		p.f(", cost %.4f", o.Cost)
	}
	p.f("\n")
	switch {
	case o.OutputError != "":
		p.f("output   not written: %s\n", o.OutputError)
	case o.Output != "":
		p.f("output   %s\n", o.Output)
	}
	for _, line := range o.First {
		p.f("  %s\n", line)
	}
	return p.flush()
}

func (a *app) mapStatusCmd() *cobra.Command {
	return &cobra.Command{
		Use: "status JOB", Short: "Counts, failures, tokens and cost of a job", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := call[*api.MapOut](a, "map-status", api.MapIn{Scope: a.mapScope(), Job: args[0]})
			return errors.Join(err, a.printMap(out))
		},
	}
}

func (a *app) mapWatchCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "watch JOB", Short: "Follow a job to its end, and work on it where no server does", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a.works = true
			return a.with(func(ctx context.Context, c *client.Client) error { return a.followMap(ctx, c, args[0], output) })
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "a new file for the results")
	return cmd
}

func (a *app) mapOutputCmd() *cobra.Command {
	in := api.MapOutputIn{}
	var to string
	cmd := &cobra.Command{
		Use: "output JOB", Short: "The results, a line per row in the order of the input, also while the job runs", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.Job = a.mapScope(), args[0]
			return a.with(func(ctx context.Context, c *client.Client) error {
				if to != "" {
					return a.writeMap(ctx, c, in.Job, to)
				}
				return a.mapRows(ctx, c, in, false, func(r api.MapRow) error { return a.printJSON(r) })
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "a new file, written whole or not at all")
	cmd.Flags().BoolVar(&in.Failed, "failed", false, "only rows that failed")
	cmd.MarkFlagsMutuallyExclusive("to", "failed")
	return cmd
}

func (a *app) mapRetryCmd() *cobra.Command {
	var in api.MapRetryIn
	var output string
	var detach bool
	cmd := &cobra.Command{
		Use: "retry JOB", Short: "Work again on the rows that failed or were never begun", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.Job = a.mapScope(), args[0]
			a.works = true
			return a.with(func(ctx context.Context, c *client.Client) error {
				var out api.MapOut
				if err := c.Call(ctx, "map-retry", in, &out); err != nil {
					return err
				}
				if detach {
					return a.printMap(&out)
				}
				return a.followMap(ctx, c, in.Job, output)
			})
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "a new file for the results")
	cmd.Flags().BoolVar(&detach, "detach", false, "leave the job to the server")
	mapLimits(cmd, &in)
	return cmd
}

func (a *app) mapCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use: "cancel JOB", Short: "Stop a job; what it has is kept", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := call[*api.MapOut](a, "map-cancel", api.MapIn{Scope: a.mapScope(), Job: args[0]})
			return errors.Join(err, a.printMap(out))
		},
	}
}

func (a *app) mapListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Jobs, newest first", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			out, err := call[api.MapListOut](a, "map-list", api.MapListIn{Scope: a.mapScope()})
			if err != nil {
				return err
			}
			p := a.printer()
			for _, j := range out.Jobs {
				if a.json {
					if err := a.printJSON(j); err != nil {
						return err
					}
					continue
				}
				p.f("%s  %-9s %8d rows %8d ok %6d failed %8d pending  %s\n", j.Job, j.State, j.Rows, j.OK, j.Failed, j.Pending, j.Input)
			}
			return p.flush()
		},
	}
}

func (a *app) mapAggregateCmd() *cobra.Command {
	var in api.MapAggregateIn
	cmd := &cobra.Command{
		Use: "aggregate JOB", Short: "Count and measure the results by code", Args: cobra.ExactArgs(1),
		Long: `Count and measure the results of a job by code: exact, and the same whenever it
is asked. Fields are those of the result; row.FIELD is one of the input, and
[0:7] behind a field takes a part of a text: row.date[0:7] is the month.`,
		Example: `  lcm map aggregate JOB --count-by label
  lcm map aggregate JOB --count-by row.user --count-by label --where 'row.date^=2024-03'
  lcm map aggregate JOB --count-by row.date[0:7] --measure most:label --measure mean:score`,
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.Job = a.mapScope(), args[0]
			out, err := callLong[api.MapAggregateOut](a, "counting", "map-aggregate", in)
			if err != nil {
				return err
			}
			return a.printAggregate(out)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&in.By, "count-by", nil, "group by this field; may be given again")
	f.StringArrayVar(&in.Measures, "measure", nil, "sum:F, mean:F, min:F, max:F, most:F, least:F; may be given again")
	f.StringArrayVar(&in.Where, "where", nil, "F=V, F!=V, F>V, F>=V, F<V, F<=V, F^=V (begins with), F~=V (contains); all must hold")
	f.IntVar(&in.Limit, "limit", 0, "groups to print (default 100)")
	return cmd
}

func (a *app) printAggregate(out api.MapAggregateOut) error {
	if a.json {
		return a.printJSON(out)
	}
	p := a.printer()
	for _, g := range out.Groups {
		p.f("%10d", g.Count)
		for _, b := range g.By {
			p.f("  %s", b)
		}
		for i, v := range g.Values {
			b, err := json.Marshal(v)
			if err != nil {
				return err
			}
			p.f("  %s=%s", out.Measures[i], b)
		}
		p.f("\n")
	}
	p.f("%10d counted", out.Counted)
	for _, more := range []struct {
		n    uint64
		what string
	}{{out.Skipped, "without the field"}, {out.Failed, "failed"}, {out.Pending, "pending"}, {uint64(out.More), "more groups"}} {
		if more.n > 0 {
			p.f(", %d %s", more.n, more.what)
		}
	}
	p.f("\n")
	return p.flush()
}
