package transcript

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"lcm/events"
)

func TestAdversarialRecords(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	good := `{"type":"user","uuid":"u","message":{"role":"user","content":"fine"}}`
	for _, tc := range []struct{ name, line, want string }{
		{"NUL", "\x00\x00\x00", `not JSON: unexpected '\x00' at byte 0`},
		{"NUL inside", `{"type":"user","x":"` + "\x00" + `"}`, `not JSON: unexpected '\x00' at byte 20`},
		{"invalid UTF-8", `{"type":"user","uuid":"v","message":{"role":"user","content":"` + "\xff" + `"}}`, "not valid UTF-8"},
		{"deep", deep, "not JSON: it is nested deeper than 512 levels"},
		{"cut off", `{"type":"user","uuid":"v","message":{"role":"us`, "not JSON: it ends in the middle"},
		{"no object", `[1,2]`, "a JSON array, not an object"},
		{"null", `null`, "a JSON null, not an object"},
		{"prose", `hello`, `not JSON: unexpected 'h' at byte 0`},
		{"two values", `{} {}`, `not JSON: unexpected '{' at byte 3`},
		{"no type", `{}`, "the record has no type"},
		{"content is a number", `{"type":"user","uuid":"v","message":{"role":"user","content":7}}`, "the content is a number, not a string or an array"},
		{"part is a number", `{"type":"user","uuid":"v","message":{"role":"user","content":[7]}}`, "content part 1 is a number, not an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items := parseAll(t, []byte(good+"\n"+tc.line+"\n"+good), Options{})
			if len(items) != 3 || items[0].Kind != KindTurn || items[2].Kind != KindTurn {
				t.Fatalf("%d items", len(items))
			}
			if r := items[1]; r.Kind != KindReject || r.Reason != tc.want || r.Line != 2 || string(r.Source) != tc.line {
				t.Errorf("%s %q, line %d", r.Kind, r.Reason, r.Line)
			}
		})
	}
}

func TestRecordsOverTheLimit(t *testing.T) {
	big := `{"role":"user","content":"` + strings.Repeat("x", 2<<20) + `"}`
	small := `{"role":"user","content":"y"}`
	for _, tc := range []struct{ name, src string }{
		{"lines", small + "\n" + big + "\n" + small},
		{"array", "[" + small + "," + big + "," + small + "]"},
		{"spread array", "[\n " + small + ",\n " + big + ",\n " + small + "\n]\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items := parseAll(t, []byte(tc.src), Options{Format: Plain, MaxRecordBytes: 1 << 20})
			if len(items) != 3 || items[0].Kind != KindTurn || items[2].Kind != KindTurn {
				t.Fatalf("%d items", len(items))
			}
			r := items[1]
			want := fmt.Sprintf("record of %d bytes, at most 1048576 are allowed", len(big))
			if r.Kind != KindReject || r.Reason != want || r.SourceBytes != int64(len(big)) {
				t.Errorf("%s %q, %d bytes", r.Kind, r.Reason, r.SourceBytes)
			}
			if len(r.Source) != keptBytes || !strings.HasPrefix(big, string(r.Source)) {
				t.Errorf("kept %d bytes", len(r.Source))
			}
			if want := events.HashBytes([]byte(big)); r.SourceHash != want {
				t.Errorf("hash %s, want %s", r.SourceHash, want)
			}
		})
	}
}

// A record far over the limit must not be held in memory.
func TestMemoryIsBounded(t *testing.T) {
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	parts := []io.Reader{strings.NewReader(`{"role":"user","content":"y"}` + "\n" + `{"role":"user","content":"`)}
	for range 256 {
		parts = append(parts, bytes.NewReader(chunk))
	}
	parts = append(parts, strings.NewReader("\"}\n"+`{"role":"user","content":"z"}`))
	kinds := ""
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for it, err := range Parse(io.MultiReader(parts...), Options{Format: Plain, MaxRecordBytes: 1 << 20}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(it.Source) > 1<<20 {
			t.Errorf("an item holds %d bytes", len(it.Source))
		}
		kinds += string(it.Kind) + " "
	}
	runtime.ReadMemStats(&after)
	if kinds != "turn reject turn " {
		t.Error(kinds)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
		t.Errorf("%d bytes allocated for a record of 256 MiB", n)
	}
}

func TestBrokenArrays(t *testing.T) {
	m := `{"role":"user","content":"y"}`
	for _, tc := range []struct{ name, src, want string }{
		{"not closed", "[" + m + "," + m, "turn turn reject:the array is not closed"},
		{"not closed, spread", "[\n" + m + ",\n" + m + "\n", "turn turn reject:the array is not closed"},
		{"cut in an element", "[" + m + `,{"role":"us`, "turn reject:not JSON: it ends in the middle"},
		{"no comma", "[" + m + " " + m + "]", "turn reject:a comma is missing between elements"},
		{"comma at the end", "[" + m + ",]", "turn"},
		{"missing element", "[" + m + ",," + m + "]", "turn reject:an element is missing"},
		{"data behind", "[" + m + "] x", "turn reject:there is data behind the end of the array"},
		{"bad element", "[" + m + ",{\"role\"}," + m + "]", "turn reject:not JSON: unexpected '}' at byte 7 turn"},
		{"empty", "[]", ""},
		{"only a bracket", "[", "reject:the array is not closed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, it := range parseAll(t, []byte(tc.src), Options{Format: Plain}) {
				s := string(it.Kind)
				if it.Reason != "" {
					s += ":" + it.Reason
				}
				got = append(got, s)
			}
			if g := strings.Join(got, " "); g != tc.want {
				t.Errorf("got %q, want %q", g, tc.want)
			}
		})
	}
}

// Results inside results have no meaning and must not cost a scan a level.
func TestNestedResultsStayRaw(t *testing.T) {
	v := `"x"`
	for range 200 {
		v = `[{"type":"tool_result","tool_use_id":"a","content":` + v + `}]`
	}
	items := parseAll(t, []byte(`{"role":"user","content":`+v+`}`), Options{Format: Anthropic})
	b := items[0].Turn.Blocks[0]
	if b.Type != events.BlockToolResult || len(b.Content) != 1 || b.Content[0].Type != events.BlockUnknown {
		t.Errorf("%+v", b)
	}
}

// A subagent's line never lands in the main conversation, whatever it lacks.
func TestSidechainsStayApart(t *testing.T) {
	side := `{"type":"user","isSidechain":true,"parentUuid":"gone","message":{"role":"user","content":"x"}`
	for _, line := range []string{side + "}", side + `,"agentId":"a"}`, side + `,"uuid":"u"}`} {
		items := parseAll(t, []byte(line), Options{Format: ClaudeCode})
		if items[0].Kind != KindTurn || items[0].Conversation == "" || items[0].ParentID != "" {
			t.Errorf("%s: conversation %q, parent %q", line, items[0].Conversation, items[0].ParentID)
		}
	}
}
