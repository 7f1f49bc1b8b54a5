package tokens

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text       string
		max        int
		head, tail string
	}{
		{"", 1, "", ""},
		{"hello world", -1, "", ""},
		{"hello world", 0, "", ""},
		{"hello world", 1, "hello", " world"},
		{"hello world", 2, "hello world", "hello world"},
		{"hello world", math.MaxInt, "hello world", "hello world"},
		{"one two three four", 2, "one two", " three four"},
		{"antidisestablishmentarianism", 2, "antidis", "arianism"},
		{"a\r\nb", 2, "a\r\n", "\r\nb"},
		{"👩‍🔬👩‍🔬", 6, "👩‍🔬", "👩‍🔬"},
		{"👩‍🔬👩‍🔬", 4, "", ""},
		{"🇩🇪🇫🇷🇮🇹", 9, "🇩🇪🇫🇷", "🇫🇷🇮🇹"},
		{"e\u0301e\u0301", 3, "e\u0301", "e\u0301"},
		{"e" + strings.Repeat("\u0301", 100), 50, "", ""},
		{strings.Repeat("\ufffd", 8), 1, strings.Repeat("\ufffd", 8), strings.Repeat("\ufffd", 8)}, // one token; seven are two
		{"\xff\xff\xffabc", 1, "\xff\xff\xff", "abc"},
	} {
		if got := Head(test.text, test.max); got != test.head {
			t.Errorf("Head(%q, %d) is %q, want %q", test.text, test.max, got, test.head)
		}
		if got := Tail(test.text, test.max); got != test.tail {
			t.Errorf("Tail(%q, %d) is %q, want %q", test.text, test.max, got, test.tail)
		}
	}
}

func TestCutRandom(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := randomText(r, 80)
		for _, most := range []int{1, 2, r.IntN(60), Count(text) - 1, Count(text)} {
			checkCut(t, text, most)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkCut says whether both cuts are within the bound, are where a grapheme
// cluster ends, and leave alone what fits.
func checkCut(t *testing.T, text string, most int) {
	t.Helper()
	head, tail := Head(text, most), Tail(text, most)
	if !strings.HasPrefix(text, head) {
		t.Errorf("Head(%q, %d) is no prefix: %q", text, most, head)
	}
	if !strings.HasSuffix(text, tail) {
		t.Errorf("Tail(%q, %d) is no suffix: %q", text, most, tail)
	}
	if n := max(Count(head), Count(tail)); n > max(most, 0) {
		t.Errorf("Head or Tail(%q, %d) has %d tokens: %q, %q", text, most, n, head, tail)
	}
	if fits := Count(text) <= most; text != "" && (fits != (head == text) || fits != (tail == text)) {
		t.Errorf("of %q, which has %d tokens, Head and Tail to %d are %q and %q", text, Count(text), most, head, tail)
	}
	ends := clusterEnds(text)
	if !slices.Contains(ends, len(head)) || !slices.Contains(ends, len(text)-len(tail)) {
		t.Errorf("Head or Tail(%q, %d) breaks a cluster: %q, %q", text, most, head, tail)
	}
}

// clusterEnds returns where grapheme clusters end, and zero, taking each byte
// that is not UTF-8 for one.
func clusterEnds(text string) []int {
	ends := []int{0}
	for i := 0; i < len(text); {
		valid := i
		for valid < len(text) {
			r, width := utf8.DecodeRuneInString(text[valid:])
			if r == utf8.RuneError && width == 1 {
				break
			}
			valid += width
		}
		for clusters := graphemes.FromString(text[i:valid]); clusters.Next(); {
			ends = append(ends, i+clusters.End())
		}
		if i = valid; i < len(text) {
			i++
			ends = append(ends, i)
		}
	}
	return ends
}

// TestCutAdversaries cuts what is worst to cut. As for the limit, see
// TestAdversaries.
func TestCutAdversaries(t *testing.T) {
	const limit = 20 * time.Second
	for _, a := range adversaries() {
		started := time.Now()
		for _, most := range []int{1, 1000} {
			if n := Count(Head(a.text, most)); n > most {
				t.Errorf("%s: head of %d tokens has %d", a.name, most, n)
			}
			if n := Count(Tail(a.text, most)); n > most {
				t.Errorf("%s: tail of %d tokens has %d", a.name, most, n)
			}
		}
		if took := time.Since(started); took > limit {
			t.Errorf("%s: took %v", a.name, took)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("hello world", 1)
	f.Add("👩‍🔬👩‍🔬", 3)
	f.Add("a\r\n\r\nb\xff\xfe", 2)
	f.Add("क्षि क्षि", 4)
	for _, c := range oracleCases(f) {
		if c.Repeat == 0 {
			f.Add(c.Text, c.Tokens/2)
		}
	}
	f.Fuzz(checkCut)
}
