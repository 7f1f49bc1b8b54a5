package natslog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"lcm/events"
	"lcm/internal/api"
	"lcm/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server starts an embedded server that stops with the test.
func server(t testing.TB, dir string) (*natsembed.Server, *nats.Conn) {
	t.Helper()
	s, err := natsembed.Start(natsembed.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	return s, nc
}

func open(t testing.TB) *Log {
	t.Helper()
	if onCluster != nil {
		return openReplicated(t)
	}
	_, nc := server(t, t.TempDir())
	return openOn(t, nc, Options{Create: true})
}

func openOn(t testing.TB, nc *nats.Conn, o Options) *Log {
	t.Helper()
	l, err := Open(ctx(t), nc, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return c
}

func subject(session string) string {
	return events.Subject(events.LaneTimeline, events.Ref{Tenant: "t", Session: session}, events.DefaultPartitions)
}

// event is a message of a session that expects the subject's end.
func event(session, text string, expect uint64) api.Append {
	return api.Append{Expect: expect, Message: events.Message{
		Subject: subject(session), Header: events.Header{events.HeaderType: "Test"}, Data: []byte(text),
	}}
}

// run makes n events of a new session.
func run(session string, n int) []api.Append {
	out := make([]api.Append, n)
	for i := range out {
		out[i] = event(session, fmt.Sprintf("%s %d", session, i+1), 0)
	}
	return out
}

func must(t testing.TB, l *Log, batch []api.Append) []uint64 {
	t.Helper()
	seqs, err := l.Commit(ctx(t), batch)
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// fill puts n events of one session in the log.
func fill(t testing.TB, l *Log, session string, n int) {
	t.Helper()
	must(t, l, run(session, n))
}
