package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lcm/internal/api"
)

func (a *app) grantCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "grant",
		Short: "Hand on a part of what may be read: mint and revoke grants",
		Long: `A grant is a token that opens some sessions or summaries to a sub-agent, with
some tools, for some tokens and some time. A grant narrowed from a grant spends
the tokens of both, and ends with it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.grantMintCmd(), a.grantRevokeCmd())
	return cmd
}

func (a *app) grantMintCmd() *cobra.Command {
	in := api.GrantIn{}
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Mint a grant and print its token",
		Example: `  lcm grant mint --node chat/n12 --tokens 4000
  lcm grant mint --session chat --tool grep --tool expand --ttl 1h --depth 1
  lcm grant mint --from TOKEN --node chat/n3 --delegated-scope "find the cause" --kept-work "fix it"`,
		Args: cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			from := in.Grant
			in.Scope = a.scope("")
			in.Grant, in.TTLSeconds = from, int(ttl/time.Second)
			out, err := call[api.GrantOut](a, "grant", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			p.f("%s\n", out.Grant)
			_ = p.flush()
			e := a.printer()
			e.w.Reset(a.err) // the token alone on stdout
			e.f("grant %s: %s of %s, %d tokens, until %s\n", out.ID, strings.Join(out.Tools, ", "),
				strings.Join(append(out.Sessions, out.Nodes...), ", "), out.Tokens, out.Expires.Format(time.RFC3339))
			return e.flush()
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&in.Sessions, "session", nil, "a session, as a whole; repeatable")
	f.StringArrayVar(&in.Nodes, "node", nil, "a summary and what lies below it, as SESSION/n12; repeatable")
	f.StringArrayVar(&in.Tools, "tool", nil, "a tool; repeatable (default describe, expand, grep)")
	f.IntVar(&in.Tokens, "tokens", 0, "tokens that answers may hold in all (default 4000)")
	f.DurationVar(&ttl, "ttl", 0, "how long it holds, at most 24h (default 10m)")
	f.IntVar(&in.Depth, "depth", 0, "generations that may descend from it, at most 4")
	f.StringVar(&in.Grant, "from", "", "narrow this grant, in place of minting a new one")
	f.StringVar(&in.DelegatedScope, "delegated-scope", "", "with --from: what is handed on")
	f.StringVar(&in.KeptWork, "kept-work", "", "with --from: what is kept")
	return cmd
}

func (a *app) grantRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a grant and all that descend from it",
		Example: "  lcm grant revoke 01K9Z7Q4T2M8N6B5V3C1X0W9Y8",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := call[api.RevokeOut](a, "grant-revoke", api.RevokeIn{Scope: a.scope(""), ID: args[0]})
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			p.f("%d grants revoked\n", out.Revoked)
			return p.flush()
		},
	}
}
