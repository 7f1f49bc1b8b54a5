package events

import (
	"testing"

	"pgregory.net/rapid"
)

// A payload that was written ahead is the one that is written in one go.
func TestMadeTurnIsTheTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := &TurnAppended{
			ID:    rapid.String().Draw(t, "id"),
			Entry: rapid.Uint64().Draw(t, "entry"), Parent: rapid.Uint64Range(0, 3).Draw(t, "parent"),
			Role: RoleUser, Text: rapid.String().Draw(t, "text"),
			Blocks: []Block{{Type: BlockToolUse, Input: rapid.String().Draw(t, "input")}}, Tokens: 7,
		}
		made, err := MakeTurn(turn)
		if err != nil {
			t.Fatal(err)
		}
		want, err := PayloadJSON(turn)
		if err != nil {
			t.Fatal(err)
		}
		got := made.Payload(turn.Entry, turn.Parent)
		if string(got) != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		_, again, err := ReadMade(made.Payload(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if back := again.Payload(turn.Entry, turn.Parent); string(back) != string(want) || again.Hash != made.Hash {
			t.Errorf("read again: %s, hash %s, want %s", back, again.Hash, made.Hash)
		}
		if made.Hash != turn.ContentHash() || made.Bytes() < len(got) {
			t.Errorf("hash %s, %d bytes at most for %d", made.Hash, made.Bytes(), len(got))
		}
	})
}
