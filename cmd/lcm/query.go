package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lcm/internal/api"
)

func (a *app) queryCmd() *cobra.Command {
	in := api.QueryIn{}
	cmd := &cobra.Command{
		Use:   "query PROMPT",
		Short: "Ask what was said: an answer that cites entries, or the passages that fit best",
		Long: `Ask what was said. With a model ([reader] in lcm.toml, else the summarizer's) a
reader in a context of its own describes, opens and searches within the budget,
and answers with the entries it rests on: each of them is there, and within what
was asked about. Without a model, or where it gives no answer, the passages that
fit the question best are shown word for word, and why.`,
		Example: `  lcm query "why did we drop the cache?" --session chat
  lcm query "which port does the proxy take?" --node chat/n12 --max-tokens 400
  lcm query "who broke the build?" --passages`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.Prompt = a.scope(""), args[0]
			out, err := call[api.QueryOut](a, "query", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			if out.Answer != "" {
				p.f("%s\n\n", out.Answer)
			}
			for _, c := range out.Citations {
				p.f("%s/%s  %s\n", name(c.Session), c.Entry, c.Role)
			}
			for _, one := range out.Passages {
				p.f("%s/%s  %s  %s\n%s\n\n", name(one.Session), one.Entry, one.Role, one.Time.Format(time.RFC3339), one.Text)
			}
			if len(out.Dropped) > 0 {
				p.f("not there, or not in what was asked about, and taken out: %s\n", strings.Join(out.Dropped, ", "))
			}
			if out.Answer != "" {
				p.f("%d tokens read in %d turns of %s", out.Explored, out.Calls, out.Model)
			} else {
				p.f("%d passages, %d tokens read", len(out.Passages), out.Explored)
			}
			if out.NoAnswer != "" {
				p.f("; %s", out.NoAnswer)
			}
			if out.Answer == "" && len(out.Passages) == 0 && !out.Truncated {
				p.f(": nothing holds the words of this question; ask with words that were used, or try `lcm grep`")
			}
			if out.Truncated {
				p.f("; not all: %s", out.Why)
			}
			p.f("\n")
			return p.flush()
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&in.Sessions, "session", nil, "only this session, repeatable")
	f.StringVar(&in.Node, "node", "", "only what this node covers, as SESSION/n12")
	f.IntVar(&in.ExploreTokens, "explore-tokens", 0, "tokens read at most, over all sessions, the answer included (default 4000)")
	f.IntVar(&in.MaxTokens, "max-tokens", 0, "tokens of the answer at most (default 800, at most 2000)")
	f.BoolVar(&in.Passages, "passages", false, "the passages themselves: no model is asked")
	return cmd
}
