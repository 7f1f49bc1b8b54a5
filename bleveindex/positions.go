package bleveindex

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// positioned reports whether the places of the words decide.
func (c clause) positioned() bool { return len(c.seq) > 1 }

func (p plan) positioned() bool { return slices.ContainsFunc(p, clause.positioned) }

// standing keeps those of some candidates, ascending, in which the words of
// each clause stand as it says.
func (g *seg) standing(p plan, docs []uint32) ([]uint32, error) {
	for _, c := range p {
		if !c.positioned() || len(docs) == 0 {
			continue
		}
		var err error
		if docs, err = g.clauseStanding(c, docs); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

func (g *seg) clauseStanding(c clause, docs []uint32) ([]uint32, error) {
	w, err := g.newSequence(c.seq, docs)
	if err != nil {
		return nil, err
	}
	var out []uint32
	for i, d := range docs {
		ok, err := w.stands(uint64(d))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, d)
		}
		if i%256 == 255 && g.ctx.Err() != nil {
			return nil, g.ctx.Err()
		}
	}
	return out, nil
}

// sequence looks for words at consecutive positions, in one document after the
// other.
type sequence struct {
	slots []slotPlaces // rarest first
	place []uint64     // where the words may begin
	more  []uint64
}

// slotPlaces tells where the terms of a slot stand.
type slotPlaces struct {
	offset uint64 // of the slot in the sequence
	count  uint64
	terms  []*cursor
}

// cursor goes through the documents of a term.
type cursor struct {
	segment.PostingsIterator
	at segment.Posting // nil at the end, or before the first
	on bool
}

func (g *seg) newSequence(seq []slot, docs []uint32) (*sequence, error) {
	w := &sequence{}
	for i, s := range seq {
		terms, err := g.slotTerms(s)
		if err != nil {
			return nil, err
		}
		places := slotPlaces{offset: uint64(i)}
		var among *roaring.Bitmap // of a prefix, which has many terms
		if s.prefix {
			among = roaring.BitmapOf(docs...)
		}
		for _, t := range terms {
			c, n, err := g.newCursor(t, among)
			if err != nil {
				return nil, err
			}
			if places.count += n; c != nil {
				places.terms = append(places.terms, c)
			}
		}
		w.slots = append(w.slots, places)
	}
	slices.SortStableFunc(w.slots, func(a, b slotPlaces) int { return int(a.count) - int(b.count) })
	return w, nil
}

// newCursor is nil where none of some documents, nil = not asked, holds the term.
func (g *seg) newCursor(term string, among *roaring.Bitmap) (*cursor, uint64, error) {
	if among != nil {
		bm, err := g.term(fieldText, term)
		if err != nil || !bm.Intersects(among) {
			return nil, 0, err
		}
	}
	d, err := g.dict(fieldText)
	if err != nil {
		return nil, 0, err
	}
	list, err := d.PostingsList([]byte(term), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	return &cursor{PostingsIterator: list.Iterator(true, false, true, nil)}, list.Count(), nil
}

// in lists the places in a document; those documents ascend.
func (c *cursor) in(doc uint64) ([]segment.Location, error) {
	if !c.on || c.at != nil && c.at.Number() < doc {
		var err error
		if c.at, err = c.Advance(doc); err != nil {
			return nil, err
		}
		c.on = true
	}
	if c.at == nil || c.at.Number() != doc {
		return nil, nil
	}
	return c.at.Locations(), nil
}

func (w *sequence) stands(doc uint64) (bool, error) {
	for i, s := range w.slots {
		w.more = w.more[:0]
		for _, c := range s.terms {
			places, err := c.in(doc)
			if err != nil {
				return false, err
			}
			for _, l := range places {
				begin := l.Pos() - s.offset
				if l.Pos() > s.offset && (i == 0 || slices.Contains(w.place, begin)) {
					w.more = append(w.more, begin)
				}
			}
		}
		if len(w.more) == 0 {
			return false, nil
		}
		w.place, w.more = w.more, w.place
	}
	return true, nil
}
