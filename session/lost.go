package session

import (
	"lcm/events"
	"lcm/tokens"
)

// Lost is a position of the session that could not be recovered.
type Lost struct {
	Seq     uint64      `json:"seq"`
	Lane    events.Lane `json:"lane"`
	Version uint64      `json:"version,omitempty"`
	Entry   uint64      `json:"entry,omitempty"` // the turn it was, 0 = not known
	Reason  string      `json:"reason,omitempty"`
}

// lost notes a lost position. A lost turn keeps its number: an entry that says
// it is lost stands there, so that the entries behind it are what they were.
func (f *Fold) lost(d Decoded, p *events.PositionLost) (n uint64, err error) {
	if p.Entry != 0 {
		if d.Lane != events.LaneTimeline {
			return 0, reject("the lost turn e%d on the %s lane", p.Entry, d.Lane)
		}
		if n, err = f.lostTurn(d, p.Turn()); err != nil {
			return 0, err
		}
	}
	f.head.Lost++
	return n, f.r.put(RowLost, Num(d.Record.Seq), Lost{
		Seq: p.Seq, Lane: d.Lane, Version: p.Version, Entry: n, Reason: p.Reason,
	})
}

// lostTurn folds the turn that stands for a lost one.
func (f *Fold) lostTurn(d Decoded, t *events.TurnAppended) (uint64, error) {
	t.Tokens = tokens.Count(t.Text) + lostFrame
	t.InputTokens = t.Tokens
	body, err := events.PayloadJSON(t)
	if err != nil {
		return 0, err
	}
	d.Record.Data, d.contentHash, d.sourceHash = body, t.ContentHash(), t.SourceHash()
	return f.turn(d, t)
}

// lostFrame is what the frame of a lost turn counts at most, in tokens.
const lostFrame = 8

// LostAt returns the newest lost position at or before seq, and where its
// event stands; nil where there is none.
func (q Reader) LostAt(seq uint64) (lost *Lost, at uint64, err error) {
	k, b, err := q.r.Floor(RowLost, Num(seq))
	if err != nil || k == nil {
		return nil, 0, err
	}
	lost = new(Lost)
	return lost, be64(k), decodeRow(RowLost, b, lost)
}
