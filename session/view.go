package session

import (
	"fmt"
	"time"

	"lcm/events"
)

// View is what planning and rendering need of one session at one position:
// the active cut, what it shows, and the path behind it. Its size follows the
// context, not the session.
type View struct {
	Ref      events.Ref      `json:"ref"`
	Settings events.Settings `json:"settings"`
	Entries  uint64          `json:"entries"` // accepted turns so far
	Leaf     uint64          `json:"leaf"`
	Removed  int             `json:"removed"` // entries off the path
	// Derived is where the session's derived subject stands, Time the ingest
	// time of its last event: the next one is not earlier.
	Derived LaneHead  `json:"derived"`
	Time    time.Time `json:"time"`

	Pinned []Entry `json:"pinned"` // leading system and developer turns
	Cut    *Cut    `json:"cut"`    // the active cut, nil = none
	// Frontier are the nodes the active cut shows, in its order.
	Frontier []Node `json:"frontier"`
	// Kept is the user turn the cut shows verbatim at the end of its block.
	Kept *Entry `json:"kept"`
	// Tail is every path entry behind the cut's through-entry (behind the
	// pinned turns where there is no cut), in order.
	Tail []Entry `json:"tail"`
	// Pending are accepted nodes that no active cut shows and that lie wholly
	// on the path: leaves over the oldest part of the tail, then nodes made of
	// shown and pending ones. Superseded nodes are left out.
	Pending []Node `json:"pending"`
	// Replaced maps a frontier node to the repair that supersedes it; the
	// next recut shows the repair.
	Replaced map[uint64]Node `json:"replaced,omitempty"`
	// Answered lists calls of covered entries that tail results answer: call
	// id → the node that covers the call. Such results are quoted as text.
	// What it says holds until the next cut, whatever is repaired meanwhile.
	Answered map[string]uint64 `json:"answered,omitempty"`
	// Reanswered is Answered where the next cut will name another node: a
	// repair of the one that the active cut found.
	Reanswered map[string]uint64 `json:"reanswered,omitempty"`
	// Stall is the newest PassStalled behind the active cut, nil = none.
	Stall *events.PassStalled `json:"stall"`
	// Compactions are foreign compactions whose originals are not in the log.
	Compactions []events.HistoryCompacted `json:"compactions,omitempty"`
}

// Bodies fetches the payload of an entry of one session.
type Bodies func(entry uint64) (*events.TurnAppended, error)

// View of the session in state s.
func (q Reader) View(ref events.Ref, s State) (*View, error) {
	h, err := q.Head()
	if err != nil {
		return nil, err
	}
	v := &View{
		Ref: ref, Settings: s.Settings, Entries: s.Entries, Leaf: s.Leaf,
		Removed: int(s.Entries) - s.Path.Len(), Derived: h.Derived, Time: h.Time, Cut: s.Cut,
	}
	if err := q.fillRaw(v, s); err != nil {
		return nil, fmt.Errorf("view of %s: %w", ref, err)
	}
	if err := q.fillNodes(v, s); err != nil {
		return nil, fmt.Errorf("view of %s: %w", ref, err)
	}
	if err := q.fillFacts(v, s); err != nil {
		return nil, fmt.Errorf("view of %s: %w", ref, err)
	}
	return v, nil
}

// fillRaw reads the pinned turns, the kept turn and the tail.
func (q Reader) fillRaw(v *View, s State) error {
	through := s.Pinned
	if s.Cut != nil {
		through = max(through, s.Cut.Through)
		if s.Cut.Kept != 0 {
			e, err := q.Entry(s.Cut.Kept)
			if err != nil {
				return err
			}
			v.Kept = &e
		}
	}
	for n := s.Path.Next(0); n != 0 && n <= s.Pinned; n = s.Path.Next(n) {
		e, err := q.Entry(n)
		if err != nil {
			return err
		}
		v.Pinned = append(v.Pinned, e)
	}
	tail := s.Path.After(through)
	if len(tail) > 0 {
		v.Tail = make([]Entry, len(tail))
	}
	for i, n := range tail {
		if err := q.r.entry(n, &v.Tail[i]); err != nil {
			return err
		}
	}
	return nil
}

// fillNodes reads the frontier, its repairs, and the nodes no cut shows yet.
func (q Reader) fillNodes(v *View, s State) error {
	row := []Node{} // shown and pending nodes along the path, in order
	if s.Cut != nil {
		for _, n := range s.Cut.Nodes {
			d, err := q.Node(n)
			if err != nil {
				return err
			}
			v.Frontier = append(v.Frontier, d)
			by, err := q.replacement(n, s)
			if err != nil {
				return err
			}
			if by != nil {
				if v.Replaced == nil {
					v.Replaced = map[uint64]Node{}
				}
				v.Replaced[n] = *by
				row = append(row, *by)
			}
		}
		row = append(row, v.Frontier...)
	}
	top, err := q.topCovered(v.Tail)
	if err != nil {
		return err
	}
	for i := 0; i < len(v.Tail) && v.Tail[i].N <= top; {
		leaf, err := q.leafOver(v.Tail[i].N, s)
		if err != nil {
			return err
		}
		if leaf == nil {
			// Nothing raw stands between pointers: where a leaf is missing,
			// those behind it wait, but the planner must know of them.
			i++
			continue
		}
		v.Pending = append(v.Pending, *leaf)
		row = append(row, *leaf)
		for i < len(v.Tail) && v.Tail[i].N <= leaf.Last {
			i++
		}
	}
	return q.fillCondensed(v, s, row)
}

// topCovered is the last entry at or before the end of a tail that any leaf
// covers: one read tells that most of a tail has none.
func (q Reader) topCovered(tail []Entry) (uint64, error) {
	if len(tail) == 0 {
		return 0, nil
	}
	k, _, err := q.r.Floor(RowCovering, Num(tail[len(tail)-1].N))
	if err != nil || k == nil {
		return 0, err
	}
	return be64(k), nil
}

// fillCondensed climbs from a row of adjacent nodes to the nodes made of them.
func (q Reader) fillCondensed(v *View, s State, row []Node) error {
	seen := map[uint64]bool{}
	for level := row; len(level) > 0; {
		var up []Node
		for _, d := range level {
			parents, err := q.Parents(d.N)
			if err != nil {
				return err
			}
			for _, n := range parents {
				if seen[n] {
					continue
				}
				p, err := q.Node(n)
				if err != nil {
					return err
				}
				by, err := q.replacement(n, s)
				if err != nil {
					return err
				}
				if p.Seq > s.Seq || by != nil || !s.Path.Covers(p.Covered) {
					continue
				}
				seen[n] = true
				up = append(up, p)
			}
		}
		v.Pending = append(v.Pending, up...)
		level = up
	}
	return nil
}

// leafOver returns the leaf node that covers an entry on this path.
func (q Reader) leafOver(entry uint64, s State) (*Node, error) {
	return q.r.leafOver(entry, s.Seq, s.Path)
}

func (r rows) leafOver(entry, seq uint64, path Path) (*Node, error) {
	cover, err := r.numbers(RowCovering, entry)
	if err != nil {
		return nil, err
	}
	for i := len(cover) - 1; i >= 0; i-- {
		var d Node
		if err := r.must(RowNode, cover[i], &d); err != nil {
			return nil, err
		}
		if d.Seq > seq || !path.Covers(d.Covered) {
			continue
		}
		by, err := r.number(RowSupersede, Num(d.N))
		if err != nil {
			return nil, err
		}
		if by != 0 {
			var repair Node
			if err := r.must(RowNode, by, &repair); err != nil {
				return nil, err
			}
			if repair.Seq <= seq {
				continue
			}
		}
		return &d, nil
	}
	return nil, nil
}

// replacement returns the newest repair of node n in state s, nil for none.
func (q Reader) replacement(n uint64, s State) (*Node, error) {
	var found *Node
	for {
		by, err := q.SupersededBy(n)
		if err != nil || by == 0 {
			return found, err
		}
		d, err := q.Node(by)
		if err != nil {
			return nil, err
		}
		if d.Seq > s.Seq {
			return found, nil
		}
		found, n = &d, by
	}
}

// fillFacts reads the newest stall, the foreign compactions that stand for
// lost originals, and the calls of covered entries that the tail answers.
func (q Reader) fillFacts(v *View, s State) error {
	var stall events.PassStalled
	k, b, err := q.r.Floor(RowStall, Num(s.Seq))
	if err != nil {
		return err
	}
	if k != nil && (s.Cut == nil || be64(k) > s.Cut.Seq) {
		if err := decodeRow(RowStall, b, &stall); err != nil {
			return err
		}
		v.Stall = &stall
	}
	first, err := q.firstSeq(s)
	if err != nil {
		return err
	}
	for at := s.Seq; ; {
		k, b, err := q.r.Floor(RowCompaction, Num(at))
		if err != nil {
			return err
		}
		if k == nil {
			break
		}
		var c events.HistoryCompacted
		if err := decodeRow(RowCompaction, b, &c); err != nil {
			return err
		}
		// Nothing before it is in the log, and no turn was shown without it.
		if c.After == 0 && (first == 0 || be64(k) < first) {
			v.Compactions = append([]events.HistoryCompacted{c}, v.Compactions...)
		}
		if at = be64(k); at == 0 {
			break
		}
		at--
	}
	return q.fillAnswered(v, s)
}

// fillAnswered finds results in the tail whose call a node covers: the node as
// it was when the active cut was made, so that a repair changes no context.
func (q Reader) fillAnswered(v *View, s State) error {
	if s.Cut == nil {
		return nil // nothing is covered
	}
	then := s
	then.Seq = s.Cut.Seq
	for _, e := range v.Tail {
		for i, call := range e.CallEntries {
			if call == 0 || call >= v.Tail[0].N {
				continue
			}
			old, err := q.leafOver(call, then)
			if err != nil {
				return err
			}
			now, err := q.leafOver(call, s)
			if err != nil {
				return err
			}
			if old != nil {
				note(&v.Answered, e.Results[i], old.N)
			}
			if now != nil && (old == nil || old.N != now.N) {
				note(&v.Reanswered, e.Results[i], now.N)
			}
		}
	}
	return nil
}

func note(m *map[string]uint64, id string, n uint64) {
	if *m == nil {
		*m = map[string]uint64{}
	}
	(*m)[id] = n
}

// firstSeq is the position of the session's first turn, 0 where it has none.
func (q Reader) firstSeq(s State) (uint64, error) {
	if s.Entries == 0 {
		return 0, nil
	}
	e, err := q.Entry(1)
	return e.Seq, err
}

// callKey is where RowTurn keeps the entries that make a tool call. The
// leading zero byte keeps it apart from turn ids, which are text.
func callKey(callID string) []byte { return append([]byte("\x00call:"), callID...) }
