package natslog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/natsembed"
)

// defaultPayload is what a NATS server takes that nobody configured.
const defaultPayload = 1 << 20

// openSmall opens a log on a server with NATS's default max_payload.
func openSmall(t testing.TB) *Log {
	t.Helper()
	s, err := natsembed.Start(natsembed.Options{Dir: t.TempDir(), MaxPayload: defaultPayload})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	return openOn(t, nc, Options{Create: true, CommitTimeout: 20 * time.Second})
}

// noise is so many bytes that do not compress.
func noise(size int) []byte {
	out := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(size)}).Read(out)
	return out
}

func largeEvent(session string, size int, expect uint64) api.Append {
	return api.Append{Expect: expect, Message: events.Message{
		Subject: subject(session), Header: events.Header{events.HeaderType: "Test", events.HeaderVersion: "1"}, Data: noise(size),
	}}
}

// TestLargeAmongSmall: events of every size, beside small ones of other
// sessions, read back byte for byte, and whoever follows sees only whole ones.
func TestLargeAmongSmall(t *testing.T) {
	l := openSmall(t)
	sizes := []int{events.InlineBytes, events.InlineBytes + 1, 5 << 20}
	if !testing.Short() {
		sizes = append(sizes, events.MaxBytes)
	}
	c, cancel := context.WithCancel(ctx(t))
	defer cancel()
	seen := make(chan events.Record, 10_000)
	followed := make(chan error, 1)
	go func() {
		followed <- l.Follow(c, 0, func(_ context.Context, recs []events.Record) error {
			for _, r := range recs {
				seen <- r
			}
			return nil
		})
	}()
	var others sync.WaitGroup
	stop := make(chan struct{})
	slowest := make([]time.Duration, 3)
	counts := make([]int, 3)
	for k := range counts {
		others.Go(func() {
			last := uint64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				start := time.Now()
				seqs, err := l.Commit(c, []api.Append{event(fmt.Sprint("small", k), "x", last)})
				if err != nil {
					t.Error(err)
					return
				}
				last, slowest[k] = seqs[0], max(slowest[k], time.Since(start))
				counts[k]++
			}
		})
	}
	want := map[uint64]int{}
	last := uint64(0)
	var took time.Duration
	for _, size := range sizes {
		start := time.Now()
		seqs := must(t, l, []api.Append{largeEvent("large", size, last)})
		took = max(took, time.Since(start))
		last, want[seqs[0]] = seqs[0], size
	}
	close(stop)
	others.Wait()
	for k, d := range slowest {
		if d > took+5*time.Second {
			t.Errorf("small session %d waited %s, the longest large batch took %s", k, d, took)
		}
	}
	t.Logf("slowest small append %v beside a large one of %s", slowest, took)
	if _, err := l.Commit(ctx(t), []api.Append{largeEvent("large", events.MaxBytes+1, last)}); !errors.Is(err, api.ErrLogUnavailable) || !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("above the maximum: %v", err)
	}
	end, err := l.End(ctx(t))
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	for next <= end {
		r := <-seen
		if r.First() != next || r.Broken != "" {
			t.Fatalf("followed %d-%d %q, %d comes next", r.First(), r.Seq, r.Broken, next)
		}
		next = r.Seq + 1
		size, ok := want[r.Seq]
		if ok != (r.Subject == subject("large")) {
			t.Fatalf("position %d is of %s", r.Seq, r.Subject)
		}
		if !ok {
			continue
		}
		read, err := l.Read(ctx(t), r.Seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, have := range []events.Record{r, read} {
			if !bytes.Equal(have.Data, noise(size)) || have.First() != r.First() || len(have.Header) != 2 {
				t.Errorf("%d bytes came back as %d, %v", size, len(have.Data), have.Header)
			}
		}
	}
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// put stores messages as they are, as another client would.
func put(t *testing.T, l *Log, messages ...events.Message) uint64 {
	t.Helper()
	var last uint64
	for _, m := range messages {
		ack, err := l.js.PublishMsg(ctx(t), published(StreamLog, m))
		if err != nil {
			t.Fatal(err)
		}
		last = ack.Sequence
	}
	return last
}

func chunksOf(t *testing.T, a api.Append) []events.Message {
	t.Helper()
	out, err := events.Cut(a.Message)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestChunksOfOthers: what another client stores of chunks stops nobody, and
// reading a position tells the same as following.
func TestChunksOfOthers(t *testing.T) {
	c := chunksOf(t, largeEvent("a", 4*events.ChunkBytes, 0))
	flipped := c[1]
	flipped.Data = bytes.Clone(flipped.Data)
	flipped.Data[7] ^= 1
	small := event("b", "x", 0).Message
	l := openSmall(t)
	end := put(t, l, small, c[0], c[1], c[2], small, c[0], flipped, c[2], c[3], c[1], c[0], small, c[0], c[1], c[2], c[3], small)
	var got []events.Record
	cc, cancel := context.WithCancel(ctx(t))
	defer cancel()
	_ = l.Follow(cc, 0, func(_ context.Context, recs []events.Record) error {
		if got = append(got, recs...); got[len(got)-1].Seq == end {
			cancel()
		}
		return nil
	})
	var places []string
	for _, r := range got {
		places = append(places, fmt.Sprintf("%d-%d %v", r.First(), r.Seq, r.Broken == ""))
		for seq := r.First(); seq <= r.Seq; seq++ {
			read, err := l.Read(ctx(t), seq)
			if err != nil {
				t.Fatal(err)
			}
			if read.ChainHash(events.Hash{}) != r.ChainHash(events.Hash{}) || read.Seq != r.Seq || read.Broken != r.Broken || !maps.Equal(read.Header, r.Header) {
				t.Errorf("position %d reads as %d-%d %q, followed it is %d-%d %q", seq, read.First(), read.Seq, read.Broken, r.First(), r.Seq, r.Broken)
			}
		}
	}
	want := "[1-1 true 2-4 false 5-5 true 6-9 false 10-10 false 11-11 false 12-12 true 13-16 true 17-17 true]"
	if fmt.Sprint(places) != want {
		t.Errorf("%v\nwant %s", places, want)
	}
}

// TestUnfinishedAtTheEnd: chunks whose others never came hide nothing, and the
// next who writes to their session ends them.
func TestUnfinishedAtTheEnd(t *testing.T) {
	l := openSmall(t)
	must(t, l, run("a", 1))
	c := chunksOf(t, largeEvent("a", 4*events.ChunkBytes, 1))
	put(t, l, c[0], c[1])
	if end, err := l.End(ctx(t)); err != nil || end != 1 {
		t.Errorf("the log ends at %d, %v", end, err)
	}
	if _, err := l.Read(ctx(t), 3); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("read: %v", err)
	}
	if got := collect(t, l, 0, 1, nil); len(got) != 1 {
		t.Errorf("followed %v", got)
	}
	if last, err := l.LastOf(ctx(t), subject("a")); err != nil || last != 4 {
		t.Fatalf("the session ends at %d, %v", last, err)
	}
	seqs := must(t, l, []api.Append{event("a", "goes on", 4)})
	if seqs[0] != 5 {
		t.Errorf("stored at %d", seqs[0])
	}
	if got := collect(t, l, 1, 5, nil); fmt.Sprint(got) != "[4 5]" {
		t.Errorf("followed %v", got)
	}
	if end, err := l.End(ctx(t)); err != nil || end != 5 {
		t.Errorf("the log ends at %d, %v", end, err)
	}
}

// TestLargeConflict: a large event that is not where it should be is refused
// whole, and keeps nobody else of its commit from being stored.
func TestLargeConflict(t *testing.T) {
	for _, smalls := range []int{2, 20} {
		l := openSmall(t)
		batch := run("a", smalls)
		batch = append(batch, largeEvent("b", events.InlineBytes+1, 7), largeEvent("c", events.InlineBytes+1, 0), event("c", "behind", 0), event("b", "never", 0))
		batch = append(batch, run("d", smalls)...)
		seqs, err := l.Commit(ctx(t), batch)
		var conflict *api.ConflictError
		if !errors.As(err, &conflict) || fmt.Sprint(conflict.Subjects) != fmt.Sprint([]string{subject("b")}) {
			t.Fatalf("err = %v", err)
		}
		for i, seq := range seqs {
			if stored := seq != 0; stored != (batch[i].Message.Subject != subject("b")) {
				t.Errorf("event %d of %s: %d", i, batch[i].Message.Subject, seq)
			}
		}
		if behind := seqs[smalls+2]; behind <= seqs[smalls+1] {
			t.Errorf("behind a large event at %d stands %d", seqs[smalls+1], behind)
		}
		for _, i := range []int{smalls + 1, smalls + 2} {
			r, err := l.Read(ctx(t), seqs[i])
			if err != nil || sha256.Sum256(r.Data) != sha256.Sum256(batch[i].Message.Data) {
				t.Errorf("event %d: %d bytes, %v", i, len(r.Data), err)
			}
		}
	}
}

// TestInlineOfOlderBuilds: an event of 4 MiB in one message stays readable.
func TestInlineOfOlderBuilds(t *testing.T) {
	l := open(t)
	old := largeEvent("a", 4<<20, 0).Message
	put(t, l, old)
	r, err := l.Read(ctx(t), 1)
	if err != nil || !bytes.Equal(r.Data, old.Data) || r.First() != 1 {
		t.Errorf("%d bytes from %d, %v", len(r.Data), r.First(), err)
	}
	if got := collect(t, l, 0, 1, nil); fmt.Sprint(got) != "[1]" {
		t.Errorf("followed %v", got)
	}
}

// TestServerThatTakesTooLittle is refused, with what to set.
func TestServerThatTakesTooLittle(t *testing.T) {
	s, err := natsembed.Start(natsembed.Options{Dir: t.TempDir(), MaxPayload: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	nc, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []func(*nats.Conn) error{
		func(nc *nats.Conn) error { _, err := Open(ctx(t), nc, Options{Create: true}); return err },
		func(nc *nats.Conn) error { _, err := NewRestoration(nc, Options{}); return err },
	} {
		if err := open(nc); !problem.IsCode(err, problem.Unavailable) {
			t.Errorf("err = %v", err)
		}
	}
}
