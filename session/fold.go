package session

import (
	"errors"
	"fmt"
	"slices"

	"lcm/events"
)

// Decoded is a record made ready for the fold. Decoding needs nothing of the
// session, so it can run ahead of the fold and in parallel.
type Decoded struct {
	Record   events.Record
	Lane     events.Lane
	Ref      events.Ref
	Part     int
	Envelope events.Envelope
	Payload  events.Payload
	// next is the chain's link after this event if it follows Envelope.Prev.
	next events.Link
	// contentHash and sourceHash of a turn.
	contentHash, sourceHash string
	// err is why the event cannot count, whatever the session holds.
	err error
}

// Decode reads a record. The error is about the subject alone: such a record
// belongs to no session. Any other fault is kept for Apply to reject.
func Decode(rec events.Record) (Decoded, error) {
	d := Decoded{Record: rec}
	var err error
	if d.Lane, d.Part, d.Ref, err = events.ParseSubject(rec.Subject); err != nil {
		return d, err
	}
	if d.Envelope, d.err = rec.Envelope(); d.err != nil {
		return d, nil
	}
	d.next = events.Link{Version: d.Envelope.Version, Hash: rec.ChainHash(d.Envelope.Prev)}
	if d.Payload, d.err = rec.DecodePayload(d.Envelope); d.err != nil {
		return d, nil
	}
	if t, ok := d.Payload.(*events.TurnAppended); ok {
		d.contentHash, d.sourceHash = t.ContentHash(), t.SourceHash()
	}
	d.anchor()
	return d, nil
}

// Outcome says what an event became.
type Outcome struct {
	Type   events.Type // "" where even the headers were unreadable
	Number uint64      // entry, node or cut; 0 for other events
	// Reason of a rejection; "" = accepted.
	Reason string
	// Unknown: an event of a later build, skipped but part of the chain.
	Unknown bool
}

// Fold applies events to one session. It caches the head: call Flush before
// the rows are committed, and drop the Fold with the transaction.
type Fold struct {
	r     rows
	ref   events.Ref
	head  Head
	dirty bool
}

// NewFold opens a session's rows for applying events.
func NewFold(ref events.Ref, r Rows) (*Fold, error) {
	f := &Fold{r: rows{r}, ref: ref}
	var err error
	f.head, err = f.r.head()
	return f, err
}

// Head returns the head after the events applied so far.
func (f *Fold) Head() Head {
	h := f.head
	h.Path = slices.Clone(h.Path) // the fold goes on extending its own
	return h
}

// Flush writes the head row.
func (f *Fold) Flush() error {
	if !f.dirty {
		return nil
	}
	f.dirty = false
	return f.r.put(RowHead, nil, f.head)
}

// errRejected wraps the reason an event does not count.
type errRejected struct{ reason string }

func (e errRejected) Error() string { return e.reason }

func reject(format string, a ...any) error { return errRejected{fmt.Sprintf(format, a...)} }

// Apply folds one event. An error is a fault of the store, never of the event:
// a bad event is recorded as rejected, and the session goes on.
func (f *Fold) Apply(d Decoded) (Outcome, error) {
	f.dirty = true
	lane := f.lane(d.Lane)
	lane.LastSeq = d.Record.Seq
	out := Outcome{Type: d.Envelope.Type}
	err := f.link(d, lane)
	if err == nil {
		out.Number, err = f.apply(d)
	}
	var no errRejected
	switch {
	case err == nil:
	case errors.Is(err, events.ErrUnknown):
		out.Unknown = true
	case errors.As(err, &no):
		out.Reason = no.reason
		f.head.Rejected++
		err := f.r.put(RowRejected, Num(d.Record.Seq), Rejected{Seq: d.Record.Seq, Type: out.Type, Reason: no.reason})
		return out, err
	default:
		return out, fmt.Errorf("apply %s at %d to %s: %w", out.Type, d.Record.Seq, f.ref, err)
	}
	return out, nil
}

func (f *Fold) lane(l events.Lane) *LaneHead {
	if l == events.LaneDerived {
		return &f.head.Derived
	}
	return &f.head.Timeline
}

// link checks the chain and advances it. Whatever fails here does not advance
// it: the next event links to the last valid one.
func (f *Fold) link(d Decoded, lane *LaneHead) error {
	next, err := d.Follow(lane.Link)
	if err != nil {
		return err
	}
	lane.Link = next
	if f.head.Started.IsZero() {
		f.head.Started = d.Envelope.Time
	}
	if d.Envelope.Time.After(f.head.Time) {
		f.head.Time = d.Envelope.Time
	}
	return d.err // nil or ErrUnknown
}

func (f *Fold) apply(d Decoded) (uint64, error) {
	switch p := d.Payload.(type) {
	case *events.TurnAppended:
		return f.turn(d, p)
	case *events.LeafMoved:
		return 0, f.leafMoved(d, p)
	case *events.SessionConfigured:
		return 0, f.configured(d, p)
	case *events.HistoryCompacted:
		return 0, f.compacted(d, p)
	case *events.NodeCommitted:
		return f.node(d, p)
	case *events.CutCommitted:
		return f.cut(d, p)
	case *events.PassStalled:
		return 0, f.r.put(RowStall, Num(d.Record.Seq), p)
	case *events.PositionLost:
		return f.lost(d, p)
	}
	return 0, reject("no rule for %s", d.Envelope.Type)
}

// turn accepts a turn: a new id, the next entry number.
func (f *Fold) turn(d Decoded, t *events.TurnAppended) (uint64, error) {
	if err := events.ValidateTurnID(t.ID); err != nil {
		return 0, reject("%v", err)
	}
	if !t.Role.Valid() {
		return 0, reject("turn %q has role %q", t.ID, t.Role)
	}
	first, err := f.r.number(RowTurn, []byte(t.ID))
	if err != nil {
		return 0, err
	}
	if first != 0 {
		return 0, reject("turn %q is already entry e%d", t.ID, first)
	}
	n := f.head.Entries + 1
	if t.Entry != n {
		return 0, reject("turn %q claims entry e%d, the next is e%d", t.ID, t.Entry, n)
	}
	e := Entry{
		N: n, Seq: d.Record.Seq, ID: t.ID, Role: t.Role, Sender: t.Sender, MessageID: t.MessageID,
		Tokens: t.Tokens, InputTokens: t.InputTokens, Calls: t.Calls(), Results: t.Results(),
		Injected: t.Injected, Hash: d.contentHash, SourceHash: d.sourceHash,
		Time: f.head.Time, AuthorTime: t.AuthorTime,
	}
	for _, file := range t.Files {
		e.Files = append(e.Files, file.ID)
	}
	if e.Parent, err = f.effectiveParent(t); err != nil {
		return 0, err
	}
	if e.CallEntries, err = f.callEntries(e); err != nil {
		return 0, err
	}
	if e.Parent != n-1 || n == 1 {
		if err := f.r.put(RowRun, Num(n), Run{Parent: e.Parent}); err != nil {
			return 0, err
		}
	}
	return n, f.putEntry(e, d.Record.Data)
}

// callEntries finds the calls a turn answers: of the entries that make a call
// of that id, the newest on the turn's path.
func (f *Fold) callEntries(e Entry) ([]uint64, error) {
	if len(e.Results) == 0 {
		return nil, nil
	}
	path, err := f.pathTo(e.Parent)
	if err != nil {
		return nil, err
	}
	out := make([]uint64, len(e.Results))
	for i, id := range e.Results {
		calls, err := f.r.list(RowTurn, callKey(id))
		if err != nil {
			return nil, err
		}
		for _, n := range calls {
			if path.Contains(n) {
				out[i] = n // the newest so far
			}
		}
	}
	return out, nil
}

// putEntry writes the rows of an accepted turn and moves the head to it.
func (f *Fold) putEntry(e Entry, body []byte) error {
	if e.Big = len(body) > MaxBodyBytes; !e.Big {
		if err := f.r.Put(RowBody, Num(e.N), body); err != nil {
			return err
		}
	}
	if err := f.r.put(RowEntry, Num(e.N), e); err != nil {
		return err
	}
	if err := f.r.Put(RowTurn, []byte(e.ID), Num(e.N)); err != nil {
		return err
	}
	for _, id := range e.Files {
		if err := f.r.Put(RowFile, []byte(id), Num(e.N)); err != nil {
			return err
		}
	}
	for _, id := range e.Calls {
		if err := f.r.extend(RowTurn, callKey(id), e.N); err != nil {
			return err
		}
	}
	h := &f.head
	h.Entries, h.Tokens = e.N, h.Tokens+e.Tokens
	if e.Parent != h.Leaf {
		return f.moveTo(e.N)
	}
	if e.Role.Pinned() && h.Pinned == h.Leaf {
		h.Pinned = e.N
	}
	h.ContextTokens += e.Tokens
	if n := len(h.Path); n > 0 && h.Leaf+1 == e.N {
		h.Leaf, h.Path[n-1].Last = e.N, e.N
		return nil
	}
	h.Leaf, h.Path = e.N, append(h.Path, events.Range{First: e.N, Last: e.N})
	return f.r.putPath(h.Path)
}

// moveTo makes leaf the end of the current path, wherever it is in the tree,
// and finds the cut that is active there.
func (f *Fold) moveTo(leaf uint64) error {
	path, err := f.r.path(leaf)
	if err != nil {
		return err
	}
	f.head.Leaf, f.head.Path = leaf, path
	if err := f.r.putPath(path); err != nil {
		return err
	}
	if f.head.Pinned, err = f.r.pinned(path); err != nil {
		return err
	}
	c, err := f.r.activeCut(f.head.Cuts, maxSeq, path)
	if err != nil {
		return err
	}
	return f.activate(c)
}

// activate makes c (nil = none) the active cut and recounts the context.
func (f *Fold) activate(c *Cut) error {
	h := &f.head
	through := h.Pinned
	h.ActiveCut, h.ContextTokens = 0, 0
	clipped := map[uint64]int{}
	if c != nil {
		h.ActiveCut, h.ContextTokens = c.N, c.BlockTokens
		through = max(through, c.Through)
		for _, clip := range c.Clips {
			clipped[clip.Entry] = clip.Tokens
		}
		if c.Kept != 0 {
			if err := f.addTokens(c.Kept, clipped); err != nil {
				return err
			}
		}
	}
	raw := append(Path(Path(h.Path).Between(1, h.Pinned)).After(0), Path(h.Path).After(through)...)
	for _, n := range raw {
		if err := f.addTokens(n, clipped); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fold) addTokens(n uint64, clipped map[uint64]int) error {
	var e Entry
	if err := f.r.entry(n, &e); err != nil {
		return err
	}
	if t, ok := clipped[n]; ok {
		f.head.ContextTokens += t
	} else {
		f.head.ContextTokens += e.Tokens
	}
	return nil
}

const maxSeq = ^uint64(0)

// activeCut is, of the first n cuts accepted at or before seq whose anchor lies
// on the path, the one that reaches furthest, and of equals the newest. The
// frontier then lies on the path too: an accepted cut covers the path up to its
// through-entry. On one path cuts only ever reach further, so that moving back
// to it restores what it showed, whatever was cut elsewhere meanwhile.
func (r rows) activeCut(n, seq uint64, path Path) (*Cut, error) {
	var best *Cut
	for ; n > 0; n-- {
		var c Cut
		if err := r.must(RowCut, n, &c); err != nil {
			return nil, err
		}
		if best != nil && best.Through >= c.Furthest {
			break
		}
		if c.Seq <= seq && path.Contains(c.anchor()) && (best == nil || c.Through > best.Through) {
			best = &c
		}
	}
	return best, nil
}

// anchor is the entry that must be on a path for the cut to hold there: the
// last one it says something about.
func (c Cut) anchor() uint64 {
	a := c.Through
	for _, clip := range c.Clips {
		a = max(a, clip.Entry)
	}
	return a
}

func (f *Fold) leafMoved(d Decoded, m *events.LeafMoved) error {
	if m.Entry == 0 || m.Entry > f.head.Entries {
		return reject("the leaf moved to e%d, the session has %d entries", m.Entry, f.head.Entries)
	}
	if err := f.r.put(RowMove, Num(d.Record.Seq), Move{Leaf: m.Entry}); err != nil {
		return err
	}
	return f.moveTo(m.Entry)
}

func (f *Fold) configured(d Decoded, c *events.SessionConfigured) error {
	if err := c.Settings.Validate(); err != nil {
		return reject("%v", err)
	}
	f.head.Settings, f.head.Configured = c.Settings, true
	return f.r.put(RowConfig, Num(d.Record.Seq), c.Settings)
}

func (f *Fold) compacted(d Decoded, c *events.HistoryCompacted) error {
	if c.ID == "" || c.After > f.head.Entries {
		return reject("compaction %q after e%d, the session has %d entries", c.ID, c.After, f.head.Entries)
	}
	key := compactionKey(c.ID)
	seen, err := f.r.number(RowTurn, key)
	if err != nil {
		return err
	}
	if seen != 0 {
		return reject("compaction %q is already recorded", c.ID)
	}
	if err := f.r.Put(RowTurn, key, Num(d.Record.Seq)); err != nil {
		return err
	}
	return f.r.put(RowCompaction, Num(d.Record.Seq), c)
}

// compactionKey is where RowTurn keeps the position of a foreign compaction.
func compactionKey(id string) []byte { return append([]byte("\x00compaction:"), id...) }
