package backup

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"lcm/events"
)

// large is a log with a large event between others: positions 5 to 9 of it.
func large(t *testing.T) *store {
	t.Helper()
	s := &store{epoch: "E1"}
	link := events.Link{}
	for i, text := range []string{"a", "b", "c", "d", string(bytes.Repeat([]byte("0123456789"), events.ChunkBytes/10*5-100)), "e", "f"} {
		m, next, err := events.Encode(events.Subject(events.LaneTimeline, events.Ref{Tenant: "t", Session: "s"}, 16),
			&events.TurnAppended{ID: string(rune('a' + i)), Entry: uint64(i + 1), Role: events.RoleUser, Text: text}, time.Unix(int64(i), 0), link)
		if err != nil {
			t.Fatal(err)
		}
		link = next
		parts, err := events.Cut(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range parts {
			s.put(m)
		}
	}
	if s.last != 11 {
		t.Fatalf("%d messages", s.last)
	}
	return s
}

// TestRepairOfChunks: a part of a large event that the log lost, or has
// otherwise, comes from the backup, at its position.
func TestRepairOfChunks(t *testing.T) {
	for name, damage := range map[string]func(*store){
		"lost": func(s *store) { delete(s.log, 7) },
		"flipped": func(s *store) {
			m := s.log[7]
			m.Data = bytes.Clone(m.Data)
			m.Data[3] ^= 1
			s.log[7] = m
		},
		"several": func(s *store) { delete(s.log, 5); delete(s.log, 9); delete(s.log, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			src, d := large(t), openDir(t)
			if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
				t.Fatal(err)
			}
			log := &store{epoch: "E1", log: maps.Clone(src.log), last: src.last}
			damage(log)
			sum, err := d.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r := &Repair{Backup: d, Sum: sum, Log: log}
			said, err := r.Compare(t.Context())
			if err != nil || !said.Needed || said.Lost != 0 {
				t.Fatalf("%+v, %v", said, err)
			}
			into := &store{}
			if err := r.Build(t.Context(), &said, into, nil); err != nil {
				t.Fatal(err)
			}
			sameMessages(t, src, into)
		})
	}
}

// TestLostChunk: what stands in the place of a lost part carries the event's
// version and hash, so that the chain goes on.
func TestLostChunk(t *testing.T) {
	for lost := uint64(5); lost <= 9; lost++ {
		src, d := large(t), openDir(t)
		delete(src.log, lost)
		if _, err := d.Receive(t.Context(), bytes.NewReader(exported(t, src, next(t, d))), nil); err != nil {
			t.Fatal(err)
		}
		got := restored(t, d, &store{})
		env, err := got.log[lost].Envelope()
		if err != nil || env.Type != events.TypePositionLost || env.Version != 5 {
			t.Errorf("position %d: %+v, %v", lost, env, err)
		}
		sameMessages(t, src, got)
	}
}

// sameMessages: every message of want stands in got.
func sameMessages(t *testing.T, want, got *store) {
	t.Helper()
	for seq, m := range want.log {
		if Witness(got.log[seq]) != Witness(m) {
			t.Errorf("position %d is not what it was", seq)
		}
	}
}
