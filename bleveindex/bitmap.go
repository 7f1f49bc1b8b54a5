package bleveindex

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// A condition on the documents of a segment is a bitmap of their numbers, nil
// where it rules nothing out. Bitmaps may be memory of the segment: they are
// not changed, and hold as long as the snapshot.

// term is the documents with a term in a field.
func (g *seg) term(field, term string) (*roaring.Bitmap, error) {
	d, err := g.dict(field)
	if err != nil {
		return nil, err
	}
	list, err := d.PostingsList([]byte(term), nil, nil)
	if err != nil {
		return nil, err
	}
	switch it := list.Iterator(false, false, false, nil).(type) {
	case segment.OptimizablePostingsIterator:
		if bm := it.ActualBitmap(); bm != nil {
			return bm, nil
		}
		if n, ok := it.DocNum1Hit(); ok {
			return roaring.BitmapOf(uint32(n)), nil
		}
		return roaring.New(), nil
	default:
		out := roaring.New()
		for {
			p, err := it.Next()
			if err != nil || p == nil {
				return out, err
			}
			out.Add(uint32(p.Number()))
		}
	}
}

// anyTerm is the documents with one of some terms.
func (g *seg) anyTerm(field string, terms []string) (*roaring.Bitmap, error) {
	if len(terms) == 1 {
		return g.term(field, terms[0])
	}
	out := roaring.New()
	for i, t := range terms {
		bm, err := g.term(field, t)
		if err != nil {
			return nil, err
		}
		out.Or(bm)
		if i%checkEvery == checkEvery-1 && g.ctx.Err() != nil {
			return nil, g.ctx.Err()
		}
	}
	return out, nil
}

// all of some conditions; an empty one ends it.
func all[T any](list []T, of func(T) (*roaring.Bitmap, error)) (*roaring.Bitmap, error) {
	var sets []*roaring.Bitmap
	for _, c := range list {
		bm, err := of(c)
		if err != nil {
			return nil, err
		}
		if bm == nil {
			continue
		}
		if bm.IsEmpty() {
			return bm, nil
		}
		sets = append(sets, bm)
	}
	return and(sets), nil
}

func and(sets []*roaring.Bitmap) *roaring.Bitmap {
	if len(sets) == 0 {
		return nil
	}
	slices.SortFunc(sets, func(a, b *roaring.Bitmap) int { return cmp.Compare(a.GetCardinality(), b.GetCardinality()) })
	out := sets[0]
	for _, s := range sets[1:] {
		out = roaring.And(out, s) // in place, a short list would become a bitmap first
	}
	return out
}

// any of some conditions.
func anyOf[T any](list []T, of func(T) (*roaring.Bitmap, error)) (*roaring.Bitmap, error) {
	if len(list) == 1 {
		return of(list[0])
	}
	out := roaring.New()
	for _, c := range list {
		bm, err := of(c)
		if err != nil || bm == nil {
			return nil, err
		}
		out.Or(bm)
	}
	return out, nil
}

// candidates are the documents that pass the filters and may hold what the
// plan wants.
func (g *seg) candidates(p plan, q Query) (*roaring.Bitmap, error) {
	found, err := all([]func() (*roaring.Bitmap, error){
		func() (*roaring.Bitmap, error) { return g.filter(q) },
		func() (*roaring.Bitmap, error) { return all(p, g.clause) },
		func() (*roaring.Bitmap, error) { return g.between(q.Since, q.Until) },
	}, func(of func() (*roaring.Bitmap, error)) (*roaring.Bitmap, error) { return of() })
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		found = roaring.New()
		found.AddRange(0, g.segment.Count())
	}
	if g.deleted != nil {
		found = roaring.AndNot(found, g.deleted)
	}
	return found, nil
}

// filter is the documents that pass the filters by name.
func (g *seg) filter(q Query) (*roaring.Bitmap, error) {
	type values struct {
		field string
		list  []string
	}
	var depths []string
	for _, d := range q.Depths {
		depths = append(depths, strconv.Itoa(d))
	}
	tenant, err := g.ofTenant(q.Tenant)
	if err != nil || tenant != nil && tenant.IsEmpty() {
		return tenant, err
	}
	found, err := all([]values{
		{fieldSession, q.Sessions}, {fieldRole, q.Roles}, {fieldKind, q.Kinds}, {fieldDepth, depths},
	}, func(v values) (*roaring.Bitmap, error) {
		if len(v.list) == 0 {
			return nil, nil
		}
		return g.anyTerm(v.field, v.list)
	})
	switch {
	case err != nil || tenant == nil:
		return found, err
	case found == nil:
		return tenant, nil
	}
	return roaring.And(found, tenant), nil
}

// ofTenant is the documents of a tenant, nil where that is all: there are
// installations with one tenant.
func (g *seg) ofTenant(tenant string) (*roaring.Bitmap, error) {
	if sole := g.facts.tenant.Load(); sole != nil && *sole == tenant {
		return nil, nil
	}
	found, err := g.term(fieldTenant, tenant)
	if err == nil && found.GetCardinality() == g.segment.Count() {
		g.facts.tenant.Store(&tenant)
		return nil, nil
	}
	return found, err
}

// clause is the documents with the terms of a clause.
func (g *seg) clause(c clause) (*roaring.Bitmap, error) {
	switch {
	case c.literals != nil:
		return anyOf(c.literals, g.literal)
	case c.written != nil:
		return all(c.written.words, g.writtenWord)
	}
	return all(c.seq, g.slot)
}

func (g *seg) writtenWord(w writtenWord) (*roaring.Bitmap, error) {
	if w.run != nil {
		return all(w.run, g.slot)
	}
	whole, err := g.term(fieldText, w.whole.term)
	if err != nil || len(w.parts) == 0 {
		return whole, err
	}
	parts, err := all(w.parts, func(s stretch) (*roaring.Bitmap, error) { return g.term(fieldText, s.term) })
	if err != nil {
		return nil, err
	}
	return roaring.Or(whole, parts), nil
}

func (g *seg) slot(s slot) (*roaring.Bitmap, error) {
	terms, err := g.slotTerms(s)
	if err != nil {
		return nil, err
	}
	return g.anyTerm(fieldText, terms)
}

func (g *seg) slotTerms(s slot) ([]string, error) {
	if !s.prefix {
		return s.terms, nil
	}
	return g.beginning(s.terms[0])
}

// beginning lists the terms with a prefix.
func (g *seg) beginning(prefix string) (terms []string, err error) {
	err = g.eachTerm(fieldText, prefix, prefix+"\xff", func(term string) bool { // no byte of UTF-8
		terms = append(terms, term)
		return true
	})
	return terms, err
}

// part is the documents with a word that holds a part, or may: one that was
// cut.
func (g *seg) part(p part) (*roaring.Bitmap, error) {
	var terms []string
	var err error
	switch p.cost() {
	case 0:
		return g.term(fieldText, p.term)
	case 1:
		terms, err = g.beginning(p.term)
	default:
		terms, err = g.containing(p)
		terms = append(terms, longWord)
	}
	if err != nil {
		return nil, err
	}
	if len(terms) > maxPartTerms {
		return nil, nil
	}
	return g.anyTerm(fieldText, terms)
}

// maxPartTerms: a part of more words rules out too little to be looked up.
const maxPartTerms = 10_000

// in reports whether a word holds the part.
func (p part) in(word string) bool {
	if p.right {
		return strings.Contains(word, p.term)
	}
	return strings.HasSuffix(word, p.term)
}

func (g *seg) containing(p part) (terms []string, err error) {
	words, err := g.words()
	if err != nil {
		return nil, err
	}
	if words == "" {
		err = g.eachTerm(fieldText, "", "", func(term string) bool {
			if p.in(term) {
				terms = append(terms, term)
			}
			return true
		})
		return terms, err
	}
	want := p.term
	if !p.right {
		want += "\n"
	}
	for at := 0; ; {
		i := strings.Index(words[at:], want)
		if i < 0 {
			return terms, nil
		}
		i += at
		start := strings.LastIndexByte(words[:i], '\n') + 1
		end := i + strings.IndexByte(words[i:], '\n')
		terms = append(terms, words[start:end])
		at = end
	}
}
