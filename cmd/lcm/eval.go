package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"lcm/internal/eval"
	"lcm/internal/problem"
)

func (a *app) evalCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "eval", Short: "Measure answers against a set whose right answers are known"}
	cmd.AddCommand(a.evalRecallCmd(), a.evalAggregateCmd())
	return cmd
}

func (a *app) evalRecallCmd() *cobra.Command {
	var first, last int
	cmd := &cobra.Command{
		Use:   "recall FILE",
		Short: "Evidence recall of search by relevance",
		Long: `Evidence recall of search by relevance, by kind of question. Each line of the
file is a conversation, which is imported into a fresh temporary directory and
asked its questions:

  {"chat", "messages": [{"id", "role", "content"}], "questions": [{"kind", "question", "evidence": [id]}]}

Recall at k is the part of a question's evidence among the first k messages
found, averaged over questions, in per cent.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return problem.New(problem.NotFound, "%w", err)
			}
			defer f.Close()
			chats, err := eval.ReadChats(f)
			if err != nil {
				return err
			}
			if chats, err = slice(chats, first, last); err != nil {
				return err
			}
			rows, err := eval.MeasureRecall(a.ctx, chats, eval.Options{Log: a.logger(slog.LevelWarn), Progress: func(format string, args ...any) {
				if !a.json {
					fmt.Fprintf(a.err, format+"\n", args...)
				}
			}})
			if err != nil {
				return err
			}
			return a.printRecall(rows)
		},
	}
	cmd.Flags().IntVar(&first, "first", 1, "first chat of the file to take")
	cmd.Flags().IntVar(&last, "last", 0, "last chat of the file to take, 0 = all")
	return cmd
}

func slice(chats []eval.Chat, first, last int) ([]eval.Chat, error) {
	if last == 0 {
		last = len(chats)
	}
	if first < 1 || first > last || last > len(chats) {
		return nil, problem.New(problem.Invalid, "chats %d to %d of a file of %d", first, last, len(chats))
	}
	return chats[first-1 : last], nil
}

func (a *app) printRecall(rows []eval.Recall) error {
	p := a.printer()
	if !a.json {
		p.f("%-28s %9s %6s %6s %6s %6s\n", "KIND", "QUESTIONS", "R@5", "R@10", "R@20", "R@50")
	}
	for _, r := range rows {
		if a.json {
			if err := a.printJSON(r); err != nil {
				return err
			}
			continue
		}
		p.f("%-28s %9d %6.1f %6.1f %6.1f %6.1f\n", r.Kind, r.Questions, r.At5, r.At10, r.At20, r.At50)
	}
	return p.flush()
}
