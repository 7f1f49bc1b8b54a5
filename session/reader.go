package session

import (
	"slices"
	"sort"

	"lcm/events"
)

// Reader answers questions about one session from its rows.
type Reader struct{ r rows }

// NewReader reads through r.
func NewReader(r Rows) Reader { return Reader{rows{r}} }

// Head returns the session's head, the zero Head for an unknown session.
func (q Reader) Head() (Head, error) {
	return q.r.head()
}

// Entry returns entry n.
func (q Reader) Entry(n uint64) (Entry, error) {
	var e Entry
	err := q.r.entry(n, &e)
	return e, err
}

// EntryOf returns the entry of a turn id, 0 where there is none.
func (q Reader) EntryOf(turnID string) (uint64, error) { return q.r.number(RowTurn, []byte(turnID)) }

// Node returns node n.
func (q Reader) Node(n uint64) (Node, error) {
	var d Node
	err := q.r.must(RowNode, n, &d)
	return d, err
}

// NodeOf returns the number of the node with this key, 0 where there is none.
func (q Reader) NodeOf(key string) (uint64, error) { return q.r.number(RowNodeKey, []byte(key)) }

// Cut returns cut n.
func (q Reader) Cut(n uint64) (Cut, error) {
	var c Cut
	err := q.r.must(RowCut, n, &c)
	return c, err
}

// FileEntry returns the entry that holds the newest body of a file, 0 where
// the session has no such file.
func (q Reader) FileEntry(id string) (uint64, error) { return q.r.number(RowFile, []byte(id)) }

// Body returns the stored payload of an entry, nil where only the log has it.
func (q Reader) Body(n uint64) ([]byte, error) { return q.r.Get(RowBody, Num(n)) }

// Covering returns the leaf nodes that cover an entry, ascending, all
// branches, superseded ones included.
func (q Reader) Covering(entry uint64) ([]uint64, error) { return q.r.numbers(RowCovering, entry) }

// Parents returns the nodes condensed from node n, ascending.
func (q Reader) Parents(n uint64) ([]uint64, error) { return q.r.numbers(RowParents, n) }

// SupersededBy returns the node that replaced n, 0 where none did.
func (q Reader) SupersededBy(n uint64) (uint64, error) { return q.r.number(RowSupersede, Num(n)) }

// Rejected returns the rejected event at or before seq, nil where none.
func (q Reader) Rejected(seq uint64) (*Rejected, error) {
	var j Rejected
	ok, err := q.floor(RowRejected, seq, &j)
	if !ok || err != nil {
		return nil, err
	}
	return &j, nil
}

func (q Reader) floor(kind RowKind, seq uint64, v any) (bool, error) {
	k, b, err := q.r.Floor(kind, Num(seq))
	if err != nil || k == nil {
		return false, err
	}
	return true, decodeRow(kind, b, v)
}

// State is what held at one position: enough to read a session as of then.
type State struct {
	Seq      uint64 // rows with a greater Seq did not exist yet
	Entries  uint64
	Leaf     uint64
	Path     Path
	Settings events.Settings
	Cut      *Cut
	Pinned   uint64
}

// Now is the state at the head.
func (q Reader) Now() (State, error) {
	h, err := q.Head()
	if err != nil {
		return State{}, err
	}
	s := State{Seq: max(h.Timeline.LastSeq, h.Derived.LastSeq), Entries: h.Entries, Leaf: h.Leaf, Path: h.Path, Settings: h.Settings, Pinned: h.Pinned}
	if h.ActiveCut != 0 {
		c, err := q.Cut(h.ActiveCut)
		if err != nil {
			return State{}, err
		}
		s.Cut = &c
	}
	return s, nil
}

// At is the state right after stream position seq: exactly what held then.
func (q Reader) At(seq uint64) (State, error) {
	h, err := q.Head()
	if err != nil {
		return State{}, err
	}
	s := State{Seq: seq}
	if s.Entries, err = q.entriesAt(h.Entries, seq); err != nil {
		return State{}, err
	}
	if s.Leaf, err = q.leafAt(s.Entries, seq); err != nil {
		return State{}, err
	}
	if s.Path, err = q.r.path(s.Leaf); err != nil {
		return State{}, err
	}
	if s.Pinned, err = q.r.pinned(s.Path); err != nil {
		return State{}, err
	}
	if _, err = q.floor(RowConfig, seq, &s.Settings); err != nil {
		return State{}, err
	}
	s.Cut, err = q.r.activeCut(h.Cuts, seq, s.Path)
	return s, err
}

func (q Reader) entriesAt(entries, seq uint64) (uint64, error) {
	var failed error
	n := sort.Search(int(entries), func(i int) bool {
		e, err := q.Entry(uint64(i) + 1)
		if err != nil {
			failed = err
		}
		return e.Seq > seq
	})
	return uint64(n), failed
}

func (q Reader) leafAt(entries, seq uint64) (uint64, error) {
	k, v, err := q.r.Floor(RowMove, Num(seq))
	if err != nil {
		return 0, err
	}
	if k == nil {
		return entries, nil
	}
	if entries > 0 {
		e, err := q.Entry(entries)
		if err != nil {
			return 0, err
		}
		if e.Seq > be64(k) {
			return entries, nil
		}
	}
	var m Move
	return m.Leaf, decodeRow(RowMove, v, &m)
}

// CallEntry returns the newest entry that makes a tool call of this id, all
// branches, 0 where none does.
func (q Reader) CallEntry(id string) (uint64, error) {
	calls, err := q.r.list(RowTurn, callKey(id))
	if err != nil || len(calls) == 0 {
		return 0, err
	}
	return calls[len(calls)-1], nil
}

// CompactionSeq returns the position of a foreign compaction, 0 where it is
// not recorded.
func (q Reader) CompactionSeq(id string) (uint64, error) {
	return q.r.number(RowTurn, compactionKey(id))
}

// Compactions are all foreign compactions recorded at or before seq, in the
// order of the log and without their originals: those that contexts show
// (View.Compactions) and those that stand beside the turns they replaced.
func (q Reader) Compactions(seq uint64) ([]events.HistoryCompacted, error) {
	var out []events.HistoryCompacted
	for at := seq; ; at-- {
		k, b, err := q.r.Floor(RowCompaction, Num(at))
		if err != nil {
			return nil, err
		}
		if k == nil {
			break
		}
		var c events.HistoryCompacted
		if err := decodeRow(RowCompaction, b, &c); err != nil {
			return nil, err
		}
		c.Original = ""
		out = append(out, c)
		if at = be64(k); at == 0 {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}
