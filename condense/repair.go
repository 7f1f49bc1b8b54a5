package condense

import (
	"lcm/session"
	"lcm/window"
)

// Below reads the DAG under a view: node n, and the number of the node that
// superseded it (0 = none).
type Below func(n uint64) (d session.Node, by uint64, err error)

// StopRepaired: every shown node, down to its leaves, is as good as it gets.
const StopRepaired = "nothing-to-repair"

// PlanRepairs plans the redoing of level-3 nodes under what a view shows and
// has pending, and of the nodes condensed from superseded ones: leaves first,
// a parent only once its children are done. Called again after each commit it
// returns the next step. It walks down where a node counts truncated ones, and
// is for when an outage is over; limit bounds the jobs (0 = all).
func PlanRepairs(v *session.View, below Below, limit int) (Actions, error) {
	p := &pass{v: v, z: sizesOf(v.Settings)}
	p.a = Actions{Soft: p.z.soft, Budget: p.z.budget, Target: p.z.cutTarget, Tokens: window.ContextTokens(v)}
	p.a.Regime = window.RegimeOf(p.a.Tokens, v.Settings)
	w := &walk{pass: p, below: below, limit: limit, seen: map[uint64]visited{}}
	for _, nodes := range [][]session.Node{v.Frontier, v.Pending} {
		for _, d := range nodes {
			if _, err := w.visit(d); err != nil {
				return Actions{}, err
			}
		}
	}
	if !p.a.Due() {
		p.a.Stop = StopRepaired
	}
	return p.a, nil
}

// walk visits the DAG from a view down.
type walk struct {
	*pass
	below Below
	limit int
	seen  map[uint64]visited
}

// visited is the newest version of a node, and whether nothing of it or below
// it is left to repair.
type visited struct {
	node session.Node
	good bool
}

func (w *walk) full() bool {
	return w.limit > 0 && len(w.a.Leaves)+len(w.a.Groups) >= w.limit
}

func (w *walk) visit(d session.Node) (visited, error) {
	if got, ok := w.seen[d.N]; ok {
		return got, nil
	}
	got, err := w.judge(d)
	if err == nil {
		w.seen[d.N], w.seen[got.node.N] = got, got
	}
	return got, err
}

func (w *walk) judge(d session.Node) (visited, error) {
	newest, err := w.newest(d)
	if err != nil {
		return visited{}, err
	}
	if newest.Truncated == 0 {
		return visited{newest, true}, nil
	}
	truncated := newest.Primary.Level == 3
	if newest.Depth == 0 {
		if truncated && !w.full() {
			w.a.Leaves = append(w.a.Leaves, w.repairLeaf(newest))
		}
		return visited{newest, !truncated}, nil
	}
	children := make([]cell, 0, len(newest.ChildNodes))
	good, changed := true, false
	for i, n := range newest.ChildNodes {
		child, _, err := w.below(n)
		if err != nil {
			return visited{}, err
		}
		got, err := w.visit(child)
		if err != nil {
			return visited{}, err
		}
		good = good && got.good
		changed = changed || got.node.Key != newest.Children[i]
		children = append(children, cell{node: got.node, depth: got.node.Depth})
	}
	if good && (changed || truncated) {
		if !w.full() {
			w.a.Groups = append(w.a.Groups, w.repairGroup(newest, children))
		}
		good = false
	}
	return visited{newest, good}, nil
}

// newest follows the repairs of a node.
func (w *walk) newest(d session.Node) (session.Node, error) {
	for {
		_, by, err := w.below(d.N)
		if err != nil || by == 0 {
			return d, err
		}
		if d, _, err = w.below(by); err != nil {
			return d, err
		}
	}
}

func (w *walk) repairLeaf(old session.Node) LeafJob {
	j := LeafJob{
		Entries: old.Entries, First: old.First, Last: old.Last, Files: old.Files,
		InputTokens: old.InputTokens, InputMax: w.z.LeafInputMax, Supersedes: old.Key,
	}
	j.Target, j.HardCap = w.z.leafBounds(j.InputTokens)
	j.Key = session.LeafKey(j.Entries, PromptVersion, j.Supersedes)
	return j
}

func (w *walk) repairGroup(old session.Node, children []cell) GroupJob {
	j := w.groupJob(children)
	j.Blocking = false
	j.MaxFan = max(j.MaxFan, len(children))
	j.Supersedes = old.Key
	keys := make([]string, len(children))
	for i, c := range children {
		keys[i] = c.node.Key
	}
	j.Key = session.CondensedKey(j.Depth, keys, PromptVersion, j.Supersedes)
	return j
}
