package session

import "lcm/events"

// MarshalBinary gives the node's row.
func (d Node) MarshalBinary() ([]byte, error) {
	size := 512 + len(d.Primary.Text)
	if d.Rich != nil {
		size += len(d.Rich.Text)
	}
	w := rowWriter{b: make([]byte, 0, size)}
	w.flags(d.Rich != nil)
	w.number(d.N)
	w.number(d.Seq)
	w.time(d.Time)
	w.text(d.Key)
	w.int(d.Depth)
	w.number(d.First)
	w.number(d.Last)
	w.ranges(d.Entries)
	w.texts(d.Children)
	w.tier(d.Primary)
	if d.Rich != nil {
		w.tier(*d.Rich)
	}
	w.int(d.InputTokens)
	w.text(d.Model)
	w.text(d.PromptVersion)
	w.texts(d.Files)
	for _, n := range [...]int{d.Bounds.Target, d.Bounds.HardCap, d.Bounds.MaxFan} {
		w.int(n)
	}
	w.text(d.Supersedes)
	w.ranges(d.Covered)
	w.numbers(d.ChildNodes)
	for _, n := range [...]int{d.SourceTokens, d.SummaryTokens, d.Below, d.Truncated} {
		w.int(n)
	}
	w.time(d.FirstTime)
	w.time(d.LastTime)
	return w.b, nil
}

// UnmarshalBinary reverses MarshalBinary.
func (d *Node) UnmarshalBinary(row []byte) error {
	r := readRow(row)
	var rich bool
	*d = Node{}
	r.flags(&rich)
	d.N, d.Seq, d.Time = r.number(), r.number(), r.time()
	d.Key, d.Depth, d.First, d.Last = r.text(), r.int(), r.number(), r.number()
	d.Entries, d.Children = r.ranges(), r.texts()
	d.Primary = r.tier()
	if rich {
		d.Rich = new(events.Tier)
		*d.Rich = r.tier()
	}
	d.InputTokens, d.Model, d.PromptVersion, d.Files = r.int(), r.text(), r.text(), r.texts()
	d.Bounds = events.Bounds{Target: r.int(), HardCap: r.int(), MaxFan: r.int()}
	d.Supersedes, d.Covered, d.ChildNodes = r.text(), r.ranges(), r.numbers()
	d.SourceTokens, d.SummaryTokens, d.Below, d.Truncated = r.int(), r.int(), r.int(), r.int()
	d.FirstTime, d.LastTime = r.time(), r.time()
	return r.end()
}

func (w *rowWriter) tier(t events.Tier) {
	w.text(t.Text)
	w.int(t.Tokens)
	w.int(t.Level)
}

func (r *rowReader) tier() events.Tier {
	return events.Tier{Text: r.text(), Tokens: r.int(), Level: r.int()}
}

// MarshalBinary gives the cut's row.
func (c Cut) MarshalBinary() ([]byte, error) {
	w := rowWriter{b: make([]byte, 0, 128+48*len(c.Frontier))}
	w.number(c.N)
	w.number(c.Seq)
	w.time(c.Time)
	w.number(c.Through)
	w.number(c.Kept)
	w.number(uint64(len(c.Frontier)))
	for _, s := range c.Frontier {
		w.text(s.Key)
		w.text(string(s.Tier))
	}
	w.number(uint64(len(c.Clips)))
	for _, k := range c.Clips {
		w.number(k.Entry)
		w.int(k.Tokens)
	}
	for _, n := range [...]int{c.Budget, c.Window, c.Overhead, c.TokensBefore, c.TokensAfter, c.BlockTokens} {
		w.int(n)
	}
	for _, s := range [...]string{c.Renderer, string(c.Kind), string(c.Regime)} {
		w.text(s)
	}
	w.numbers(c.Nodes)
	w.number(c.Furthest)
	return w.b, nil
}

// UnmarshalBinary reverses MarshalBinary.
func (c *Cut) UnmarshalBinary(row []byte) error {
	r := readRow(row)
	*c = Cut{N: r.number(), Seq: r.number(), Time: r.time()}
	c.Through, c.Kept = r.number(), r.number()
	c.Frontier = make([]events.Shown, r.length())
	for i := range c.Frontier {
		c.Frontier[i] = events.Shown{Key: r.text(), Tier: events.TierName(r.text())}
	}
	if n := r.length(); n > 0 {
		c.Clips = make([]events.Clip, n)
	}
	for i := range c.Clips {
		c.Clips[i] = events.Clip{Entry: r.number(), Tokens: r.int()}
	}
	c.Budget, c.Window, c.Overhead = r.int(), r.int(), r.int()
	c.TokensBefore, c.TokensAfter, c.BlockTokens = r.int(), r.int(), r.int()
	c.Renderer, c.Kind, c.Regime = r.text(), events.CutKind(r.text()), events.Regime(r.text())
	c.Nodes, c.Furthest = r.numbers(), r.number()
	return r.end()
}
