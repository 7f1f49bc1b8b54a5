package ingest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Every port call fails before and after its effect; then the append is tried
// again, by this process or by a new one.
func TestFaultTable(t *testing.T) {
	for _, f := range commitFaults {
		for _, size := range []int{1, 3, 20} {
			for _, reopen := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d turns/reopen %v", f, size, reopen), func(t *testing.T) {
					w := start(t)
					w.append(t, "s", said("first", "x"))
					failing := 1
					if reopen { // this process never gets through
						w.open(t, Config{Tries: 1})
					}
					w.log.commit = func() fault {
						if failing == 0 {
							return faultNone
						}
						failing--
						return f
					}
					req := api.AppendRequest{Ref: ref("s")}
					for i := range size {
						req.Writes = append(req.Writes, said(fmt.Sprint(i), "x"))
					}
					r, err := w.svc.Append(context.Background(), req)
					if reopen {
						stored := f == faultNone || f == faultHalfKnown && size == 1
						if (err == nil) != stored {
							t.Fatalf("err = %v", err)
						}
						w.open(t, Config{})
						r, err = w.svc.Append(context.Background(), req)
					}
					if err != nil {
						t.Fatal(err)
					}
					for i, got := range r.Written {
						if got.Entry != uint64(i+2) || got.Error != "" || (!reopen && got.Duplicate) {
							t.Errorf("turn %d: %+v", i, got)
						}
					}
					if h := w.head(t, "s"); h.Entries != uint64(size+1) {
						t.Errorf("%d entries", h.Entries)
					}
				})
			}
		}
	}
}

// machine appends to a few sessions through two services over one log while
// everything fails now and then, and remembers what was acknowledged.
type machine struct {
	w     *world
	other *world // a second ingestor on the same log
	known map[events.Ref]map[string]acked
	audit *projection // follows the log without lag or fault
	next  fault
	race  bool
}

type acked struct {
	text  string
	entry uint64
	token events.Position
}

func newMachine(t *rapid.T) *machine {
	m := &machine{w: newWorld(t), known: map[events.Ref]map[string]acked{}}
	m.w.log.commit = func() fault { f := m.next; m.next = faultNone; return f }
	m.w.log.before = func(*fakeLog) {
		if m.race {
			m.race = false
			m.rival()
		}
	}
	m.audit = newProjection("E", m.w.log.all)
	m.other = &world{log: m.w.log, proj: newProjection("E", m.w.log.all)}
	m.other.open(t, Config{})
	return m
}

// rival stores an event of another writer on a session at the worst moment:
// between the lookup and the commit. Called with the log's lock held.
func (m *machine) rival() {
	for r, ids := range m.known {
		p := newProjection("E", func() []events.Record { return m.w.log.records })
		reply, err := p.lookup(context.Background(), api.LookupRequest{Ref: r})
		if err != nil || !reply.Head.Configured {
			continue
		}
		h := reply.Head
		id := fmt.Sprintf("rival-%d", len(m.w.log.records))
		subject := events.Subject(events.LaneTimeline, r, events.DefaultPartitions)
		msg, _, err := events.Encode(subject, &events.TurnAppended{ID: id, Entry: h.Entries + 1, Role: events.RoleUser, Text: id},
			time.Now(), h.Timeline.Link)
		if err != nil {
			panic(err)
		}
		seqs, err := m.w.log.store([]api.Append{{Message: msg, Expect: h.Timeline.LastSeq}})
		if err != nil {
			panic(err)
		}
		ids[id] = acked{text: id, entry: h.Entries + 1, token: at(seqs[0])}
		return
	}
}

func (m *machine) append(t *rapid.T) {
	w := rapid.SampledFrom([]*world{m.w, m.other}).Draw(t, "ingestor")
	r := ref(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session"))
	n := rapid.IntRange(1, 12).Draw(t, "turns")
	req := api.AppendRequest{Ref: r}
	for range n {
		id := fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "id"))
		text := "text " + id
		if rapid.IntRange(0, 9).Draw(t, "changed") == 0 {
			text = "changed"
		}
		wr := said(id, text)
		if rapid.Bool().Draw(t, "parent") {
			wr.Turn.ParentID = fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "parent id"))
		}
		req.Writes = append(req.Writes, wr)
	}
	if rapid.IntRange(0, 5).Draw(t, "move") == 0 {
		req.Writes = append(req.Writes, api.Write{MoveTo: fmt.Sprint(rapid.IntRange(1, 40).Draw(t, "to"))})
	}
	reply, err := w.svc.Append(context.Background(), req)
	if err != nil {
		if !problem.IsCode(err, problem.Unavailable) {
			t.Fatalf("append: %v", err)
		}
		return
	}
	m.check(t, req, reply)
}

// check compares an answer with what was acknowledged before.
func (m *machine) check(t *rapid.T, req api.AppendRequest, reply *api.AppendReply) {
	ids := m.known[req.Ref]
	if ids == nil {
		ids = map[string]acked{}
		m.known[req.Ref] = ids
	}
	for i, got := range reply.Written {
		if req.Writes[i].Turn == nil {
			continue
		}
		turn := req.Writes[i].Turn.Turn
		have, ok := ids[turn.ID]
		switch {
		case got.Code == string(problem.Conflict):
			// Right if somebody stored other content; the log is asked below.
			if ok && have.text == turn.Text {
				t.Fatalf("%s: turn %s is refused, it is the same", req.Ref, turn.ID)
			}
		case got.Error != "":
			t.Fatalf("%s: turn %s: %s", req.Ref, turn.ID, got.Error)
		// Not Duplicate: behind an unknown outcome it cannot be told who stored
		// the turn where two ingestors were sent the same one.
		case ok && (have.text != turn.Text || have.entry != got.Entry || have.token != got.Token):
			t.Fatalf("%s: turn %s was %+v, now %+v", req.Ref, turn.ID, have, got)
		case !ok:
			ids[turn.ID] = acked{text: turn.Text, entry: got.Entry, token: got.Token}
		}
	}
}

// invariant: the fold accepts the whole log, and holds every acknowledged turn
// once, where the acknowledgement said.
func (m *machine) invariant(t *rapid.T) {
	p := m.audit
	if _, err := p.lookup(context.Background(), api.LookupRequest{Ref: ref("a")}); err != nil {
		t.Fatal(err)
	}
	if len(p.rejected) > 0 {
		t.Fatalf("rejected: %v", p.rejected)
	}
	for r, ids := range m.known {
		for id, a := range ids {
			reply, err := p.lookup(context.Background(), api.LookupRequest{Ref: r, IDs: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			k, ok := reply.Known[id]
			turn := events.TurnAppended{ID: id, Role: events.RoleUser, Text: a.text}
			if !ok || k.Entry != a.entry || k.Seq != a.token.Seq || k.Hash != turn.ContentHash() {
				t.Fatalf("%s: acknowledged %s %+v, the log has %+v", r, id, a, k)
			}
		}
	}
}

func TestAppendsAreNeitherLostNorDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer func() { m.w.stop(); m.other.stop() }()
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append,
			"fault":  func(t *rapid.T) { m.next = rapid.SampledFrom(commitFaults).Draw(t, "fault") },
			"rival":  func(*rapid.T) { m.race = true },
			"lag": func(t *rapid.T) {
				m.w.proj.lag = rapid.Uint64Range(0, 30).Draw(t, "lag")
				m.other.proj.lag = rapid.Uint64Range(0, 30).Draw(t, "other lag")
			},
			"lookup fails": func(*rapid.T) {
				once := true
				m.w.proj.fail = func() error {
					if !once {
						return nil
					}
					once = false
					return errors.New("no answer")
				}
			},
			"configure": func(t *rapid.T) {
				_, err := m.w.svc.Configure(context.Background(), api.ConfigureRequest{
					Ref: ref("a"), Set: map[string]any{"overhead": rapid.IntRange(0, 3).Draw(t, "overhead")},
				})
				if err != nil && !problem.IsCode(err, problem.Unavailable) {
					t.Fatal(err)
				}
			},
			"reopen": func(t *rapid.T) {
				c := Config{LaneIDs: rapid.IntRange(1, 5).Draw(t, "lane ids"), Unprojected: 10, MaxLanes: 2}
				m.w.open(t, c)
			},
			"": m.invariant,
		})
	})
}
