package extract

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"lcm/tokens"
)

// worth of an item by section, and the share of the budget a section may take,
// by depth: 0, 1, 2 and deeper. Deeper summaries keep what lasts.
var (
	worth = [sections][3]float64{
		secInstructions: {9, 10, 10},
		secTimeline:     {0, 6, 7},
		secAsked:        {5, 4, 3},
		secDecisions:    {4, 5, 5},
		secDone:         {3.2, 4, 4},
		secTools:        {1.6, 0.7, 0.3},
		secErrors:       {4, 3, 1.5},
		secOpen:         {3.5, 4.5, 4.5},
		secNotes:        {2, 1.5, 0.8},
	}
	share = [sections][3]float64{
		secInstructions: {0.30, 0.35, 0.40},
		secTimeline:     {0, 0.22, 0.30},
		secAsked:        {0.35, 0.22, 0.18},
		secDecisions:    {0.22, 0.22, 0.22},
		secDone:         {0.18, 0.20, 0.20},
		secTools:        {0.15, 0.08, 0.05},
		secErrors:       {0.14, 0.12, 0.08},
		secOpen:         {0.12, 0.16, 0.16},
		secNotes:        {0.16, 0.10, 0.08},
	}
	// namesShare is held back for the list of names.
	namesShare = [3]float64{0.30, 0.16, 0.12}
)

// smallNamesShare is held back in a leaf of up to smallBudget tokens, too small
// for more than a line or two of prose: there a name says most per token. It
// falls to namesShare at largeBudget.
const smallNamesShare = 0.65

const (
	headTokens      = 4    // a section's heading
	refTokens       = 6    // "- [e12] " and the line's end
	mostItems       = 2048 // candidates compared with one another
	novelty         = 0.7  // how much a likeness to what is chosen takes away
	costPower       = 0.45 // between "best first" (0) and "most per token" (1)
	sameInstruction = 0.85 // likeness above which an instruction is a repetition
	sameItem        = 0.92
)

func (d *draft) tier() int { return min(max(d.depth, 0), 2) }

// ranked prepares the items: terms, anchors, cost and salience.
func (d *draft) ranked() []*item {
	items := d.items
	if len(items) > mostItems {
		items = slices.Clone(items)
		slices.SortStableFunc(items, func(a, b *item) int { return cmp.Compare(d.prior(b), d.prior(a)) })
		items = items[:mostItems]
	}
	count, df := map[uint32]int{}, map[uint32]int{}
	for _, it := range items {
		it.terms = terms(it.text, nil)
		for _, t := range it.terms {
			count[t]++
		}
		slices.Sort(it.terms)
		it.terms = slices.Compact(it.terms)
		for _, t := range it.terms {
			df[t]++
		}
		anchors(it.text, func(a string, _ anchorKind) {
			if n, ok := d.byName[a]; ok {
				it.names = append(it.names, n)
			}
		})
		it.cost = tokens.Count(it.text)
	}
	for _, it := range items {
		it.gain = d.prior(it) * (0.6 + salience(it.terms, count, df, len(items)))
		if it.sec != secInstructions && (!it.whole || d.depth > 0) {
			it.gain *= substance(it)
		}
	}
	return items
}

// prior is an item's worth before anything is known of the others.
func (d *draft) prior(it *item) float64 {
	w := worth[it.sec][d.tier()] * it.weight
	if d.level >= 2 && (it.sec == secNotes || it.sec == secTools) {
		w *= 0.5
	}
	return w
}

// salience is the mean weight of the terms, from 0 to about 1: terms that
// recur, but not everywhere.
func salience(ts []uint32, count, df map[uint32]int, n int) float64 {
	if len(ts) == 0 {
		return 0
	}
	sum := 0.0
	for _, t := range ts {
		sum += math.Log1p(float64(count[t])) * math.Log1p(float64(n)/float64(df[t]))
	}
	top := math.Log1p(float64(n))
	return min(sum/float64(len(ts))/max(top, 1), 1)
}

// substance takes from sentences that say little: "could you help with that?"
func substance(it *item) float64 {
	const enough = 5 // terms; a name counts twice
	return 0.3 + 0.7*min(1, float64(len(it.terms)+len(it.names))/enough)
}

// chooser picks items greedily. Gains only fall as items are chosen, so the
// heap's top is re-examined and taken when it is still the best.
type chooser struct {
	d      *draft
	budget int
	spent  int
	used   [sections]int
	groups map[group]bool
	lines  map[int]bool
	names  map[int]bool
	times  map[int]bool // lines with an entry in the timeline
	texts  map[string]bool
	chosen []*item
	// inSection holds the chosen items of each section: only these are
	// compared, since one thing said in two sections is two things.
	inSection [sections][]*item
	waiting   itemHeap
}

// group is what shares one reference in the rendering.
type group struct {
	sec  section
	ref  string
	who  string
	line int
}

func groupOf(it *item) group { return group{it.sec, it.ref, it.who, it.line} }

// choose returns the items to keep within budget, best first.
func (d *draft) choose(budget int) []*item {
	c := &chooser{d: d, budget: budget, groups: map[group]bool{}, lines: map[int]bool{}, names: map[int]bool{}, times: map[int]bool{}, texts: map[string]bool{}}
	for _, it := range d.ranked() {
		if it.gain > 0 {
			c.waiting = append(c.waiting, entry{it, c.value(it)})
		}
	}
	heap.Init(&c.waiting)
	for len(c.waiting) > 0 && c.spent < budget {
		e := c.waiting[0]
		if now := c.value(e.it); now < e.value-1e-12 {
			c.waiting[0].value = now
			heap.Fix(&c.waiting, 0)
			continue
		}
		heap.Pop(&c.waiting)
		c.take(e.it)
	}
	return c.chosen
}

func (c *chooser) take(it *item) {
	cost := c.cost(it)
	if c.spent+cost > c.budget || c.repeats(it) {
		return
	}
	quota := int(share[it.sec][c.d.tier()] * float64(c.budget))
	if it.sec == secInstructions {
		quota = max(quota, c.d.mustKeep)
	}
	if c.used[it.sec] > 0 && c.used[it.sec]+cost > quota {
		return
	}
	c.spent += cost
	c.used[it.sec] += cost
	c.groups[groupOf(it)] = true
	c.lines[it.line] = true
	c.texts[it.text] = true
	if it.sec == secTimeline {
		c.times[it.line] = true
	}
	for _, n := range it.names {
		c.names[n] = true
	}
	c.chosen = append(c.chosen, it)
	c.inSection[it.sec] = append(c.inSection[it.sec], it)
}

func (c *chooser) repeats(it *item) bool {
	if c.texts[it.text] {
		return true
	}
	switch it.sec {
	case secInstructions:
		return it.twin >= sameInstruction
	case secTimeline:
		return false // another time is another fact
	}
	return it.twin >= sameItem
}

func (c *chooser) cost(it *item) int {
	cost := it.cost + 1
	if it.whole || !c.groups[groupOf(it)] {
		cost += refTokens
	}
	if c.used[it.sec] == 0 {
		cost += headTokens
	}
	return cost
}

// value is an item's gain per token, given what is chosen: less for what was
// said already, more for names not seen yet, for the first word of a section
// and of a line.
func (c *chooser) value(it *item) float64 {
	for same := c.inSection[it.sec]; it.seen < len(same); it.seen++ {
		it.twin = max(it.twin, likeness(it.terms, same[it.seen].terms))
	}
	fresh := 0.0
	for _, n := range it.names {
		if !c.names[n] {
			fresh += anchorWorth[c.d.names[n].kind]
		}
	}
	v := it.gain * (1 + 0.12*min(fresh, 12))
	switch it.sec {
	case secInstructions:
		v *= 8 // before all else; only a repetition costs it its place
	case secTimeline:
	default:
		v *= 1 - novelty*it.twin
	}
	if c.used[it.sec] == 0 && c.budget >= smallBudget {
		v *= 2
	}
	if !c.lines[it.line] {
		v *= 1.2
	}
	if it.sec == secTimeline && !c.times[it.line] {
		v *= 2 // an axis has no holes
	}
	return v / math.Pow(float64(it.cost+2), costPower)
}

// likeness of two sorted sets: what they share of the smaller one.
func likeness(a, b []uint32) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	shared := 0
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			shared++
			i++
			j++
		case a[i] < b[j]:
			i++
		default:
			j++
		}
	}
	if shared == len(a) && shared == len(b) {
		return 1
	}
	// Short items look like parts of long ones by chance.
	return float64(shared) / float64(max(min(len(a), len(b)), 4, max(len(a), len(b))/2))
}

type entry struct {
	it    *item
	value float64
}

// itemHeap is a max-heap by value, ties by order.
type itemHeap []entry

func (h itemHeap) Len() int { return len(h) }
func (h itemHeap) Less(i, j int) bool {
	if h[i].value != h[j].value {
		return h[i].value > h[j].value
	}
	return h[i].it.pos < h[j].it.pos
}
func (h itemHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *itemHeap) Push(x any)   { *h = append(*h, x.(entry)) }
func (h *itemHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}
