package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/session"
	"lcm/window"
)

type fataler interface {
	Helper()
	Fatalf(format string, a ...any)
}

// side is one fold of the log into rows of its own.
type side struct {
	*session.Memory
	touched map[string]bool // rows written since they were last compared
}

func newSide() *side { return &side{session.NewMemory(), map[string]bool{}} }

func (s *side) Put(kind session.RowKind, key, value []byte) error {
	s.touched[string(kind)+string(key)] = true
	return s.Memory.Put(kind, key, value)
}

// world is one session over an in-memory log. live is folded as a projector
// does, by one fold that keeps its head; replay by a new fold for every event,
// which knows nothing but its rows.
type world struct {
	t            fataler
	ref          events.Ref
	log          []events.Record
	links        map[events.Lane]events.Link
	live, replay *side
	fold         *session.Fold
	bodies       map[uint64]*events.TurnAppended
	payloads     map[uint64][]byte
}

func newWorld(t fataler, s events.Settings) *world {
	w := &world{
		t: t, ref: events.Ref{Tenant: "t", Session: "s"}, links: map[events.Lane]events.Link{},
		live: newSide(), replay: newSide(),
		bodies: map[uint64]*events.TurnAppended{}, payloads: map[uint64][]byte{},
	}
	w.fold = w.folded(w.live)
	w.must(&events.SessionConfigured{Settings: s})
	return w
}

func (w *world) folded(r session.Rows) *session.Fold {
	f, err := session.NewFold(w.ref, r)
	if err != nil {
		w.t.Fatalf("fold: %v", err)
	}
	return f
}

// try appends an event to the log and folds it on both sides. It returns the
// number the event got, or why it was rejected.
func (w *world) try(p events.Payload) (uint64, string) {
	w.t.Helper()
	lane := p.EventType().Lane()
	seq := uint64(len(w.log) + 1)
	at := time.Date(2026, 1, 1, 0, 0, int(seq), 0, time.UTC)
	m, next, err := events.Encode(events.Subject(lane, w.ref, 16), p, at, w.links[lane])
	if err != nil {
		w.t.Fatalf("encode: %v", err)
	}
	w.links[lane] = next
	rec := events.Record{Message: m, Seq: seq}
	w.log = append(w.log, rec)
	live := w.apply(w.fold, rec)
	again := w.apply(w.folded(w.replay), rec)
	if live != again {
		w.t.Fatalf("%s at %d: live %+v, replay %+v", p.EventType(), seq, live, again)
	}
	if p, ok := p.(*events.TurnAppended); ok && live.Reason == "" {
		w.bodies[live.Number], w.payloads[live.Number] = p, m.Data
	}
	return live.Number, live.Reason
}

func (w *world) apply(f *session.Fold, rec events.Record) session.Outcome {
	w.t.Helper()
	d, err := session.Decode(rec)
	if err != nil {
		w.t.Fatalf("decode: %v", err)
	}
	out, err := f.Apply(d)
	if err == nil {
		err = f.Flush()
	}
	if err != nil {
		w.t.Fatalf("apply: %v", err)
	}
	return out
}

// must appends an event that the fold has to accept.
func (w *world) must(p events.Payload) uint64 {
	w.t.Helper()
	n, reason := w.try(p)
	if reason != "" {
		w.t.Fatalf("%s rejected: %s\n%+v\n%s", p.EventType(), reason, p, w.dump())
	}
	return n
}

// turn appends a turn with its true sizes.
func (w *world) turn(t *events.TurnAppended) uint64 {
	w.t.Helper()
	t.Entry = w.fold.Head().Entries + 1
	if t.ID == "" {
		t.ID = fmt.Sprintf("id%d", t.Entry)
	}
	t.Compact()
	t.Tokens, t.InputTokens = window.TurnTokens(t), condense.InputTokens(t)
	return w.must(t)
}

func (w *world) reader() session.Reader { return session.NewReader(w.live) }

func (w *world) state() session.State {
	w.t.Helper()
	s, err := w.reader().Now()
	if err != nil {
		w.t.Fatalf("state: %v", err)
	}
	return s
}

func (w *world) viewAt(s session.State) *session.View {
	w.t.Helper()
	v, err := w.reader().View(w.ref, s)
	if err != nil {
		w.t.Fatalf("view: %v", err)
	}
	return v
}

func (w *world) view() *session.View { return w.viewAt(w.state()) }

func (w *world) body(n uint64) (*events.TurnAppended, error) {
	if t := w.bodies[n]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no body of e%d", n)
}

func (w *world) node(n uint64) session.Node {
	w.t.Helper()
	d, err := w.reader().Node(n)
	if err != nil {
		w.t.Fatalf("node: %v", err)
	}
	return d
}

func (w *world) below(n uint64) (session.Node, uint64, error) {
	by, err := w.reader().SupersededBy(n)
	return w.node(n), by, err
}

func (w *world) entries(set []events.Range) []session.Entry {
	var out []session.Entry
	for _, n := range session.Path(set).After(0) {
		e, err := w.reader().Entry(n)
		if err != nil {
			w.t.Fatalf("entry: %v", err)
		}
		out = append(out, e)
	}
	return out
}

// maxPlans bounds a pass: a planner that needs more goes round in circles.
const maxPlans = 400

// stopWedged: the fold refused a planned node, because a node of another
// branch stands in the way unseen. The condenser gives up the pass then.
const stopWedged = "wedged"

// rest condenses until nothing is due, as the condenser does. An outage ends
// it early. At most jobs are committed (a crash), 0 = all.
func (w *world) rest(l condense.Ladder, jobs int) condense.Actions {
	w.t.Helper()
	for i := 0; ; i++ {
		v := w.view()
		a := condense.Plan(v)
		if !a.Due() {
			return a
		}
		if i > maxPlans {
			w.t.Fatalf("the plan does not come to rest: %+v", a)
		}
		nodes, err := w.make(l, a)
		if err != nil && !errors.Is(err, condense.ErrUnavailable) && !errors.Is(err, condense.ErrRefused) {
			w.t.Fatalf("ladder: %v", err)
		}
		for _, n := range nodes {
			if _, reason := w.try(n); overlaps(reason) {
				return condense.Actions{Stop: stopWedged}
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

func overlaps(reason string) bool {
	return strings.Contains(reason, "already covered") || strings.Contains(reason, "already condensed")
}

// make runs the ladder over planned jobs, in order, up to the first error.
func (w *world) make(l condense.Ladder, a condense.Actions) (out []*events.NodeCommitted, err error) {
	for _, j := range a.Leaves {
		lines, err := condense.LinesOf(w.entries(j.Entries), w.body)
		if err != nil {
			return out, err
		}
		n, err := l.Leaf(ctx, j, lines, j.Blocking)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	for _, j := range a.Groups {
		n, err := l.Condensed(ctx, j, j.Blocking)
		if err != nil {
			return out, err
		}
		out = append(out, n)
	}
	return out, nil
}

// close commits what ends a pass: its cut and its stall.
func (w *world) close(before *session.View, a condense.Actions) {
	w.t.Helper()
	if a.Cut != nil {
		w.cut(before, a)
	}
	if a.Stall != nil {
		w.must(a.Stall)
	}
}

// cut commits a planned cut and holds it to its word.
func (w *world) cut(before *session.View, a condense.Actions) {
	w.t.Helper()
	w.must(a.Cut)
	v := w.view()
	if v.Cut == nil || v.Cut.Through != a.Cut.Through {
		w.t.Fatalf("the cut did not become active: %+v", a.Cut)
	}
	if n := window.ContextTokens(v); n != a.Cut.TokensAfter || n >= a.Cut.TokensBefore {
		w.t.Fatalf("the cut promises %d tokens after %d, the context has %d: %+v", a.Cut.TokensAfter, a.Cut.TokensBefore, n, a.Cut)
	}
	if a.Cut.Kind == events.CutExtend && before.Cut != nil {
		old := before.Cut.Frontier
		for i := range old {
			if i >= len(a.Cut.Frontier) || a.Cut.Frontier[i] != old[i] {
				w.t.Fatalf("an extend changed the old block: %v, then %v", old, a.Cut.Frontier)
			}
		}
	}
	s := v.Settings
	stalled := a.Stall != nil && a.Stall.Reason == condense.StopStalled
	same := before.Cut != nil && slices.Equal(before.Cut.Frontier, a.Cut.Frontier)
	if a.Cut.BlockTokens > s.Share(s.SummaryBudget) && !stalled && !same && a.Cut.Through > 0 {
		w.t.Fatalf("a block of %d tokens is over its budget of %d, and nobody says so", a.Cut.BlockTokens, s.Share(s.SummaryBudget))
	}
}

// compare holds what the live fold wrote since the last call against the replay.
func (w *world) compare() {
	w.t.Helper()
	for k := range w.replay.touched {
		w.live.touched[k] = true
	}
	for k := range w.live.touched {
		kind, key := session.RowKind(k[0]), []byte(k[1:])
		a, _ := w.live.Get(kind, key)
		b, _ := w.replay.Get(kind, key)
		if !bytes.Equal(a, b) {
			w.t.Fatalf("row %c %x: live\n%s\nreplay\n%s", kind, key, a, b)
		}
	}
	clear(w.live.touched)
	clear(w.replay.touched)
}

// replayed folds the whole log once more and compares every row.
func (w *world) replayed() {
	w.t.Helper()
	again := newSide()
	f := w.folded(again)
	for _, rec := range w.log {
		d, err := session.Decode(rec)
		if err == nil {
			_, err = f.Apply(d)
		}
		if err != nil {
			w.t.Fatalf("replay: %v", err)
		}
	}
	if err := f.Flush(); err != nil {
		w.t.Fatalf("replay: %v", err)
	}
	rows := map[string][]byte{}
	w.live.Dump(func(k session.RowKind, key, value []byte) { rows[string(k)+string(key)] = value })
	again.Dump(func(k session.RowKind, key, value []byte) {
		if !bytes.Equal(rows[string(k)+string(key)], value) {
			w.t.Fatalf("row %c %x: live\n%s\nreplay\n%s", k, key, rows[string(k)+string(key)], value)
		}
		delete(rows, string(k)+string(key))
	})
	if len(rows) > 0 {
		w.t.Fatalf("%d rows of the live fold are not in the replay", len(rows))
	}
}

// dump lists the nodes of a session, for a failure's report.
func (w *world) dump() string {
	s := fmt.Sprintf("path %v cut %+v\n", w.fold.Head().Path, w.view().Cut)
	for n := uint64(1); n <= w.fold.Head().Nodes; n++ {
		d, by, _ := w.below(n)
		s += fmt.Sprintf("#%d depth %d %v children %v superseded by %d level %d\n", n, d.Depth, d.Covered, d.ChildNodes, by, d.Primary.Level)
	}
	for _, d := range w.view().Pending {
		s += fmt.Sprintf("pending #%d ", d.N)
	}
	return s
}
