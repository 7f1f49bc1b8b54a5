package session

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
)

// An entry comes back from its row as it comes back from JSON, which keeps
// everything that a turn can say.
func TestEntryRowKeepsWhatJSONKeeps(t *testing.T) {
	texts := func(max int) *rapid.Generator[[]string] {
		return rapid.SliceOfN(rapid.String(), 0, max)
	}
	times := rapid.Custom(func(t *rapid.T) time.Time {
		at := time.Unix(rapid.Int64Range(-62135596800, 253402214400).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		if minutes := rapid.IntRange(-23*60, 23*60).Draw(t, "zone"); minutes != 0 && at.Year() > 1 && at.Year() < 9999 {
			at = at.In(time.FixedZone("", 60*minutes))
		}
		return at
	})
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			N: rapid.Uint64().Draw(t, "n"), Seq: rapid.Uint64().Draw(t, "seq"), Parent: rapid.Uint64().Draw(t, "parent"),
			ID: rapid.String().Draw(t, "id"), Role: events.Role(rapid.String().Draw(t, "role")),
			Sender: rapid.String().Draw(t, "sender"), MessageID: rapid.String().Draw(t, "message"),
			Tokens: rapid.Int().Draw(t, "tokens"), InputTokens: rapid.Int().Draw(t, "input"),
			Calls: texts(3).Draw(t, "calls"), Results: texts(3).Draw(t, "results"), Files: texts(3).Draw(t, "files"),
			CallEntries: rapid.SliceOfN(rapid.Uint64(), 0, 3).Draw(t, "entries"),
			Injected:    rapid.Bool().Draw(t, "injected"), Big: rapid.Bool().Draw(t, "big"),
			Hash: rapid.String().Draw(t, "hash"), SourceHash: rapid.String().Draw(t, "source"), Time: times.Draw(t, "time"),
		}
		if rapid.Bool().Draw(t, "authored") {
			at := times.Draw(t, "author")
			e.AuthorTime = &at
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var want, got Entry
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := got.decode(e.encode()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("JSON differs:\n%s\n%s", a, b)
		}
	})
}

// FuzzEntryRow: whatever stands in a row, it is read or refused.
func FuzzEntryRow(f *testing.F) {
	at := time.Unix(1, 2)
	e := Entry{N: 1, ID: "a", Calls: []string{"x"}, CallEntries: []uint64{7}, AuthorTime: &at}
	f.Add(e.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, row []byte) {
		var e, again Entry
		if e.decode(row) != nil {
			return
		}
		if err := again.decode(e.encode()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
