package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// store is a log in memory with its side streams, as source and as target.
type store struct {
	epoch       string
	log         map[uint64]Message
	last        uint64
	inbox, dead []Message
	origins     []string
	maps        map[string][]Message
	finished    bool
	failAt      uint64 // Store fails at this position, once
}

func (s *store) Epoch() string   { return s.epoch }
func (s *store) Partitions() int { return 16 }
func (s *store) Extent(context.Context) (uint64, uint64, uint64, error) {
	return 1, s.last, uint64(len(s.log)), nil
}

func (s *store) Message(_ context.Context, seq uint64) (events.Record, error) {
	m, ok := s.log[seq]
	if !ok {
		return m, problem.New(problem.Damaged, "position %d", seq)
	}
	return m, nil
}

func (s *store) Scan(ctx context.Context, after, until uint64, handle func(context.Context, []events.Record) error) error {
	for seq := after + 1; seq <= until; seq++ {
		if m, ok := s.log[seq]; ok {
			if err := handle(ctx, []events.Record{m}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *store) Inbox(_ context.Context, each func(Message) error) error { return all(s.inbox, each) }

func (s *store) DeadLetters(_ context.Context, each func(Message) error) error {
	return all(s.dead, each)
}

func (s *store) Maps(_ context.Context, stream string, each func(Message) error) error {
	return all(s.maps[stream], each)
}

func (s *store) Map(_ context.Context, stream string, m Message) error {
	if s.maps == nil {
		s.maps = map[string][]Message{}
	}
	s.maps[stream] = append(s.maps[stream], m)
	return nil
}

func all(list []Message, each func(Message) error) error {
	for _, m := range list {
		if err := each(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) Begin(_ context.Context, origin string, _ int) (uint64, error) {
	if s.epoch != "" && s.epoch != "copy of "+origin {
		return 0, problem.New(problem.Conflict, "not empty")
	}
	s.epoch = "copy of " + origin
	return s.last, nil
}

func (s *store) Store(_ context.Context, after uint64, messages []events.Message) error {
	if after != s.last {
		return fmt.Errorf("after %d at %d", after, s.last)
	}
	for _, m := range messages {
		if s.failAt != 0 && s.last+1 == s.failAt {
			s.failAt = 0
			return errors.New("the connection broke")
		}
		s.put(m)
	}
	return nil
}

func (s *store) put(m events.Message) {
	if s.log == nil {
		s.log = map[uint64]Message{}
	}
	s.last++
	s.log[s.last] = Message{Message: m, Seq: s.last}
}

func (s *store) Deliver(_ context.Context, m Message, origin string) error {
	s.inbox, s.origins = append(s.inbox, m), append(s.origins, origin)
	return nil
}
func (s *store) Bury(_ context.Context, m Message) error { s.dead = append(s.dead, m); return nil }
func (s *store) Finish(context.Context) error            { s.finished = true; return nil }

func side(seq uint64, subject, body string) Message {
	return Message{Seq: seq, Message: events.Message{Subject: subject, Header: events.Header{"Lcm-Format": "lcm"}, Data: []byte(body)}}
}

func sample(n int) *store {
	s := &store{
		epoch: "E1",
		inbox: []Message{side(7, "lcm.in.3.t.s", "pending"), side(9, "lcm.in.3.t.s", "pending too")},
		dead:  []Message{side(2, "lcm.dead.h.t.s", "refused")},
		maps: map[string][]Message{
			StreamJobs:   {side(1, "lcm.job.t.j", "defined"), side(2, "lcm.job.t.j", "finished")},
			StreamInputs: {side(3, "$O.LCM_MAP.C.x", "row"), side(4, "$O.LCM_MAP.M.x", "meta")},
		},
	}
	link := events.Link{}
	for i := range n {
		m, next, err := events.Encode(events.Subject(events.LaneTimeline, events.Ref{Tenant: "t", Session: "会话"}, 16),
			&events.TurnAppended{ID: fmt.Sprint("m", i), Role: events.RoleUser, Text: fmt.Sprintf("turn %d", i)}, time.Unix(int64(i), 0), link)
		if err != nil {
			panic(err)
		}
		link = next
		s.put(m)
	}
	s.put(events.Message{Subject: "lcm.ev.0.forged", Data: []byte("{")}) // an invalid event is one too
	return s
}

func exported(t *testing.T, s *store, in api.ExportIn) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := Export(t.Context(), s, in, &buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func openDir(t *testing.T) *Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "copy"), true)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func next(t *testing.T, d *Dir) api.ExportIn {
	t.Helper()
	in, err := d.Next()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func restored(t *testing.T, d *Dir, into *store) *store {
	t.Helper()
	sum, err := d.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Restore(t.Context(), sum, into, nil); err != nil {
		t.Fatal(err)
	}
	return into
}

// same compares what was copied with what it was copied from.
func same(t *testing.T, want, got *store) {
	t.Helper()
	if diff := cmp.Diff(want.log, got.log, cmp.Transformer("empty", func(h events.Header) map[string]string {
		if len(h) == 0 {
			return nil
		}
		return h
	})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.maps, got.maps); diff != "" {
		t.Error(diff)
	}
	if len(got.inbox) != len(want.inbox) || len(got.dead) != len(want.dead) || !got.finished {
		t.Errorf("%d inbox, %d dead, finished %v", len(got.inbox), len(got.dead), got.finished)
	}
}

func TestRoundTrip(t *testing.T) {
	src, d := sample(50), openDir(t)
	if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
		t.Fatal(err)
	}
	got := restored(t, d, &store{})
	same(t, src, got)
	if diff := cmp.Diff([]string{"in:E1:7", "in:E1:9"}, got.origins); diff != "" {
		t.Error(diff)
	}
	// What was restored and not handled yet keeps its first identity.
	got.inbox[0].Header[api.HeaderInboxOrigin] = got.origins[0]
	d2 := openDir(t)
	if _, err := d2.Receive(t.Context(), bytes.NewReader(exported(t, got, next(t, d2))), nil); err != nil {
		t.Fatal(err)
	}
	if again := restored(t, d2, &store{}); again.origins[0] != "in:E1:7" {
		t.Errorf("origins %v", again.origins)
	}
}

// A backup that breaks off anywhere goes on with the next run, and loses
// nothing that an earlier one had.
func TestInterruptedBackup(t *testing.T) {
	src := sample(20)
	first := exported(t, src, api.ExportIn{})
	for cut := 0; cut < len(first); cut += 97 {
		d := openDir(t)
		_, err := d.Receive(t.Context(), bytes.NewReader(first[:cut]), nil)
		if err == nil {
			t.Fatalf("cut at %d: no error", cut)
		}
		if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		same(t, src, restored(t, d, &store{}))
	}
	d := openDir(t)
	if _, err := d.Receive(t.Context(), bytes.NewReader(first), nil); err != nil {
		t.Fatal(err)
	}
	src.put(events.Message{Subject: "lcm.ev.0.more"})
	src.inbox = nil // it became the event
	second := exported(t, src, next(t, d))
	if _, err := d.Receive(t.Context(), bytes.NewReader(second[:len(second)/2]), nil); err == nil {
		t.Fatal("no error")
	}
	if got := restored(t, d, &store{}); len(got.inbox) != 2 {
		t.Errorf("the interrupted backup lost the inbox of the one before: %d", len(got.inbox))
	}
}

func TestInterruptedRestore(t *testing.T) {
	src, d := sample(2500), openDir(t)
	if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
		t.Fatal(err)
	}
	sum, err := d.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	into := &store{failAt: 1700}
	if _, err := d.Restore(t.Context(), sum, into, nil); err == nil || into.finished {
		t.Fatalf("err = %v", err)
	}
	same(t, src, restored(t, d, into))
	if _, err := d.Restore(t.Context(), sum, &store{epoch: "somebody's"}, nil); !problem.IsCode(err, problem.Conflict) {
		t.Errorf("into another log: %v", err)
	}
}

func TestLostPositions(t *testing.T) {
	src, d := sample(20), openDir(t)
	for _, seq := range []uint64{1, 8, 9, 21} {
		delete(src.log, seq)
	}
	sum, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil)
	if err != nil || sum.Lost != 4 || sum.Last != 21 {
		t.Fatalf("%+v, %v", sum, err)
	}
	got := restored(t, d, &store{})
	link := map[string]events.Link{}
	for seq := uint64(1); seq <= 21; seq++ {
		m := got.log[seq]
		env, err := m.Envelope()
		if want, ok := src.log[seq]; ok {
			if Witness(m) != Witness(want) {
				t.Errorf("position %d is not what it was", seq)
			}
		} else if err != nil || env.Type != events.TypePositionLost {
			t.Fatalf("position %d: %+v, %v", seq, env, err)
		}
		d, err := session.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if link[m.Subject], err = d.Follow(link[m.Subject]); err != nil {
			t.Errorf("position %d: %v", seq, err)
		}
	}
}

func TestAnotherLogIsRefused(t *testing.T) {
	src, d := sample(20), openDir(t)
	if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
		t.Fatal(err)
	}
	in := next(t, d)
	for what, c := range map[string]struct {
		src  *store
		code problem.Code
	}{
		"another epoch": {func() *store { s := sample(30); s.epoch = "E2"; return s }(), problem.Conflict},
		"shorter":       {sample(10), problem.Damaged},
		"changed":       {sample(30), problem.Damaged}, // position 21 is a turn there
	} {
		if err := Export(t.Context(), c.src, in, io.Discard); !problem.IsCode(err, c.code) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Any byte of a segment that changes is noticed, and a reader never panics.
func TestEveryByteCounts(t *testing.T) {
	src, d := sample(3), openDir(t)
	if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
		t.Fatal(err)
	}
	name := segmentName(1, 4)
	path := filepath.Join(d.path, name)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Check(t.Context()); !problem.IsCode(err, problem.Damaged) {
			t.Fatalf("byte %d of %d: %v", i, len(whole), err)
		}
	}
}

func FuzzReader(f *testing.F) {
	var buf bytes.Buffer
	if err := Export(context.Background(), sample(3), api.ExportIn{}, &buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bufio.NewReader(bytes.NewReader(b))
		for {
			r, err := NewReader(in)
			if err != nil {
				return
			}
			for err == nil {
				_, err = r.Next()
			}
			if !errors.Is(err, io.EOF) {
				return
			}
		}
	})
}
