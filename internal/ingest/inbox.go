package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/transcript"
)

// HandleInbox appends what an inbox message holds: one turn or many, in any
// format, of one conversation or several. It returns nil once everything is
// stored, known or buried, and an error only for what passes: then the message
// comes again, and what was stored is recognised.
//
// A turn without an id is in:<epoch>:<seq>:<index>, index being its place
// among the message's items, from 0: redelivery finds it again.
func (s *Service) HandleInbox(ctx context.Context, m api.InboxMessage) error {
	origin, identity := fmt.Sprintf("inbox %d", m.Seq), m.Origin
	if identity == "" {
		identity = fmt.Sprintf("in:%s:%d", s.epoch, m.Seq)
	}
	items, err := transcript.ParseBody(m.Data, transcript.Options{Format: transcript.Format(m.Format)})
	if err != nil {
		return s.bury(ctx, api.DeadLetter{Ref: m.Ref, Origin: origin, Reason: err.Error(), Format: m.Format, Body: m.Data})
	}
	var order []string
	groups := map[string][]source{}
	for i, it := range items {
		if it.Kind == transcript.KindSkip {
			continue
		}
		if it.Kind == transcript.KindReject {
			if err := s.bury(ctx, rejected(m.Ref, it, origin, m.Format)); err != nil {
				return err
			}
			continue
		}
		src := source{item: it, write: writeOf(it)}
		if t := src.write.Turn; t != nil && t.Turn.ID == "" {
			t.Turn.ID = fmt.Sprintf("%s:%d", identity, i)
		}
		if _, ok := groups[it.Conversation]; !ok {
			order = append(order, it.Conversation)
		}
		groups[it.Conversation] = append(groups[it.Conversation], src)
	}
	for _, conv := range order {
		ref := events.Ref{Tenant: m.Ref.Tenant, Session: m.Ref.Session + conv}
		if err := s.appendSources(ctx, ref, parented(s.c.Defaults, m.Ref.Session, conv), groups[conv], origin, m.Format); err != nil {
			return err
		}
	}
	return nil
}

// appendSources appends the items of one session and buries what is refused.
func (s *Service) appendSources(ctx context.Context, ref events.Ref, settings *events.Settings, src []source, origin, format string) error {
	for len(src) > 0 {
		n := min(len(src), s.c.MaxWrites)
		page := src[:n]
		src = src[n:]
		reply, err := s.Append(ctx, api.AppendRequest{Ref: ref, Writes: writesOf(page), Settings: settings})
		if err != nil {
			p := problem.From(err)
			if p.Code == problem.Invalid || p.Code == problem.TooLarge || errors.Is(err, errLost) {
				// Nothing that waiting would mend, and the partition's other
				// sessions wait behind this message.
				for _, one := range page {
					if err := s.bury(ctx, letter(ref, one, origin, format, p.Error())); err != nil {
						return err
					}
				}
				continue
			}
			return err
		}
		for i, w := range reply.Written {
			if w.Error == "" {
				continue
			}
			if err := s.bury(ctx, letter(ref, page[i], origin, format, w.Error)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Service) bury(ctx context.Context, d api.DeadLetter) error {
	if d.Ref.Validate() != nil { // a conversation's name that no session can have
		d.Reason = fmt.Sprintf("session %q: %s", d.Ref.Session, d.Reason)
		d.Ref.Session = "unnamed"
	}
	d.Time = s.d.Clock().UTC().Format(time.RFC3339Nano)
	return s.d.Log.Bury(ctx, withHash(d))
}

// source is an item of a transcript and the write it asks for.
type source struct {
	item  transcript.Item
	write api.Write
}

// writeOf is the write an item asks for; the zero Write for a skip or reject.
func writeOf(it transcript.Item) api.Write {
	switch it.Kind {
	case transcript.KindTurn:
		return api.Write{Turn: &api.Turn{Turn: *it.Turn, ParentID: it.ParentID, Line: it.Line}}
	case transcript.KindMove:
		return api.Write{MoveTo: it.ParentID}
	case transcript.KindCompaction:
		return api.Write{Compaction: it.Compaction, AfterID: it.ParentID, KeptID: it.KeptID}
	}
	return api.Write{}
}

func writesOf(src []source) []api.Write {
	out := make([]api.Write, len(src))
	for i, one := range src {
		out[i] = one.write
	}
	return out
}

// Parse turns a request's body into writes, in order. A record that it cannot
// read is a write that carries its refusal. Records that are not turns are left
// out.
func Parse(body []byte, format string) ([]api.Write, error) {
	items, err := transcript.ParseBody(body, transcript.Options{Format: transcript.Format(format)})
	if err != nil {
		return nil, err
	}
	var out []api.Write
	for _, it := range items {
		switch {
		case it.Kind == transcript.KindSkip:
		case it.Kind == transcript.KindReject:
			out = append(out, api.Write{Refused: fmt.Sprintf("record %d: %s", max(it.Line, it.Index), it.Reason)})
		case it.Conversation != "":
			out = append(out, api.Write{Refused: fmt.Sprintf("record %d belongs to another conversation of the body: import it as a file", it.Line)})
		default:
			out = append(out, writeOf(it))
		}
	}
	return out, nil
}

// parented are the settings of a sidechain's session, nil for any other.
func parented(defaults events.Settings, session, conversation string) *events.Settings {
	if len(conversation) == 0 || conversation[0] != '/' {
		return nil
	}
	defaults.ParentSession = session
	return &defaults
}

// rejected is the dead letter of an item the parser could not read.
func rejected(ref events.Ref, it transcript.Item, origin, format string) api.DeadLetter {
	ref.Session += it.Conversation
	return letter(ref, source{item: it}, origin, format, it.Reason)
}

// letter keeps an item's verbatim source with the reason it was refused.
func letter(ref events.Ref, src source, origin, format, reason string) api.DeadLetter {
	it, id := src.item, ""
	if t := src.write.Turn; t != nil {
		id = t.Turn.ID
	}
	if it.Index > 0 {
		origin = fmt.Sprintf("%s#%d", origin, it.Index)
	}
	return api.DeadLetter{
		Ref: ref, Origin: origin, Reason: reason, Format: format, TurnID: id,
		Body: it.Source, Bytes: int(it.SourceBytes), Hash: it.SourceHash,
	}
}

// withHash completes a dead letter; of one above the inline limit only hash,
// size and place are kept.
func withHash(d api.DeadLetter) api.DeadLetter {
	if d.Hash == "" {
		d.Hash = events.HashBytes(d.Body)
	}
	d.Bytes = max(d.Bytes, len(d.Body))
	if d.Bytes > deadLimit {
		d.Body = nil
	}
	return d
}
