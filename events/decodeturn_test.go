package events

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var decodeTurnSeeds = []string{
	`{"id":"m1","entry":12,"parent":3,"role":"assistant","sender":"bob","message_id":"msg_1","blocks":[{"type":"text","text":"a \"b\" \\ \n\t€"},{"type":"tool_use","call_id":"c1","name":"read","input":"{\"path\":\"x\"}"},{"type":"tool_result","call_id":"c1","content":[{"type":"image","media_type":"image/png","data":"AAAA","width":1,"height":20}],"is_error":true}],"text":"x","tokens":150,"input_tokens":0,"injected":true,"files":[{"id":"0a","path":"p","kind":"go","summary":"s","head":"h","bytes":9,"block":1}],"large_inline":false,"format":"lcm","original":"\u2028 \u0000 \ud83d\ude00","exact":true,"raw_hash":"00","author_time":"2026-01-02T03:04:05.6+07:00"}`,
	`{"id":"m1","entry":1,"role":"user","text":"plain","tokens":1,"input_tokens":1}`,
	`{}`, `{"blocks":[],"files":[]}`,
}

// The seeds are what Encode writes: none of them may be left to encoding/json.
func TestDecodeTurnReadsPlainPayloadsItself(t *testing.T) {
	for _, s := range decodeTurnSeeds {
		r := turnReader{b: []byte(s)}
		if r.turn(new(TurnAppended)); r.odd || r.at != len(s) {
			t.Errorf("stopped at %d of %s", r.at, s)
		}
	}
}

// FuzzDecodeTurn: the result, and whether there is one, is encoding/json's.
func FuzzDecodeTurn(f *testing.F) {
	for _, s := range append([]string{
		`{"ID":"case"}`, `{"id":null}`, `{"id":"a","id":"b"}`, `{"blocks":[{"type":"a"}],"blocks":[{"text":"b"}]}`,
		`{"entry":01}`, `{"entry":-1}`, `{"tokens":1e3}`, `{"entry":18446744073709551616}`, `{"id":"\x"}`, `{"id":"a` + "\xff" + `"}`,
		`{"id":"a"} `, `{"id":"a"}}`, `{"id":"a",}`, `{"author_time":"yesterday"}`, `{"id":"\`, `{"exact":truer}`, `[`, `{"new":1}`, "{\"id\":\"a\nb\"}",
	}, decodeTurnSeeds...) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want TurnAppended
		werr := json.Unmarshal(data, &want)
		got, err := DecodeTurn(data)
		if (err == nil) != (werr == nil) {
			t.Fatalf("error %v, encoding/json says %v", err, werr)
		}
		if diff := cmp.Diff(&want, got); err == nil && diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecodeTurn(b *testing.B) {
	data := []byte(decodeTurnSeeds[0])
	b.Run("ours", func(b *testing.B) {
		for b.Loop() {
			_, _ = DecodeTurn(data)
		}
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			_ = json.Unmarshal(data, new(TurnAppended))
		}
	})
}
