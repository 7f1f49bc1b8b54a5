package verify

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// memory is a log with holes.
type memory struct {
	records []events.Record // in order, positions from 1
	last    uint64
}

func (m *memory) Epoch() string   { return "epoch" }
func (m *memory) Partitions() int { return 4 }
func (m *memory) Extent(context.Context) (first, last, held uint64, err error) {
	return 1, m.last, uint64(len(m.records)), nil
}

func (m *memory) Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error {
	for batch := range slices.Chunk(m.records, 7) {
		if err := handle(ctx, slices.Clone(batch)); err != nil {
			return err
		}
	}
	return nil
}

// writer chains events of sessions.
type writer struct {
	memory
	links map[string]events.Link
}

func (w *writer) put(name string, p events.Payload) {
	ref := events.Ref{Tenant: "t", Session: name}
	subject := events.Subject(p.EventType().Lane(), ref, w.Partitions())
	if w.links == nil {
		w.links = map[string]events.Link{}
	}
	m, link, err := events.Encode(subject, p, time.Unix(int64(w.last), 0), w.links[subject])
	if err != nil {
		panic(err)
	}
	w.links[subject] = link
	w.raw(m)
}

func (w *writer) raw(m events.Message) {
	w.last++
	w.records = append(w.records, events.Record{Message: m, Seq: w.last})
}

func (w *writer) turn(name string) {
	w.put(name, &events.TurnAppended{ID: fmt.Sprint("m", w.last), Role: events.RoleUser, Text: "hello"})
}

// drop makes positions unreadable.
func (w *writer) drop(seqs ...uint64) {
	w.records = slices.DeleteFunc(w.records, func(r events.Record) bool { return slices.Contains(seqs, r.Seq) })
}

func run(t *testing.T, w *writer, o Options) *api.VerifyReply {
	t.Helper()
	out, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// three sessions, 30 turns, in turns: positions 1, 4, 7 … are of s0.
func three() *writer {
	w := &writer{}
	for i := range 30 {
		w.turn(fmt.Sprint("s", i%3))
	}
	return w
}

func TestWholeLog(t *testing.T) {
	out := run(t, three(), Options{})
	if !out.OK || out.Events != 30 || out.Valid != 30 || out.Sessions != 3 || len(out.Faults) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestMissingPositionsAreNamed(t *testing.T) {
	w := three()
	w.drop(7, 10, 14, 30)
	out := run(t, w, Options{})
	type named struct {
		Seq, Version uint64
		Kind, Of     string
		Behind       uint64
	}
	var got []named
	for _, f := range out.Faults {
		got = append(got, named{f.Seq, f.Version, f.Kind, f.Session, f.Behind})
	}
	want := []named{
		{7, 3, "missing", "s0", 0},
		{10, 4, "missing", "s0", 0},
		{13, 5, "broken", "s0", 5},
		{14, 5, "missing", "s1", 0},
		{17, 6, "broken", "s1", 4},
		{30, 0, "missing", "", 0}, // nothing behind it says whose it was
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if out.OK || out.Missing != 4 || out.Broken != 11 || out.Events != 26 {
		t.Errorf("%+v", out)
	}
}

func TestForgedEvents(t *testing.T) {
	w := three()
	before := len(w.records)
	subject := events.Subject(events.LaneTimeline, events.Ref{Tenant: "t", Session: "s0"}, w.Partitions())
	link := w.links[subject]
	good, _, _ := events.Encode(subject, &events.LeafMoved{Entry: 1}, time.Unix(1, 0), link)
	for _, m := range []events.Message{
		{Subject: subject},
		{Subject: "lcm.ev.99.t.s0", Header: good.Header, Data: good.Data},
		{Subject: "lcm.ev.x", Header: good.Header, Data: good.Data},
		{Subject: subject, Header: good.Header, Data: []byte(`{"entry":`)},
		{Subject: subject, Header: good.Header, Data: []byte(`{"entry":"one"}`)},
	} {
		w.raw(m)
	}
	w.turn("s0") // chains to the last valid one
	w.turn("s1")
	out := run(t, w, Options{})
	if out.Broken != 5 || out.Valid != uint64(before+2) || out.Missing != 0 {
		t.Errorf("%+v", out)
	}
	if got := run(t, w, Options{Limit: 2}); got.More != 3 || got.Broken != 5 || got.OK {
		t.Errorf("limited: %+v", got)
	}
}

// The verification judges as the fold does, whatever is in the log.
func TestJudgesAsTheFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &writer{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			name := fmt.Sprint("s", rapid.IntRange(0, 2).Draw(t, "session"))
			switch rapid.IntRange(0, 6).Draw(t, "kind") {
			case 0:
				w.raw(spoiled(t, w, name))
			default:
				w.put(name, &events.PassStalled{Reason: "x"})
			}
		}
		var drop []uint64
		for _, r := range w.records {
			if rapid.IntRange(0, 15).Draw(t, "drop") == 0 {
				drop = append(drop, r.Seq)
			}
		}
		w.drop(drop...)
		out, err := Run(context.Background(), w, Options{})
		if err != nil {
			t.Fatal(err)
		}
		links := map[string]events.Link{}
		valid := uint64(0)
		for _, r := range w.records {
			d, err := session.Decode(r)
			if err != nil {
				continue
			}
			if link, err := d.Follow(links[r.Subject]); err == nil {
				links[r.Subject] = link
				valid++
			}
		}
		if out.Valid != valid || out.Broken != uint64(len(w.records))-valid || out.Missing != uint64(len(drop)) {
			t.Fatalf("verify: %+v; the fold: %d valid of %d, %d lost", out, valid, len(w.records), len(drop))
		}
	})
}

// spoiled is an event of a session that is wrong in one way.
func spoiled(t *rapid.T, w *writer, name string) events.Message {
	subject := events.Subject(events.LaneDerived, events.Ref{Tenant: "t", Session: name}, w.Partitions())
	link := w.links[subject]
	how := rapid.IntRange(0, 4).Draw(t, "spoil")
	switch how {
	case 0:
		link.Version += 2
	case 1:
		link.Hash[0] ^= 1
	}
	m, _, err := events.Encode(subject, &events.PassStalled{Reason: "spoiled"}, time.Unix(1, 0), link)
	if err != nil {
		t.Fatal(err)
	}
	switch how {
	case 2:
		m.Data = []byte(`{"reason":7}`)
	case 3:
		m.Data = m.Data[:len(m.Data)-1]
	case 4:
		delete(m.Header, events.HeaderTime)
	}
	return m
}
