package ingest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/transcript"
)

// A block of items is prepared as one, beside others; blocks keep their order.
const (
	blockItems = 256
	blockBytes = 2 << 20
)

// readItem is an item with its session, its id and its write.
type readItem struct {
	transcript.Item
	session string
	parent  string // session that a sidechain belongs to
	write   api.Write
	paths   map[string]string // of the calls it answers with large bodies
	err     error             // of preparing it
}

type block struct {
	items []readItem
	ready chan struct{} // closed once prepared
	bytes int
}

// reader gives items their sessions and ids, in source order.
type reader struct {
	o     ImportOptions
	base  string
	limit int // large_file_chars
	// numbers of the conversations of a file that was given a session name.
	numbers map[string]int
	// equal counts the turns without ids, by session and content.
	equal map[string]int
	// paths that calls named, by session and call id.
	paths map[string]string
	slots chan struct{} // bounds the blocks being prepared
}

func newReader(o ImportOptions) *reader {
	return &reader{
		o: o, base: o.baseName(), limit: o.largeFileChars(), numbers: map[string]int{},
		equal: map[string]int{}, paths: map[string]string{}, slots: make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
}

func (r *reader) read(ctx context.Context, src io.Reader, blocks chan<- *block) error {
	b := newBlock()
	for it, err := range transcript.Parse(src, transcript.Options{Format: r.o.Format}) {
		if err != nil {
			if serr := r.send(ctx, b, blocks); serr != nil {
				return serr
			}
			return unreadable(r.o.File, err)
		}
		b.items = append(b.items, r.item(it))
		b.bytes += len(it.Source)
		if len(b.items) >= blockItems || b.bytes >= blockBytes {
			if err := r.send(ctx, b, blocks); err != nil {
				return err
			}
			b = newBlock()
		}
	}
	return r.send(ctx, b, blocks)
}

// unreadable says why a whole source cannot be read.
func unreadable(file string, err error) error {
	p := problem.New(problem.Invalid, "%s: %w", file, err)
	if errors.Is(err, transcript.ErrUnknownFormat) {
		return p.WithHint("name the format with --format")
	}
	return p
}

func newBlock() *block { return &block{ready: make(chan struct{})} }

// send prepares a block in the background and queues it.
func (r *reader) send(ctx context.Context, b *block, blocks chan<- *block) error {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() {
		defer func() { <-r.slots; close(b.ready) }()
		for i := range b.items {
			r.prepare(&b.items[i])
		}
	}()
	select {
	case blocks <- b:
		return nil
	case <-ctx.Done():
		<-b.ready
		return ctx.Err()
	}
}

// prepare runs beside the reader: it may only use the item and constants. A
// large result whose call is not in the file is left to the ingestor, which
// may know it.
func (r *reader) prepare(it *readItem) {
	if it.Kind != transcript.KindTurn {
		return
	}
	t := it.write.Turn
	for _, id := range largeCalls(&t.Turn, r.limit) {
		if _, ok := it.paths[id]; !ok {
			return
		}
	}
	it.err = Prepare(t, r.limit, r.o.Measures, func(id string) string { return it.paths[id] })
}

func (r *reader) item(it transcript.Item) readItem {
	out := readItem{Item: it, write: writeOf(it)}
	out.session, out.parent = r.session(it.Conversation)
	if it.Kind != transcript.KindTurn {
		return out
	}
	t := &out.write.Turn.Turn
	if t.ID == "" {
		t.ID = r.id(out.session, t)
	}
	for _, b := range t.Blocks {
		if b.Type == events.BlockToolUse && b.CallID != "" {
			r.paths[out.session+"\x00"+b.CallID] = callPath(b)
		}
	}
	for _, id := range largeCalls(t, r.limit) {
		if p, ok := r.paths[out.session+"\x00"+id]; ok {
			if out.paths == nil {
				out.paths = map[string]string{}
			}
			out.paths[id] = p
		}
	}
	return out
}

// session of a conversation, and the one it belongs to.
func (r *reader) session(conv string) (name, parent string) {
	main, side, isSide := strings.Cut(conv, "/")
	name = r.base
	switch {
	case main == "":
	case r.o.Session == "":
		name += main
	default:
		n, ok := r.numbers[main]
		if !ok {
			n = len(r.numbers) + 1
			r.numbers[main] = n
		}
		name += "-" + strconv.Itoa(n)
	}
	if !isSide {
		return name, ""
	}
	return name + "/" + side, name
}

// id of a turn that has none: a hash of session, content and its ordinal among
// equals, so that importing the file again finds it.
func (r *reader) id(session string, t *events.TurnAppended) string {
	content := t.ContentHash()
	key := session + "\x00" + content
	r.equal[key]++
	return events.UnnamedID(session, content, r.equal[key])
}
