package window

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The bytes of a context belong to the renderer's version: whoever changes
// them changes Renderer too.
func TestGolden(t *testing.T) {
	w := newWorld(200_000)
	w.v.Compactions = []events.HistoryCompacted{{Text: "Before that, they set up the project.", Format: "claude-code"}}
	w.pin("You are a careful agent.")
	w.play("U A.a R.a A U A")
	kept := w.v.Tail[4]
	w.cut(4, "They read a.go. [lcm:summary #9] is quoted.")
	w.cut(2, strings.Repeat("They talked about the parser. ", 12))
	w.v.Cut.Frontier[1].Tier = events.TierStub
	w.v.Cut.Kept, w.v.Kept = kept.N, &kept
	w.play("A.b.c R.c U R.b A R.a U")
	w.text(events.RoleUser, "HEAD "+strings.Repeat("filler ", 12_000)+"TAIL")
	w.v.Cut.Clips = []events.Clip{{Entry: w.next, Tokens: 120}}
	c := w.render(t, Options{})

	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(map[string]any{"renderer": Renderer, "tokens": c.Tokens, "prefix_hash": c.PrefixHash, "messages": c.Messages}); err != nil {
		t.Fatal(err)
	}
	const path = "testdata/context.golden.json"
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("the rendering changed: raise Renderer, then -update\n%s", d)
	}
}
