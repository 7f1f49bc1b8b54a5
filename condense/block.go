package condense

import (
	"cmp"
	"slices"

	"lcm/events"
	"lcm/session"
	"lcm/window"
)

// cell is a place in the row of the pointer block: a node, or one that a
// planned group will give (tokens known, node not yet).
type cell struct {
	node   session.Node
	depth  int
	tokens int // of its pointer, primary tier
	made   bool
}

// row is the pointer block a recut starts from: the frontier with its repairs,
// the fresh leaves, and committed condensations in the place of their children.
func (p *pass) row(fresh []session.Node) []cell {
	nodes := make([]session.Node, 0, len(p.v.Frontier)+len(fresh))
	for _, d := range p.v.Frontier {
		if by, ok := p.v.Replaced[d.N]; ok {
			d = by
		}
		nodes = append(nodes, d)
	}
	nodes = substitute(append(nodes, fresh...), p.v.Pending)
	row := make([]cell, len(nodes))
	for i, d := range nodes {
		row[i] = cell{d, d.Depth, window.PointerTokens(d, events.TierPrimary), true}
	}
	return row
}

// substitute puts committed condensations in the place of the nodes they are
// made of, shallowest first. On one path equal spans cover equal entries.
func substitute(nodes, pending []session.Node) []session.Node {
	var up []session.Node
	for _, d := range pending {
		if d.Depth > 0 {
			up = append(up, d)
		}
	}
	slices.SortFunc(up, func(a, b session.Node) int {
		return cmp.Or(cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.First, b.First), cmp.Compare(a.N, b.N))
	})
	for _, d := range up {
		i := slices.IndexFunc(nodes, func(n session.Node) bool { return n.First == d.First })
		if i < 0 {
			continue
		}
		j := i
		for j < len(nodes) && nodes[j].Depth < d.Depth && nodes[j].Last < d.Last {
			j++
		}
		if j < len(nodes) && nodes[j].Depth < d.Depth && nodes[j].Last == d.Last {
			nodes = slices.Replace(nodes, i, j+1, d)
		}
	}
	return nodes
}

// condense plans groups until the row is within target: the oldest run at the
// shallowest depth that has one, again and again. Groups that need the text of
// one not yet made wait for the next plan. It returns the groups to make now
// and the tokens of the row, frame included, where no group is legal any more.
func (p *pass) condense(row []cell, target int) ([]GroupJob, int) {
	total := blockTokens(row)
	var jobs []GroupJob
	for total > target {
		i, n := p.oldestRun(row)
		if n == 0 {
			break
		}
		children := row[i : i+n]
		if slices.ContainsFunc(children, func(c cell) bool { return !c.made }) {
			break
		}
		job := p.groupJob(children)
		jobs = append(jobs, job)
		c := cell{depth: job.Depth, tokens: job.Target + pointerOverhead}
		row = slices.Concat(row[:i], []cell{c}, row[i+n:])
		total = blockTokens(row)
	}
	return jobs, total
}

func blockTokens(row []cell) int {
	n := window.FrameTokens(len(row))
	for _, c := range row {
		n += c.tokens
	}
	return n
}

// oldestRun finds the next group: where it starts and how many children it
// takes, 0 where there is no legal one.
func (p *pass) oldestRun(row []cell) (start, n int) {
	for depth := range events.DepthCap {
		for i := 0; i < len(row); {
			j := i
			for j < len(row) && row[j].depth == depth {
				j++
			}
			if j-i >= p.z.FanoutMin {
				return i, min(j-i, p.z.FanoutMax)
			}
			i = max(j, i+1)
		}
	}
	return 0, 0
}

func (p *pass) groupJob(children []cell) GroupJob {
	j := GroupJob{
		Depth: children[0].depth + 1, MaxFan: p.z.FanoutMax, InputMax: p.z.LeafInputMax,
		First: children[0].node.First, Last: children[len(children)-1].node.Last, Blocking: p.blocking(),
	}
	var keys []string
	for _, c := range children {
		j.Children = append(j.Children, c.node)
		j.InputTokens += c.node.Primary.Tokens + lineOverhead
		keys = append(keys, c.node.Key)
	}
	j.Target, j.HardCap = p.z.nodeBounds(j.InputTokens)
	j.Key = session.CondensedKey(j.Depth, keys, PromptVersion, "")
	return j
}
