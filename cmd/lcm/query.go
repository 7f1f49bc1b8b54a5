package main

import (
	"time"

	"github.com/spf13/cobra"

	"lcm/internal/api"
)

func (a *app) queryCmd() *cobra.Command {
	in := api.QueryIn{}
	cmd := &cobra.Command{
		Use:   "query PROMPT",
		Short: "Ask what was said: the passages that fit a question best, word for word",
		Example: `  lcm query "why did we drop the cache?" --session chat
  lcm query "which port does the proxy take?" --node chat/n12 --max-tokens 400`,
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
			for _, one := range out.Passages {
				p.f("%s/%s  %s  %s\n%s\n\n", name(one.Session), one.Entry, one.Role, one.Time.Format(time.RFC3339), one.Text)
			}
			p.f("%d passages, %d tokens read", len(out.Passages), out.Explored)
			if len(out.Passages) == 0 && !out.Truncated {
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
	f.IntVar(&in.ExploreTokens, "explore-tokens", 0, "tokens read at most, over all sessions (default 4000)")
	f.IntVar(&in.MaxTokens, "max-tokens", 0, "tokens of the passages at most (default 800)")
	return cmd
}
