package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lcm/events"
)

func TestEncodeFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.file, func(t *testing.T) {
			convs := conversations(parseAll(t, fixture(t, f.file), Options{}))
			var out bytes.Buffer
			for _, name := range slices.Sorted(maps.Keys(convs)) {
				for _, format := range []Format{OpenAI, Anthropic, Plain} {
					e, err := Encode(format, convs[name])
					if err != nil {
						t.Fatal(err)
					}
					if err := Check(format, e); err != nil {
						t.Error(err)
					}
					fmt.Fprintf(&out, "## %s %q\n", format, name)
					if e.System != nil {
						fmt.Fprintf(&out, "system %s\n", e.System)
					}
					for _, m := range e.Messages {
						fmt.Fprintf(&out, "%s\n", m)
					}
				}
			}
			golden(t, f.file+".encoded", out.Bytes())
		})
	}
}

// Vendor fields come back byte for byte.
func TestVendorFieldsComeBackUnchanged(t *testing.T) {
	for _, src := range []string{
		`{"role":"assistant","reasoning_content":"a \u00e9\/b","content":"x"}`,
		`{"role":"assistant","reasoning_content":"","content":"x"}`,
		`{"role":"assistant","reasoning":"r","reasoning_details":[{"type":"reasoning.text", "signature":"s\u0021"}],"content":"x"}`,
	} {
		ms := conversations(parseAll(t, []byte(src), Options{Format: OpenAI}))[""]
		e, err := Encode(OpenAI, ms)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(e.Messages[0]); got != src {
			t.Errorf("got  %s\nwant %s", got, src)
		}
		e, _ = Encode(Anthropic, ms)
		if bytes.Contains(e.Messages[1], []byte("thinking")) {
			t.Errorf("foreign reasoning went to Anthropic: %s", e.Messages[1])
		}
	}
}

func TestThinkingIsSignedOrAbsent(t *testing.T) {
	text := events.Block{Type: events.BlockText, Text: "x"}
	for _, tc := range []struct {
		name string
		b    events.Block
		want string // the part, "" = absent
	}{
		{"signed", events.Block{Type: events.BlockThinking, Text: "a\u2028b", Signature: "s+/="}, `{"type":"thinking","thinking":"a` + "\u2028" + `b","signature":"s+/="}`},
		{"signed, hidden", events.Block{Type: events.BlockThinking, Signature: "s"}, `{"type":"thinking","thinking":"","signature":"s"}`},
		{"unsigned", events.Block{Type: events.BlockThinking, Text: "a"}, ""},
		{"foreign", events.Block{Type: events.BlockThinking, Text: "a", Signature: "s", Raw: `{"type":"reasoning"}`}, ""},
		{"unpaired surrogate", events.Block{Type: events.BlockThinking, Text: "\ufffd", Signature: "s", Raw: `{"type":"thinking", "thinking":"\ud800","signature":"s"}`}, `{"type":"thinking","thinking":"\ud800","signature":"s"}`},
		{"redacted", events.Block{Type: events.BlockUnknown, Raw: `{"type":"redacted_thinking","data":"d\u0041"}`}, `{"type":"redacted_thinking","data":"d\u0041"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, err := Encode(Anthropic, []Message{
				{Role: events.RoleUser, Blocks: []events.Block{text}},
				{Role: events.RoleAssistant, Blocks: []events.Block{tc.b, text}},
			})
			if err != nil || Check(Anthropic, e) != nil {
				t.Fatal(err, Check(Anthropic, e))
			}
			want := tc.want
			if want != "" {
				want += ","
			}
			want = `{"role":"assistant","content":[` + want + `{"type":"text","text":"x"}]}`
			if got := string(e.Messages[1]); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// A reused id stays with its own call; parallel results stand in
// call order.
func TestCallsKeepTheirResults(t *testing.T) {
	call := func(id, in string) events.Block {
		return events.Block{Type: events.BlockToolUse, CallID: id, Name: "f", Input: in}
	}
	result := func(id, out string) events.Block {
		return events.Block{Type: events.BlockToolResult, CallID: id, Content: []events.Block{{Type: events.BlockText, Text: out}}}
	}
	ms := []Message{
		{Role: events.RoleUser, Blocks: []events.Block{textBlock("go")}},
		{Role: events.RoleAssistant, Blocks: []events.Block{call("exec:101", "{}")}},
		{Role: events.RoleTool, Blocks: []events.Block{result("exec:101", "first")}},
		{Role: events.RoleAssistant, MessageID: "m", Blocks: []events.Block{call("exec:101", "[1]")}},
		{Role: events.RoleAssistant, MessageID: "m", Blocks: []events.Block{call("exec_101", "oops")}},
		{Role: events.RoleUser, Blocks: []events.Block{textBlock("wait")}},
		{Role: events.RoleTool, Blocks: []events.Block{result("exec_101", "third"), result("exec:101", "second")}},
	}
	want := map[Format]string{
		Anthropic: `{"role":"user","content":[{"type":"text","text":"go"}]}
{"role":"assistant","content":[{"type":"tool_use","id":"exec_101","name":"f","input":{}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"exec_101","content":[{"type":"text","text":"first"}]}]}
{"role":"assistant","content":[{"type":"tool_use","id":"exec_101_2","name":"f","input":{"_raw":"[1]"}},{"type":"tool_use","id":"exec_101_3","name":"f","input":{"_raw":"oops"}}]}
{"role":"user","content":[{"type":"tool_result","tool_use_id":"exec_101_2","content":[{"type":"text","text":"second"}]},{"type":"tool_result","tool_use_id":"exec_101_3","content":[{"type":"text","text":"third"}]},{"type":"text","text":"wait"}]}`,
		OpenAI: `{"role":"user","content":"go"}
{"role":"assistant","content":null,"tool_calls":[{"id":"exec:101","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"tool","tool_call_id":"exec:101","content":"first"}
{"role":"assistant","content":null,"tool_calls":[{"id":"exec:101_2","type":"function","function":{"name":"f","arguments":"[1]"}},{"id":"exec_101","type":"function","function":{"name":"f","arguments":"oops"}}]}
{"role":"tool","tool_call_id":"exec:101_2","content":"second"}
{"role":"tool","tool_call_id":"exec_101","content":"third"}
{"role":"user","content":"wait"}`,
	}
	for i := range ms {
		ms[i].Entry = uint64(i + 1)
	}
	for f, want := range want {
		e, err := Encode(f, ms)
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(f, e); err != nil {
			t.Error(err)
		}
		var got []string
		for _, m := range e.Messages {
			got = append(got, string(m))
		}
		if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s: %s", f, diff)
		}
	}
}

func TestAnthropicStartsWithAUser(t *testing.T) {
	e, _ := Encode(Anthropic, []Message{
		{Role: events.RoleSystem, Blocks: []events.Block{textBlock("s")}},
		{Role: events.RoleAssistant, Blocks: []events.Block{textBlock("a")}},
		{Role: events.RoleSystem, Blocks: []events.Block{textBlock("late")}},
	})
	if err := Check(Anthropic, e); err != nil || len(e.Messages) != 3 || string(e.System) != `[{"type":"text","text":"s"}]` {
		t.Errorf("%v: %s %s", err, e.System, e.Messages)
	}
}

// The pointer block is parts from its first pointer on.
func TestThePointerBlockIsAlwaysParts(t *testing.T) {
	e, _ := Encode(OpenAI, []Message{{Role: events.RoleUser, Blocks: []events.Block{textBlock("p")}}})
	if want := `{"role":"user","content":[{"type":"text","text":"p"}]}`; string(e.Messages[0]) != want {
		t.Errorf("%s", e.Messages[0])
	}
}

func TestEncodeLeavesItsInputAlone(t *testing.T) {
	ms := conversations(parseAll(t, fixture(t, "openai.json"), Options{}))[""]
	before, _ := json.Marshal(ms)
	for _, f := range []Format{OpenAI, Anthropic, Plain} {
		_, _ = Encode(f, ms)
	}
	if after, _ := json.Marshal(ms); !bytes.Equal(before, after) {
		t.Error("messages changed")
	}
}

func TestEncodeUnknownFormat(t *testing.T) {
	if _, err := Encode(Pi, nil); err == nil {
		t.Error("Pi is not a target")
	}
	if err := Check(Pi, Encoded{}); err == nil {
		t.Error("Pi is not a target")
	}
}

const png2x3 = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAYAAAC56t6BAAAADElEQVR4nGNgoCYAAABLAAEv2b7EAAAAAElFTkSuQmCC"

// blockGen draws any block, sane or not.
func blockGen() *rapid.Generator[events.Block] {
	text := rapid.SampledFrom([]string{"", " ", "\x1c", "x", "y\n", "\u00a0", "[lcm:summary #3]", "中"})
	id := rapid.SampledFrom([]string{"", "a", "b", "a:b", "a_b", strings.Repeat("long", 30), "é"})
	return rapid.Custom(func(t *rapid.T) events.Block {
		b := events.Block{
			Type: rapid.SampledFrom([]events.BlockType{
				events.BlockText, events.BlockText, events.BlockThinking, events.BlockToolUse, events.BlockToolUse,
				events.BlockToolResult, events.BlockToolResult, events.BlockImage, events.BlockDocument, events.BlockUnknown, "new",
			}).Draw(t, "type"),
			Text:   text.Draw(t, "text"),
			CallID: id.Draw(t, "id"),
		}
		switch b.Type {
		case events.BlockThinking:
			b.Signature = rapid.SampledFrom([]string{"", "sig"}).Draw(t, "sig")
			b.Raw = rapid.SampledFrom([]string{
				"", "", `{"reasoning_content":""}`, `{"reasoning":"r","reasoning":"s"}`, `{"type":"reasoning"}`, `{"type":"thinking","thinking":"t","signature":"s","x":1}`, "{", "null",
			}).Draw(t, "raw")
		case events.BlockToolUse:
			b.Name = rapid.SampledFrom([]string{"", "f", "a.b", strings.Repeat("n", 90)}).Draw(t, "name")
			b.Input = rapid.SampledFrom([]string{"", "{}", `{"a": 1}`, "[]", "{", "null", "\xff"}).Draw(t, "input")
			b.Raw = rapid.SampledFrom([]string{"", `{"function":{},"extra_content":{"k":1},"id":"z"}`, "x"}).Draw(t, "raw")
		case events.BlockToolResult:
			b.IsError = rapid.Bool().Draw(t, "error")
			if rapid.Bool().Draw(t, "content") {
				b.Content = []events.Block{{Type: events.BlockText, Text: text.Draw(t, "inner")}, {Type: events.BlockImage, Data: png2x3}}
			}
		case events.BlockImage, events.BlockDocument:
			b.Data = rapid.SampledFrom([]string{"", png2x3, "####", "JVBE", "iVBORw0KGg="}).Draw(t, "data")
			b.MediaType = rapid.SampledFrom([]string{"", "image/png", "application/pdf", "image/bmp"}).Draw(t, "media")
			b.URL = rapid.SampledFrom([]string{"", "https://example.org/a", "file:///x", "https://a b"}).Draw(t, "url")
			b.Name = text.Draw(t, "name")
		case events.BlockUnknown:
			b.Raw = rapid.SampledFrom([]string{"", "{", `{"type":"redacted_thinking","data":"d"}`, `{"type":"redacted_thinking"}`, `{"type":"x"}`}).Draw(t, "raw")
		}
		return b
	})
}

func messageGen() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		return Message{
			Role: rapid.SampledFrom([]events.Role{
				events.RoleUser, events.RoleAssistant, events.RoleAssistant, events.RoleTool, events.RoleSystem, events.RoleDeveloper, "",
			}).Draw(t, "role"),
			Sender: rapid.SampledFrom([]string{"", "ada", "a b"}).Draw(t, "sender"),
			Entry:  rapid.Uint64Range(0, 2).Draw(t, "entry"),
			Blocks: rapid.SliceOfN(blockGen(), 0, 4).Draw(t, "blocks"),
		}
	})
}

func TestWhatEncodeWritesPassesCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.SliceOfN(messageGen(), 0, 8).Draw(t, "messages")
		for _, f := range []Format{OpenAI, Anthropic, Plain} {
			if err := encodeAndCheck(f, ms); err != nil {
				e, _ := Encode(f, ms)
				t.Fatalf("%v\n%s", err, joinArray(e.Messages))
			}
		}
	})
}

// parts flattens what was encoded to content parts with their role: the bytes
// a provider's cache sees in order.
func parts(e Encoded) ([]string, error) {
	out := []string{"system " + string(e.System)}
	for _, raw := range e.Messages {
		var m struct {
			Role             string
			Content          json.RawMessage
			ReasoningContent json.RawMessage   `json:"reasoning_content"`
			ToolCalls        []json.RawMessage `json:"tool_calls"`
			ToolCallID       string            `json:"tool_call_id"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, err
		}
		if m.ReasoningContent != nil {
			out = append(out, m.Role+" "+string(m.ReasoningContent))
		}
		var ps []json.RawMessage
		if json.Unmarshal(m.Content, &ps) != nil {
			ps = []json.RawMessage{m.Content}
		}
		for _, p := range append(ps, m.ToolCalls...) {
			out = append(out, m.Role+m.ToolCallID+" "+string(p))
		}
	}
	return out, nil
}

// An exchange drawn whole: what follows it must not change it.
func TestPrefixesStayTheSame(t *testing.T) {
	text := rapid.SampledFrom([]string{"x", "longer text", ""})
	exchange := rapid.Custom(func(t *rapid.T) []Message {
		var ms []Message
		say := func(r events.Role, bs ...events.Block) {
			ms = append(ms, Message{Role: r, Blocks: bs, Entry: 1})
		}
		say(events.RoleUser, textBlock(text.Draw(t, "user")))
		var results []events.Block
		for range rapid.IntRange(0, 3).Draw(t, "assistants") {
			bs := []events.Block{{Type: events.BlockThinking, Text: "t", Signature: "s"}, textBlock(text.Draw(t, "assistant"))}
			for range rapid.IntRange(0, 2).Draw(t, "calls") {
				id := rapid.SampledFrom([]string{"a", "b", "c:d"}).Draw(t, "id")
				bs = append(bs, events.Block{Type: events.BlockToolUse, CallID: id, Name: "f", Input: "{}"})
				results = append(results, events.Block{Type: events.BlockToolResult, CallID: id, Content: []events.Block{textBlock(text.Draw(t, "result"))}})
			}
			say(events.RoleAssistant, bs...)
		}
		for _, r := range results {
			say(events.RoleTool, r)
		}
		return ms
	})
	rapid.Check(t, func(t *rapid.T) {
		var ms []Message
		before := map[Format][]string{}
		for range rapid.IntRange(1, 4).Draw(t, "exchanges") {
			ms = append(ms, exchange.Draw(t, "exchange")...)
			for _, f := range []Format{OpenAI, Anthropic, Plain} {
				e, err := Encode(f, ms)
				if err != nil {
					t.Fatal(err)
				}
				ps, err := parts(e)
				if err != nil {
					t.Fatal(err)
				}
				if old := before[f]; len(old) > len(ps) || !slices.Equal(old, ps[:len(old)]) {
					t.Fatalf("%s: %s", f, cmp.Diff(old, ps))
				}
				before[f] = ps
			}
		}
	})
}

func FuzzEncode(f *testing.F) {
	for _, x := range fixtures {
		f.Add(fixture(f, x.file), uint8(0))
	}
	formats := []Format{LCM, Anthropic, OpenAI, ClaudeCode, Pi, Codex}
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		items, err := ParseBody(b, Options{Format: formats[int(n)%len(formats)]})
		if err != nil {
			return
		}
		for _, ms := range conversations(items) {
			for _, target := range []Format{OpenAI, Anthropic, Plain} {
				if err := encodeAndCheck(target, ms); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
