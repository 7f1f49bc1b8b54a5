package bleveindex

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"lcm/internal/api"
)

// snapshot is one state of the index. A search works on it by itself: each
// condition is a bitmap of each segment, which is read once, whatever the
// number of documents in it.
type snapshot struct {
	*scorch.IndexSnapshot
	ctx  context.Context
	segs []*seg
}

// seg is a segment of a snapshot, used by one goroutine.
type seg struct {
	ctx     context.Context
	segment segment.Segment
	deleted *roaring.Bitmap // nil = none
	facts   *facts
	base    uint64 // of its documents' numbers in the snapshot
	dicts   map[string]segment.TermDictionary

	trigrams bool // they are indexed
}

// reading runs fn over one state of the index.
func (x *Index) reading(ctx context.Context, fn func(*snapshot) error) error {
	return x.guarded(func() error {
		inner, err := x.idx.Advanced()
		if err != nil {
			return err
		}
		r, err := inner.Reader()
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }()
		state, ok := r.(*scorch.IndexSnapshot)
		if !ok {
			return fmt.Errorf("a reader of type %T", r)
		}
		s := &snapshot{IndexSnapshot: state, ctx: ctx}
		base := uint64(0)
		for _, ss := range state.Segments() {
			s.segs = append(s.segs, &seg{
				ctx: ctx, segment: ss.Segment(), deleted: ss.Deleted(), base: base,
				facts: x.known.of(ss.Id()), dicts: map[string]segment.TermDictionary{}, trigrams: x.trigrams,
			})
			base += ss.Segment().Count()
		}
		x.known.keep(state)
		return fn(s)
	})
}

// warm reads what searches will want of new segments.
func (x *Index) warm() error {
	return x.reading(context.Background(), func(s *snapshot) error {
		for _, g := range s.segs {
			if err := g.readKeys(); err != nil {
				return err
			}
			if x.known.wantsWords() {
				if _, err := g.words(); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// facts of a segment are read once: it never changes.
type facts struct {
	all *known
	mu  sync.Mutex
	// keys of its documents, packed: they sort as document ids do.
	keys    []uint64
	ordered bool     // the keys ascend, as they do unless segments were merged out of order
	order   []uint32 // where they do not: the documents, greatest key first
	least   uint64
	most    uint64
	words   string                 // of the text field, each between line feeds; "" = not read
	tenant  atomic.Pointer[string] // that all of its documents are of, once that is known
	many    bool                   // too many words to keep
}

// known are the facts of the segments in use, by segment id.
type known struct {
	mu    sync.Mutex
	segs  map[uint64]*facts
	words bool // somebody looks for parts of words
}

func (k *known) of(id uint64) *facts {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.segs[id]
	if f == nil {
		if k.segs == nil {
			k.segs = map[uint64]*facts{}
		}
		f = &facts{all: k}
		k.segs[id] = f
	}
	return f
}

// spareFacts: so many segments more than there are may be remembered.
const spareFacts = 16

// keep forgets segments that were merged away.
func (k *known) keep(state *scorch.IndexSnapshot) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.segs) <= len(state.Segments())+spareFacts {
		return
	}
	old := k.segs
	k.segs = map[uint64]*facts{}
	for _, s := range state.Segments() {
		k.segs[s.Id()] = old[s.Id()]
	}
}

func (k *known) wantsWords() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.words
}

// A packed key is <position: 46 bits><kind: 2 bits><part: 16 bits>.
const (
	partBits = 16
	kindBits = 2
	seqBits  = 64 - kindBits - partBits
)

var packedKinds = []string{api.KindFile, api.KindSummary, api.KindTurn} // as ids sort them

func pack(seq uint64, kind string, part int) (uint64, bool) {
	for i, k := range packedKinds {
		if k == kind {
			return seq<<(kindBits+partBits) | uint64(i)<<partBits | uint64(part), seq < 1<<seqBits
		}
	}
	return 0, false
}

func unpack(key uint64) Hit {
	h := Hit{
		Seq: key >> (kindBits + partBits), Kind: packedKinds[key>>partBits&(1<<kindBits-1)],
		Part: int(key & (1<<partBits - 1)),
	}
	h.ID = api.DocID(h.Seq, h.Kind, h.Part)
	return h
}

// readKeys of the documents: some 150 ns each.
func (g *seg) readKeys() error {
	f := g.facts
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil || g.segment.Count() == 0 {
		return nil
	}
	keys := make([]uint64, g.segment.Count())
	f.ordered, f.least, f.most = true, math.MaxUint64, 0
	for n := range keys {
		id, err := g.segment.DocID(uint64(n))
		if err != nil {
			return err
		}
		seq, kind, part, err := api.ParseDocID(string(id))
		if err != nil {
			return damaged("index: %v", err)
		}
		key, ok := pack(seq, kind, part)
		if !ok {
			return damaged("index: document id %q cannot be kept", id)
		}
		f.ordered = f.ordered && (n == 0 || key > keys[n-1])
		f.least, f.most = min(f.least, key), max(f.most, key)
		keys[n] = key
	}
	f.keys = keys
	if !f.ordered {
		f.order = make([]uint32, len(keys))
		for n := range f.order {
			f.order[n] = uint32(n)
		}
		slices.SortFunc(f.order, func(a, b uint32) int { return cmp.Compare(keys[b], keys[a]) })
	}
	return nil
}

// maxWordBytes: a longer dictionary is walked each time instead of kept.
const maxWordBytes = 32 << 20

// words of the text field, "" where they are too many to keep.
func (g *seg) words() (string, error) {
	g.facts.all.mu.Lock()
	g.facts.all.words = true
	g.facts.all.mu.Unlock()
	g.facts.mu.Lock()
	defer g.facts.mu.Unlock()
	if g.facts.words != "" || g.facts.many {
		return g.facts.words, nil
	}
	var b strings.Builder
	b.WriteByte('\n')
	err := g.eachTerm(fieldText, "", "", func(term string) bool {
		b.WriteString(term)
		b.WriteByte('\n')
		return b.Len() <= maxWordBytes
	})
	if g.facts.many = b.Len() > maxWordBytes; err != nil || g.facts.many {
		return "", err
	}
	g.facts.words = b.String()
	return g.facts.words, nil
}

func (g *seg) dict(field string) (segment.TermDictionary, error) {
	if d, ok := g.dicts[field]; ok {
		return d, nil
	}
	d, err := g.segment.Dictionary(field)
	if err == nil {
		g.dicts[field] = d
	}
	return d, err
}

// frugal is a dictionary that can be walked without reading each posting list.
type frugal interface {
	AutomatonIteratorOmitCount(a segment.Automaton, start, end []byte) segment.DictionaryIterator
}

// eachTerm visits the terms of a field from start on, below end; "" = open.
func (g *seg) eachTerm(field, start, end string, visit func(term string) bool) error {
	d, err := g.dict(field)
	if err != nil {
		return err
	}
	var from, to []byte
	if start != "" {
		from = []byte(start)
	}
	if end != "" {
		to = []byte(end)
	}
	var it segment.DictionaryIterator
	if f, ok := d.(frugal); ok {
		it = f.AutomatonIteratorOmitCount(nil, from, to)
	} else {
		it = d.AutomatonIterator(nil, from, to)
	}
	for n := 1; ; n++ {
		e, err := it.Next()
		if err != nil || e == nil || !visit(e.Term) {
			return err
		}
		if n%checkEvery == 0 && g.ctx.Err() != nil {
			return g.ctx.Err()
		}
	}
}

// checkEvery so many steps the deadline is looked at.
const checkEvery = 4096
