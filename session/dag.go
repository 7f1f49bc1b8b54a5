package session

import (
	"slices"

	"lcm/events"
	"lcm/tokens"
)

// node accepts a summary: its key follows from its inputs, what it covers is
// a stretch of one path that nothing of its depth covers yet, and its texts
// keep the bounds it was made under.
func (f *Fold) node(d Decoded, p *events.NodeCommitted) (uint64, error) {
	if n, err := f.r.number(RowNodeKey, []byte(p.Key)); err != nil || n != 0 {
		return 0, firstOf(err, reject("key %s is already node #%d", p.Key, n))
	}
	node := Node{N: f.head.Nodes + 1, NodeCommitted: *p}
	node.Seq, node.Time = d.Record.Seq, f.head.Time
	node.SummaryTokens = p.Primary.Tokens
	if p.Primary.Level == 3 {
		node.Truncated = 1
	}
	old, err := f.superseded(p)
	if err != nil {
		return 0, err
	}
	if p.Depth == 0 {
		err = f.checkLeaf(&node, old)
	} else {
		err = f.checkCondensed(&node, old)
	}
	if err != nil {
		return 0, err
	}
	if old != nil && !slices.Equal(old.Covered, node.Covered) {
		return 0, reject("supersedes #%d but covers other entries", old.N)
	}
	if err := checkTiers(p); err != nil {
		return 0, err
	}
	return node.N, f.putNode(node, old)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// superseded finds the node a repair replaces, nil where p is no repair.
func (f *Fold) superseded(p *events.NodeCommitted) (*Node, error) {
	if p.Supersedes == "" {
		return nil, nil
	}
	n, err := f.r.number(RowNodeKey, []byte(p.Supersedes))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, reject("supersedes an unknown node %s", p.Supersedes)
	}
	by, err := f.r.number(RowSupersede, Num(n))
	if err != nil {
		return nil, err
	}
	if by != 0 {
		return nil, reject("#%d is already superseded by #%d", n, by)
	}
	var old Node
	err = f.r.must(RowNode, n, &old)
	if err == nil && old.Depth != p.Depth {
		err = reject("supersedes #%d of depth %d with depth %d", n, old.Depth, p.Depth)
	}
	return &old, err
}

// checkLeaf fills in what a leaf covers.
func (f *Fold) checkLeaf(node *Node, old *Node) error {
	p := &node.NodeCommitted
	if want := LeafKey(p.Entries, p.PromptVersion, p.Supersedes); p.Key != want {
		return reject("key %s does not follow from its entries", p.Key)
	}
	if len(p.Entries) == 0 || len(p.Children) > 0 {
		return reject("a leaf covers entries and has no children")
	}
	if p.First != p.Entries[0].First || p.Last != p.Entries[len(p.Entries)-1].Last {
		return reject("span e%d..e%d is not that of its entries", p.First, p.Last)
	}
	if p.First == 0 || p.First > p.Last || p.Last > f.head.Entries {
		return reject("span e%d..e%d, the session has %d entries", p.First, p.Last, f.head.Entries)
	}
	path, err := f.pathTo(p.Last)
	if err != nil {
		return err
	}
	pinned, err := f.r.pinned(path)
	if err != nil {
		return err
	}
	if p.First <= pinned {
		return reject("covers pinned entry e%d", p.First)
	}
	if !slices.Equal(path.Between(p.First, p.Last), p.Entries) {
		return reject("its entries are not the path from e%d to e%d", p.First, p.Last)
	}
	node.Covered = p.Entries
	return f.measureEntries(node, path, old)
}

// measureEntries sums up the covered entries and makes sure that no other leaf
// covers one of them on this path.
func (f *Fold) measureEntries(node *Node, path Path, old *Node) error {
	for _, r := range node.Covered {
		for n := r.First; n <= r.Last; n++ {
			var e Entry
			if err := f.r.entry(n, &e); err != nil {
				return err
			}
			if old == nil { // a repair covers what its predecessor did
				cover, err := f.r.numbers(RowCovering, n)
				if err != nil {
					return err
				}
				if other, err := f.rival(cover, path); err != nil || other != 0 {
					return firstOf(err, reject("e%d is already covered by #%d", n, other))
				}
			}
			node.SourceTokens += e.Tokens
			if node.FirstTime.IsZero() {
				node.FirstTime = e.When()
			}
			node.LastTime = e.When()
		}
	}
	return nil
}

// checkCondensed fills in what a condensed node covers.
func (f *Fold) checkCondensed(node *Node, old *Node) error {
	p := &node.NodeCommitted
	if p.Depth < 0 || p.Depth > events.DepthCap {
		return reject("depth %d, at most %d", p.Depth, events.DepthCap)
	}
	if want := CondensedKey(p.Depth, p.Children, p.PromptVersion, p.Supersedes); p.Key != want {
		return reject("key %s does not follow from its children", p.Key)
	}
	if len(p.Entries) > 0 || len(p.Children) < 2 || len(p.Children) > 8 || len(p.Children) > p.Bounds.MaxFan {
		return reject("%d children, 2 to %d allowed", len(p.Children), min(8, p.Bounds.MaxFan))
	}
	for _, key := range p.Children {
		child, err := f.child(key, p.Depth-1)
		if err != nil {
			return err
		}
		node.ChildNodes = append(node.ChildNodes, child.N)
		node.Covered = Joined(node.Covered, child.Covered)
		node.SourceTokens += child.SourceTokens
		node.SummaryTokens += child.SummaryTokens
		node.Below += child.Below + 1
		node.Truncated += child.Truncated
		if node.FirstTime.IsZero() {
			node.FirstTime = child.FirstTime
		}
		node.LastTime = child.LastTime
	}
	first, last := node.Covered[0].First, node.Covered[len(node.Covered)-1].Last
	if p.First != first || p.Last != last {
		return reject("span e%d..e%d is not that of its children, e%d..e%d", p.First, p.Last, first, last)
	}
	path, err := f.pathTo(p.Last)
	if err != nil {
		return err
	}
	if !slices.Equal(path.Between(first, last), node.Covered) {
		return reject("its children are not adjacent on the path to e%d", p.Last)
	}
	if old != nil {
		return nil // a repair condenses what its predecessor did
	}
	return f.checkUncondensed(node, path)
}

// child finds an unsuperseded child of the wanted depth.
func (f *Fold) child(key string, depth int) (*Node, error) {
	n, err := f.r.number(RowNodeKey, []byte(key))
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, reject("child %s is unknown", key)
	}
	var child Node
	if err := f.r.must(RowNode, n, &child); err != nil {
		return nil, err
	}
	if child.Depth != depth {
		return nil, reject("child #%d has depth %d, want %d", n, child.Depth, depth)
	}
	by, err := f.r.number(RowSupersede, Num(n))
	if err == nil && by != 0 {
		err = reject("child #%d is superseded by #%d", n, by)
	}
	return &child, err
}

// checkUncondensed makes sure that no child already has a parent on the path.
func (f *Fold) checkUncondensed(node *Node, path Path) error {
	for _, c := range node.ChildNodes {
		parents, err := f.parentsOf(c)
		if err != nil {
			return err
		}
		if other, err := f.rival(parents, path); err != nil || other != 0 {
			return firstOf(err, reject("child #%d is already condensed into #%d", c, other))
		}
	}
	return nil
}

// parentsOf are the nodes condensed from c or from a node it repairs.
func (f *Fold) parentsOf(c uint64) ([]uint64, error) {
	var all []uint64
	for c != 0 {
		parents, err := f.r.numbers(RowParents, c)
		if err != nil {
			return nil, err
		}
		all = append(all, parents...)
		var d Node
		if err := f.r.must(RowNode, c, &d); err != nil {
			return nil, err
		}
		if c = 0; d.Supersedes != "" {
			if c, err = f.r.number(RowNodeKey, []byte(d.Supersedes)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// rival finds an unsuperseded node among candidates that lies wholly on the
// path of a new node, 0 where there is none: the current path, or where the
// node is not on it, the path to its end. What leaves that path is no rival:
// after a rewind the new branch covers the shared part anew.
func (f *Fold) rival(candidates []uint64, path Path) (uint64, error) {
	if current := Path(f.head.Path); current.Contains(path.Leaf()) {
		path = current // also what reaches beyond the new node's end
	}
	for _, n := range candidates {
		by, err := f.r.number(RowSupersede, Num(n))
		if err != nil {
			return 0, err
		}
		if by != 0 {
			continue
		}
		var d Node
		if err := f.r.must(RowNode, n, &d); err != nil {
			return 0, err
		}
		if path.Covers(d.Covered) {
			return n, nil
		}
	}
	return 0, nil
}

// pathTo is the path to an entry: the current one where it passes through it.
func (f *Fold) pathTo(n uint64) (Path, error) {
	if p := Path(f.head.Path); p.Contains(n) {
		return p.Between(1, n), nil
	}
	return f.r.path(n)
}

// checkTiers recounts the texts and holds them against their bounds.
func checkTiers(p *events.NodeCommitted) error {
	tiers := []events.Tier{p.Primary}
	if p.Rich != nil {
		tiers = append(tiers, *p.Rich)
	}
	for _, t := range tiers {
		if t.Level < 1 || t.Level > 3 {
			return reject("a tier of level %d", t.Level)
		}
		n := tokens.Count(t.Text)
		if n != t.Tokens {
			return reject("a tier claims %d tokens and has %d", t.Tokens, n)
		}
		if n == 0 {
			return reject("an empty tier")
		}
		if n >= p.InputTokens {
			return reject("a tier of %d tokens is not smaller than its input of %d", n, p.InputTokens)
		}
	}
	if p.Primary.Tokens > p.Bounds.HardCap {
		return reject("%d tokens exceed the cap of %d", p.Primary.Tokens, p.Bounds.HardCap)
	}
	if p.Rich != nil && p.Rich.Tokens > max(p.Bounds.HardCap, p.InputTokens/2) {
		return reject("a rich tier of %d tokens exceeds the cap of %d and half its input", p.Rich.Tokens, p.Bounds.HardCap)
	}
	return nil
}

func (f *Fold) putNode(node Node, old *Node) error {
	if err := f.r.put(RowNode, Num(node.N), node); err != nil {
		return err
	}
	if err := f.r.Put(RowNodeKey, []byte(node.Key), Num(node.N)); err != nil {
		return err
	}
	if node.Depth == 0 {
		for _, r := range node.Covered {
			for n := r.First; n <= r.Last; n++ {
				if err := f.r.extend(RowCovering, Num(n), node.N); err != nil {
					return err
				}
			}
		}
	}
	for _, c := range node.ChildNodes {
		if err := f.r.extend(RowParents, Num(c), node.N); err != nil {
			return err
		}
	}
	if old != nil {
		if err := f.r.Put(RowSupersede, Num(old.N), Num(node.N)); err != nil {
			return err
		}
	}
	f.head.Nodes = node.N
	return nil
}

// cut accepts a cut that fits the path at its own position.
func (f *Fold) cut(d Decoded, p *events.CutCommitted) (uint64, error) {
	c := Cut{N: f.head.Cuts + 1, CutCommitted: *p}
	c.Seq, c.Time = d.Record.Seq, f.head.Time
	if err := f.checkCut(&c); err != nil {
		return 0, err
	}
	if err := f.reach(&c); err != nil {
		return 0, err
	}
	if err := f.r.put(RowCut, Num(c.N), c); err != nil {
		return 0, err
	}
	f.head.Cuts = c.N
	return c.N, f.activate(&c)
}

// reach notes how far this and all earlier cuts reach.
func (f *Fold) reach(c *Cut) error {
	c.Furthest = c.Through
	if c.N == 1 {
		return nil
	}
	var last Cut
	if err := f.r.must(RowCut, c.N-1, &last); err != nil {
		return err
	}
	c.Furthest = max(c.Through, last.Furthest)
	return nil
}

func (f *Fold) checkCut(c *Cut) error {
	path := Path(f.head.Path)
	var covered []events.Range
	for _, s := range c.Frontier {
		n, err := f.r.number(RowNodeKey, []byte(s.Key))
		if err != nil {
			return err
		}
		if n == 0 {
			return reject("frontier names an unknown node %s", s.Key)
		}
		var d Node
		if err := f.r.must(RowNode, n, &d); err != nil {
			return err
		}
		switch s.Tier {
		case events.TierRich, events.TierPrimary, events.TierStub, events.TierHeader:
		default:
			return reject("frontier shows #%d as %q", n, s.Tier)
		}
		c.Nodes = append(c.Nodes, n)
		covered = Joined(covered, d.Covered)
	}
	if !slices.Equal(covered, path.Between(f.head.Pinned+1, c.Through)) {
		return reject("the frontier does not cover the path to e%d without a gap", c.Through)
	}
	return f.checkCutTail(c, path)
}

// checkCutTail checks what the cut says of the raw turns, and that it is not
// behind the active cut.
func (f *Fold) checkCutTail(c *Cut, path Path) error {
	if c.Through != 0 && !path.Contains(c.Through) {
		return reject("e%d is not on the path", c.Through)
	}
	if len(c.Frontier) == 0 && len(c.Clips) == 0 {
		return reject("a cut that changes nothing")
	}
	if c.Kept != 0 && (c.Kept > c.Through || !path.Contains(c.Kept)) {
		return reject("keeps e%d, which it does not cover", c.Kept)
	}
	for _, clip := range c.Clips {
		if clip.Entry <= c.Through || !path.Contains(clip.Entry) || clip.Tokens < 0 {
			return reject("clips e%d, which is not behind e%d on the path", clip.Entry, c.Through)
		}
	}
	if f.head.ActiveCut == 0 {
		return nil
	}
	var active Cut
	if err := f.r.must(RowCut, f.head.ActiveCut, &active); err != nil {
		return err
	}
	if c.Through < active.Through {
		return reject("reaches e%d, the active cut e%d", c.Through, active.Through)
	}
	if c.Through == active.Through && c.Kept == active.Kept &&
		slices.Equal(c.Frontier, active.Frontier) && slices.Equal(c.Clips, active.Clips) {
		return reject("the same as the active cut #%d", active.N)
	}
	return nil
}
