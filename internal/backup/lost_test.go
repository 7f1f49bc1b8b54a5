package backup

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

const parts = 16

// writing is a log as its writers make it: what they append links to what the
// fold accepted.
type writing struct {
	store
	folds map[events.Ref]*session.Fold
	rows  map[events.Ref]*session.Memory
	now   int64
}

func newWriting() *writing {
	return &writing{store: store{epoch: "E1"}, folds: map[events.Ref]*session.Fold{}, rows: map[events.Ref]*session.Memory{}}
}

// take folds an event.
func (w *writing) take(t errorer, m events.Message) session.Outcome {
	w.put(m)
	d, err := session.Decode(w.log[w.last])
	if err != nil {
		return session.Outcome{Reason: err.Error()}
	}
	f := w.fold(t, d.Ref)
	out, err := f.Apply(d)
	if err == nil {
		err = f.Flush()
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}

type errorer interface {
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func (w *writing) fold(t errorer, ref events.Ref) *session.Fold {
	if f := w.folds[ref]; f != nil {
		return f
	}
	w.rows[ref] = session.NewMemory()
	f, err := session.NewFold(ref, w.rows[ref])
	if err != nil {
		t.Fatalf("%v", err)
	}
	w.folds[ref] = f
	return f
}

func (w *writing) publish(t errorer, ref events.Ref, p events.Payload) session.Outcome {
	w.now++
	h := w.fold(t, ref).Head()
	lane, link := p.EventType().Lane(), h.Timeline.Link
	if lane == events.LaneDerived {
		link = h.Derived.Link
	}
	m, _, err := events.Encode(events.Subject(lane, ref, parts), p, time.Unix(w.now, 0), link)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return w.take(t, m)
}

func (w *writing) turn(t errorer, ref events.Ref, id string) session.Outcome {
	n := w.fold(t, ref).Head().Entries + 1
	return w.publish(t, ref, &events.TurnAppended{ID: id, Entry: n, Role: events.RoleUser, Text: "words of " + id, Tokens: 5, InputTokens: 50})
}

func (w *writing) node(t errorer, ref events.Ref, first, last uint64) session.Outcome {
	r := []events.Range{{First: first, Last: last}}
	text := fmt.Sprintf("summary of e%d to e%d", first, last)
	return w.publish(t, ref, &events.NodeCommitted{
		Key: session.LeafKey(r, "p", ""), First: first, Last: last, Entries: r, InputTokens: 1000, PromptVersion: "p",
		Bounds: events.Bounds{HardCap: 300, MaxFan: 8}, Primary: events.Tier{Text: text, Tokens: tokens.Count(text), Level: 1},
	})
}

// step appends something to a random session: turns mostly, moves, settings,
// summaries, and events that do not count.
func (w *writing) step(t *rapid.T, i int) {
	ref := events.Ref{Tenant: "t", Session: fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "session"))}
	h := w.fold(t, ref).Head()
	switch k := rapid.IntRange(0, 11).Draw(t, "kind"); {
	case k == 0:
		w.publish(t, ref, &events.SessionConfigured{Settings: events.DefaultSettings()})
	case k == 1 && h.Entries > 1:
		w.publish(t, ref, &events.LeafMoved{Entry: rapid.Uint64Range(1, h.Entries).Draw(t, "leaf")})
	case k == 2 && h.Entries > 2:
		w.node(t, ref, h.Entries-1, h.Entries)
	case k == 3: // forged: a version from far ahead
		m, _, _ := events.Encode(events.Subject(events.LaneTimeline, ref, parts), &events.LeafMoved{Entry: 1}, time.Unix(1, 0), events.Link{Version: h.Timeline.Version + 1, Hash: events.Hash{1}})
		w.take(t, m)
	case k == 4:
		w.take(t, events.Message{Subject: events.Subject(events.LaneTimeline, ref, parts), Data: []byte("{")})
	default:
		w.turn(t, ref, fmt.Sprint("m", i))
	}
}

// repaired loses positions and restores what is left.
func (w *writing) repaired(t errorer, lose []uint64) *writing {
	var frames []Frame
	for seq := uint64(1); seq <= w.last; seq++ {
		f := Frame{Message: w.log[seq]}
		if slices.Contains(lose, seq) {
			f = Frame{Message: Message{Seq: seq}, Lost: true, Reason: "lost"}
		}
		frames = append(frames, f)
	}
	into := &store{}
	r := &restore{ctx: context.Background(), target: into, partitions: parts, until: w.last}
	err := r.run(func(visit func(Frame) error) error {
		for _, f := range frames {
			if err := visit(f); err != nil {
				return err
			}
		}
		return nil
	}, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	out := newWriting()
	out.now = w.now
	for seq := uint64(1); seq <= into.last; seq++ {
		out.take(t, into.log[seq].Message)
	}
	return out
}

// TestLoseAnyEvent: whichever event of a log is lost, what is restored has every
// other turn under its number, byte for byte, says which one is lost, and every
// session goes on.
func TestLoseAnyEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWriting()
		for i := range rapid.IntRange(2, 25).Draw(t, "events") {
			w.step(t, i)
		}
		for ref := range w.folds { // what contradicts a forged end
			w.turn(t, ref, "last")
		}
		for lost := uint64(1); lost <= w.last; lost++ {
			w.compare(t, w.repaired(t, []uint64{lost}), []uint64{lost})
		}
	})
}

// TestLoseSeveralEvents: of several positions lost at once, most can be named;
// nothing else is lost with them in any case.
func TestLoseSeveralEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWriting()
		for i := range rapid.IntRange(5, 40).Draw(t, "events") {
			w.turn(t, events.Ref{Tenant: "t", Session: fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "session"))}, fmt.Sprint("m", i))
		}
		lose := rapid.SliceOfNDistinct(rapid.Uint64Range(1, w.last), 1, 6, rapid.ID[uint64]).Draw(t, "lost")
		slices.Sort(lose)
		w.compare(t, w.repaired(t, lose), lose)
	})
}

func (w *writing) compare(t *rapid.T, got *writing, lost []uint64) {
	t.Helper()
	if got.last != w.last {
		t.Fatalf("%d positions, want %d", got.last, w.last)
	}
	said := uint64(0)
	for _, f := range got.folds {
		said += f.Head().Lost
	}
	if said != uint64(len(lost)) {
		t.Errorf("%d positions are said to be lost, want %d", said, len(lost))
	}
	for ref, rows := range w.rows {
		was, now := session.NewReader(rows), session.NewReader(got.rowsOf(t, ref))
		head, err := was.Head()
		if err != nil {
			t.Fatalf("%v", err)
		}
		after, err := now.Head()
		if err != nil {
			t.Fatalf("%v", err)
		}
		for n := uint64(1); n <= head.Entries; n++ {
			e, err := was.Entry(n)
			if err != nil {
				t.Fatalf("%v", err)
			}
			if slices.Contains(lost, e.Seq) {
				w.isLost(t, now, after, e)
				continue
			}
			g, err := now.Entry(n)
			if err != nil || g.Seq != e.Seq || g.ID != e.ID {
				t.Fatalf("lost %v: e%d of %s is %q at %d, was %q at %d (%v)", lost, n, ref, g.ID, g.Seq, e.ID, e.Seq, err)
			}
			a, _ := was.Body(n)
			b, _ := now.Body(n)
			if !bytes.Equal(a, b) {
				t.Errorf("e%d of %s is not what it was", n, ref)
			}
		}
		if faults, err := now.Audit(true); err != nil || len(faults) > 0 {
			t.Errorf("lost %v: audit of %s: %v %v", lost, ref, faults, err)
		}
		if out := got.turn(t, ref, "afterwards"); out.Reason != "" || out.Number != after.Entries+1 {
			t.Errorf("lost %v: %s cannot be written to: %+v", lost, ref, out)
		}
	}
}

// isLost: the lost turn is shown as one, unless it was the last of its session,
// which nothing remembers.
func (w *writing) isLost(t *rapid.T, now session.Reader, head session.Head, e session.Entry) {
	t.Helper()
	if e.N > head.Entries {
		return
	}
	g, err := now.Entry(e.N)
	if err != nil {
		t.Fatalf("%v", err)
	}
	body, err := now.Body(e.N)
	if err != nil || !bytes.Contains(body, []byte("was lost to damage")) || g.ID == e.ID {
		t.Errorf("e%d, which is lost, is %q: %s (%v)", e.N, g.ID, body, err)
	}
}

func (w *writing) rowsOf(t errorer, ref events.Ref) *session.Memory {
	w.fold(t, ref)
	return w.rows[ref]
}
