package events

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// byJSON is what encoding/json writes, without HTML escaping.
func byJSON(t interface{ Fatal(...any) }, v any) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func drawText(t *rapid.T, name string) string {
	return rapid.OneOf(
		rapid.String(), rapid.Just(""),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), // mostly no UTF-8
		rapid.StringOf(rapid.SampledFrom([]rune("a\"\\/<>&\b\f\n\r\t\x00\x1f\x7f\u2028\u2029\ufffd€"))),
	).Draw(t, name)
}

func drawBlocks(t *rapid.T, depth int) []Block {
	if rapid.Bool().Draw(t, "none") {
		return nil
	}
	out := make([]Block, rapid.IntRange(0, 3).Draw(t, "blocks"))
	for i := range out {
		out[i] = Block{
			Type: BlockType(drawText(t, "type")), Text: drawText(t, "text"), Signature: drawText(t, "signature"),
			CallID: drawText(t, "call"), Name: drawText(t, "name"), Input: drawText(t, "input"),
			IsError: rapid.Bool().Draw(t, "error"), MediaType: drawText(t, "media"), Data: drawText(t, "data"),
			URL: drawText(t, "url"), Width: rapid.Int().Draw(t, "width"), Height: rapid.IntRange(0, 1).Draw(t, "height"), Raw: drawText(t, "raw"),
		}
		if depth < 2 {
			out[i].Content = drawBlocks(t, depth+1)
		}
	}
	return out
}

// A turn is written, and hashed, as encoding/json writes it.
func TestAppendTurnIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turn := &TurnAppended{
			ID: drawText(t, "id"), Entry: rapid.Uint64().Draw(t, "entry"), Parent: rapid.Uint64Range(0, 2).Draw(t, "parent"),
			Role: Role(drawText(t, "role")), Sender: drawText(t, "sender"), MessageID: drawText(t, "message"),
			Blocks: drawBlocks(t, 0), Text: drawText(t, "text"),
			Tokens: rapid.Int().Draw(t, "tokens"), InputTokens: rapid.IntRange(-1, 1).Draw(t, "input"),
			Injected: rapid.Bool().Draw(t, "injected"), LargeInline: rapid.Bool().Draw(t, "large"), Format: drawText(t, "format"),
			Original: drawText(t, "original"), Exact: rapid.Bool().Draw(t, "exact"), RawHash: drawText(t, "raw"),
		}
		for range rapid.IntRange(0, 2).Draw(t, "files") {
			turn.Files = append(turn.Files, File{
				ID: drawText(t, "file"), Path: drawText(t, "path"), Kind: drawText(t, "kind"), Summary: drawText(t, "summary"),
				Head: drawText(t, "head"), Bytes: rapid.Int().Draw(t, "bytes"), Block: rapid.Int().Draw(t, "block"),
			})
		}
		if rapid.Bool().Draw(t, "timed") {
			at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "second"), rapid.Int64Range(0, 1e9).Draw(t, "nano")).In(time.FixedZone("", 3600))
			turn.AuthorTime = &at
		}
		got, err := PayloadJSON(turn)
		if err != nil {
			t.Fatal(err)
		}
		if want := byJSON(t, turn); string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		said := string(turn.Role) + "\x00" + byJSON(t, turn.AllBlocks()) + "\n"
		if want := HashBytes([]byte(said)); turn.ContentHash() != want {
			t.Errorf("hash %s of %q, want %s", turn.ContentHash(), said, want)
		}
	})
}

func TestAppendTurnRefusesATimeWithoutName(t *testing.T) {
	at := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := PayloadJSON(&TurnAppended{ID: "a", AuthorTime: &at}); err == nil {
		t.Error("year 10000 was written")
	}
}

func BenchmarkMakeTurn(b *testing.B) {
	t := &TurnAppended{ID: "m1", Role: RoleUser, Text: string(bytes.Repeat([]byte("the build fails in \"stage.go\", line 42\n"), 15)), Format: "lcm", Exact: true}
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			_, _ = MakeTurn(t)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			byJSON(b, t)
		}
	})
}
