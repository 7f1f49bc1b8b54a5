package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"lcm/events"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

var fixtures = []struct {
	file   string
	format Format
}{
	{"claude-code.jsonl", ClaudeCode},
	{"pi-tree.jsonl", Pi},
	{"pi-linear.jsonl", Pi},
	{"codex.jsonl", Codex},
	{"responses.json", Codex},
	{"openai.json", OpenAI},
	{"conversations.jsonl", OpenAI},
	{"anthropic.json", Anthropic},
	{"plain.json", Plain},
	{"lcm.jsonl", LCM},
}

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// describe writes items for people to check once and for the test ever after.
func describe(items []Item) []byte {
	var b bytes.Buffer
	for _, it := range items {
		fmt.Fprintf(&b, "%d", it.Line)
		if it.Index > 0 {
			fmt.Fprintf(&b, ".%d", it.Index)
		}
		fmt.Fprintf(&b, " %s", it.Kind)
		for _, kv := range [][2]string{
			{"conversation", it.Conversation}, {"parent", it.ParentID}, {"kept", it.KeptID}, {"reason", it.Reason},
		} {
			if kv[1] != "" {
				fmt.Fprintf(&b, " %s=%q", kv[0], kv[1])
			}
		}
		b.WriteByte('\n')
		show := func(v any) {
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(v)
		}
		switch it.Kind {
		case KindTurn:
			t := *it.Turn
			if t.Original != "" {
				t.Original = "…"
			}
			show(t)
		case KindCompaction:
			c := *it.Compaction
			c.Original = "…"
			show(c)
		}
	}
	return b.Bytes()
}

func TestFixtures(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.file, func(t *testing.T) {
			src := fixture(t, f.file)
			if got, err := Detect(src); got != f.format || err != nil {
				t.Fatalf("Detect: %q, %v", got, err)
			}
			items := parseAll(t, src, Options{})
			golden(t, f.file+".items", describe(items))

			// The same items however the bytes arrive, and with the format told.
			for name, r := range map[string]io.Reader{
				"byte by byte":    iotest.OneByteReader(bytes.NewReader(src)),
				"data with error": iotest.DataErrReader(bytes.NewReader(src)),
				"BOM":             io.MultiReader(bytes.NewReader(utf8BOM), bytes.NewReader(src)),
				"blank lines":     io.MultiReader(strings.NewReader(" \n\r\n\t"), bytes.NewReader(src)),
			} {
				var again []Item
				for it, err := range Parse(r, Options{Format: f.format}) {
					if err != nil {
						t.Fatal(name, err)
					}
					again = append(again, it)
				}
				a, b := describe(items), describe(again)
				if name == "blank lines" { // lines are counted with them
					if len(items) != len(again) {
						t.Errorf("%s: %d items, want %d", name, len(again), len(items))
					}
				} else if !bytes.Equal(a, b) {
					t.Error(name, cmp.Diff(string(a), string(b)))
				}
			}
		})
	}
}

func TestCRLF(t *testing.T) {
	src := fixture(t, "pi-tree.jsonl")
	want := describe(parseAll(t, src, Options{}))
	got := describe(parseAll(t, bytes.ReplaceAll(src, []byte("\n"), []byte("\r\n")), Options{}))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestWholeSourceErrors(t *testing.T) {
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 600)...)
	for _, tc := range []struct {
		name, src string
		format    Format
		want      error
	}{
		{"nothing", "", Auto, ErrEmpty},
		{"blank", " \n\t\r\n", Auto, ErrEmpty},
		{"BOM only", "\xef\xbb\xbf", Auto, ErrEmpty},
		{"nothing, format told", "", LCM, ErrEmpty},
		{"picture", string(png), Auto, ErrBinary},
		{"picture, format told", string(png), OpenAI, ErrBinary},
		{"UTF-16", "\xff\xfe{\x00\"\x00a\x00", Auto, ErrBinary},
		{"directory listing", "total 8\ndrwxr-xr-x 2 a a 4096 .\n", Auto, ErrUnknownFormat},
		{"HTML", "<html><body>", Auto, ErrUnknownFormat},
		{"other JSON", `{"name":"x","version":"1.0"}`, Auto, ErrUnknownFormat},
		{"number", "42", Auto, ErrUnknownFormat},
		{"no such format", "{}", Format("yaml"), ErrUnknownFormat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items, err := ParseBody([]byte(tc.src), Options{Format: tc.format})
			if !errors.Is(err, tc.want) || len(items) != 0 {
				t.Errorf("%d items, %v; want %v", len(items), err, tc.want)
			}
		})
	}
}

func TestReadErrorEndsTheSequence(t *testing.T) {
	boom := errors.New("boom")
	line := `{"role":"user","content":"x"}` + "\n"
	for _, o := range []Options{{}, {Format: Plain}} {
		r := io.MultiReader(strings.NewReader(line+line), iotest.ErrReader(boom))
		n := 0
		var last error
		for it, err := range Parse(r, o) {
			if last != nil {
				t.Fatal("an item after an error")
			}
			if last = err; err == nil && it.Kind == KindTurn {
				n++
			}
		}
		if !errors.Is(last, boom) {
			t.Errorf("%+v: %d turns, then %v", o, n, last)
		}
	}
}

func TestStopsWithItsConsumer(t *testing.T) {
	for _, f := range fixtures {
		n := 0
		for range Parse(bytes.NewReader(fixture(t, f.file)), Options{}) {
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%s: %d items", f.file, n)
		}
	}
}

// A line can be answered before the next one is sent.
func TestLinesAreReadAsTheyCome(t *testing.T) {
	pr, pw := io.Pipe()
	answered := make(chan struct{})
	go func() {
		for range 3 {
			_, _ = io.WriteString(pw, `{"role":"user","content":"x"}`+"\n")
			<-answered
		}
		pw.Close()
	}()
	n := 0
	for it, err := range Parse(pr, Options{Format: LCM}) {
		if err != nil || it.Kind != KindTurn {
			t.Fatal(it, err)
		}
		n++
		answered <- struct{}{}
	}
	if n != 3 {
		t.Errorf("%d turns", n)
	}
}

func TestParseBody(t *testing.T) {
	m := `{"role":"user","content":"y"}`
	for _, tc := range []struct {
		name, body    string
		turns, others int
	}{
		{"one", m, 1, 0},
		{"one, spread", "{\n \"role\": \"user\",\n \"content\": \"y\"\n}\n", 1, 0},
		{"array", "[" + m + "," + m + "]", 2, 0},
		{"conversation", `{"messages":[` + m + `,` + m + `]}`, 2, 0},
		{"conversation, spread", "{\"model\":\"m\",\n\"messages\":[\n" + m + "\n]}", 1, 1},
		{"Anthropic", `{"system":"s","messages":[` + m + `]}`, 2, 0},
		{"lines", m + "\n" + m + "\n" + m, 3, 0},
		{"a bad line", m + "\n{\n" + m, 2, 1},
	} {
		for _, f := range []Format{Auto, LCM} {
			items, err := ParseBody([]byte(tc.body), Options{Format: f})
			if err != nil {
				t.Fatal(tc.name, err)
			}
			turns := 0
			for _, it := range items {
				checkItem(t, it)
				if it.Kind == KindTurn {
					turns++
				}
				if it.Conversation != "" {
					t.Errorf("%s: conversation %q", tc.name, it.Conversation)
				}
			}
			if turns != tc.turns || len(items)-turns != tc.others {
				t.Errorf("%s as %s: %d turns, %d others", tc.name, f, turns, len(items)-turns)
			}
		}
	}
}

// Equal turns stay turns.
func TestEqualTurnsStayApart(t *testing.T) {
	items := parseAll(t, bytes.Repeat([]byte(`{"role":"user","content":"ok"}`+"\n"), 50), Options{})
	if c := count(items); c.Turns != 50 {
		t.Errorf("%+v", c)
	}
}

func TestSourceOfAnUnknownTurn(t *testing.T) {
	if _, err := Source(&events.TurnAppended{Role: events.RoleUser, Text: "x"}); !errors.Is(err, ErrNoSource) {
		t.Error(err)
	}
	lost := &events.TurnAppended{Role: events.RoleUser, Text: "x", Format: "plain", Exact: true, RawHash: "0000000000000000"}
	if _, err := Source(lost); !errors.Is(err, ErrNoSource) {
		t.Error(err)
	}
}

func TestSourceSurvivesTheIngestorsID(t *testing.T) {
	items := parseAll(t, []byte(`{"role":"user","content":"x"}`), Options{Format: LCM})
	turn := items[0].Turn
	turn.ID, turn.Entry, turn.Tokens = "in:1:2:0", 9, 4
	if src, err := Source(turn); err != nil || string(src) != `{"role":"user","content":"x"}` || !turn.Exact {
		t.Errorf("%s, %v", src, err)
	}
}

func FuzzDetect(f *testing.F) {
	for _, x := range fixtures {
		f.Add(fixture(f, x.file))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		format, err := Detect(b)
		if (format == "") == (err == nil) {
			t.Fatalf("%q, %v", format, err)
		}
	})
}

func fuzzFormat(f *testing.F, format Format) {
	for _, x := range fixtures {
		src := fixture(f, x.file)
		f.Add(src)
		for line := range bytes.Lines(src) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, size := 0, int64(0)
		for it, err := range Parse(bytes.NewReader(b), Options{Format: format, MaxRecordBytes: 1 << 16}) {
			if err != nil {
				return
			}
			checkItem(t, it)
			n++
			size += int64(len(it.Source))
		}
		if n > len(b)+2 || size > 4*int64(len(b))+64 {
			t.Fatalf("%d items of %d bytes from %d bytes", n, size, len(b))
		}
	})
}

func FuzzClaudeCode(f *testing.F) { fuzzFormat(f, ClaudeCode) }
func FuzzPi(f *testing.F)         { fuzzFormat(f, Pi) }
func FuzzCodex(f *testing.F)      { fuzzFormat(f, Codex) }
func FuzzOpenAI(f *testing.F)     { fuzzFormat(f, OpenAI) }
func FuzzAnthropic(f *testing.F)  { fuzzFormat(f, Anthropic) }
func FuzzPlain(f *testing.F)      { fuzzFormat(f, Plain) }
func FuzzLCM(f *testing.F)        { fuzzFormat(f, LCM) }
