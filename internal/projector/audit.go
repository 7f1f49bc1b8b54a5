package projector

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// sessions checks the structure of every session: the invariants that the
// fold promises, computed again from the rows.
func (d *doctor) sessions(ctx context.Context) {
	var faults []string
	var after uint64
	n := 0
	for ctx.Err() == nil {
		var refs []events.Ref
		err := d.s.view(func(tx api.StoreTx) (err error) {
			refs, after, err = tx.EachSession(after, auditPage)
			return err
		})
		if err != nil {
			faults = append(faults, err.Error())
			break
		}
		if len(refs) == 0 {
			break
		}
		n += len(refs)
		for _, ref := range refs {
			faults = append(faults, d.session(ref)...)
		}
	}
	if !d.add("sessions", faults, fmt.Sprintf("%d sessions: paths, nodes, coverage and cuts hold together", n)) {
		d.storeBad = true
	}
}

func (d *doctor) session(ref events.Ref) []string {
	a := audit{ref: ref, deep: d.deep}
	step := func(check func() error) error {
		return d.s.view(func(tx api.StoreTx) error {
			rows, err := tx.Rows(ref)
			if err != nil {
				return err
			}
			a.r = session.NewReader(rows)
			return check()
		})
	}
	err := step(a.run)
	for n := uint64(1); d.deep && err == nil && n <= a.head.Entries; n += auditPage {
		err = step(func() error { return a.entries(n, min(n+auditPage-1, a.head.Entries)) })
	}
	if err != nil {
		a.fault("%v", err)
	}
	return a.faults
}

// audit is the check of one session.
type audit struct {
	r      session.Reader
	ref    events.Ref
	deep   bool
	head   session.Head
	path   session.Path
	seq    uint64 // of the entry before
	faults []string
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf("session %s: ", a.ref)+fmt.Sprintf(format, args...))
}

func (a *audit) run() error {
	var err error
	if a.head, err = a.r.Head(); err != nil {
		return err
	}
	a.path = a.head.Path
	if a.path.Leaf() != a.head.Leaf || a.head.Leaf > a.head.Entries {
		a.fault("its path ends at e%d, its leaf is e%d of %d entries", a.path.Leaf(), a.head.Leaf, a.head.Entries)
	}
	for _, check := range []func() error{a.nodes, a.coverage, a.cuts, a.now} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// nodes: spans, children and back references of every node.
func (a *audit) nodes() error {
	for n := uint64(1); n <= a.head.Nodes; n++ {
		d, err := a.r.Node(n)
		if err != nil {
			return err
		}
		if len(d.Covered) == 0 || d.First != d.Covered[0].First || d.Last != d.Covered[len(d.Covered)-1].Last || d.Last > a.head.Entries {
			a.fault("node #%d spans e%d..e%d and covers %v", n, d.First, d.Last, d.Covered)
		}
		if by, err := a.r.NodeOf(d.Key); err != nil || by != n {
			a.fault("the key of node #%d leads to #%d (%v)", n, by, err)
		}
		if d.Depth > 0 {
			err = a.children(d)
		} else if a.deep {
			err = a.leaf(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *audit) leaf(d session.Node) error {
	for _, rg := range d.Covered {
		for n := rg.First; n <= rg.Last; n++ {
			leaves, err := a.r.Covering(n)
			if err != nil {
				return err
			}
			if !slices.Contains(leaves, d.N) {
				a.fault("e%d does not know that node #%d covers it", n, d.N)
			}
		}
	}
	return nil
}

func (a *audit) children(d session.Node) error {
	var covered []events.Range
	for _, n := range d.ChildNodes {
		if n == 0 || n >= d.N {
			a.fault("node #%d has the child #%d", d.N, n)
			return nil
		}
		c, err := a.r.Node(n)
		if err != nil {
			return err
		}
		parents, err := a.r.Parents(n)
		if err != nil {
			return err
		}
		if c.Depth != d.Depth-1 || !slices.Contains(parents, d.N) {
			a.fault("child #%d of node #%d has depth %d and the parents %v", n, d.N, c.Depth, parents)
		}
		covered = session.Joined(covered, c.Covered)
	}
	if !slices.Equal(covered, d.Covered) {
		a.fault("node #%d covers %v, its children %v", d.N, d.Covered, covered)
	}
	return nil
}

// coverage: no entry of the path lies under two leaves that both count there.
func (a *audit) coverage() error {
	covered := map[uint64]uint64{} // first entry of a range → leaf
	var ranges []events.Range
	for n := uint64(1); n <= a.head.Nodes; n++ {
		d, err := a.r.Node(n)
		if err != nil {
			return err
		}
		by, err := a.r.SupersededBy(n)
		if err != nil {
			return err
		}
		if d.Depth > 0 || by != 0 || !a.path.Covers(d.Covered) {
			continue
		}
		for _, rg := range d.Covered {
			if other, ok := covered[rg.First]; ok {
				a.fault("e%d is covered by the nodes #%d and #%d at once", rg.First, other, n)
			}
			covered[rg.First] = n
		}
		ranges = append(ranges, d.Covered...)
	}
	slices.SortFunc(ranges, func(x, y events.Range) int { return cmp.Compare(x.First, y.First) })
	for i := 1; i < len(ranges); i++ {
		if x, y := ranges[i-1], ranges[i]; y.First <= x.Last {
			a.fault("e%d is covered by the nodes #%d and #%d at once", y.First, covered[x.First], covered[y.First])
		}
	}
	return nil
}

// cuts: every node that a cut shows is there and covers, with the others, all
// it says.
func (a *audit) cuts() error {
	for n := uint64(1); n <= a.head.Cuts; n++ {
		c, err := a.r.Cut(n)
		if err != nil {
			return err
		}
		if len(c.Nodes) != len(c.Frontier) {
			a.fault("cut #%d shows %d nodes of %d", n, len(c.Nodes), len(c.Frontier))
			continue
		}
		var covered []events.Range
		for i, id := range c.Nodes {
			d, err := a.r.Node(id)
			if err != nil {
				return err
			}
			if d.Key != c.Frontier[i].Key || d.Seq > c.Seq {
				a.fault("cut #%d shows node #%d under another key or before its time", n, id)
			}
			covered = session.Joined(covered, d.Covered)
		}
		if last := session.Path(covered).Leaf(); last != c.Through {
			a.fault("cut #%d reaches e%d, its nodes e%d", n, c.Through, last)
		}
	}
	return nil
}

// now: the active cut fits the path, and the context counts as the head says.
func (a *audit) now() error {
	st, err := a.r.Now()
	if err != nil {
		return err
	}
	v, err := a.r.View(a.ref, st)
	if err != nil {
		return err
	}
	sum := 0
	clipped := map[uint64]int{}
	if st.Cut != nil {
		sum = st.Cut.BlockTokens
		if st.Cut.Through != 0 && !a.path.Contains(st.Cut.Through) {
			a.fault("the active cut #%d reaches e%d, which is not on the path", st.Cut.N, st.Cut.Through)
		}
		for _, c := range st.Cut.Clips {
			clipped[c.Entry] = c.Tokens
		}
	}
	add := func(e session.Entry) {
		if t, ok := clipped[e.N]; ok {
			sum += t
		} else {
			sum += e.Tokens
		}
	}
	if v.Kept != nil {
		add(*v.Kept)
	}
	for _, e := range append(v.Pinned, v.Tail...) {
		add(e)
	}
	if sum != a.head.ContextTokens {
		a.fault("its context has %d tokens, the head says %d", sum, a.head.ContextTokens)
	}
	return nil
}

// entries: every one is there, with its id, its parent and its body.
func (a *audit) entries(from, to uint64) error {
	for n := from; n <= to; n++ {
		e, err := a.r.Entry(n)
		if err != nil {
			return err
		}
		if e.N != n || e.Seq <= a.seq || e.Parent >= n {
			a.fault("e%d stands at position %d behind %d, with the parent e%d", n, e.Seq, a.seq, e.Parent)
		}
		a.seq = e.Seq
		if by, err := a.r.EntryOf(e.ID); err != nil || by != n {
			a.fault("the id of e%d leads to e%d (%v)", n, by, err)
		}
		if body, err := a.r.Body(n); err != nil || (body == nil) != e.Big {
			a.fault("the body of e%d is missing (%v)", n, err)
		}
	}
	return nil
}
