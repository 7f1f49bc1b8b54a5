package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
	"lcm/tokens"
)

// victim is the session that events are forged for.
var victim = events.Ref{Tenant: "default", Session: "victim"}

// forgery is an event that another NATS client stores in the log.
type forgery struct {
	name    string
	subject string
	header  events.Header
	data    string
	says    string // in doctor's check "rejected"; "" = it is counted there
}

// encoded is an event of the right form; link says where it claims to stand.
func encoded(t *testing.T, subject string, p events.Payload, link events.Link) (events.Header, string) {
	t.Helper()
	m, _, err := events.Encode(subject, p, time.Now(), link)
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, string(m.Data)
}

func forgeries(t *testing.T, head session.Head) []forgery {
	ev, dag := events.Subject(events.LaneTimeline, victim, events.DefaultPartitions), events.Subject(events.LaneDerived, victim, events.DefaultPartitions)
	turn := &events.TurnAppended{ID: "forged", Entry: head.Entries + 1, Role: events.RoleUser, Text: "forged", Tokens: 5, InputTokens: 5}
	next := head.Timeline.Link
	var out []forgery
	add := func(name, subject, says string, h events.Header, data string) {
		out = append(out, forgery{name, subject, h, data, says})
	}
	with := func(h events.Header, name, value string) events.Header {
		c := events.Header{name: value}
		for k, v := range h {
			if k != name {
				c[k] = v
			}
		}
		return c
	}

	h, data := encoded(t, ev, turn, events.Link{Version: 999, Hash: next.Hash})
	add("a version from far ahead", ev, "version 1000 after", h, data)
	h, data = encoded(t, ev, turn, events.Link{})
	add("the first version again", ev, "version 1 after", h, data)
	h, data = encoded(t, ev, turn, events.Link{Version: next.Version, Hash: events.Hash{9}})
	add("a broken chain", ev, "does not carry the hash", h, data)
	h, _ = encoded(t, ev, turn, next)
	add("bad JSON", ev, "malformed", h, `{"id":"forged",`)
	add("no JSON", ev, "malformed", h, "\x00\xff\xfe")
	add("no headers", ev, "malformed", nil, data)
	add("a version that is no number", ev, "malformed", with(h, events.HeaderVersion, "many"), data)
	add("a time that is none", ev, "malformed", with(h, events.HeaderTime, "yesterday"), data)
	add("a hash that is none", ev, "malformed", with(h, events.HeaderPrev, "xyz"), data)
	h, data = encoded(t, dag, turn, events.Link{})
	add("a turn among the summaries", dag, "on the dag lane", h, data)
	wrong := fmt.Sprintf("lcm.ev.%d.default.victim", (events.Partition("default", "victim", events.DefaultPartitions)+1)%events.DefaultPartitions)
	h, data = encoded(t, wrong, turn, next)
	add("another partition's subject", wrong, "the session's subject is", h, data)
	h, data = encoded(t, "lcm.ev.x.default.victim", turn, next)
	add("a subject of no session", "lcm.ev.x.default.victim", "no partition number", h, data)
	covered := []events.Range{{First: 1, Last: head.Entries + 50}}
	text := "a summary of what never was"
	node := &events.NodeCommitted{
		Key: session.LeafKey(covered, "p", ""), First: 1, Last: head.Entries + 50, Entries: covered, InputTokens: 1000, PromptVersion: "p",
		Primary: events.Tier{Text: text, Tokens: tokens.Count(text), Level: 1}, Bounds: events.Bounds{HardCap: 300, MaxFan: 8},
	}
	h, data = encoded(t, dag, node, head.Derived.Link)
	add("a forged node", dag, "NodeCommitted", h, data)
	return out
}

// headOf folds what the log holds of the session, as a projection does.
func headOf(t *testing.T, js jetstream.JetStream, ref events.Ref) session.Head {
	t.Helper()
	s, err := js.Stream(t.Context(), "LCM")
	if err != nil {
		t.Fatal(err)
	}
	fold, err := session.NewFold(ref, session.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		h := events.Header{}
		for name := range m.Header {
			h[name] = m.Header.Get(name)
		}
		d, err := session.Decode(events.Record{Message: events.Message{Subject: m.Subject, Header: h, Data: m.Data}, Seq: seq})
		if err != nil || d.Ref != ref || m.Subject != events.Subject(d.Lane, ref, events.DefaultPartitions) {
			continue
		}
		if _, err := fold.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	return fold.Head()
}

// TestForgedEvents: whatever another client stores in the log, it counts for
// nothing, stops neither its session nor another one, is shown by doctor, and a
// rebuild judges it the same.
func TestForgedEvents(t *testing.T) {
	data, addr := t.TempDir(), freeAddr(t)
	appendLines(t, data, "victim", `{"id":"v0","role":"user","content":"mine"}`)
	server := serve(t, data, "--nats-listen", addr)
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	n := len(forgeries(t, session.Head{}))
	for i := range n {
		f := forgeries(t, headOf(t, js, victim))[i]
		t.Run(f.name, func(t *testing.T) {
			inject(t, js, f)
			// The projection stands right behind it, and both sessions go on.
			appendLines(t, data, "victim", fmt.Sprintf(`{"id":"v%d","role":"user","content":"mine"}`, i+1))
			appendLines(t, data, "bystander", fmt.Sprintf(`{"id":"b%d","role":"user","content":"other"}`, i))
			turns := lines[api.TurnOut](t, ok(t, data, "show", "--json", "victim"))
			if len(turns) != i+2 {
				t.Errorf("%d turns of the session, want %d", len(turns), i+2)
			}
			for _, turn := range turns {
				if turn.ID == "forged" {
					t.Error("the forged turn counts")
				}
			}
			if rejected := checkOf(t, data, "rejected"); !strings.Contains(rejected, fmt.Sprintf("%d events were rejected", i+1)) ||
				!strings.Contains(rejected, f.says) {
				t.Errorf("doctor says: %s", rejected)
			}
		})
	}
	t.Run("an event of a later build", func(t *testing.T) {
		ev := events.Subject(events.LaneTimeline, victim, events.DefaultPartitions)
		h, data2 := encoded(t, ev, &events.LeafMoved{Entry: 1}, headOf(t, js, victim).Timeline.Link)
		h[events.HeaderType] = "SessionDreamed"
		inject(t, js, forgery{subject: ev, header: h, data: data2})
		appendLines(t, data, "victim", `{"id":"later","role":"user","content":"mine"}`)
		if rejected := checkOf(t, data, "rejected"); !strings.Contains(rejected, "1 are of a later build") {
			t.Errorf("doctor says: %s", rejected)
		}
	})
	v := lcm(t, data, "verify", "--json")
	if r := decode[api.VerifyReply](t, v.out); v.code != 4 || r.Missing != 0 || r.Broken == 0 || r.Unknown != 1 {
		t.Errorf("verify: exit %d %+v", v.code, r)
	}
	digest(t, data)
	_ = server.Process.Signal(syscall.SIGTERM)
	_ = server.Wait()
	ok(t, data, "doctor", "--deep")
}

func inject(t *testing.T, js jetstream.JetStream, f forgery) {
	t.Helper()
	m := nats.NewMsg(f.subject)
	m.Data = []byte(f.data)
	for name, v := range f.header {
		m.Header[name] = []string{v}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := js.PublishMsg(ctx, m); err != nil {
		t.Fatal(err)
	}
}

func checkOf(t *testing.T, data, name string) string {
	t.Helper()
	r := decode[report](t, ok(t, data, "doctor", "--deep", "--json"))
	for _, c := range r.Checks {
		if c.Name == name {
			return c.Detail
		}
	}
	t.Fatalf("doctor has no check %s: %+v", name, r.Checks)
	return ""
}
