package session

import (
	"sort"
	"time"

	"lcm/events"
)

// HeadAt is the head as it was right after stream position seq; Entries is 0
// and Configured false where the session did not exist yet. Lanes are left out:
// nobody appends in the past. Time is that of the newest turn, node or cut.
func (q Reader) HeadAt(seq uint64) (Head, error) {
	now, err := q.Head()
	if err != nil {
		return Head{}, err
	}
	s, err := q.At(seq)
	if err != nil {
		return Head{}, err
	}
	h := Head{Entries: s.Entries, Leaf: s.Leaf, Path: s.Path, Pinned: s.Pinned, Settings: s.Settings, Started: now.Started}
	k, _, err := q.r.Floor(RowConfig, Num(seq))
	if err != nil {
		return h, err
	}
	h.Configured = k != nil
	if h.Entries > 0 {
		e, err := q.Entry(h.Entries)
		if err != nil {
			return h, err
		}
		h.Time = e.Time
	}
	if h.Nodes, err = q.before(now.Nodes, seq, &h, func(n uint64) (uint64, time.Time, error) {
		d, err := q.Node(n)
		return d.Seq, d.Time, err
	}); err != nil {
		return h, err
	}
	if h.Cuts, err = q.before(now.Cuts, seq, &h, func(n uint64) (uint64, time.Time, error) {
		c, err := q.Cut(n)
		return c.Seq, c.Time, err
	}); err != nil {
		return h, err
	}
	if h.Rejected, err = q.rejectedAt(now.Rejected, seq); err != nil {
		return h, err
	}
	if h.Tokens, err = q.tokensAt(now, h.Entries); err != nil {
		return h, err
	}
	return h, q.contextAt(s, &h)
}

// before counts the rows 1..n that stand at or before seq, and moves the head's
// time to that of the last of them.
func (q Reader) before(n, seq uint64, h *Head, at func(uint64) (uint64, time.Time, error)) (uint64, error) {
	var failed error
	count := sort.Search(int(n), func(i int) bool {
		s, _, err := at(uint64(i) + 1)
		if err != nil {
			failed = err
		}
		return s > seq
	})
	if failed != nil || count == 0 {
		return 0, failed
	}
	_, t, err := at(uint64(count))
	if t.After(h.Time) {
		h.Time = t
	}
	return uint64(count), err
}

// rejectedAt counts back the few rejections after seq.
func (q Reader) rejectedAt(now, seq uint64) (uint64, error) {
	for at := maxSeq; now > 0; now-- {
		k, _, err := q.r.Floor(RowRejected, Num(at))
		if err != nil || k == nil || be64(k) <= seq {
			return now, err
		}
		at = be64(k) - 1
	}
	return now, nil
}

// tokensAt sums the entries up to n, from the end that is nearer.
func (q Reader) tokensAt(now Head, n uint64) (int, error) {
	sum, first, last, sign := 0, uint64(1), n, 1
	if now.Entries-n < n {
		sum, first, last, sign = now.Tokens, n+1, now.Entries, -1
	}
	for i := first; i <= last; i++ {
		e, err := q.Entry(i)
		if err != nil {
			return 0, err
		}
		sum += sign * e.Tokens
	}
	return sum, nil
}

// contextAt counts the active context as the fold does.
func (q Reader) contextAt(s State, h *Head) error {
	f := Fold{r: q.r, head: *h}
	if err := f.activate(s.Cut); err != nil {
		return err
	}
	h.ActiveCut, h.ContextTokens = f.head.ActiveCut, f.head.ContextTokens
	return nil
}

// Change is an event behind which a context may begin otherwise than before it.
type Change struct {
	Seq  uint64         `json:"seq"`
	Cut  uint64         `json:"cut,omitempty"` // the cut made there, 0 = none
	Kind events.CutKind `json:"kind,omitempty"`
	// Settings: they changed there. Without it and without a cut the leaf moved.
	Settings bool `json:"settings,omitempty"`
}

// LastChange is the newest change at or before seq, on any branch; Seq is 0
// where there is none.
func (q Reader) LastChange(seq uint64) (last Change, err error) {
	for _, kind := range []RowKind{RowMove, RowConfig} {
		k, _, err := q.r.Floor(kind, Num(seq))
		if err != nil {
			return last, err
		}
		if k != nil && be64(k) > last.Seq {
			last = Change{Seq: be64(k), Settings: kind == RowConfig}
		}
	}
	h, err := q.Head()
	if err != nil {
		return last, err
	}
	entries, err := q.entriesAt(h.Entries, seq)
	if err != nil {
		return last, err
	}
	if k, _, err := q.r.Floor(RowRun, Num(entries)); err != nil {
		return last, err
	} else if k != nil {
		fork, err := q.Entry(be64(k))
		if err != nil {
			return last, err
		}
		if fork.Seq > last.Seq {
			last = Change{Seq: fork.Seq}
		}
	}
	cuts, err := q.before(h.Cuts, seq, &Head{}, func(n uint64) (uint64, time.Time, error) {
		c, err := q.Cut(n)
		return c.Seq, c.Time, err
	})
	if err != nil || cuts == 0 {
		return last, err
	}
	c, err := q.Cut(cuts)
	if err == nil && c.Seq > last.Seq {
		last = Change{Seq: c.Seq, Cut: c.N, Kind: c.Kind}
	}
	return last, err
}
