package condense

import (
	"sort"

	"lcm/events"
	"lcm/session"
)

// span is a stretch of consecutive tail entries that one leaf covers or would
// cover: tail[start:end].
type span struct {
	start, end int
	input      int           // tokens the summariser reads
	raw        int           // tokens the stretch takes in the context
	node       *session.Node // the leaf, where it exists
	// unfinished: the chunk before the fresh tail that may still grow. It
	// waits, except in the blocking regime.
	unfinished bool
}

// spans lays leaves over the aged head tail[:aged], oldest first, without a
// hole: committed leaves where there are any, chunks between and behind them.
// It stops where something must wait. Its boundaries depend only on entries
// and settings, so a later call finds the same ones.
func (p *pass) spans(aged int) []span {
	tail := p.v.Tail
	laid := layLeaves(tail, p.v.Pending)
	var out []span
	for i := 0; i < aged; {
		if d := laid.chosen[i]; d != nil {
			s := span{start: i, end: indexAfter(tail, d.Last), node: d, input: d.InputTokens}
			if s.end > aged {
				break
			}
			for _, e := range tail[s.start:s.end] {
				s.raw += p.rawTokens(e)
			}
			out, i = append(out, s), s.end
			continue
		}
		gap := laid.gapEnd(i)
		end := i
		for _, c := range p.chunks(tail[i:gap], min(aged, gap)-i, gap < len(tail)) {
			c.start, c.end = c.start+i, c.end+i
			out, end = append(out, c), c.end
		}
		if end != gap || gap == i {
			break
		}
		i = gap
	}
	return out
}

// laid are committed leaves over a tail. After branch moves some may overlap:
// made on an ancestor's path, where a longer one did not count. chosen are
// those that, with the uncovered entries between them, reach furthest.
type laid struct {
	chosen  map[int]*session.Node // by the index they start at
	covered []bool                // by index: some leaf covers the entry
}

// gapEnd is where the uncovered stretch from i ends; i where there is none.
func (l laid) gapEnd(i int) int {
	for i < len(l.covered) && !l.covered[i] {
		i++
	}
	return i
}

func layLeaves(tail []session.Entry, pending []session.Node) laid {
	l := laid{chosen: map[int]*session.Node{}, covered: make([]bool, len(tail))}
	starts := map[int][]*session.Node{}
	for i := range pending {
		d := &pending[i]
		if d.Depth > 0 || len(tail) == 0 || d.Last < tail[0].N {
			continue
		}
		start := indexAfter(tail, d.First-1)
		for j := start; j < indexAfter(tail, d.Last); j++ {
			l.covered[j] = true
		}
		if d.First >= tail[0].N { // not one that reaches in from below the cut
			starts[start] = append(starts[start], d)
		}
	}
	reach := make([]int, len(tail)+1) // how far one gets from here
	next := len(tail)                 // the first covered index from here on
	reach[next] = next
	for i := len(tail) - 1; i >= 0; i-- {
		if !l.covered[i] {
			reach[i] = reach[next]
			continue
		}
		next, reach[i] = i, i
		longest := 0
		for _, d := range starts[i] {
			end := indexAfter(tail, d.Last)
			if reach[end] > reach[i] || reach[end] == reach[i] && end > longest {
				reach[i], longest, l.chosen[i] = reach[end], end, d
			}
		}
	}
	return l
}

// indexAfter is the index of the first entry behind number n.
func indexAfter(tail []session.Entry, n uint64) int {
	return sort.Search(len(tail), func(i int) bool { return tail[i].N > n })
}

// chunks cuts entries[:limit] into leaves of whole tool groups. A chunk closes
// when it holds at least a quarter of a leaf chunk and the next group would
// overflow it. closed: a committed leaf follows, so the last chunk ends there.
func (p *pass) chunks(entries []session.Entry, limit int, closed bool) []span {
	var out []span
	cur := span{}
	weight := 0 // of cur
	full := func(next int) bool {
		return weight >= p.z.chunk || weight >= p.z.chunk/4 && weight+next > p.z.chunk
	}
	closeChunk := func(unfinished bool) {
		if cur.end > cur.start {
			cur.unfinished = unfinished
			out = append(out, cur)
		}
		cur, weight = span{start: cur.end, end: cur.end}, 0
	}
	lastUser := lastUserTurn(entries)
	for _, g := range session.Groups(entries) {
		add := span{start: g.Start, end: g.End}
		for _, e := range entries[g.Start:g.End] {
			add.input += e.InputTokens
			add.raw += p.rawTokens(e)
		}
		w := max(add.input, add.raw/rawPerInput)
		if full(w) && !forks(entries, g.Start) {
			closeChunk(false)
		}
		waits := g.Open && lastUser < g.End && len(entries)-g.End < p.z.OpenGroupEntries && !closed
		if g.End > limit || waits {
			closeChunk(true)
			return out
		}
		cur.end, weight = g.End, weight+w
		cur.input, cur.raw = cur.input+add.input, cur.raw+add.raw
	}
	closeChunk(!closed && !full(0))
	return out
}

// forks: the path leaves another branch between entries i-1 and i. A leaf that
// ended there would lie on that branch too, beside one that goes on along it.
func forks(entries []session.Entry, i int) bool {
	return i > 0 && i < len(entries) && entries[i-1].N+1 != entries[i].N
}

// lastUserTurn is the index of the newest user turn, -1 where there is none.
func lastUserTurn(entries []session.Entry) int {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Spoken() {
			return i
		}
	}
	return -1
}

// covered returns the entries of a stretch of the path as ranges.
func covered(entries []session.Entry) []events.Range {
	var out []events.Range
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].Last+1 == e.N {
			out[n-1].Last = e.N
			continue
		}
		out = append(out, events.Range{First: e.N, Last: e.N})
	}
	return out
}
