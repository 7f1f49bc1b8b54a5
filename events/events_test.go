package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// update writes fixtures that do not exist yet. A fixture that exists is
// frozen: somebody's log holds events like it.
var update = flag.Bool("update", false, "write missing fixtures")

var when = time.Date(2026, 3, 4, 5, 6, 7, 890_000_000, time.UTC)

// samples has one payload of each event with every field set.
func samples() []Payload {
	author := when.Add(-time.Hour)
	return []Payload{
		&TurnAppended{
			ID: "msg_01", Entry: 12, Parent: 11, Role: RoleAssistant, Sender: "builder", MessageID: "m1",
			Blocks: []Block{
				{Type: BlockThinking, Text: "先看看", Signature: "c2ln"},
				{Type: BlockText, Text: "Let me <look>."},
				{Type: BlockToolUse, CallID: "exec:101", Name: "read", Input: `{"path": "main.go"}`},
				{Type: BlockToolResult, CallID: "exec:100", Name: "ls", IsError: true, Content: []Block{{Type: BlockText, Text: "no such file"}}},
				{Type: BlockImage, MediaType: "image/png", Data: "iVBOR", URL: "", Width: 640, Height: 480},
				{Type: BlockDocument, MediaType: "text/plain", URL: "https://example.org/a", Text: "doc"},
				{Type: BlockUnknown, Raw: `{"type":"hologram"}`},
			},
			Text: "derived", Tokens: 42, InputTokens: 40, Injected: true,
			Files:       []File{{ID: "3fa9c1d2e4b5a697", Path: "main.go", Kind: "go", Summary: "func main", Head: "package main", Bytes: 40_000, Block: 3}},
			LargeInline: true, Format: "anthropic", Original: "{\"role\":\"assistant\"}\n", Exact: true, RawHash: "00ff", AuthorTime: &author,
		},
		&LeafMoved{Entry: 7, Reason: "edit"},
		&SessionConfigured{Settings: func() Settings {
			s := DefaultSettings()
			s.Overhead, s.Model, s.MaxContextTokens, s.ParentSession, s.TokenFactor = 1, "m", 2, "p", 1.15
			s.Labels = map[string]string{"team": "支付"}
			return s
		}()},
		&HistoryCompacted{ID: "c1", After: 3, Kept: 2, Text: "earlier…", Format: "pi", Original: "{}", AuthorTime: &author},
		&NodeCommitted{
			Key: "k", Depth: 1, First: 1, Last: 9, Entries: []Range{{First: 1, Last: 4}, {First: 6, Last: 9}}, Children: []string{"a", "b"},
			Primary: Tier{Text: "short", Tokens: 1, Level: 2}, Rich: &Tier{Text: "long", Tokens: 2, Level: 1}, InputTokens: 99,
			Model: "extract-1", PromptVersion: "prompt-1", Files: []string{"3fa9c1d2e4b5a697"},
			Bounds: Bounds{Target: 100, HardCap: 300, MaxFan: 8}, Supersedes: "old",
		},
		&CutCommitted{
			Through: 9, Frontier: []Shown{{Key: "k", Tier: TierRich}}, Kept: 8, Clips: []Clip{{Entry: 10, Tokens: 500}},
			Budget: 24_000, Window: 32_000, Overhead: 1, Renderer: "window-1", TokensBefore: 30_000, TokensAfter: 9_000, BlockTokens: 700,
			Kind: CutRecut, Regime: RegimeBlocking,
		},
		&PassStalled{Reason: "condensation-stalled", Detail: "depth cap", Tokens: 1, Target: 2, Leaf: 3},
		&PositionLost{
			Seq: 4, Type: TypeTurnAppended, Reason: "block damaged",
			Subject: "lcm.ev.1.t.s", Version: 3, Hash: Hash{1, 2}, Entry: 2,
		},
	}
}

// Every version of every event reads as it always did, and this build writes
// the newest one byte for byte as it always did.
func TestFrozenFixtures(t *testing.T) {
	for _, p := range samples() {
		t.Run(string(p.EventType()), func(t *testing.T) {
			allFieldsSet(t, reflect.ValueOf(p).Elem(), string(p.EventType()))
			got, err := PayloadJSON(p)
			if err != nil {
				t.Fatal(err)
			}
			schema := schemas[p.EventType()]
			path := filepath.Join("testdata", fmt.Sprint("v", schema), string(p.EventType())+".json")
			want, err := os.ReadFile(path)
			if *update && errors.Is(err, os.ErrNotExist) {
				if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(bytes.TrimSuffix(want, []byte("\n"))), string(got)); diff != "" {
				t.Fatalf("the wire format changed: %s", diff)
			}
			m := Message{Data: want}
			back, err := m.DecodePayload(Envelope{Type: p.EventType(), Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, back); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// TestEarlierVersions: what an earlier build wrote reads as it did.
func TestEarlierVersions(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "v1", "PositionLost.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Message{Data: data}.DecodePayload(Envelope{Type: TypePositionLost, Schema: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&PositionLost{Seq: 4, Type: TypeTurnAppended, Reason: "block damaged"}, got); diff != "" {
		t.Error(diff)
	}
}

// allFieldsSet makes sure that a field added later gets into the fixture.
func allFieldsSet(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		name := path + "." + v.Type().Field(i).Name
		if f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]() {
			allFieldsSet(t, f, name)
			continue
		}
		if f.IsZero() {
			t.Errorf("%s is not set in the sample", name)
		}
	}
}

// The chain's golden vector: two events, and the link after each.
func TestChainGoldenVector(t *testing.T) {
	subject := Subject(LaneTimeline, Ref{Tenant: "acme", Session: "支付/1"}, DefaultPartitions)
	first, link1, err := Encode(subject, &LeafMoved{Entry: 1}, when, Link{})
	if err != nil {
		t.Fatal(err)
	}
	second, link2, err := Encode(subject, &LeafMoved{Entry: 2, Reason: "x"}, when.Add(time.Nanosecond), link1)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.MarshalIndent(map[string]any{"first": first, "link1": link1, "second": second, "link2": link2}, "", "  ")
	path := filepath.Join("testdata", "v1", "chain.json")
	want, err := os.ReadFile(path)
	if *update && errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("the chain changed: %s", diff)
	}
	e1, err := first.Envelope()
	if err != nil {
		t.Fatal(err)
	}
	if l, err := first.Follows(e1, Link{}); err != nil || l != link1 {
		t.Fatalf("link %v, %v", l, err)
	}
	e2, _ := second.Envelope()
	if _, err := second.Follows(e2, Link{}); !errors.Is(err, ErrMalformed) {
		t.Fatalf("a gap in versions: %v", err)
	}
	if _, err := second.Follows(e2, Link{Version: 1, Hash: link2.Hash}); !errors.Is(err, ErrMalformed) {
		t.Fatalf("another predecessor: %v", err)
	}
}

// Whatever is changed in a message changes its hash.
func TestChainHashCoversEverything(t *testing.T) {
	m, _, _ := Encode("lcm.ev.1.t.s", &LeafMoved{Entry: 1}, when, Link{Version: 3, Hash: Hash{1}})
	seen := map[Hash]string{m.ChainHash(Hash{1}): "the message itself", m.ChainHash(Hash{2}): "another predecessor"}
	for name, change := range map[string]func(*Message){
		"subject":      func(m *Message) { m.Subject += "x" },
		"payload":      func(m *Message) { m.Data = append(bytes.Clone(m.Data), ' ') },
		"header value": func(m *Message) { m.Header[HeaderTime] += "0" },
		"header added": func(m *Message) { m.Header["Lcm-New"] = "" },
		"header gone":  func(m *Message) { delete(m.Header, HeaderSchema) },
		"moved byte":   func(m *Message) { m.Header[HeaderType] += "L"; m.Header[HeaderSchema] = "" },
	} {
		c := Message{Subject: m.Subject, Header: Header{}, Data: m.Data}
		for k, v := range m.Header {
			c.Header[k] = v
		}
		change(&c)
		h := c.ChainHash(Hash{1})
		if other, ok := seen[h]; ok {
			t.Errorf("%s hashes like %s", name, other)
		}
		seen[h] = name
	}
	withNats := Message{Subject: m.Subject, Header: Header{"Nats-Stream": "LCM"}, Data: m.Data}
	for k, v := range m.Header {
		withNats.Header[k] = v
	}
	if withNats.ChainHash(Hash{1}) != m.ChainHash(Hash{1}) {
		t.Error("the server's own headers must not be covered")
	}
}

func TestPartitionIsTheServers(t *testing.T) {
	// Measured against the server's {{partition(16,1,2)}} mapping.
	if got := Partition("t1", "s1", 16); got != 10 {
		t.Fatalf("partition %d, want 10", got)
	}
}

func TestNamesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		if name == "" {
			return
		}
		tok := EncodeToken(name)
		if strings.ContainsAny(tok, ".*> \t") {
			t.Fatalf("token %q is no subject token", tok)
		}
		back, err := DecodeToken(tok)
		if err != nil || back != name {
			t.Fatalf("%q came back as %q, %v", name, back, err)
		}
		r := Ref{Tenant: name, Session: "s/" + name}
		lane, part, got, err := ParseSubject(Subject(LaneDerived, r, 16))
		if err != nil || got != r || lane != LaneDerived || part < 0 || part > 15 {
			t.Fatalf("%v came back as %v %v %d, %v", r, got, lane, part, err)
		}
	})
}

func TestNamesAreBounded(t *testing.T) {
	for _, r := range []Ref{{}, {Tenant: "t"}, {Tenant: "t", Session: strings.Repeat("x", 10_000)}, {Tenant: "\xff", Session: "s"}} {
		err := r.Validate()
		if err == nil || len(err.Error()) > 300 {
			t.Errorf("%.20q: %v", r.Session, err)
		}
	}
	for _, tok := range []string{"", "%", "%4", "%zz", "%41", "%e4", "a.b", "a b", "ä"} {
		if s, err := DecodeToken(tok); !errors.Is(err, ErrToken) {
			t.Errorf("token %q decoded to %q, %v", tok, s, err)
		}
	}
}

func TestSettings(t *testing.T) {
	d := DefaultSettings()
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	if d.Reserve() != 20_000 || d.Budget() != 180_000 || d.LeafChunk() != 8_000 || d.Soft() != 135_000 {
		t.Fatalf("reserve %d budget %d chunk %d soft %d", d.Reserve(), d.Budget(), d.LeafChunk(), d.Soft())
	}
	for name, spoil := range map[string]func(*Settings){
		"window":         func(s *Settings) { s.Window = 0 },
		"at least 12000": func(s *Settings) { s.Window = 15_000 },
		"overhead":       func(s *Settings) { s.Overhead = -1 },
		"cut_target":     func(s *Settings) { s.CutTarget = 1.5 },
		"exceed 0.50":    func(s *Settings) { s.FreshTailMax = 0.31 },
		"recut_target":   func(s *Settings) { s.RecutTarget = 0.3 },
		"fanout":         func(s *Settings) { s.FanoutMin = 9 },
		"leaf_chunk_min": func(s *Settings) { s.LeafChunkMax = 10 },
	} {
		s := d
		spoil(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that names %s, got %v", name, err)
		}
	}
}

// Shares that exclude each other are refused where they are set, and read for
// ever: logs hold them from before that.
func TestContradictions(t *testing.T) {
	shares := func(threshold, target, minCut, recut float64) Settings {
		s := DefaultSettings()
		s.ContextThreshold, s.CutTarget, s.MinCut, s.RecutThreshold = threshold, target, minCut, recut
		return s
	}
	for _, tt := range []struct {
		s    Settings
		says string // "" = accepted
	}{
		{DefaultSettings(), ""},
		{shares(0.2, 0.9, 0.1, 0.85), "cut_target 0.9"},
		{shares(0.5, 0.5, 0, 0.85), "cut_target 0.5"},
		{shares(0.75, 0, 0.1, 0.85), "cut_target 0"},
		{shares(0.75, 0.4, 1, 0.85), "min_cut 1"},
		{shares(0.5, 0.4, 0.11, 0.85), "min_cut 0.11"},
		{shares(0.7, 0.6, 0.1, 0.85), ""}, // 0.7 - 0.6 is less than 0.1 in binary
		{shares(0.75, 0.4, 0.1, 0), "recut_threshold 0"},
		{shares(1, 0.4, 0.1, 0.5), "recut_threshold 0.5"},
		{shares(0.75, 0.4, 0.1, 0.75), "recut_threshold 0.75"},
		{shares(0.75, 0.4, 0.1, 1), ""},
		{shares(0, 0.4, 0, 0.85), ""},
		{shares(0, 0, 0, 0.85), ""},
		{shares(0, 0.4, 0, 0), "recut_threshold 0"},
		{shares(0, 0.4, 0.1, 0.85), "steady drip"},
	} {
		err := tt.s.ValidateNew()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v: %v, want it to say %q", tt.s.passShares(), err, tt.says)
		}
		if err := tt.s.Validate(); err != nil {
			t.Errorf("%v of an older log: %v", tt.s.passShares(), err)
		}
		wider := tt.s
		wider.Window *= 2
		if err := wider.ValidateChange(tt.s); err != nil {
			t.Errorf("%v, only the window changed: %v", tt.s.passShares(), err)
		}
		wider.CutTarget += 0.01
		if err := wider.ValidateChange(tt.s); (err == nil) != (wider.ValidateNew() == nil) {
			t.Errorf("%v, the target changed: %v", wider.passShares(), err)
		}
	}
}

func TestCompactLosesNothing(t *testing.T) {
	for _, blocks := range [][]Block{
		{{Type: BlockText, Text: "hi"}},
		{{Type: BlockText, Text: "hi"}, {Type: BlockToolUse, CallID: "1", Name: "ls", Input: "{}"}},
		{{Type: BlockText, Text: "hi", Raw: `{"type":"text","text":"hi","cache_control":{}}`}},
		{{Type: BlockText}},
	} {
		turn := TurnAppended{Role: RoleUser, Blocks: blocks}
		hash, derived := turn.ContentHash(), turn.DerivedText()
		turn.Compact()
		data, _ := PayloadJSON(&turn)
		var back TurnAppended
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(blocks, back.AllBlocks()); diff != "" || back.ContentHash() != hash || back.DerivedText() != derived {
			t.Errorf("%s: %s", data, diff)
		}
	}
}

func TestPositionsRoundTrip(t *testing.T) {
	for _, p := range []Position{{}, {Epoch: "01J", Seq: 7}} {
		got, err := ParsePosition(p.String())
		if err != nil || got != p {
			t.Errorf("%v came back as %v, %v", p, got, err)
		}
	}
	for _, s := range []string{"x", "@1", "a@", "a@-1"} {
		if _, err := ParsePosition(s); err == nil {
			t.Errorf("token %q was accepted", s)
		}
	}
}

// No bytes make a decoder panic, and what decodes encodes again.
func FuzzDecode(f *testing.F) {
	for _, p := range samples() {
		m, _, _ := Encode("lcm.ev.1.t.s", p, when, Link{Version: 1, Hash: Hash{9}})
		f.Add(m.Header[HeaderType], m.Header[HeaderSchema], m.Header[HeaderVersion], m.Header[HeaderPrev], m.Header[HeaderTime], m.Data)
	}
	f.Add("X", "0", "-1", "zz", "yesterday", []byte("{"))
	f.Fuzz(func(t *testing.T, typ, schema, version, prev, at string, data []byte) {
		m := Message{Data: data, Header: Header{HeaderType: typ, HeaderSchema: schema, HeaderVersion: version, HeaderPrev: prev, HeaderTime: at}}
		e, err := m.Envelope()
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		p, err := m.DecodePayload(e)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			return
		}
		if _, err := PayloadJSON(p); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzSubject(f *testing.F) {
	f.Add("lcm.ev.3.t.s")
	f.Add("lcm.in.t.%E6%94%AF")
	f.Fuzz(func(t *testing.T, s string) {
		if lane, part, r, err := ParseSubject(s); err == nil {
			if again := "lcm." + string(lane) + "." + strings.Split(s, ".")[2] + "." + EncodeToken(r.Tenant) + "." + EncodeToken(r.Session); again != s || part < 0 {
				t.Fatalf("%q parsed to %q", s, again)
			}
		}
		_, _ = ParseInboxSubject(s)
		_, _ = ParseTaskSubject(s)
	})
}

// TestChainHashIsOfTheLayout: however an event is hashed, it is the hash of its
// parts laid out one after another.
func TestChainHashIsOfTheLayout(t *testing.T) {
	for _, n := range []int{0, 1, 600, maxScratch - 1, maxScratch, maxScratch + 1, 3 * maxScratch} {
		m := Message{
			Subject: "lcm.ev.1.t.s", Data: bytes.Repeat([]byte{'x'}, n),
			Header: Header{"Lcm-B": "2", "Lcm-A": "1", "Other": "no", "Lcm-C": ""},
		}
		var b []byte
		put := func(s string) { b = append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...) }
		prev := Hash{7}
		for _, s := range []string{string(prev[:]), m.Subject, "Lcm-A", "1", "Lcm-B", "2", "Lcm-C", "", string(m.Data)} {
			put(s)
		}
		if got := m.ChainHash(prev); got != sha256.Sum256(b) {
			t.Errorf("payload of %d bytes: %s", n, got)
		}
	}
}

func BenchmarkChainHash(b *testing.B) {
	m, _, err := Encode("lcm.ev.1.default.session", &TurnAppended{ID: "m1", Entry: 1, Role: RoleUser, Text: strings.Repeat("words ", 100)}, time.Unix(1, 0), Link{3, Hash{1}})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.ChainHash(Hash{2})
	}
}

func BenchmarkParseSubject(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, err := ParseSubject("lcm.ev.12.default.session"); err != nil {
			b.Fatal(err)
		}
	}
}
