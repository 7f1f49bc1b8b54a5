package session

import (
	"cmp"
	"fmt"
	"slices"

	"lcm/events"
)

// Audit holds the rows of one session against what the fold promises of them,
// computed anew: paths, spans, node shape, children, coverage, references, the
// active context. It is what `lcm doctor` runs, and what the engine's state
// machine runs after every step. Faults are found things, one sentence each;
// the error is the store's.
//
// Its cost follows nodes and cuts; deep, also the entries the nodes cover.
func (q Reader) Audit(deep bool) (faults []string, err error) {
	a := audit{Reader: q, deep: deep, read: map[uint64]Node{}}
	err = a.run()
	return a.faults, err
}

// AuditEntries checks entries from..to: each is there, with its id, its parent
// and its body, behind the one before. after is the position of entry from-1,
// 0 = not known; the last entry's position is returned, for the next page.
func (q Reader) AuditEntries(from, to, after uint64) (faults []string, last uint64, err error) {
	a := audit{Reader: q}
	for n := from; n <= to; n++ {
		e, err := q.Entry(n)
		if err != nil {
			return a.faults, after, err
		}
		if e.N != n || e.Seq <= after || e.Parent >= n {
			a.fault("e%d stands at position %d behind %d, with the parent e%d", n, e.Seq, after, e.Parent)
		}
		after = e.Seq
		if by, err := q.EntryOf(e.ID); err != nil || by != n {
			a.fault("the id of e%d leads to e%d (%v)", n, by, err)
		}
		if body, err := q.Body(n); err != nil || (body == nil) != e.Big {
			a.fault("the body of e%d is missing (%v)", n, err)
		}
	}
	return a.faults, after, nil
}

// Uncovered counts the turns on the path that no summary covers yet. It reads
// the nodes, never the turns.
func (q Reader) Uncovered() (int, error) {
	h, err := q.Head()
	if err != nil {
		return 0, err
	}
	path := Path(h.Path)
	var covered []events.Range
	for n := uint64(1); n <= h.Nodes; n++ {
		d, err := q.Node(n)
		if err != nil {
			return 0, err
		}
		if d.Depth == 0 && path.Covers(d.Covered) {
			covered = append(covered, d.Covered...)
		}
	}
	slices.SortFunc(covered, func(x, y events.Range) int { return cmp.Compare(x.First, y.First) })
	left, next := path.Len(), uint64(0) // next: behind what is counted
	for _, r := range covered {
		if r.First = max(r.First, next); r.First <= r.Last {
			left -= Count(path.Between(r.First, r.Last))
			next = r.Last + 1
		}
	}
	return left, nil
}

type audit struct {
	Reader
	deep   bool
	head   Head
	path   Path
	read   map[uint64]Node // without their texts
	faults []string
}

// Node reads a node once: children, coverage and cuts ask for it again.
func (a *audit) Node(n uint64) (Node, error) {
	if d, ok := a.read[n]; ok {
		return d, nil
	}
	d, err := a.Reader.Node(n)
	if err == nil {
		d.Primary.Text, d.Rich = "", nil
		a.read[n] = d
	}
	return d, err
}

func (a *audit) fault(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *audit) run() error {
	var err error
	if a.head, err = a.Head(); err != nil {
		return err
	}
	a.path = a.head.Path
	if a.head.Entries > 0 && a.head.Leaf == 0 {
		a.fault("it has %d turns and no leaf", a.head.Entries)
	}
	if a.path.Leaf() != a.head.Leaf || a.head.Leaf > a.head.Entries {
		a.fault("its path ends at e%d, its leaf is e%d of %d entries", a.path.Leaf(), a.head.Leaf, a.head.Entries)
	}
	if path, err := a.r.path(a.head.Leaf); err != nil || !slices.Equal(path, a.path) {
		a.fault("its path is %v, its branches make %v (%v)", a.path, path, err)
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
	spans := map[string]uint64{} // depth and covered set → node
	for n := uint64(1); n <= a.head.Nodes; n++ {
		d, err := a.Node(n)
		if err != nil {
			return err
		}
		if len(d.Covered) == 0 || d.First != d.Covered[0].First || d.Last != d.Covered[len(d.Covered)-1].Last || d.Last > a.head.Entries {
			a.fault("node #%d spans e%d..e%d and covers %v", n, d.First, d.Last, d.Covered)
			continue
		}
		if by, err := a.NodeOf(d.Key); err != nil || by != n {
			a.fault("the key of node #%d leads to #%d (%v)", n, by, err)
		}
		if err := a.alone(d, spans); err != nil {
			return err
		}
		if d.Depth > 0 {
			err = a.children(d)
		} else {
			err = a.leaf(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// alone: no two nodes of one depth cover the same entries, unless one repairs
// the other.
func (a *audit) alone(d Node, spans map[string]uint64) error {
	by, err := a.SupersededBy(d.N)
	if err != nil || by != 0 {
		if by != 0 && by <= d.N {
			a.fault("node #%d is superseded by the older #%d", d.N, by)
		}
		return err
	}
	key := fmt.Sprint(d.Depth, d.Covered)
	if other := spans[key]; other != 0 {
		a.fault("the nodes #%d and #%d of depth %d cover the same entries", other, d.N, d.Depth)
	}
	spans[key] = d.N
	return nil
}

// leaf: its entries are a stretch of the path to its end, and know it.
func (a *audit) leaf(d Node) error {
	path := a.path
	if !path.Contains(d.Last) {
		var err error
		if path, err = a.r.path(d.Last); err != nil {
			return err
		}
	}
	if !slices.Equal(path.Between(d.First, d.Last), d.Covered) {
		a.fault("node #%d covers %v, which is no stretch of the path to e%d", d.N, d.Covered, d.Last)
	}
	if !a.deep {
		return nil
	}
	for _, n := range Path(d.Covered).After(0) {
		leaves, err := a.Covering(n)
		if err != nil {
			return err
		}
		if !slices.Contains(leaves, d.N) {
			a.fault("e%d does not know that node #%d covers it", n, d.N)
		}
	}
	return nil
}

// children: older, of the depth below, adjacent, and together what it covers.
// Because they are older, the DAG has no cycle.
func (a *audit) children(d Node) error {
	if len(d.ChildNodes) < 2 || len(d.ChildNodes) > d.Bounds.MaxFan || len(d.ChildNodes) != len(d.Children) {
		a.fault("node #%d has %d children and names %d", d.N, len(d.ChildNodes), len(d.Children))
	}
	var covered []events.Range
	truncated := 0
	if d.Primary.Level == 3 {
		truncated = 1
	}
	for i, n := range d.ChildNodes {
		if n == 0 || n >= d.N {
			a.fault("node #%d has the child #%d", d.N, n)
			return nil
		}
		c, err := a.Node(n)
		if err != nil {
			return err
		}
		parents, err := a.Parents(n)
		if err != nil {
			return err
		}
		if c.Depth != d.Depth-1 || !slices.Contains(parents, d.N) || i < len(d.Children) && c.Key != d.Children[i] {
			a.fault("child #%d of node #%d has depth %d, the parents %v and another key", n, d.N, c.Depth, parents)
		}
		covered = Joined(covered, c.Covered)
		truncated += c.Truncated
	}
	if d.Truncated != truncated {
		a.fault("node #%d counts %d truncated nodes, there are %d", d.N, d.Truncated, truncated)
	}
	if !slices.Equal(covered, d.Covered) {
		a.fault("node #%d covers %v, its children %v", d.N, d.Covered, covered)
	}
	return nil
}

// coverage: on a path that nothing ever left, no entry lies under two leaves.
// After branch moves two may: one made for the shared part on another branch,
// in the middle of a leaf that counts again since the leaf moved back. Which of
// them is shown is the cut's to say, and shown is each entry once (see now).
func (a *audit) coverage() error {
	moved, _, err := a.r.Floor(RowMove, Num(maxSeq))
	if err != nil || moved != nil || len(a.path) != 1 || a.path.Leaf() != a.head.Entries {
		return err
	}
	covers := map[uint64]uint64{} // last entry of a range → its leaf
	var ranges []events.Range
	for n := uint64(1); n <= a.head.Nodes; n++ {
		d, err := a.Node(n)
		if err != nil {
			return err
		}
		by, err := a.SupersededBy(n)
		if err != nil {
			return err
		}
		if d.Depth > 0 || by != 0 {
			continue
		}
		for _, rg := range d.Covered {
			covers[rg.Last] = n
		}
		ranges = append(ranges, d.Covered...)
	}
	slices.SortFunc(ranges, func(x, y events.Range) int { return cmp.Compare(x.First, y.First) })
	for i := 1; i < len(ranges); i++ {
		if x, y := ranges[i-1], ranges[i]; y.First <= x.Last {
			a.fault("e%d is covered by the nodes #%d and #%d at once", y.First, covers[x.Last], covers[y.Last])
		}
	}
	return nil
}

// cuts: every node that a cut shows is there and covers, with the others, all
// it says.
func (a *audit) cuts() error {
	for n := uint64(1); n <= a.head.Cuts; n++ {
		c, err := a.Cut(n)
		if err != nil {
			return err
		}
		if len(c.Nodes) != len(c.Frontier) {
			a.fault("cut #%d shows %d nodes of %d", n, len(c.Nodes), len(c.Frontier))
			continue
		}
		var covered []events.Range
		for i, id := range c.Nodes {
			d, err := a.Node(id)
			if err != nil {
				return err
			}
			if d.Key != c.Frontier[i].Key || d.Seq > c.Seq {
				a.fault("cut #%d shows node #%d under another key or before its time", n, id)
			}
			covered = Joined(covered, d.Covered)
		}
		if last := Path(covered).Leaf(); last != c.Through {
			a.fault("cut #%d reaches e%d, its nodes e%d", n, c.Through, last)
		}
	}
	return nil
}

// now: the active context shows every entry of the path exactly once, and
// counts as the head says.
func (a *audit) now() error {
	st, err := a.Now()
	if err != nil {
		return err
	}
	v, err := a.View(events.Ref{}, st)
	if err != nil {
		return err
	}
	sum := 0
	clipped := map[uint64]int{}
	if st.Cut != nil {
		sum = st.Cut.BlockTokens
		for _, c := range st.Cut.Clips {
			clipped[c.Entry] = c.Tokens
		}
	}
	var shown []events.Range
	add := func(e Entry) {
		if t, ok := clipped[e.N]; ok {
			sum += t
		} else {
			sum += e.Tokens
		}
	}
	if v.Kept != nil {
		add(*v.Kept)
	}
	for _, e := range v.Pinned {
		add(e)
		shown = Joined(shown, []events.Range{{First: e.N, Last: e.N}})
	}
	for _, d := range v.Frontier {
		shown = Joined(shown, d.Covered)
	}
	for _, e := range v.Tail {
		add(e)
		shown = Joined(shown, []events.Range{{First: e.N, Last: e.N}})
	}
	if !slices.Equal(Path(shown), a.path) {
		a.fault("its context shows %v, its path is %v", shown, a.path)
	}
	if sum != a.head.ContextTokens {
		a.fault("its context has %d tokens, the head says %d", sum, a.head.ContextTokens)
	}
	return nil
}
