package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var jsonSeeds = []string{
	`{}`, `[]`, `""`, `0`, `-0.5e+10`, `true`, `null`, ` { "a" : [ 1 , {"b":"c"} ] } `, `{"a":1,"a":2}`,
	`"\ud83d\ude00 \ud83d \u00e9\n\/\"\\"`, `{"k\u0065y":1}`, `[1,]`, `{"a"}`, `{,}`, `01`, `1.`, `+1`, `nul`, `"`, `"\`, `"\u12`,
	`[[[[[`, `]`, `{"a":}`, "\"\x01\"", "\"\xff\"", `[}`, `{]`, `{"a":"b",}`, `"a" "b"`, `-`, `1e`, "\"\x7f\u2028é𐍈\"",
}

func FuzzScan(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := validate(b)
		if ok := json.Valid(b); ok != (err == nil) && !errors.Is(err, errTooDeep) {
			t.Fatalf("%q: encoding/json says %v, validate %v", b, ok, err)
		}
		// The walkers stay inside whatever they get.
		fields(b, func(_, v []byte) { _, _ = unquote(v) })
		elements(b, func(v []byte) { _, _ = unquote(v) })
		if err != nil {
			return
		}
		var s string
		if isString(b) && json.Unmarshal(b, &s) == nil && utf8.Valid(b) {
			if got, _ := unquote(bytes.TrimSpace(b)); got != s {
				t.Fatalf("unquote %q = %q, want %q", b, got, s)
			}
		}
		var m map[string]json.RawMessage
		if isObject(b) && json.Unmarshal(b, &m) == nil && utf8.Valid(b) {
			for k, want := range m {
				if got := member(b, k); !bytes.Equal(got, want) {
					t.Fatalf("%q: member %q = %q, want %q", b, k, got, want)
				}
			}
		}
		var a []json.RawMessage
		if isArray(b) && json.Unmarshal(b, &a) == nil {
			i := 0
			elements(b, func(v []byte) {
				if !bytes.Equal(v, a[i]) {
					t.Fatalf("%q: element %d = %q, want %q", b, i, v, a[i])
				}
				i++
			})
			if i != len(a) {
				t.Fatalf("%q: %d elements, want %d", b, i, len(a))
			}
		}
	})
}

func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		for _, ascii := range []bool{false, true} {
			q := appendQuoted(nil, s, ascii)
			var got string
			if err := json.Unmarshal(q, &got); err != nil || got != s {
				t.Fatalf("%q as %s: %q, %v", s, q, got, err)
			}
			if mine, lossy := unquote(q); mine != s || lossy {
				t.Fatalf("%q as %s: %q, lossy %v", s, q, mine, lossy)
			}
			if ascii && bytes.ContainsFunc(q, func(r rune) bool { return r > 0x7e }) {
				t.Fatalf("not ASCII: %s", q)
			}
		}
	})
}

func TestValidateDepth(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	if err := validate(nested(maxDepth)); err != nil {
		t.Error(err)
	}
	if err := validate(nested(maxDepth + 1)); !errors.Is(err, errTooDeep) {
		t.Error(err)
	}
	if err := validate(nested(20_000)); !errors.Is(err, errTooDeep) {
		t.Error(err)
	}
}

func TestUnquoteSaysWhatItLost(t *testing.T) {
	if s, lossy := unquote([]byte(`"\ud83d x"`)); !lossy || s != "\ufffd x" {
		t.Errorf("%q, %v", s, lossy)
	}
	if s, lossy := unquote([]byte(`"\ud83d\ude00"`)); lossy || s != "😀" {
		t.Errorf("%q, %v", s, lossy)
	}
}
