package window

import (
	"fmt"

	"lcm/events"
	"lcm/session"
	"lcm/transcript"
)

// builder turns a shape into messages.
type builder struct {
	c      *Context
	sh     *shape
	bodies session.Bodies
}

func (b *builder) build() error {
	for i := range b.sh.pinned {
		if err := b.pinned(&b.sh.pinned[i]); err != nil {
			return err
		}
	}
	before := b.c.Tokens
	if err := b.block(); err != nil {
		return err
	}
	b.c.BlockTokens = b.c.Tokens - before
	if _, err := b.raw(b.sh.kept, &b.sh.keptRows); err != nil {
		return err
	}
	b.c.PrefixHash = prefixHash(b.c.Messages)
	before = b.c.Tokens
	stable, err := b.raw(b.sh.tail, &b.sh.tailRows)
	if err != nil {
		return err
	}
	b.c.Stable = stable
	b.c.TailTokens = b.c.Tokens - before
	if n := len(b.c.Messages); n > 0 {
		b.c.EndsWith = b.c.Messages[n-1].Role
	}
	return nil
}

func (b *builder) pinned(e *session.Entry) error {
	t, err := b.body(e)
	if err != nil {
		return err
	}
	if len(t.main) > 0 {
		b.message(messageOf(e, e.Role))
		b.add(t.main, Part{Entry: e.N, Tokens: b.sh.clips.tokens(e)})
	}
	return nil
}

// block is the pointer block: one user message, one part per pointer.
// Compactions are older than every entry and stand first.
func (b *builder) block() error {
	sh := b.sh
	if sh.framed() == 0 {
		return nil
	}
	b.message(transcript.Message{Role: events.RoleUser})
	b.text(frameIntro, Part{Tokens: MessageTokens + count(frameIntro)})
	for i := range sh.compactions {
		text := sh.compactionText(i)
		b.text(text, Part{Tokens: count(text)})
	}
	b.pointers()
	for i := range sh.excerpts {
		x := &sh.excerpts[i]
		text, err := x.text(b.bodies)
		if err != nil {
			return err
		}
		b.text(text, Part{Tokens: x.max})
	}
	b.text(frameEnd, Part{Tokens: count(frameEnd)})
	return nil
}

func (b *builder) pointers() {
	nodes, folded := b.sh.v.Frontier, b.sh.folded
	if folded > 0 {
		text := foldedText(nodes[:folded])
		b.text(text, Part{Tokens: count(text)})
	}
	for i := range b.sh.tiers {
		d := &nodes[i]
		p := Pointer{ID: fmt.Sprintf("#%d", d.N), N: d.N, Tier: events.TierHeader, Depth: d.Depth, First: d.First, Last: d.Last}
		if i >= folded {
			p.Tier = b.sh.tiers[i]
			head, text, n := pointer(d, p.Tier)
			p.Tokens = n
			b.text(head+text, Part{Node: d.N, Tokens: n})
		}
		b.c.Pointers = append(b.c.Pointers, p)
	}
}

// raw renders laid out entries; it returns how many of all parts are stable.
func (b *builder) raw(entries []session.Entry, l *layout) (stable int, err error) {
	r := &rawTurns{b: b, entries: entries, turns: make([]turn, len(entries))}
	stable = -1
	for i := range l.rows {
		if i == l.stable {
			stable = len(b.c.Parts)
		}
		for k := range l.rows[i].pieces {
			if err := r.piece(&l.rows[i], k); err != nil {
				return 0, err
			}
		}
	}
	if stable < 0 {
		stable = len(b.c.Parts)
	}
	return stable, nil
}

// rawTurns renders the pieces of entries, reading each body once.
type rawTurns struct {
	b       *builder
	entries []session.Entry
	turns   []turn
	row     *row // whose message is the last one
}

// turn is a decomposed body.
type turn struct {
	read          bool
	main, results []events.Block
	tokens        int // not yet counted in a part
}

func (r *rawTurns) turn(at int) (*turn, error) {
	t := &r.turns[at]
	if t.read {
		return t, nil
	}
	read, err := r.b.body(&r.entries[at])
	if err != nil {
		return nil, err
	}
	*t = read
	t.tokens = r.b.sh.clips.tokens(&r.entries[at])
	return t, nil
}

func (r *rawTurns) piece(row *row, k int) error {
	p := &row.pieces[k]
	if p.kind == pieceGone {
		return nil
	}
	e := &r.entries[p.at]
	if p.kind == pieceMissing {
		r.b.message(transcript.Message{Role: events.RoleTool, Entry: e.N})
		r.b.add([]events.Block{missingResult(p.call)}, Part{Entry: e.N, Tokens: missingTokens()})
		return nil
	}
	t, err := r.turn(p.at)
	if err != nil {
		return err
	}
	part := Part{Entry: e.N, Tokens: t.tokens + pieceExtra(r.entries, p)}
	switch p.kind {
	case pieceMain:
		if len(t.main) == 0 {
			return nil
		}
		if r.row != row {
			r.b.message(messageOf(e, mainRole(e)))
			r.row = row
		}
		r.b.add(withIDs(t.main, row.renamed[p.at]), part)
	default:
		if p.result >= len(t.results) {
			return fmt.Errorf("e%d: body has %d tool results, its row names %d", e.N, len(t.results), len(e.Results))
		}
		res := t.results[p.result]
		if p.kind == pieceResult {
			r.b.message(messageOf(e, events.RoleTool))
			r.b.add([]events.Block{withID(res, p.call)}, part)
			break
		}
		r.b.message(messageOf(e, events.RoleUser))
		blocks := append([]events.Block{textBlock(quoteHead(e, p))}, said(res)...)
		r.b.add(append(blocks, textBlock(quoteEnd(e))), part)
	}
	t.tokens = 0
	return nil
}

// body reads, splits and clips the turn of an entry.
func (b *builder) body(e *session.Entry) (turn, error) {
	t, err := b.bodies(e.N)
	if err != nil {
		return turn{}, fmt.Errorf("body of e%d: %w", e.N, err)
	}
	main, results := decompose(t)
	if n := b.sh.clips.tokens(e); n < e.Tokens {
		main, results = clipTurn(e, main, results, n)
	}
	return turn{read: true, main: main, results: results}, nil
}

func (b *builder) message(m transcript.Message) { b.c.Messages = append(b.c.Messages, m) }

// add puts blocks into the last message, as one part.
func (b *builder) add(blocks []events.Block, p Part) {
	p.Message = len(b.c.Messages) - 1
	m := &b.c.Messages[p.Message]
	p.Block, p.Blocks = len(m.Blocks), len(blocks)
	if m.Blocks == nil {
		m.Blocks = blocks[:len(blocks):len(blocks)] // shared with the body, never written
	} else {
		m.Blocks = append(m.Blocks, blocks...)
	}
	b.c.Parts = append(b.c.Parts, p)
	b.c.Tokens += p.Tokens
}

func (b *builder) text(s string, p Part) { b.add([]events.Block{textBlock(s)}, p) }

func messageOf(e *session.Entry, role events.Role) transcript.Message {
	m := transcript.Message{Role: role, Sender: e.Sender, Entry: e.N, MessageID: e.MessageID}
	if e.AuthorTime != nil {
		m.Time = *e.AuthorTime
	}
	return m
}

// mainRole: what a tool says outside of a result is told as quoted text.
func mainRole(e *session.Entry) events.Role {
	if e.Role == events.RoleTool {
		return events.RoleUser
	}
	return e.Role
}

// withIDs gives calls the ids they are shown under.
func withIDs(blocks []events.Block, ids []string) []events.Block {
	if ids == nil {
		return blocks
	}
	out := append([]events.Block(nil), blocks...)
	k := 0
	for i := range out {
		if out[i].Type != events.BlockToolUse || k >= len(ids) {
			continue
		}
		if ids[k] != "" {
			out[i] = withID(out[i], ids[k])
		}
		k++
	}
	return out
}

func withID(b events.Block, id string) events.Block {
	if b.CallID != id {
		b.CallID, b.Raw = id, ""
	}
	return b
}
