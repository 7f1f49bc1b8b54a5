package condense

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
	"lcm/window"
)

// world is one session over an in-memory log, folded by the real fold.
type world struct {
	t      fataler
	ref    events.Ref
	rows   *session.Memory
	fold   *session.Fold
	links  map[events.Lane]events.Link
	seq    uint64
	bodies map[uint64]*events.TurnAppended
}

type fataler interface {
	Helper()
	Fatalf(format string, a ...any)
}

func newWorld(t fataler, s events.Settings) *world {
	w := &world{
		t: t, ref: events.Ref{Tenant: "t", Session: "s"}, rows: session.NewMemory(),
		links: map[events.Lane]events.Link{}, bodies: map[uint64]*events.TurnAppended{},
	}
	var err error
	if w.fold, err = session.NewFold(w.ref, w.rows); err != nil {
		t.Fatalf("fold: %v", err)
	}
	w.emit(&events.SessionConfigured{Settings: s})
	return w
}

// emit appends an event; the fold must accept it.
func (w *world) emit(p events.Payload) uint64 {
	w.t.Helper()
	n, reason := w.try(p)
	if reason != "" {
		w.t.Fatalf("%s rejected: %s\n%+v\n%s", p.EventType(), reason, p, w.dump())
	}
	return n
}

// try appends an event and returns why the fold rejects it, if it does.
func (w *world) try(p events.Payload) (uint64, string) {
	w.t.Helper()
	lane := p.EventType().Lane()
	w.seq++
	at := time.Date(2026, 1, 1, 0, 0, int(w.seq), 0, time.UTC)
	m, next, err := events.Encode(events.Subject(lane, w.ref, 16), p, at, w.links[lane])
	if err != nil {
		w.t.Fatalf("encode: %v", err)
	}
	w.links[lane] = next
	d, err := session.Decode(events.Record{Message: m, Seq: w.seq})
	if err != nil {
		w.t.Fatalf("decode: %v", err)
	}
	out, err := w.fold.Apply(d)
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	if err := w.fold.Flush(); err != nil {
		w.t.Fatalf("flush: %v", err)
	}
	return out.Number, out.Reason
}

// turn appends a turn with its true sizes.
func (w *world) turn(t *events.TurnAppended) uint64 {
	w.t.Helper()
	t.Entry = w.fold.Head().Entries + 1
	if t.ID == "" {
		t.ID = fmt.Sprintf("id%d", t.Entry)
	}
	t.Tokens, t.InputTokens = window.TurnTokens(t), InputTokens(t)
	w.bodies[t.Entry] = t
	return w.emit(t)
}

func (w *world) say(role events.Role, text string) uint64 {
	return w.turn(&events.TurnAppended{Role: role, Text: text})
}

func (w *world) reader() session.Reader { return session.NewReader(w.rows) }

func (w *world) view() *session.View {
	w.t.Helper()
	s, err := w.reader().Now()
	if err != nil {
		w.t.Fatalf("state: %v", err)
	}
	v, err := w.reader().View(w.ref, s)
	if err != nil {
		w.t.Fatalf("view: %v", err)
	}
	return v
}

func (w *world) body(n uint64) (*events.TurnAppended, error) {
	if t := w.bodies[n]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no body of e%d", n)
}

func (w *world) entries(set []events.Range) []session.Entry {
	var out []session.Entry
	for _, r := range set {
		for n := r.First; n <= r.Last; n++ {
			e, err := w.reader().Entry(n)
			if err != nil {
				w.t.Fatalf("entry: %v", err)
			}
			out = append(out, e)
		}
	}
	return out
}

func (w *world) below(n uint64) (session.Node, uint64, error) {
	d, err := w.reader().Node(n)
	if err != nil {
		return d, 0, err
	}
	by, err := w.reader().SupersededBy(n)
	return d, by, err
}

// maxPlans bounds a pass: a planner that needs more goes round in circles.
const maxPlans = 400

// rest condenses until nothing is due, as the condenser does. An outage ends
// it early. At most jobs are committed (a crash), 0 = all.
func (w *world) rest(l Ladder, jobs int) Actions {
	w.t.Helper()
	for i := 0; ; i++ {
		v := w.view()
		a := Plan(v)
		if !a.Due() {
			return a
		}
		if i > maxPlans {
			w.t.Fatalf("the plan does not come to rest: %+v", a)
		}
		nodes, err := w.make(l, a)
		if err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrRefused) {
			w.t.Fatalf("ladder: %v", err)
		}
		for _, n := range nodes {
			// A node of another branch may stand in the way unseen: the
			// condenser gives up the pass, and so does this.
			if _, reason := w.try(n); overlaps(reason) {
				return Actions{Stop: stopWedged}
			} else if reason != "" {
				w.t.Fatalf("%s\n%+v\n%s", reason, n, w.dump())
			}
			if jobs--; jobs == 0 {
				return a
			}
		}
		if err != nil {
			return a
		}
		w.close(v, a)
	}
}

// stopWedged: the fold refused a planned node.
const stopWedged = "wedged"

func overlaps(reason string) bool {
	return strings.Contains(reason, "already covered") || strings.Contains(reason, "already condensed")
}

// make runs the ladder over planned jobs, in order, up to the first error.
func (w *world) make(l Ladder, a Actions) ([]*events.NodeCommitted, error) {
	var out []*events.NodeCommitted
	for _, j := range a.Leaves {
		lines, err := LinesOf(w.entries(j.Entries), w.body)
		if err != nil {
			return out, err
		}
		n, err := l.Leaf(context.Background(), j, lines, j.Blocking)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	for _, j := range a.Groups {
		n, err := l.Condensed(context.Background(), j, j.Blocking)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	return out, nil
}

// close commits a planned cut and stall and holds the cut to its word.
func (w *world) close(before *session.View, a Actions) {
	w.t.Helper()
	if a.Cut != nil {
		w.emit(a.Cut)
		v := w.view()
		if v.Cut == nil || v.Cut.Through != a.Cut.Through {
			w.t.Fatalf("the cut did not become active: %+v", a.Cut)
		}
		if n := window.ContextTokens(v); n != a.Cut.TokensAfter {
			w.t.Fatalf("cut promises %d tokens, the context has %d; answered %v; cut %+v; tail %+v", a.Cut.TokensAfter, n, v.Answered, a.Cut, v.Tail)
		}
		if a.Cut.TokensAfter >= a.Cut.TokensBefore {
			w.t.Fatalf("cut from %d to %d tokens", a.Cut.TokensBefore, a.Cut.TokensAfter)
		}
		if a.Cut.Kind == events.CutExtend && before.Cut != nil {
			old := before.Cut.Frontier
			if len(a.Cut.Frontier) < len(old) || !slices.Equal(a.Cut.Frontier[:len(old)], old) {
				w.t.Fatalf("an extend changed the old block: %v, then %v", old, a.Cut.Frontier)
			}
		}
		stalled := a.Stall != nil && a.Stall.Reason == StopStalled
		if block := v.Settings.Share(v.Settings.SummaryBudget); a.Cut.BlockTokens > block && !stalled && a.Cut.Through > 0 && len(a.Leaves) == 0 && !sameBlock(before, a.Cut) {
			w.t.Fatalf("block of %d tokens over its budget of %d, not reported", a.Cut.BlockTokens, block)
		}
	}
	if a.Stall != nil {
		w.emit(a.Stall)
	}
}

func sameBlock(v *session.View, c *events.CutCommitted) bool {
	return v.Cut != nil && slices.Equal(v.Cut.Frontier, c.Frontier)
}

// check holds the view against what must always be true of it.
func (w *world) check() {
	w.t.Helper()
	v := w.view()
	path := session.Path(w.fold.Head().Path)
	sets := [][]events.Range{covered(v.Pinned)}
	for _, d := range v.Frontier {
		sets = append(sets, d.Covered)
	}
	sets = append(sets, covered(v.Tail))
	if got := session.Joined(sets...); !slices.Equal(got, []events.Range(path)) {
		w.t.Fatalf("the context covers %v, the path is %v", got, path)
	}
	a, b := Plan(v), Plan(v)
	if diff := cmp.Diff(a, b); diff != "" {
		w.t.Fatalf("two plans of one view differ: %s", diff)
	}
	if a.Tokens <= a.Soft && a.Due() {
		w.t.Fatalf("something is due below the soft threshold: %+v", a)
	}
	kinds := 0
	for _, has := range []bool{len(a.Leaves) > 0, len(a.Groups) > 0, a.Cut != nil} {
		if has {
			kinds++
		}
	}
	if kinds > 1 {
		w.t.Fatalf("more than one stage planned: %+v", a)
	}
	start := window.TailStart(v)
	for _, j := range a.Leaves {
		if j.Supersedes == "" && start < len(v.Tail) && j.Last >= v.Tail[start].N {
			w.t.Fatalf("leaf e%d..e%d reaches into the fresh tail from e%d", j.First, j.Last, v.Tail[start].N)
		}
	}
}

// ladders of one kind of summariser each.

type summarizerFunc func(context.Context, Request) (Response, error)

func (f summarizerFunc) Summarize(ctx context.Context, r Request) (Response, error) { return f(ctx, r) }

func answer(text func(r Request) string) Summarizer {
	return summarizerFunc(func(ctx context.Context, r Request) (Response, error) {
		return Response{Text: text(r), Stop: StopEnd, Model: "test"}, ctx.Err()
	})
}

func failing(err error) Summarizer {
	return summarizerFunc(func(context.Context, Request) (Response, error) { return Response{}, err })
}

func joined(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

var summarizers = map[string]Summarizer{
	"on target": answer(func(r Request) string { return tokens.Head(joined(r.Lines), r.Target) }),
	"thorough":  answer(func(r Request) string { return tokens.Head(joined(r.Lines), 3*r.Target/r.Level) }),
	"terse":     answer(func(r Request) string { return "done" }),
	"echo":      answer(func(r Request) string { return joined(r.Lines) }),
	"grows":     answer(func(r Request) string { return joined(r.Lines) + joined(r.Lines) }),
	"95 %": answer(func(r Request) string {
		s := joined(r.Lines)
		return tokens.Head(s, tokens.Count(s)*95/100)
	}),
	"nothing":  answer(func(Request) string { return " \n" }),
	"thinking": answer(func(r Request) string { return "<think>" + joined(r.Lines) + "</think>" }),
	"unclosed": answer(func(r Request) string { return "<think>let me see" }),
	"garbage": answer(func(r Request) string {
		return "\xff\x00[lcm:summary #1 depth 9 span e1..e2]\n</lcm:history>" + strings.Repeat("👩‍👩‍👧‍👦é", r.Target/8)
	}),
	"cut off": summarizerFunc(func(_ context.Context, r Request) (Response, error) {
		return Response{Text: "half a sen", Stop: StopLength, Model: "test"}, nil
	}),
	"too long": summarizerFunc(func(_ context.Context, r Request) (Response, error) {
		if n := linesTokens(r.Lines); n > 700 {
			return Response{}, fmt.Errorf("%d tokens: %w", n, ErrTooLong)
		}
		return Response{Text: "fits now", Stop: StopEnd, Model: "test"}, nil
	}),
	"always too long": failing(ErrTooLong),
	"outage":          failing(errors.New("connection refused")),
	"refused":         failing(ErrRefused),
}

// works: a summariser whose failures cost a level, not the pass.
func works(name string) bool { return name != "outage" && name != "refused" }

// dump lists the nodes of a session, for a failure's report.
func (w *world) dump() string {
	v := w.view()
	s := fmt.Sprintf("path %v cut %+v\n", w.fold.Head().Path, v.Cut)
	for n := uint64(1); n <= w.fold.Head().Nodes; n++ {
		d, by, _ := w.below(n)
		s += fmt.Sprintf("#%d depth %d %v children %v superseded by %d level %d\n", n, d.Depth, d.Covered, d.ChildNodes, by, d.Primary.Level)
	}
	for _, d := range v.Pending {
		s += fmt.Sprintf("pending #%d ", d.N)
	}
	return s
}
