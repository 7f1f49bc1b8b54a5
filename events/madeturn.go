package events

import (
	"bytes"
	"fmt"
	"strconv"
)

// MadeTurn is a turn whose payload is written but for its entry and parent:
// those are known only once its place in the log is, and everything else of it
// need not wait until then. It may be used concurrently.
type MadeTurn struct {
	// Hash and Source are the turn's ContentHash and SourceHash.
	Hash, Source string
	// head ends before the entry's number, tail begins behind it.
	head, tail []byte
}

// maxNumbers is what entry and parent add to a payload, bytes: two numbers of
// 20 digits, and the parent's name.
const maxNumbers = 2*20 + len(`,"parent":`)

// MakeTurn writes a turn's payload. Entry and Parent of t are ignored.
func MakeTurn(t *TurnAppended) (*MadeTurn, error) {
	c := *t
	c.Entry, c.Parent = 0, 0
	data, err := appendTurn(nil, &c)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", TypeTurnAppended, err)
	}
	entry := len(appendString(nil, c.ID)) + len(`{"id":,"entry":`)
	return &MadeTurn{
		Hash: t.ContentHash(), Source: t.SourceHash(),
		head: data[:entry:entry], tail: data[entry+len("0"):],
	}, nil
}

// ReadMade reads a payload that a MadeTurn gave for entry 0, and answers with
// the turn and its MadeTurn, which keeps data.
func ReadMade(data []byte) (*TurnAppended, *MadeTurn, error) {
	t, err := DecodeTurn(data)
	if err != nil {
		return nil, nil, err
	}
	head := append(appendString([]byte(`{"id":`), t.ID), `,"entry":`...)
	rest, ok := bytes.CutPrefix(data, head)
	tail, zero := bytes.CutPrefix(rest, []byte("0"))
	if !ok || !zero {
		m, err := MakeTurn(t)
		return t, m, err
	}
	return t, &MadeTurn{Hash: t.ContentHash(), Source: t.SourceHash(), head: head, tail: tail}, nil
}

// Bytes is the size of the payload at most.
func (m *MadeTurn) Bytes() int { return len(m.head) + maxNumbers + len(m.tail) }

// Contains reports whether the payload holds a text, as JSON writes it.
func (m *MadeTurn) Contains(text string) bool {
	return bytes.Contains(m.tail, []byte(text)) || bytes.Contains(m.head, []byte(text))
}

// Payload is the turn's payload as entry, with a declared parent (0 = none).
func (m *MadeTurn) Payload(entry, parent uint64) []byte {
	out := make([]byte, 0, m.Bytes())
	out = append(out, m.head...)
	out = strconv.AppendUint(out, entry, 10)
	if parent != 0 {
		out = append(out, `,"parent":`...)
		out = strconv.AppendUint(out, parent, 10)
	}
	return append(out, m.tail...)
}
