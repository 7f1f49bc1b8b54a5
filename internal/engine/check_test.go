package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"lcm/condense"
	"lcm/session"
	"lcm/transcript"
	"lcm/window"
)

// checker holds a world against every rule, after every step.
type checker struct {
	w    *world
	last *rendered           // of the step before
	seen map[shownKey]digest // what a context was when it was first seen
	good map[digest]bool     // contexts that every provider accepts
	past []moment            // what was answered earlier, by position
	pick func(n int) int     // which of n past moments is asked again
}

// rendered is a context and where it was taken.
type rendered struct {
	leaf, cut uint64
	budget    int
	parts     []string
	stable    int
	prefix    string
}

// shownKey: what the context of a session is a function of, settings aside.
type shownKey struct{ leaf, cut uint64 }

type digest [sha256.Size]byte

type moment struct {
	seq    uint64
	digest digest
	head   session.Head
}

func newChecker(w *world, pick func(int) int) *checker {
	return &checker{w: w, seen: map[shownKey]digest{}, good: map[digest]bool{}, pick: pick}
}

// run is the invariant of every state.
func (c *checker) run() {
	c.w.t.Helper()
	c.w.compare()
	c.structure()
	v := c.w.view()
	c.coverage(v)
	c.plan(v)
	c.context(v)
	c.again()
}

// structure: paths, acyclic, spans contiguous, coverage, references.
func (c *checker) structure() {
	t := c.w.t
	t.Helper()
	faults, err := c.w.reader().Audit(true)
	if err != nil || len(faults) > 0 {
		t.Fatalf("audit: %v %v\n%s", err, faults, c.w.dump())
	}
	c.uncovered()
	h := c.w.fold.Head()
	if faults, _, err = c.w.reader().AuditEntries(1, h.Entries, 0); err != nil || len(faults) > 0 {
		t.Fatalf("audit of entries: %v %v", err, faults)
	}
	for n := uint64(1); n <= h.Entries; n++ {
		body, err := c.w.reader().Body(n)
		if err != nil || body != nil && !bytes.Equal(body, c.w.payloads[n]) {
			t.Fatalf("e%d is not what was appended (%v)", n, err)
		}
	}
}

// uncovered: what is counted as under no summary is what no leaf on the path holds.
func (c *checker) uncovered() {
	t := c.w.t
	t.Helper()
	h := c.w.fold.Head()
	path := session.Path(h.Path)
	left := map[uint64]bool{}
	for _, n := range path.After(0) {
		left[n] = true
	}
	for n := uint64(1); n <= h.Nodes; n++ {
		if d := c.w.node(n); d.Depth == 0 && path.Covers(d.Covered) {
			for _, e := range session.Path(d.Covered).After(0) {
				delete(left, e)
			}
		}
	}
	if n, err := c.w.reader().Uncovered(); err != nil || n != len(left) {
		t.Fatalf("%d turns are under no summary (%v), want %d", n, err, len(left))
	}
}

// coverage: every turn of the path is reached exactly once, as itself or by
// expanding what stands for it; expand gives back just what a node covers.
func (c *checker) coverage(v *session.View) {
	t := c.w.t
	t.Helper()
	var reached []uint64
	for _, e := range v.Pinned {
		reached = append(reached, e.N)
	}
	for _, d := range v.Frontier {
		reached = append(reached, c.expand(d)...)
	}
	for _, e := range v.Tail {
		reached = append(reached, e.N)
	}
	if path := session.Path(c.w.fold.Head().Path).After(0); !slices.Equal(reached, path) {
		t.Fatalf("the context reaches %v, the path is %v\n%s", reached, path, c.w.dump())
	}
	for _, d := range v.Pending {
		c.expand(d)
	}
}

// expand descends from a node to its leaves.
func (c *checker) expand(d session.Node) []uint64 {
	c.w.t.Helper()
	var out []uint64
	if d.Depth == 0 {
		out = session.Path(d.Entries).After(0)
	}
	for _, n := range d.ChildNodes {
		out = append(out, c.expand(c.w.node(n))...)
	}
	if covered := session.Path(d.Covered).After(0); !slices.Equal(out, covered) {
		c.w.t.Fatalf("#%d expands to %v and covers %v", d.N, out, covered)
	}
	return out
}

// plan: a function of the view, one stage at a time, quiet below soft, never
// into the fresh tail.
func (c *checker) plan(v *session.View) {
	t := c.w.t
	t.Helper()
	a := condense.Plan(v)
	if diff := cmp.Diff(a, condense.Plan(v)); diff != "" {
		t.Fatalf("two plans of one view differ: %s", diff)
	}
	if a.Due() == (a.Stop != "") && a.Stall == nil && a.Cut == nil {
		t.Fatalf("due without an action, or nothing due without a reason: %+v", a)
	}
	if a.Tokens <= a.Soft && a.Due() {
		t.Fatalf("something is due below the soft threshold: %+v", a)
	}
	stages := 0
	for _, has := range []bool{len(a.Leaves) > 0, len(a.Groups) > 0, a.Cut != nil} {
		if has {
			stages++
		}
	}
	if stages > 1 {
		t.Fatalf("more than one stage planned: %+v", a)
	}
	start := window.TailStart(v)
	for _, j := range a.Leaves {
		if start < len(v.Tail) && j.Last >= v.Tail[start].N {
			t.Fatalf("leaf e%d..e%d reaches into the fresh tail from e%d", j.First, j.Last, v.Tail[start].N)
		}
	}
}

// context: within B or degraded and saying so, counted as the planner counts,
// valid for every provider, and between cuts an extension of the one before.
func (c *checker) context(v *session.View) {
	t := c.w.t
	t.Helper()
	ctx := c.render(v, true)
	n := window.ContextTokens(v)
	if ctx.Degraded != (n > v.Settings.Budget()) || !ctx.Degraded && ctx.Tokens != n {
		t.Fatalf("%d tokens, B is %d, rendered %d, degraded %v", n, v.Settings.Budget(), ctx.Tokens, ctx.Degraded)
	}
	if ctx.Tokens > ctx.Budget {
		t.Fatalf("%d tokens, over B = %d", ctx.Tokens, ctx.Budget)
	}
	c.valid(ctx)
	if ctx.Degraded { // the same without the emergency: valid too, but over B
		ctx = c.render(v, false)
		c.valid(ctx)
	}
	if n := len(ctx.Messages); n > 0 && ctx.EndsWith != ctx.Messages[n-1].Role {
		t.Fatalf("ends with %s, says %s", ctx.Messages[n-1].Role, ctx.EndsWith)
	}
	c.extends(v, ctx)
}

func (c *checker) render(v *session.View, emergency bool) *window.Context {
	c.w.t.Helper()
	ctx, err := window.Render(v, c.w.body, window.Options{Emergency: emergency})
	if err != nil {
		c.w.t.Fatalf("render: %v", err)
	}
	return ctx
}

func (c *checker) valid(ctx *window.Context) {
	c.w.t.Helper()
	d := digestOf(partBytes(ctx))
	if len(ctx.Messages) == 0 || c.good[d] {
		return
	}
	c.good[d] = true
	for _, f := range []transcript.Format{transcript.OpenAI, transcript.Anthropic, transcript.Plain} {
		enc, err := ctx.Encode(f)
		if err == nil && len(enc.Messages) > 0 {
			err = transcript.Check(f, enc)
		}
		if err != nil {
			c.w.t.Fatalf("%s: %v\n%s", f, err, c.w.dump())
		}
	}
}

// extends compares with the context of the step before and with every earlier
// one of the same leaf and cut: moving back restores the same bytes.
func (c *checker) extends(v *session.View, ctx *window.Context) {
	t := c.w.t
	t.Helper()
	if v.Entries == 0 { // nothing was shown to anybody yet
		return
	}
	now := &rendered{leaf: v.Leaf, cut: ctx.Cut, budget: ctx.Budget, parts: partBytes(ctx), stable: ctx.Stable, prefix: ctx.PrefixHash}
	if old := c.last; old != nil && old.cut == now.cut && session.Path(c.w.fold.Head().Path).Contains(old.leaf) {
		for i := range old.stable {
			if i >= len(now.parts) || old.parts[i] != now.parts[i] {
				t.Fatalf("part %d of %d changed between two cuts (e%d, then e%d)\n%.300s\n%.300s", i, old.stable, old.leaf, now.leaf, old.parts[i], now.parts[min(i, len(now.parts)-1)])
			}
		}
		if old.prefix != now.prefix {
			t.Fatalf("the prefix hash changed without a cut")
		}
	}
	c.last = now
	d := digestOf(now.parts)
	key := shownKey{leaf: v.Leaf, cut: ctx.Cut}
	if old, ok := c.seen[key]; ok && old != d {
		t.Fatalf("the context of e%d behind cut %d is not what it was", key.leaf, key.cut)
	}
	c.seen[key] = d
	c.past = append(c.past, moment{uint64(len(c.w.log)), d, asOf(c.w.fold.Head())})
}

// again asks for one earlier position: it answers what was answered then.
func (c *checker) again() {
	t := c.w.t
	t.Helper()
	if len(c.past) == 0 {
		return
	}
	m := c.past[c.pick(len(c.past))]
	s, err := c.w.reader().At(m.seq)
	if err != nil {
		t.Fatalf("state at %d: %v", m.seq, err)
	}
	ctx := c.render(c.w.viewAt(s), false)
	if digestOf(partBytes(ctx)) != m.digest {
		t.Fatalf("the context at position %d is not what it was then", m.seq)
	}
	h, err := c.w.reader().HeadAt(m.seq)
	if diff := cmp.Diff(m.head, asOf(h)); err != nil || diff != "" {
		t.Fatalf("the head at position %d is not what it was then: %v %s", m.seq, err, diff)
	}
}

// asOf leaves out of a head what the past does not tell.
func asOf(h session.Head) session.Head {
	h.Timeline, h.Derived, h.Time = session.LaneHead{}, session.LaneHead{}, time.Time{}
	return h
}

// partBytes is the content of each part, to be compared byte for byte.
func partBytes(c *window.Context) []string {
	out := make([]string, len(c.Parts))
	for i, p := range c.Parts {
		m := c.Messages[p.Message]
		b, _ := json.Marshal(m.Blocks[p.Block : p.Block+p.Blocks])
		out[i] = string(m.Role) + " " + string(b)
	}
	return out
}

func digestOf(parts []string) digest {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return digest(h.Sum(nil))
}
