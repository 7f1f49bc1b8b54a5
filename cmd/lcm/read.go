package main

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/demo"
)

func (a *app) sessionsCmd() *cobra.Command {
	var prefix, at string
	cmd := &cobra.Command{
		Use: "sessions", Short: "List sessions", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			in := api.SessionsIn{Scope: a.scope(""), Prefix: prefix, At: at}
			return a.with(func(ctx context.Context, c *client.Client) error {
				for {
					var out api.SessionsReply
					if err := c.Call(ctx, "sessions", in, &out); err != nil {
						return err
					}
					if err := a.printSessions(out.Sessions, in.After == ""); err != nil || out.Next == "" {
						return err
					}
					in.After = out.Next
				}
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only sessions whose name starts with this")
	cmd.Flags().StringVar(&at, "at", "", "those that existed then, as they were: @<seq> or an RFC 3339 time")
	return cmd
}

// sessionLine is a session as `lcm sessions --json` prints it.
type sessionLine struct {
	Session string `json:"session"`
	Entries uint64 `json:"entries"`
	Tokens  int    `json:"tokens"`
	Nodes   uint64 `json:"nodes"`
	Cut     uint64 `json:"cut"`
	Regime  string `json:"regime"`
	Removed int    `json:"removed"`
	// Context is the tokens of the active context.
	Context int `json:"context_tokens"`
}

func (a *app) printSessions(rows []api.SessionRow, first bool) error {
	p := a.printer()
	width := 40 // of the names; those of one page line up
	for _, r := range rows {
		width = max(width, min(utf8.RuneCountInString(name(r.Session)), 80))
	}
	if !a.json && first {
		p.f("%-*s %8s %8s %10s %10s %6s %5s  %s\n", width, "SESSION", "ENTRIES", "REMOVED", "TOKENS", "CONTEXT", "NODES", "CUT", "REGIME")
	}
	for _, r := range rows {
		if a.json {
			l := sessionLine{r.Session, r.Entries, r.Tokens, r.Nodes, r.Cut, string(r.Regime), r.Removed, r.ContextTokens}
			if err := a.printJSON(l); err != nil {
				return err
			}
			continue
		}
		p.f("%-*s %8d %8d %10d %10d %6d %5d  %s\n", width, name(r.Session), r.Entries, r.Removed, r.Tokens, r.ContextTokens, r.Nodes, r.Cut, r.Regime)
	}
	return p.flush()
}

func (a *app) showCmd() *cobra.Command {
	var at string
	var raw bool
	cmd := &cobra.Command{
		Use:   "show SESSION [e1..e9]",
		Short: "Turns, verbatim",
		Example: `  lcm show chat
  lcm show chat e10..e20
  lcm show chat e12 --raw            the bytes as they were imported
  lcm show chat --at e40             as the session stood then`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			in := api.ShowIn{Scope: a.scope(args[0]), At: at, Raw: raw}
			if len(args) == 2 {
				in.Range = args[1]
			}
			return a.printTurns("show", raw, func(cursor string) any { in.Cursor = cursor; return in })
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "as of e12, @<seq> or an RFC 3339 time")
	cmd.Flags().BoolVar(&raw, "raw", false, "the verbatim original of each turn, one a line")
	return cmd
}

func (a *app) expandCmd() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use:     "expand ID",
		Short:   "A summary back to its verbatim turns",
		Example: "  lcm expand chat/n12\n  lcm expand 'chat/#12' --json\n  lcm expand n12 --session chat",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := api.IDIn{Scope: a.scope(session), ID: args[0]}
			return a.printTurns("expand", false, func(cursor string) any { in.Cursor = cursor; return in })
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the ID is one of this session's")
	return cmd
}

// printTurns walks the pages of show or expand.
func (a *app) printTurns(tool string, raw bool, params func(cursor string) any) error {
	return a.with(func(ctx context.Context, c *client.Client) error {
		for cursor := ""; ; {
			var out api.TurnsOut
			if err := c.Call(ctx, tool, params(cursor), &out); err != nil {
				return err
			}
			p := a.printer()
			for _, t := range out.Turns {
				switch {
				case raw && !a.json:
					a.raw(p, t.Raw+"\n")
				case a.json:
					if err := a.printJSON(t); err != nil {
						return err
					}
				default:
					printTurn(p, t)
				}
			}
			if err := p.flush(); err != nil || out.Cursor == "" {
				return err
			}
			cursor = out.Cursor
		}
	})
}

func printTurn(p printer, t api.TurnOut) {
	mark := ""
	if t.Removed {
		mark = "  [removed]"
	}
	for _, c := range t.Compactions {
		if c.After == "" {
			printCompaction(p, c)
		}
	}
	if t.LargeInline {
		mark += "  [large, no path]"
	}
	p.f("── %s  %s  %s  %d tokens%s\n%s\n", t.Entry, t.Role, t.Time.Format("2006-01-02 15:04:05"), t.Tokens, mark, strings.TrimRight(t.Text, "\n"))
	for _, f := range t.Files {
		p.f("   file:%s  %s\n", f.ID, f.Summary)
	}
	for _, c := range t.Compactions {
		if c.After != "" {
			printCompaction(p, c)
		}
	}
}

// printCompaction prints what is no turn, and says so.
func printCompaction(p printer, c api.CompactionOut) {
	p.f("── [compaction by %s, no turn]\n%s\n", maker(c), strings.TrimRight(c.Text, "\n"))
}

func maker(c api.CompactionOut) string {
	if c.Format == "" {
		return "another agent"
	}
	return name(c.Format)
}

func (a *app) contextCmd() *cobra.Command {
	in := api.ContextIn{}
	cmd := &cobra.Command{
		Use:   "context SESSION",
		Short: "The active context: what to send to the model",
		Example: `  lcm context chat
  lcm context chat --format anthropic --json | jq .messages
  lcm context chat --window 32000      as it would be for a smaller window
  lcm context chat --at e120           exactly what the model saw then`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope = a.scope(args[0])
			out, err := call[api.ContextOut](a, "context", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			return a.printContext(out)
		},
	}
	f := cmd.Flags()
	f.IntVar(&in.Window, "window", 0, "render for this window, without changing the session")
	f.IntVar(&in.Overhead, "overhead", 0, "render for this overhead, without changing the session")
	f.StringVar(&in.At, "at", "", "as of e12, @<seq> or an RFC 3339 time")
	f.StringVar(&in.Format, "format", "openai", "openai, anthropic, plain")
	f.StringVar(&in.PrefixHash, "prefix-hash", "", "your last prefix hash: a change is explained")
	f.IntVar(&in.WaitSeconds, "wait", 0, "wait this long for condensation when over budget, seconds (default 30)")
	return cmd
}

func (a *app) printContext(c api.ContextOut) error {
	p := a.printer()
	p.f("%s  %s\n", name(c.Session), demo.Gauge(c.Tokens, c.Soft, c.Budget))
	p.f("regime %s, %d messages, prefix %s", c.Regime, len(c.Messages), c.PrefixHash)
	for flag, on := range map[string]bool{"DEGRADED": c.Degraded, "hypothetical": c.Hypothetical} {
		if on {
			p.f(", %s", flag)
		}
	}
	if c.PrefixChange != "" {
		p.f("\nprefix changed: %s", c.PrefixChange)
	}
	p.f("\n")
	for _, s := range c.Pointers {
		p.f("  %-6s depth %d  %s..%s  %s, %d tokens\n", s.ID, s.Depth, s.First, s.Last, s.Tier, s.Tokens)
	}
	if len(c.System) > 0 {
		p.f("system: %s\n", c.System)
	}
	for _, m := range c.Messages {
		p.f("%s\n", m)
	}
	return p.flush()
}

func (a *app) grepCmd() *cobra.Command {
	in := api.GrepIn{}
	cmd := &cobra.Command{
		Use:   "grep PATTERN",
		Short: "Search turns, summaries and files",
		Long: `Search. All words must match, in any order; --phrase keeps their order, --regex
takes RE2 syntax over the verbatim text, --mode substring takes it as it stands.
--mode relevance answers a question in plain words, whose words may be missing.`,
		Example: `  lcm grep "connection refused"
  lcm grep --mode relevance "what did we decide about retries?" --neighbours 1
  lcm grep --regex 'ERR-[0-9]+' --session chat
  lcm grep deploy --role user --since 2026-01-01T00:00:00Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.Pattern = a.scope(""), args[0]
			out, err := call[api.GrepReply](a, "grep", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			return a.printHits(out)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&in.Regex, "regex", false, "the pattern is a regular expression (RE2)")
	f.BoolVar(&in.Phrase, "phrase", false, "the words in this order, next to each other")
	f.StringVar(&in.Mode, "mode", "", "words (default), phrase, relevance, regex, substring")
	f.BoolVar(&in.IgnoreCase, "ignore-case", false, "of regex and substring; words never regard case")
	f.BoolVar(&in.Multiline, "multiline", false, "of regex: ^ and $ match at line breaks too")
	f.IntVar(&in.Neighbours, "neighbours", 0, "turns before and after each hit to give with it")
	f.StringArrayVar(&in.Sessions, "session", nil, "only this session, repeatable")
	f.StringVar(&in.Node, "node", "", "only what this node covers, as SESSION/n12")
	f.StringArrayVar(&in.Roles, "role", nil, "only turns of this role, repeatable")
	f.StringArrayVar(&in.Kinds, "kind", nil, "turn, summary, file; repeatable (default turn and summary)")
	f.IntSliceVar(&in.Depths, "depth", nil, "only summaries of this depth, repeatable")
	f.StringVar(&in.Since, "since", "", "not before this time (RFC 3339)")
	f.StringVar(&in.Until, "until", "", "before this time (RFC 3339)")
	f.BoolVar(&in.IncludeRemoved, "include-removed", false, "also turns of abandoned branches")
	f.StringVar(&in.Sort, "sort", "", "recency (default), relevance, or hybrid of the two")
	f.IntVar(&in.Limit, "limit", 0, "hits at most (default 20)")
	f.IntVar(&in.MaxTokens, "max-tokens", 0, "tokens of the answer at most")
	f.StringVar(&in.Cursor, "cursor", "", "go on where an earlier answer ended")
	return cmd
}

func (a *app) printHits(r api.GrepReply) error {
	p := a.printer()
	last := ""
	for _, h := range r.Hits {
		if group := h.Session + " " + h.CoveredBy; group != last {
			last = group
			if h.CoveredBy == "" {
				p.f("%s\n", name(h.Session))
			} else {
				p.f("%s  under %s\n", name(h.Session), h.CoveredBy)
			}
		}
		id := h.Entry
		if h.Node != "" {
			id = h.Node
		}
		mark := ""
		if h.Removed {
			mark = "[removed] "
		}
		printBeside(p, h.Before)
		p.f("  %-6s %-9s %s  %s%s\n", id, h.Role, h.Time.Format("2006-01-02 15:04"), mark, oneLine(h.Snippet))
		printBeside(p, h.After)
	}
	about := ""
	if r.TotalEstimated {
		about = "about "
	}
	p.f("%d of %s%d matches\n", len(r.Hits), about, r.Total)
	for _, s := range r.NotSearched {
		p.f("not searched: %s\n", s)
	}
	if r.Cursor != "" {
		p.f("more: --cursor %s\n", r.Cursor)
	}
	return p.flush()
}

// printBeside prints turns that stand beside a hit.
func printBeside(p printer, turns []api.Beside) {
	for _, t := range turns {
		p.f("    %-6s %-9s %s\n", t.Entry, t.Role, oneLine(t.Text))
	}
}

func (a *app) describeCmd() *cobra.Command {
	in, session := api.IDIn{}, ""
	cmd := &cobra.Command{
		Use:   "describe ID",
		Short: "What a node, file, entry or session holds, and what reading it costs",
		Example: `  lcm describe chat
  lcm describe chat/n12
  lcm describe chat/file:3fa9c1d2e4b5a697
  lcm describe session:e12                     a session whose name looks like an entry`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in.Scope, in.ID = a.scope(session), args[0]
			out, err := call[api.DescribeOut](a, "describe", in)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(out)
			}
			p := a.printer()
			printDescription(p, out)
			return p.flush()
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "the ID is one of this session's")
	cmd.Flags().StringVar(&in.At, "at", "", "as of e12, @<seq> or an RFC 3339 time")
	cmd.Flags().IntVar(&in.MaxTokens, "max-tokens", 0, "cut the text to this size")
	return cmd
}

func printDescription(p printer, d api.DescribeOut) {
	p.f("%s %s", d.Kind, name(d.ID))
	if d.Kind != "session" {
		p.f(" of %s", name(d.Session))
	}
	if d.Kind == "node" {
		p.f(", depth %d", d.Depth)
	}
	p.f("  %s  %s to %s\n", d.Span, d.Time.Format("2006-01-02 15:04"), d.Until.Format("2006-01-02 15:04"))
	p.f("price: %s tokens of summaries in %d nodes, %s tokens of source in %d entries\n",
		demo.Comma(d.Price.Summary), d.Price.Nodes, demo.Comma(d.Price.Source), d.Price.Entries)
	for _, t := range d.Tiers {
		p.f("tier %s: %d tokens, level %d\n", t.Name, t.Tokens, t.Level)
	}
	if len(d.Parents) > 0 {
		p.f("part of %s\n", strings.Join(d.Parents, " < "))
	}
	for _, c := range d.Children {
		p.f("  %-6s %-14s summaries %s, source %s  %s\n", c.ID, c.Span, demo.Comma(c.Price.Summary), demo.Comma(c.Price.Source), c.Line)
	}
	for _, f := range d.Files {
		p.f("  %s  %s (%s, %d bytes, %s)  %s\n", f.ID, f.Path, f.Kind, f.Bytes, f.Entry, f.Summary)
	}
	for _, c := range d.Compactions {
		after := c.After
		if after == "" {
			after = "nothing"
		}
		p.f("  compaction by %s, after %s  %s\n", maker(c), after, c.Text)
	}
	if d.FilesMore > 0 {
		p.f("  (+%d more files)\n", d.FilesMore)
	}
	if d.LargeInline {
		p.f("holds a large body whose call named no path\n")
	}
	if d.Text != "" {
		p.f("\n%s\n", strings.TrimRight(d.Text, "\n"))
	}
}
