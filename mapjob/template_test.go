package mapjob

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestTemplate(t *testing.T) {
	row := `{"text":"say \"hi\" {{x}}","n":1.50,"who":{"name":"Zoë"},"none":null,"list":[1, 2],"date of":"x"}`
	for _, c := range []struct{ prompt, want, missing string }{
		{prompt: "A {{text}} B", want: `A say "hi" {{x}} B`}, // what a row says is not read again
		{prompt: "{{ n }}/{{who.name}}/{{none}}/{{list}}", want: "1.50/Zoë/null/[1,2]"},
		{prompt: "{{row}}", want: row},
		{prompt: "Label it.", want: "Label it.\n\n" + row},
		{prompt: `as {{"a": 1}} or {{}} {x} {{n}}`, want: `as {{"a": 1}} or {{}} {x} 1.50`},
		{prompt: "{{nobody}}", missing: `"nobody"`},
		{prompt: "{{n}} {{who.age}}", missing: `"who.age"`},
		{prompt: "{{text.x}}", missing: `"text.x"`},
	} {
		o, bad := ParseRow([]byte(row))
		if bad != nil {
			t.Fatal(bad)
		}
		got, bad := ParseTemplate(c.prompt).Fill(o)
		if c.missing != "" {
			if bad == nil || bad.Kind != MissingField || !strings.Contains(bad.Text, c.missing) {
				t.Errorf("%s: %v", c.prompt, bad)
			}
		} else if bad != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.prompt, got, bad)
		}
	}
}

func TestRowsThatAreNone(t *testing.T) {
	for line, want := range map[string]Kind{
		"": Empty, "  \t": Empty, "{": NotJSON, "{}x": NotJSON, "nonsense": NotJSON, "{\"a\":1}{\"b\":2}": NotJSON,
		"[1]": NotObject, "3": NotObject, "null": NotObject, `"{}"`: NotObject,
	} {
		if _, bad := ParseRow([]byte(line)); bad == nil || bad.Kind != want || bad.Text == "" {
			t.Errorf("%q: %v, want %s", line, bad, want)
		}
	}
}

func TestLines(t *testing.T) {
	big := `{"x":"` + strings.Repeat("y", 10<<20) + `"}`
	edge := strings.Repeat("e", MaxRowBytes)
	input := "\xef\xbb\xbf{\"a\":1}\r\n\n" + big + "\n" + edge + "\r\n" + edge + "f\n{\"a\":1}"
	l := NewLines(iotest.OneByteReader(strings.NewReader("")))
	if _, err := l.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("an empty input: %v", err)
	}
	l = NewLines(strings.NewReader(input))
	var got []Line
	for {
		line, err := l.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line)
	}
	if len(got) != 6 {
		t.Fatalf("%d lines", len(got))
	}
	for i, want := range []string{`{"a":1}`, "", "", edge, "", `{"a":1}`} {
		if g := got[i]; g.N != uint64(i+1) || !bytes.Equal(g.Text, []byte(want)) || g.Oversized() != (i == 2 || i == 4) {
			t.Errorf("line %d: n %d, size %d, oversized %v, %.40q", i+1, g.N, g.Size, g.Oversized(), g.Text)
		}
	}
	if got[2].Size != int64(len(big)) || got[0].Hash != got[5].Hash || got[0].Hash == got[1].Hash {
		t.Errorf("size %d, hashes %x %x %x", got[2].Size, got[0].Hash, got[1].Hash, got[5].Hash)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"))
	f.Add([]byte("\n\r\n\xef\xbb\xbf"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := bytes.Split(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")), []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		l := NewLines(bytes.NewReader(b))
		for i, w := range want {
			line, err := l.Next()
			if i < len(want)-1 || bytes.HasSuffix(b, []byte("\n")) {
				w = bytes.TrimSuffix(w, []byte("\r"))
			}
			if err != nil || !bytes.Equal(line.Text, w) {
				t.Fatalf("line %d is %q, %v, want %q", i+1, line.Text, err, w)
			}
		}
		if line, err := l.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("one more line: %q, %v", line.Text, err)
		}
	})
}
