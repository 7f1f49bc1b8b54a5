// Package demo does the main job in front of the reader's eyes: keep a
// session, condense it, look at what the model sees, find a thing, open a
// summary back to the words, and prove that the projections are disposable.
// It uses the tools as any client does, and nothing else.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"lcm/client"
	"lcm/internal/api"
)

// BundledName is the file name of the bundled session.
const BundledName = "payments-retry.jsonl"

//go:embed payments-retry.jsonl
var bundled []byte

// Bundled is a coding session of our own writing.
func Bundled() []byte { return bundled }

// Options of a run.
type Options struct {
	Client  *client.Client
	Source  []byte // a transcript in any accepted format
	Name    string // its file name
	Out     io.Writer
	DataDir string // holds the data; shown to the reader
	Kept    bool   // the data stays after the demo
	// Window the session is condensed for, tokens. Default 32,000: small
	// enough that a session of some hundred turns no longer fits.
	Window int
}

// show is one run of the demo.
type show struct {
	Options
	session string
	scope   api.Scope
	ctx     api.ContextOut
}

// Run tells and does every step; an error names the step that failed.
func Run(ctx context.Context, o Options) error {
	if o.Window == 0 {
		o.Window = 32_000
	}
	s := &show{Options: o}
	steps := []struct {
		title string
		do    func(context.Context) error
	}{
		{"Keep every turn", s.keep},
		{"What the model would see now", s.before},
		{"Condense", s.condense},
		{"The summaries are a tree", s.tree},
		{"Find something that is no longer in the window", s.grep},
		{"Look before you open", s.describe},
		{"Open a summary back to the original words", s.expand},
		{"Projections are disposable", s.rebuild},
	}
	for i, step := range steps {
		s.say("\n%d. %s\n", i+1, step.title)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("demo, %q: %w", step.title, err)
		}
	}
	s.say("\nDone. ")
	if s.Kept {
		s.say("The data is in %s: go on with\n  lcm --data-dir %s sessions\n", s.DataDir, s.DataDir)
	} else {
		s.say("Try it on a transcript of yours: lcm demo FILE; then lcm import FILE keeps it.\n")
	}
	return nil
}

func (s *show) say(format string, a ...any) { fmt.Fprintf(s.Out, format, a...) }

func (s *show) call(ctx context.Context, tool string, in, out any) error {
	return s.Client.Call(ctx, tool, in, out)
}

// keep imports the session, twice.
func (s *show) keep(ctx context.Context) error {
	in := api.ImportIn{File: s.Name, Format: "auto"}
	first, err := s.Client.Import(ctx, in, strings.NewReader(string(s.Source)), nil)
	if err != nil {
		return err
	}
	largest := api.ImportReport{}
	for _, r := range first {
		s.say("   %s: %d turns appended (%s)", r.Session, r.Appended, r.Format)
		if r.Rejected > 0 {
			s.say(", %d broken records kept as dead letters", r.Rejected)
		}
		s.say("\n")
		if r.Turns > largest.Turns {
			largest = r
		}
	}
	if largest.Turns == 0 {
		return errors.New("the transcript has no turns")
	}
	again, err := s.Client.Import(ctx, in, strings.NewReader(string(s.Source)), nil)
	if err != nil {
		return err
	}
	appended, known := 0, 0
	for _, r := range again {
		appended, known = appended+r.Appended, known+r.Duplicates
	}
	if appended != 0 {
		return fmt.Errorf("importing again appended %d turns", appended)
	}
	s.say("   The same file again: %d turns recognised, 0 appended. An acknowledged turn is on disk.\n", known)
	s.session = largest.Session
	s.scope = api.Scope{Session: s.session, Fresh: true}
	return nil
}

// before shows the gauge of the raw session.
func (s *show) before(ctx context.Context) error {
	var row api.SessionsReply
	if err := s.call(ctx, "sessions", api.SessionsIn{Scope: s.scope}, &row); err != nil {
		return err
	}
	var conf api.ConfigureOut
	in := api.ConfigureIn{Scope: s.scope, Set: map[string]any{"window": s.Window}}
	if err := s.call(ctx, "configure", in, &conf); err != nil {
		return err
	}
	r := row.Sessions[0]
	s.say("   %d turns, for a window of %s tokens:\n", r.Entries, Comma(s.Window))
	s.say("   raw     %s\n", Gauge(r.ContextTokens, conf.Settings.Soft(), conf.Budget))
	if r.Removed > 0 {
		s.say("   %d turns of an abandoned branch are kept, and left out.\n", r.Removed)
	}
	return nil
}

// condense makes room and shows the gauge again.
func (s *show) condense(ctx context.Context) error {
	var out api.CondenseOut
	if err := s.call(ctx, "condense", api.CondenseIn{Scope: s.scope}, &out); err != nil {
		return err
	}
	if err := s.call(ctx, "context", api.ContextIn{Scope: s.scope}, &s.ctx); err != nil {
		return err
	}
	if !out.Compacted && s.ctx.Cut == 0 {
		s.say("   The session fits its window: the model sees it raw, byte for byte, and no summary was made.\n")
		return nil
	}
	s.say("   %d summaries were made, offline and by rule: no model, no key.\n", out.Nodes)
	s.say("   now     %s\n", Gauge(s.ctx.Tokens, s.ctx.Soft, s.ctx.Budget))
	s.say("   The model sees %d pointers (%s tokens), then the newest turns word for word.\n", len(s.ctx.Pointers), Comma(s.ctx.BlockTokens))
	return nil
}

// tree draws the DAG under the active context.
func (s *show) tree(ctx context.Context) error {
	if len(s.ctx.Pointers) == 0 {
		s.say("   (none were needed)\n")
		return nil
	}
	for _, p := range s.ctx.Pointers {
		if err := s.branch(ctx, p.ID, "   ", 0); err != nil {
			return err
		}
	}
	return nil
}

// branch draws a node and its children, at most 40 lines deep in the first.
func (s *show) branch(ctx context.Context, id, indent string, below int) error {
	var d api.DescribeOut
	if err := s.call(ctx, "describe", api.IDIn{Scope: s.scope, ID: id}, &d); err != nil {
		return err
	}
	s.say("%s%-5s depth %d  %-12s %6s tokens stand for %7s in %d turns\n", indent, d.ID, d.Depth, d.Span,
		Comma(d.Tiers[len(d.Tiers)-1].Tokens), Comma(d.Price.Source), d.Price.Entries)
	for i, c := range d.Children {
		if below >= 1 && i >= 2 && i < len(d.Children)-1 {
			if i == 2 {
				s.say("%s   … %d more\n", indent, len(d.Children)-3)
			}
			continue
		}
		if err := s.branch(ctx, c.ID, indent+"   ", below+1); err != nil {
			return err
		}
	}
	return nil
}

// grep looks for words of a turn that a summary covers.
func (s *show) grep(ctx context.Context) error {
	word, err := s.covered(ctx)
	if err != nil {
		return err
	}
	var out api.GrepReply
	if err := s.call(ctx, "grep", api.GrepIn{Scope: s.scope, Pattern: word, Limit: 3}, &out); err != nil {
		return err
	}
	s.say("   lcm grep %q: %d matches\n", word, out.Total)
	for _, h := range out.Hits {
		id := h.Entry + h.Node
		under := ""
		if h.CoveredBy != "" {
			under = " (under " + h.CoveredBy + ")"
		}
		s.say("   %-6s %-9s%s  %s\n", id, h.Role, under, oneLine(h.Snippet, 90))
	}
	if len(out.Hits) == 0 {
		return fmt.Errorf("nothing found for %q, which is in the session", word)
	}
	return nil
}

// covered picks a telling word from the oldest user turn.
func (s *show) covered(ctx context.Context) (string, error) {
	var page api.TurnsOut
	if err := s.call(ctx, "show", api.ShowIn{Scope: s.scope, Limit: 200}, &page); err != nil {
		return "", err
	}
	best := ""
	for _, t := range page.Turns {
		if t.Role != "user" && t.Role != "assistant" {
			continue
		}
		for _, w := range strings.FieldsFunc(t.Text, func(r rune) bool {
			return r != '_' && r != '-' && (r < '0' || r > '9') && (r|32 < 'a' || r|32 > 'z')
		}) {
			if len(w) > len(best) && len(w) <= 24 {
				best = w
			}
		}
		if len(best) >= 10 {
			break
		}
	}
	if best == "" {
		return "", errors.New("the session has no text to search for")
	}
	return best, nil
}

// describe prices the first pointer.
func (s *show) describe(ctx context.Context) error {
	if len(s.ctx.Pointers) == 0 {
		s.say("   (no summaries)\n")
		return nil
	}
	var d api.DescribeOut
	if err := s.call(ctx, "describe", api.IDIn{Scope: s.scope, ID: s.ctx.Pointers[0].ID}, &d); err != nil {
		return err
	}
	s.say("   lcm describe %s/%s\n", s.session, strings.Replace(d.ID, "#", "n", 1))
	s.say("   depth %d, %s, made by %s. Reading its summaries costs %s tokens, its turns %s.\n",
		d.Depth, d.Span, d.Model, Comma(d.Price.Summary), Comma(d.Price.Source))
	for i, f := range d.Files {
		if i == 3 {
			s.say("   … %d more files\n", len(d.Files)-i)
			break
		}
		s.say("   %s  %s, %s bytes: %s\n", f.ID, f.Path, Comma(f.Bytes), oneLine(f.Summary, 100))
	}
	for i, line := range strings.Split(strings.TrimSpace(d.Text), "\n") {
		if i == 8 {
			s.say("   │ …\n")
			break
		}
		s.say("   │ %s\n", oneLine(line, 110))
	}
	return nil
}

// expand opens the first leaf and holds its turns against the source.
func (s *show) expand(ctx context.Context) error {
	if len(s.ctx.Pointers) == 0 {
		s.say("   (nothing is folded away)\n")
		return nil
	}
	id := s.ctx.Pointers[0].ID
	turns, intact := 0, 0
	var first api.TurnOut
	for cursor := ""; ; {
		var page api.TurnsOut
		if err := s.call(ctx, "expand", api.IDIn{Scope: s.scope, ID: id, Cursor: cursor}, &page); err != nil {
			return err
		}
		for _, t := range page.Turns {
			if turns == 0 {
				first = t
			}
			turns++
			if t.Raw != "" && strings.Contains(string(s.Source), t.Raw) {
				intact++
			}
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	s.say("   lcm expand %s/%s: %d turns, %d of them byte for byte as in the file. The first:\n", s.session, strings.Replace(id, "#", "n", 1), turns, intact)
	s.say("   %s %s │ %s\n", first.Entry, first.Role, oneLine(first.Text, 100))
	if intact != turns {
		return fmt.Errorf("%d of %d turns are not as in the file", turns-intact, turns)
	}
	return nil
}

// rebuild drops rows and index, and holds what is replayed from the log
// against what was there.
func (s *show) rebuild(ctx context.Context) error {
	var out api.RebuildReply
	if err := s.call(ctx, "rebuild", api.RebuildIn{Scope: api.Scope{Fresh: true}}, &out); err != nil {
		return err
	}
	var after api.ContextOut
	if err := s.call(ctx, "context", api.ContextIn{Scope: s.scope}, &after); err != nil {
		return err
	}
	s.say("   digest of the rows before   %s\n", out.Live)
	s.say("   Rows and index are deleted and replayed from the log: %d events in %.2f s, no model is asked.\n", out.Events, out.Seconds)
	s.say("   digest of the rows after    %s\n", out.Digest)
	if out.Digest != out.Live || after.PrefixHash != s.ctx.PrefixHash || after.Tokens != s.ctx.Tokens {
		return fmt.Errorf("the rebuild differs: %s, %s", out.Digest, after.PrefixHash)
	}
	s.say("   They are the same, and so is the context, byte for byte.\n")
	return nil
}

// Gauge draws occupancy of the budget, with the soft threshold marked.
func Gauge(tokens, soft, budget int) string {
	const width = 40
	at := func(n int) int { return min(width, n*width/max(budget, 1)) }
	bar := []rune(strings.Repeat("█", at(tokens)) + strings.Repeat("·", width-at(tokens)))
	if m := at(soft); m < width {
		bar[m] = '|'
	}
	over := ""
	if tokens > budget {
		over = fmt.Sprintf(", %s too many", Comma(tokens-budget))
	}
	return fmt.Sprintf("[%s] %s of %s tokens%s", string(bar), Comma(tokens), Comma(budget), over)
}

// Comma writes a number with thousands separated.
func Comma(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Comma(n/1000), n%1000)
}

func oneLine(s string, width int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
