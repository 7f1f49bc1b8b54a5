package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"lcm/internal/eval"
	"lcm/internal/problem"
)

func (a *app) evalAggregateCmd() *cobra.Command {
	var o eval.AggregateOptions
	var configured bool
	cmd := &cobra.Command{
		Use:   "aggregate",
		Short: "Aggregation over far more rows than any context holds",
		Long: `Generate dated rows of many users with hidden labels, and questions about all of
them: counts, the most and least frequent, comparisons, by user, by month. A map
finds the label of every row, one call each; the answers are computed from the
labels by code, and scored: exact, or 0.75^|error| for counts.

The model is an oracle that answers single rows, without a key; --faults makes a
share of its answers malformed, cut off, late, or errors. --configured asks the
model of [map] instead, which costs what it costs.`,
		Example: "  lcm eval aggregate --rows 1000 --seed 1\n  lcm eval aggregate --rows 15000 --faults 0.1",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			o.Log = a.logger(slog.LevelError)
			o.Progress = func(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
			if configured {
				o.Model = &a.cfg
			}
			r, err := eval.MeasureAggregate(a.ctx, o)
			if err != nil {
				return err
			}
			if err := a.printAggregateScores(r); err != nil {
				return err
			}
			if len(r.Wrong) > 0 {
				return exitCode(problem.ExitDegraded)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Rows, "rows", 1000, "rows to generate, about 66 tokens each")
	f.Uint64Var(&o.Seed, "seed", 1, "another seed, another set")
	f.Float64Var(&o.Faults, "faults", 0, "share of the oracle's answers that are bad, 0 to 0.9")
	f.IntVar(&o.Concurrency, "concurrency", 32, "rows worked on at once")
	f.BoolVar(&configured, "configured", false, "ask the configured model instead of the oracle")
	return cmd
}

func (a *app) printAggregateScores(r *eval.AggregateReport) error {
	if a.json {
		return a.printJSON(r)
	}
	p := a.printer()
	p.f("%-10s %9s %6s %7s\n", "KIND", "QUESTIONS", "EXACT", "SCORE")
	for _, k := range r.Kinds {
		p.f("%-10s %9d %6d %7.2f\n", k.Kind, k.Questions, k.Exact, k.Score)
	}
	p.f("%d rows of %d tokens, %d calls, %d bad answers, %d rounds, %.1f s\n", r.Rows, r.Tokens, r.Calls, r.Bad, r.Rounds, r.Elapsed.Seconds())
	for _, w := range r.Wrong {
		p.f("wrong: %s\n", w)
	}
	return p.flush()
}
