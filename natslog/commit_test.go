package natslog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

func TestCommit(t *testing.T) {
	l := open(t)
	tests := []struct {
		name  string
		batch []api.Append
		want  []uint64
	}{
		{"nothing", nil, nil},
		{"one", run("a", 1), []uint64{1}},
		{"two of a new session, singly", run("b", 2), []uint64{2, 3}},
		{"behind one that is there", []api.Append{event("a", "x", 1)}, []uint64{4}},
		{"a batch of two sessions", slices.Concat(run("c", 5), run("d", 7)), []uint64{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, must(t, l, tt.batch)); diff != "" {
				t.Error(diff)
			}
		})
	}
	rec, err := l.Read(ctx(t), 16)
	if err != nil {
		t.Fatal(err)
	}
	want := events.Record{Seq: 16, Message: run("d", 7)[6].Message}
	if diff := cmp.Diff(want, rec); diff != "" {
		t.Error(diff)
	}
	if last, err := l.LastOf(ctx(t), subject("c")); err != nil || last != 9 {
		t.Errorf("LastOf = %d, %v", last, err)
	}
	if last, err := l.LastOf(ctx(t), subject("nobody")); err != nil || last != 0 {
		t.Errorf("LastOf an unknown subject = %d, %v", last, err)
	}
	if last, err := l.LastSeq(ctx(t)); err != nil || last != 16 {
		t.Errorf("LastSeq = %d, %v", last, err)
	}
}

func TestCommitManyBatches(t *testing.T) {
	l := open(t)
	seqs := must(t, l, slices.Concat(run("a", 1500), run("b", 900)))
	for i, s := range seqs {
		if s != uint64(i+1) {
			t.Fatalf("event %d stored at %d", i, s)
		}
	}
}

func TestCommitConflict(t *testing.T) {
	wrong := func(batch []api.Append) []api.Append { batch[0].Expect = 99; return batch }
	tests := []struct {
		name  string
		batch func() []api.Append
		bad   []string
		want  []bool // stored
	}{
		{"single", func() []api.Append { return wrong(run("b", 1)) }, []string{"b"}, []bool{false}},
		{"singles: the other session is stored", func() []api.Append {
			return slices.Concat(wrong(run("b", 2)), run("c", 2))
		}, []string{"b"}, []bool{false, false, true, true}},
		{"expects empty, is not", func() []api.Append { return run("a", 1) }, []string{"a"}, []bool{false}},
		{"batch of one session", func() []api.Append { return wrong(run("b", 9)) }, []string{"b"}, make([]bool, 9)},
		{"batch: only the conflicting sessions are left out", func() []api.Append {
			return slices.Concat(run("a", 2), run("b", 4), wrong(run("c", 3)), run("d", 1))
		}, []string{"a", "c"}, []bool{false, false, true, true, true, true, false, false, false, true}},
		{"over several batches", func() []api.Append {
			return slices.Concat(run("b", 1100), wrong(run("c", 100)))
		}, []string{"c"}, append(slices.Repeat([]bool{true}, 1100), make([]bool, 100)...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := open(t)
			fill(t, l, "a", 1)
			seqs, err := l.Commit(ctx(t), tt.batch())
			var conflict *api.ConflictError
			if !errors.As(err, &conflict) || errors.Is(err, api.ErrUnknownOutcome) || errors.Is(err, api.ErrLogUnavailable) {
				t.Fatalf("err = %v", err)
			}
			var want []string
			for _, s := range tt.bad {
				want = append(want, subject(s))
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, conflict.Subjects); diff != "" {
				t.Error(diff)
			}
			stored := make([]bool, len(seqs))
			n := uint64(1)
			for i, s := range seqs {
				if stored[i] = s != 0; s != 0 {
					n++
				}
			}
			if diff := cmp.Diff(tt.want, stored); diff != "" {
				t.Error(diff)
			}
			if last, err := l.LastSeq(ctx(t)); err != nil || last != n {
				t.Errorf("the log ends at %d, want %d (%v)", last, n, err)
			}
		})
	}
}

func TestCommitOutcomes(t *testing.T) {
	t.Run("the answer does not come in time", func(t *testing.T) {
		l := open(t)
		c, cancel := context.WithCancel(ctx(t))
		cancel()
		for _, batch := range [][]api.Append{run("a", 1), run("b", 20)} {
			if _, err := l.Commit(c, batch); !errors.Is(err, api.ErrUnknownOutcome) {
				t.Errorf("%d events: err = %v", len(batch), err)
			}
		}
	})
	t.Run("too large for a log", func(t *testing.T) {
		l := open(t)
		big := []api.Append{event("a", strings.Repeat("x", events.MaxBytes+1), 0)}
		if _, err := l.Commit(ctx(t), big); !errors.Is(err, api.ErrLogUnavailable) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the stream is gone", func(t *testing.T) {
		l := open(t)
		if err := l.js.DeleteStream(ctx(t), StreamLog); err != nil {
			t.Fatal(err)
		}
		for _, batch := range [][]api.Append{run("a", 1), run("b", 20)} {
			if _, err := l.Commit(ctx(t), batch); !errors.Is(err, api.ErrLogUnavailable) {
				t.Errorf("%d events: err = %v", len(batch), err)
			}
		}
		if _, err := l.LastSeq(ctx(t)); !problem.IsCode(err, problem.Damaged) {
			t.Errorf("LastSeq: %v", err)
		}
	})
	t.Run("the server is gone", func(t *testing.T) {
		s, nc := server(t, t.TempDir())
		l := openOn(t, nc, Options{Create: true})
		s.Stop()
		_, err := l.Commit(ctx(t), run("a", 1))
		if !errors.Is(err, api.ErrUnknownOutcome) && !errors.Is(err, api.ErrLogUnavailable) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestRead(t *testing.T) {
	l := open(t)
	fill(t, l, "a", 3)
	for _, seq := range []uint64{0, 4, 1 << 40} {
		if _, err := l.Read(ctx(t), seq); !problem.IsCode(err, problem.NotFound) {
			t.Errorf("read %d: %v", seq, err)
		}
	}
}
