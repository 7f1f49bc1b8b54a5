package session

import (
	"errors"

	"lcm/events"
)

// DecodeLink reads what the chain needs of a record, and leaves the payload
// unread: Judge reads it. For who checks chains and folds nothing.
func DecodeLink(rec events.Record) (Decoded, error) {
	d := Decoded{Record: rec}
	var err error
	if d.Lane, d.Part, d.Ref, err = events.ParseSubject(rec.Subject); err != nil {
		return d, err
	}
	if d.Envelope, d.err = rec.Envelope(); d.err != nil {
		return d, nil
	}
	d.next = events.Link{Version: d.Envelope.Version, Hash: rec.ChainHash(d.Envelope.Prev)}
	if !d.Envelope.Known() {
		d.err = events.ErrUnknown
	}
	if d.Envelope.Type == events.TypePositionLost {
		d.Judge()
		d.anchor()
	}
	return d, nil
}

// anchor lets the chain go on from the lost event that a PositionLost stands
// for, where its hash is known: the event behind links to that one.
func (d *Decoded) anchor() {
	if p, ok := d.Payload.(*events.PositionLost); ok && p.Hash != (events.Hash{}) {
		d.next.Hash = p.Hash
	}
}

// Judge reads the payload of an event that DecodeLink read, as Decode does.
func (d *Decoded) Judge() {
	if d.err == nil && d.Payload == nil {
		d.Payload, d.err = d.Record.DecodePayload(d.Envelope)
	}
}

// Follow says whether the event stands right behind link in the chain of its
// subject, and returns the link behind it. Whatever fails does not advance the
// chain: the next event links to the last valid one. The fold and `lcm verify`
// judge by this and nothing else.
func (d Decoded) Follow(link events.Link) (events.Link, error) {
	if d.Envelope.Type == "" || errors.Is(d.err, events.ErrMalformed) {
		return link, reject("%v", d.err)
	}
	if want := d.Envelope.Type.Lane(); want != "" && want != d.Lane {
		return link, reject("%s on the %s lane", d.Envelope.Type, d.Lane)
	}
	if d.Envelope.Version != link.Version+1 {
		return link, reject("version %d after %d", d.Envelope.Version, link.Version)
	}
	if d.Envelope.Prev != link.Hash {
		return link, reject("version %d does not carry the hash of version %d", d.Envelope.Version, link.Version)
	}
	return d.next, nil
}

// Link is the chain's link behind this event, if it follows what it says it
// follows.
func (d Decoded) Link() events.Link { return d.next }

// Unknown reports an event of a later build: part of the chain, and skipped.
func (d Decoded) Unknown() bool { return errors.Is(d.err, events.ErrUnknown) }
