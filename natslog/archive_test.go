package natslog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func scanned(t *testing.T, l *Log, after, until uint64) []uint64 {
	t.Helper()
	var got []uint64
	err := l.Scan(ctx(t), after, until, func(_ context.Context, recs []events.Record) error {
		for _, r := range recs {
			got = append(got, r.Seq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestScan(t *testing.T) {
	l := open(t)
	fill(t, l, "a", 2500)
	for _, c := range [][2]uint64{{0, 2500}, {0, 1}, {2499, 2500}, {1300, 2000}, {2500, 2500}, {0, 511}, {0, 512}} {
		got := scanned(t, l, c[0], c[1])
		if uint64(len(got)) != c[1]-c[0] || len(got) > 0 && (got[0] != c[0]+1 || got[len(got)-1] != c[1] || !slices.IsSorted(got)) {
			t.Errorf("from %d to %d: %d events", c[0], c[1], len(got))
		}
	}
	mine := errors.New("mine")
	if err := l.Scan(ctx(t), 0, 10, func(context.Context, []events.Record) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("err = %v", err)
	}
}

// A scan goes on behind what is gone, also where that is the end.
func TestScanLeavesOutWhatIsGone(t *testing.T) {
	l := open(t)
	drop(t, l, StreamLog)
	c := logConfig(l.epoch, l.o)
	c.DenyDelete = false
	s, err := l.js.CreateStream(ctx(t), c)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, "a", 20)
	for _, seq := range []uint64{1, 7, 8, 20} {
		if err := s.DeleteMsg(ctx(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	got := scanned(t, l, 0, 20)
	if want := []uint64{2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if _, err := Open(ctx(t), l.nc, Options{}); !problem.IsCode(err, problem.Damaged) {
		t.Errorf("Open: %v", err)
	}
	damaged, err := Inspect(ctx(t), l.nc, Options{})
	if err != nil || damaged.Epoch() != l.Epoch() {
		t.Errorf("Inspect: %v", err)
	}
}

func TestRestoration(t *testing.T) {
	_, nc := server(t, t.TempDir())
	begin := func(origin string) (*Restoration, uint64, error) {
		r, err := NewRestoration(nc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		after, err := r.Begin(ctx(t), origin, 4)
		return r, after, err
	}
	r, after, err := begin("E1")
	if err != nil || after != 0 {
		t.Fatalf("after %d, %v", after, err)
	}
	var messages []events.Message
	for _, a := range run("a", 1200) {
		messages = append(messages, a.Message)
	}
	messages = append(messages, events.Message{Subject: "lcm.ev.9.no.session"}) // no header at all
	if err := r.Store(ctx(t), 0, messages[:1000]); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx(t), nc, Options{}); !problem.IsCode(err, problem.Damaged) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a half restored log opens: %v", err)
	}
	if _, _, err := begin("E2"); !problem.IsCode(err, problem.Conflict) {
		t.Errorf("another backup goes on with it: %v", err)
	}
	r, after, err = begin("E1")
	if err != nil || after != 1000 {
		t.Fatalf("goes on after %d, %v", after, err)
	}
	if err := r.Store(ctx(t), 999, messages[999:1001]); err == nil {
		t.Error("stored at the wrong position")
	}
	for _, part := range [][]events.Message{messages[1000:1200], messages[1200:]} {
		if err := r.Store(ctx(t), after, part); err != nil {
			t.Fatal(err)
		}
		after += uint64(len(part))
	}
	body := events.Record{Seq: 5, Message: events.Message{Subject: "lcm.in.3.t.s", Header: events.Header{HeaderFormat: "lcm"}, Data: []byte("x")}}
	if err := r.Deliver(ctx(t), body, "in:E1:5"); err != nil {
		t.Fatal(err)
	}
	letter := events.Record{Seq: 1, Message: events.Message{Subject: "lcm.dead.h.t.s", Header: events.Header{}, Data: []byte(`{"origin":"f:1"}`)}}
	for range 2 {
		if err := r.Bury(ctx(t), letter); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Finish(ctx(t)); err != nil {
		t.Fatal(err)
	}
	l := openOn(t, nc, Options{})
	if got := scanned(t, l, 0, 1201); len(got) != 1201 || l.Partitions() != 4 || l.Epoch() == "E1" {
		t.Errorf("%d events, %d partitions, epoch %s", len(got), l.Partitions(), l.Epoch())
	}
	if _, _, err := begin("E1"); !problem.IsCode(err, problem.Conflict) {
		t.Errorf("restored twice: %v", err)
	}
	c, cancel := context.WithCancel(ctx(t))
	var got api.InboxMessage
	_ = l.Inbox(c, func(_ context.Context, m api.InboxMessage) error { got = m; cancel(); return nil })
	if got.Origin != "in:E1:5" || got.Format != "lcm" || got.Ref != (events.Ref{Tenant: "t", Session: "s"}) {
		t.Errorf("inbox: %+v", got)
	}
	if letters, err := l.Dead(ctx(t), nil, 0, 10); err != nil || len(letters) != 1 || letters[0].Origin != "f:1" {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
}

// Pending reads a stream that no consumer may be added to, past its gaps.
func TestPending(t *testing.T) {
	l := open(t)
	js, err := jetstream.New(l.nc)
	if err != nil {
		t.Fatal(err)
	}
	for range 600 {
		m := nats.NewMsg("lcm.in.t.s")
		m.Data = make([]byte, 20)
		if _, err := js.PublishMsg(ctx(t), m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := js.Stream(ctx(t), StreamInbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 300, 600} {
		if err := s.DeleteMsg(ctx(t), seq); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for stream, want := range map[string]int{StreamInbox: 597, StreamDead: 0, "NOWHERE": 0} {
		n = 0
		if err := l.Pending(ctx(t), stream, func(events.Record) error { n++; return nil }); err != nil || n != want {
			t.Errorf("%s: %d messages, %v", stream, n, err)
		}
	}
}
