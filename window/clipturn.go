package window

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// leastShare is the least a block of a clipped turn is given; where there is
// not even that, blocks in the middle are left out.
const leastShare = 24

// clipTurn shows the head and tail of a decomposed turn, so that it counts at
// most size tokens. Small blocks stay whole, the largest lose most. Calls and
// results stay, whatever is cut of them: their pairing must hold.
func clipTurn(e *session.Entry, main, results []events.Block, size int) (m, r []events.Block) {
	c := clipper{e: e}
	m = append([]events.Block(nil), main...)
	r = append([]events.Block(nil), results...)
	m = c.dropMiddle(m, r, size)
	var all []*events.Block
	for i := range m {
		all = append(all, &m[i])
	}
	for i := range r {
		all = append(all, &r[i])
	}
	sort.SliceStable(all, func(i, j int) bool { return weight(all[i]) < weight(all[j]) })
	room := size
	if len(m) > 0 {
		room -= MessageTokens
	}
	for _, b := range all {
		room -= floorOf(b)
	}
	for i, b := range all { // room: what is left beside the floors of b and those behind it
		floor := floorOf(b)
		room += floor - c.clip(b, floor+max(room, 0)/(len(all)-i))
	}
	kept := m[:0]
	for _, b := range m {
		if b.Type != "" { // else left out
			kept = append(kept, b)
		}
	}
	if len(kept) == 0 && len(r) == 0 {
		kept = append(kept, textBlock(c.mark()))
	}
	return kept, r
}

type clipper struct{ e *session.Entry }

// mark stands where something was left out and says where it is.
func (c *clipper) mark() string {
	return fmt.Sprintf("%s part of e%d left out", cutMark, c.e.N)
}

// dropMiddle leaves out blocks in the middle of a turn of very many.
func (c *clipper) dropMiddle(main, results []events.Block, size int) []events.Block {
	fixed := MessageTokens + len(results)*clipFloorResult
	var free []int
	for i := range main {
		if main[i].Type == events.BlockToolUse {
			fixed += clipFloorCall
		} else {
			free = append(free, i)
		}
	}
	most := max((size-fixed)/(2*leastShare), 1)
	if len(free) <= most {
		return main
	}
	from, to := (most+1)/2, len(free)-most/2
	gone := map[int]bool{}
	for _, i := range free[from:to] {
		gone[i] = true
	}
	out := make([]events.Block, 0, len(main))
	for i := range main {
		if !gone[i] {
			out = append(out, main[i])
		}
	}
	return out
}

// floorOf is what a block takes however much is cut of it: a call and a result
// have to stay.
func floorOf(b *events.Block) int {
	switch b.Type {
	case events.BlockToolUse:
		return clipFloorCall
	case events.BlockToolResult:
		return clipFloorResult
	}
	return 0
}

// weight orders blocks by size without counting them.
func weight(b *events.Block) int {
	n := len(b.Text) + len(b.Name) + len(b.Input)
	for i := range b.Content {
		n += weight(&b.Content[i])
	}
	if b.Type == events.BlockImage || b.Type == events.BlockDocument {
		n += 4 * imageDefault
	}
	if b.Type == events.BlockUnknown || b.Type == events.BlockThinking {
		n += len(b.Raw)
	}
	return n
}

// clip makes a block fit into share tokens and returns what it counts. A block
// that is left out has no type afterwards.
func (c *clipper) clip(b *events.Block, share int) int {
	switch b.Type {
	case events.BlockText:
		b.Text = c.cut(b.Text, share)
	case events.BlockToolUse:
		c.clipCall(b, share)
	case events.BlockToolResult:
		c.clipResult(b, share)
	case events.BlockThinking:
		// A signature holds for the whole text only: all or nothing.
		if len(tokens.Head(b.Text, share)) < len(b.Text) {
			*b = events.Block{}
			return 0
		}
	default:
		if blockTokens(b) > share {
			*b = textBlock(c.cut(b.Text+"\n"+c.mark(), share))
		}
	}
	return blockTokens(b)
}

// cut shows head and tail of a text within max tokens.
func (c *clipper) cut(s string, max int) string {
	if len(tokens.Head(s, max)) == len(s) {
		return s
	}
	mark := c.mark()
	for room := max - tokens.Count(mark) - 2; room > 0; room -= 4 {
		text := tokens.Head(s, room/2) + "\n" + mark + "\n" + tokens.Tail(s, room-room/2)
		if tokens.Count(text) <= max {
			return text
		}
	}
	if tokens.Count(mark) <= max {
		return mark
	}
	return cutMark
}

// clipCall shortens a call's name and input; the input stays an object.
func (c *clipper) clipCall(b *events.Block, share int) {
	if len(tokens.Head(b.Name, 64)) < len(b.Name) {
		b.Name, b.Raw = tokens.Head(b.Name, 64), ""
		if b.Name == "" {
			b.Name = noName
		}
	}
	room := share - callTokens - tokens.Count(b.Name)
	if len(tokens.Head(b.Input, max(room, 1))) == len(b.Input) {
		return
	}
	input := b.Input
	b.Input, b.Raw = "{}", ""
	for n := room - 8; n > 0; n = n*3/4 - 1 {
		js := object(c.cut(input, n))
		if tokens.Count(js) <= room {
			b.Input = js
			return
		}
	}
}

func object(s string) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]string{"lcm_truncated": s}) // strings only: cannot fail
	return string(bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}))
}

// clipResult keeps what fits of a result as one text.
func (c *clipper) clipResult(b *events.Block, share int) {
	if fits(b, share) {
		return
	}
	var text []byte
	for _, p := range said(*b) {
		if p.Text == "" {
			p.Text = c.mark() // an image or a file
		}
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text = append(text, p.Text...)
	}
	short := c.cut(string(text), max(share-resultTokens, 1))
	if blank(short) {
		short = c.mark()
	}
	b.Text, b.Raw, b.Content = "", "", []events.Block{textBlock(short)}
}

// fits: the result counts at most share, found without counting what is far larger.
func fits(b *events.Block, share int) bool {
	room := share - resultTokens
	if len(tokens.Head(b.Text, max(room, 1))) < len(b.Text) {
		return false
	}
	for i := range b.Content {
		if t := b.Content[i].Text; len(tokens.Head(t, max(room, 1))) < len(t) {
			return false
		}
	}
	return blockTokens(b) <= share
}
