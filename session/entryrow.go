package session

import (
	"time"

	"lcm/events"
)

// MarshalBinary gives the entry's row.
func (e Entry) MarshalBinary() ([]byte, error) {
	w := rowWriter{b: make([]byte, 0, 160+len(e.ID)+len(e.Sender)+len(e.MessageID))}
	w.flags(e.Injected, e.Big, e.AuthorTime != nil)
	w.number(e.N)
	w.number(e.Seq)
	w.number(e.Parent)
	w.int(e.Tokens)
	w.int(e.InputTokens)
	for _, s := range [...]string{e.ID, string(e.Role), e.Sender, e.MessageID, e.Hash, e.SourceHash} {
		w.text(s)
	}
	w.texts(e.Calls)
	w.texts(e.Results)
	w.texts(e.Files)
	w.numbers(e.CallEntries)
	w.time(e.Time)
	if e.AuthorTime != nil {
		w.time(*e.AuthorTime)
	}
	return w.b, nil
}

// UnmarshalBinary reverses MarshalBinary.
func (e *Entry) UnmarshalBinary(row []byte) error {
	r := readRow(row)
	var authored bool
	*e = Entry{}
	r.flags(&e.Injected, &e.Big, &authored)
	e.N, e.Seq, e.Parent = r.number(), r.number(), r.number()
	e.Tokens, e.InputTokens = r.int(), r.int()
	e.ID, e.Role, e.Sender, e.MessageID = r.text(), events.Role(r.text()), r.text(), r.text()
	e.Hash, e.SourceHash = r.text(), r.text()
	e.Calls, e.Results, e.Files, e.CallEntries = r.texts(), r.texts(), r.texts(), r.numbers()
	e.Time = r.time()
	if authored {
		e.AuthorTime = new(time.Time)
		*e.AuthorTime = r.time()
	}
	return r.end()
}
