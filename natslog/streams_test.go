package natslog

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/problem"
)

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s, nc := server(t, dir)
	l := openOn(t, nc, Options{Create: true, Partitions: 4, Epoch: "E1"})
	fill(t, l, "a", 20)
	s.Stop()

	_, nc = server(t, dir)
	l = openOn(t, nc, Options{Create: true, Partitions: 32, Epoch: "E2"})
	if l.Epoch() != "E1" || l.Partitions() != 4 {
		t.Errorf("epoch %s, %d partitions", l.Epoch(), l.Partitions())
	}
	if last, err := l.LastSeq(ctx(t)); err != nil || last != 20 {
		t.Errorf("LastSeq = %d, %v", last, err)
	}
	if err := l.PublishTask(ctx(t), "urgent", ref("a"), position(1)); err != nil {
		t.Errorf("task after a restart: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name   string
		before func(t *testing.T, l *Log) // nil = nothing exists
		o      Options
		want   problem.Code
	}{
		{"no log, not to be made", nil, Options{}, problem.Unavailable},
		{"the log is missing beside the inbox", func(t *testing.T, l *Log) { drop(t, l, StreamLog) }, Options{Create: true}, problem.Damaged},
		{"the log is missing beside the dead letters", func(t *testing.T, l *Log) {
			drop(t, l, StreamLog)
			drop(t, l, StreamInbox)
		}, Options{Create: true}, problem.Damaged},
		{"the inbox is missing", func(t *testing.T, l *Log) { drop(t, l, StreamInbox) }, Options{}, problem.Unavailable},
		{"the inbox is missing beside a used log", func(t *testing.T, l *Log) {
			fill(t, l, "a", 1)
			drop(t, l, StreamInbox)
		}, Options{Create: true}, problem.Damaged},
		{"events are missing", func(t *testing.T, l *Log) {
			drop(t, l, StreamLog)
			c := logConfig("E", l.o)
			c.DenyDelete, c.DenyPurge = false, false
			s, err := l.js.CreateStream(ctx(t), c)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, l, "a", 3)
			if err := s.DeleteMsg(ctx(t), 2); err != nil {
				t.Fatal(err)
			}
		}, Options{}, problem.Damaged},
		{"somebody else's stream", func(t *testing.T, l *Log) {
			drop(t, l, StreamLog)
			if _, err := l.js.CreateStream(ctx(t), jetstream.StreamConfig{Name: StreamLog, Subjects: []string{"lcm.ev.>"}}); err != nil {
				t.Fatal(err)
			}
		}, Options{}, problem.Damaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, nc := server(t, t.TempDir())
			if tt.before != nil {
				tt.before(t, openOn(t, nc, Options{Create: true}))
			}
			_, err := Open(ctx(t), nc, tt.o)
			if !problem.IsCode(err, tt.want) {
				t.Fatalf("err = %v, want %s", err, tt.want)
			}
			if p := problem.From(err); p.Hint == "" {
				t.Errorf("no hint: %v", err)
			}
		})
	}
}

func TestOpenMakesWhatAnInterruptedCreationLeftOut(t *testing.T) {
	_, nc := server(t, t.TempDir())
	l := openOn(t, nc, Options{Create: true})
	for _, s := range []string{StreamInbox, StreamTasks, StreamDead} {
		drop(t, l, s)
	}
	again := openOn(t, nc, Options{Create: true})
	if again.Epoch() != l.Epoch() {
		t.Error("another epoch")
	}
	fill(t, l, "a", 1)
	drop(t, l, StreamInbox)
	openOn(t, nc, Options{Create: true, Repair: true})
}

func drop(t *testing.T, l *Log, stream string) {
	t.Helper()
	if err := l.js.DeleteStream(ctx(t), stream); err != nil {
		t.Fatal(err)
	}
}
