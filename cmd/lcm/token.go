package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lcm/internal/api"
	"lcm/internal/auth"
	"lcm/internal/node"
)

func (a *app) tokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Bearer tokens of a server: add, list, revoke",
		Long: `Bearer tokens let programs call a server that runs with auth.mode = tokens. The
file holds their hashes; what changes in it counts at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tokenAddCmd(), a.tokenListCmd(), a.tokenRevokeCmd())
	return cmd
}

func (a *app) tokens() *auth.Tokens { return auth.NewTokens(node.TokensFile(a.cfg)) }

func (a *app) tokenAddCmd() *cobra.Command {
	var n auth.Token
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a token and print it: it is shown once",
		Example: `  lcm token add ci --tenant acme --scope append --scope read
  lcm token add laptop --operator --ttl 720h`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			n.Name, n.Created = args[0], time.Now().UTC().Truncate(time.Second)
			if !n.Operator {
				n.Tenant = a.cfg.Tenant
			}
			if ttl > 0 {
				n.Expires = n.Created.Add(ttl)
			}
			secret, made, err := a.tokens().Add(n)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"id": made.ID, "token": secret})
			}
			p := a.printer()
			p.f("%s\n", secret)
			return p.flush()
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&n.Scopes, "scope", nil, "what it may do, repeatable: "+strings.Join(api.Scopes(), ", "))
	f.BoolVar(&n.Operator, "operator", false, "everything, for every tenant")
	f.DurationVar(&ttl, "ttl", 0, "how long it holds (default: until it is revoked)")
	return cmd
}

func (a *app) tokenListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "The tokens there are, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			list, err := a.tokens().List()
			if err != nil {
				return err
			}
			p := a.printer()
			for _, t := range list {
				t.Hash = ""
				if a.json {
					if err := a.printJSON(t); err != nil {
						return err
					}
					continue
				}
				what, until := t.Tenant+": "+strings.Join(t.Scopes, ", "), "until revoked"
				if t.Operator {
					what = "operator"
				}
				if !t.Expires.IsZero() {
					until = "until " + t.Expires.Format(time.RFC3339)
				}
				p.f("%s  %s  %s  %s\n", t.ID, name(t.Name), what, until)
			}
			return p.flush()
		},
	}
}

func (a *app) tokenRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "revoke ID",
		Short:   "End a token, at once",
		Example: "  lcm token revoke 3fa91c02d7",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.tokens().Revoke(args[0]); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]string{"revoked": args[0]})
			}
			p := a.printer()
			p.f("token %s revoked\n", args[0])
			return p.flush()
		},
	}
}
