package events

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var largeSubject = Subject(LaneTimeline, Ref{Tenant: "t", Session: "s"}, DefaultPartitions)

// large is an event with a payload of so many bytes.
func large(size int) Message {
	m, _ := Seal(largeSubject, TypeTurnAppended, bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size], time.Unix(1, 0), Link{Version: 6, Hash: Hash{1}})
	return m
}

func cutUp(t testing.TB, m Message) []Message {
	t.Helper()
	out, err := Cut(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// placed gives messages contiguous positions.
func placed(first uint64, messages ...Message) []Record {
	out := make([]Record, len(messages))
	for i, m := range messages {
		out[i] = Record{Message: m, Seq: first + uint64(i)}
	}
	return out
}

// joined gives everything to one Joiner, and ends it.
func joined(messages []Record) []Record {
	var j Joiner
	var out []Record
	for _, m := range messages {
		out = j.Add(m, out)
	}
	return j.Flush(out)
}

func TestCutAndJoin(t *testing.T) {
	for _, tt := range []struct{ size, messages int }{
		{0, 1},
		{InlineBytes, 1},
		{InlineBytes + 1, 3},
		{3 * ChunkBytes, 3},
		{3*ChunkBytes + 1, 4},
		{MaxBytes, 256},
	} {
		m := large(tt.size)
		chunks := cutUp(t, m)
		if len(chunks) != tt.messages {
			t.Fatalf("%d bytes make %d messages, want %d", tt.size, len(chunks), tt.messages)
		}
		for i, c := range chunks {
			if len(chunks) > 1 && (len(c.Data) > ChunkBytes || len(c.Data) < 1) {
				t.Errorf("chunk %d of %d bytes has %d", i+1, tt.size, len(c.Data))
			}
			if _, err := c.Envelope(); (err != nil) != (len(chunks) > 1) {
				t.Errorf("message %d of %d bytes by itself: %v", i+1, tt.size, err)
			}
		}
		want := Record{Message: m, Seq: 9 + uint64(tt.messages)}
		if tt.messages > 1 {
			want.Messages = tt.messages
		}
		got := joined(placed(10, chunks...))
		if len(got) != 1 || !sameRecord(want, got[0]) {
			t.Fatalf("%d bytes make %d records, %q", tt.size, len(got), got[0].Broken)
		}
		if got[0].First() != 10 || got[0].ChainHash(Hash{1}) != m.ChainHash(Hash{1}) {
			t.Errorf("%d bytes: first %d, or another hash", tt.size, got[0].First())
		}
	}
	if _, err := Cut(large(MaxBytes + 1)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("above the maximum: %v", err)
	}
}

// sameRecord compares records; cmp takes minutes over long payloads.
func sameRecord(a, b Record) bool {
	return a.Subject == b.Subject && maps.Equal(a.Header, b.Header) && bytes.Equal(a.Data, b.Data) &&
		a.Seq == b.Seq && a.Messages == b.Messages && a.Broken == b.Broken
}

func TestChunkGoldenVector(t *testing.T) {
	m := Message{Subject: largeSubject, Header: Header{HeaderType: "T", "Lcm-Version": "7", "Traceparent": "x"}, Data: bytes.Repeat([]byte{'a'}, InlineBytes+1)}
	want := Header{
		HeaderType: "T", "Lcm-Version": "7", "Traceparent": "x", HeaderChunk: "3/3",
		HeaderChunkOf: m.ChainHash(Hash{}).String(),
	}
	last := cutUp(t, m)[2]
	if diff := cmp.Diff(want, last.Header); diff != "" {
		t.Error(diff)
	}
	if string(last.Data) != "a" {
		t.Errorf("%d bytes", len(last.Data))
	}
}

// TestJoinBroken: whatever is wrong with chunks makes one record of those that
// stand together, and what stands around them is as it was.
func TestJoinBroken(t *testing.T) {
	c := cutUp(t, large(4*ChunkBytes))
	other := cutUp(t, large(4*ChunkBytes-1))
	small := large(3)
	with := func(m Message, change func(*Message)) Message {
		m.Header = maps.Clone(m.Header)
		m.Data = bytes.Clone(m.Data)
		change(&m)
		return m
	}
	header := func(name, v string) func(*Message) { return func(m *Message) { m.Header[name] = v } }
	given, ok := Abandon(c[1])
	if !ok {
		t.Fatal("nothing to give up")
	}
	tests := []struct {
		name     string
		messages []Message
		want     []string // position ranges, and a part of the reason
	}{
		{"whole between others", []Message{small, c[0], c[1], c[2], c[3], small}, []string{"1-1", "2-5", "6-6"}},
		{"twice", append(append([]Message{}, c...), c...), []string{"1-4", "5-8"}},
		{"the last is missing", []Message{c[0], c[1], c[2], small}, []string{"1-3 1 to 3", "4-4"}},
		{"the first is missing", []Message{small, c[1], c[2], c[3]}, []string{"1-1", "2-4 2 to 4"}},
		{"one in the middle is missing", []Message{c[0], c[1], c[3]}, []string{"1-2 1 to 2", "3-3 4 to 4"}},
		{"another event among them", []Message{c[0], c[1], small, c[2], c[3]}, []string{"1-2 1 to 2", "3-3", "4-5 3 to 4"}},
		{"out of order", []Message{c[0], c[2], c[1], c[3]}, []string{"1-1 1 to 1", "2-2 3 to 3", "3-3 2 to 2", "4-4 4 to 4"}},
		{"one twice", []Message{c[0], c[1], c[1], c[2], c[3]}, []string{"1-2 1 to 2", "3-5 2 to 4"}},
		{"two events mixed", []Message{c[0], other[1], c[2], other[3]}, []string{"1-1 1 to 1", "2-2 2 to 2", "3-3 3 to 3", "4-4 4 to 4"}},
		{"begun anew", []Message{c[0], c[1], c[0], c[1], c[2], c[3]}, []string{"1-2 1 to 2", "3-6"}},
		{"a bit flipped", []Message{c[0], c[1], with(c[2], func(m *Message) { m.Data[9] ^= 1 }), c[3]}, []string{"1-4 hash"}},
		{"a byte less", []Message{c[0], c[1], with(c[2], func(m *Message) { m.Data = m.Data[1:] }), c[3]}, []string{"1-4 hash"}},
		{"of another subject", []Message{c[0], c[1], with(c[2], func(m *Message) { m.Subject += "x" }), c[3]}, []string{"1-2 1 to 2", "3-3 3 to 3", "4-4 4 to 4"}},
		{"another version", []Message{c[0], with(c[1], header(HeaderVersion, "8")), c[2], c[3]}, []string{"1-1 1 to 1", "2-2 2 to 2", "3-4 3 to 4"}},
		{"one header more", []Message{c[0], with(c[1], header("X", "8")), c[2], c[3]}, []string{"1-1 1 to 1", "2-2 2 to 2", "3-4 3 to 4"}},
		{"no place", []Message{with(c[0], header(HeaderChunk, "x")), small}, []string{"1-1 is \"x\"", "2-2"}},
		{"beyond its number", []Message{with(c[0], header(HeaderChunk, "5/4")), small}, []string{"1-1 is \"5/4\"", "2-2"}},
		{"too many", []Message{with(c[0], header(HeaderChunk, "1/257")), small}, []string{"1-1 is \"1/257\"", "2-2"}},
		{"too long", []Message{with(c[0], func(m *Message) { m.Data = append(m.Data, 'x') }), c[1]}, []string{"1-1 at most", "2-2 2 to 2"}},
		{"given up", []Message{c[0], c[1], given, c[2], c[3]}, []string{"1-3 given up after chunk 2 of 4", "4-5 3 to 4"}},
		{"open at the end", []Message{small, c[0]}, []string{"1-1", "2-2 1 to 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := placed(1, tt.messages...)
			records := joined(all)
			if len(records) != len(tt.want) {
				t.Fatalf("%d records, want %d: %+v", len(records), len(tt.want), tt.want)
			}
			for i, r := range records {
				place, reason, _ := strings.Cut(tt.want[i], " ")
				if got := fmt.Sprintf("%d-%d", r.First(), r.Seq); got != place || (reason == "") != (r.Broken == "") || !strings.Contains(r.Broken, reason) {
					t.Errorf("record %d is %s %q, want %s", i, got, r.Broken, tt.want[i])
				}
				if _, err := r.Envelope(); (err != nil) != (reason != "") {
					t.Errorf("record %d: %v", i, err)
				}
				local(t, all, r)
			}
		})
	}
}

// local: whichever message of a record is looked at, the messages around it
// that it tells of give the same record.
func local(t testing.TB, all []Record, want Record) {
	t.Helper()
	for seq := want.First(); seq <= want.Seq; seq++ {
		first, last := Around(all[seq-1].Message, seq)
		for _, r := range joined(all[first-1 : min(last, uint64(len(all)))]) {
			if r.Seq >= seq {
				if !sameRecord(want, r) {
					t.Errorf("seen from %d it is %d-%d %q, not %d-%d %q", seq, r.First(), r.Seq, r.Broken, want.First(), want.Seq, want.Broken)
				}
				break
			}
		}
	}
}

func TestAbandon(t *testing.T) {
	c := cutUp(t, large(InlineBytes+1))
	for i, want := range []bool{true, true, false} {
		m, ok := Abandon(c[i])
		if ok != want {
			t.Errorf("chunk %d: %v", i+1, ok)
		}
		if _, again := Abandon(m); again {
			t.Error("what is given up is given up again")
		}
	}
	if _, ok := Abandon(large(1)); ok {
		t.Error("a whole event is given up")
	}
}

// FuzzJoin puts messages of a few kinds behind each other: no position is lost
// or told twice, records do not depend on where reading began, and what is no
// chunk stays as it is.
func FuzzJoin(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4})
	f.Add([]byte{1, 2, 3, 1, 2, 13, 3, 4, 7})
	f.Add([]byte{0x21, 0x22, 1, 2, 9})
	f.Fuzz(func(t *testing.T, kinds []byte) {
		if len(kinds) > 64 {
			return
		}
		var all []Record
		for i, k := range kinds {
			m := Message{Subject: "s", Header: Header{HeaderType: "T"}, Data: []byte{'x'}}
			if k&7 != 0 {
				m.Header[HeaderChunk] = fmt.Sprintf("%d/%d", k&7, 2+k>>6)
				m.Header[HeaderChunkOf] = fmt.Sprint(k >> 5 & 1)
			}
			if k&8 != 0 {
				m.Data = nil
			}
			if k&16 != 0 {
				m.Subject = "r"
			}
			all = append(all, Record{Message: m, Seq: uint64(i + 1)})
		}
		next := uint64(1)
		for _, r := range joined(all) {
			if r.First() != next || r.Seq < next {
				t.Fatalf("%d-%d where %d comes next", r.First(), r.Seq, next)
			}
			next = r.Seq + 1
			if _, chunk := r.Header[HeaderChunk]; chunk != (r.Broken != "") {
				t.Errorf("position %d: a chunk %v, %q", r.Seq, chunk, r.Broken)
			}
			local(t, all, r)
		}
		if next != uint64(len(all))+1 {
			t.Errorf("ends at %d of %d", next-1, len(all))
		}
	})
}

// FuzzCut: what is cut is joined again.
func FuzzCut(f *testing.F) {
	f.Add([]byte("x"), 1)
	f.Add([]byte("ab"), InlineBytes)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		if len(b) == 0 || n < 0 || n > 4*InlineBytes/len(b) {
			return
		}
		m, _ := Seal(largeSubject, TypeTurnAppended, bytes.Repeat(b, n), time.Unix(1, 0), Link{})
		got := joined(placed(1, cutUp(t, m)...))
		if len(got) != 1 || got[0].Broken != "" || !bytes.Equal(got[0].Data, m.Data) {
			t.Errorf("%d records, %q", len(got), got[0].Broken)
		}
	})
}
