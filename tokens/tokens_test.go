package tokens

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// oracleCase is a text, or a text repeated, and OpenAI's count for it. See
// testdata/oracle.mjs.
type oracleCase struct {
	Why    string
	Text   string
	Repeat int
	Tokens int
}

func (c oracleCase) text() string { return strings.Repeat(c.Text, max(c.Repeat, 1)) }

func oracleCases(tb testing.TB) (cases []oracleCase) {
	f, err := os.Open("testdata/oracle.jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var c oracleCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			tb.Fatalf("%s: %v", lines.Text(), err)
		}
		cases = append(cases, c)
	}
	if len(cases) < 2000 {
		tb.Fatalf("%d cases", len(cases))
	}
	return cases
}

func TestOracle(t *testing.T) {
	for _, c := range oracleCases(t) {
		if got := Count(c.text()); got != c.Tokens {
			t.Errorf("%s: %d tokens in %q (times %d), want %d", c.Why, got, c.Text, max(c.Repeat, 1), c.Tokens)
		}
		if got := CountBytes([]byte(c.text())); got != c.Tokens {
			t.Errorf("%s: %d tokens in bytes of %q, want %d", c.Why, got, c.Text, c.Tokens)
		}
	}
}

func TestOracleTranscripts(t *testing.T) {
	b, err := os.ReadFile("testdata/transcripts.json")
	if err != nil {
		t.Fatal(err)
	}
	var counts map[string]int
	if err := json.Unmarshal(b, &counts); err != nil {
		t.Fatal(err)
	}
	const shared = "../../shared/transcripts"
	if _, err := os.Stat(shared); err != nil {
		t.Skipf("the shared transcripts are not here: %v", err)
	}
	for name, want := range counts {
		text, err := os.ReadFile(filepath.Join(shared, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if got := CountBytes(text); got != want {
			t.Errorf("%s: %d tokens, want %d", name, got, want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, want := range [][]string{
		{"中", "ABC"},       // an upper-case run ends behind a letter of both cases
		{"ABC中", "DEF"},    // if no lower case follows
		{"ABC中DEFg"},       // as here
		{"\u0301", "ABC"},  // a mark is a word rather than before one in upper case,
		{"\u0301abc"},      // but it may be before one in lower case,
		{"!!\u0301!", "x"}, // and goes on with punctuation
		{"camel", "Case's", " X"},
		{"it'ſ", "IT'LL", "'sx"},       // ſ is an s in lower case, too
		{"'s't", "x're", "re"},         // an apostrophe is before a word, too
		{"a", "  ", " b"},              // the last space is before the word,
		{"a", "\u00a0b"},               // as any other white space is,
		{"a", " !", "\u00a0", "!"},     // but only a space is before punctuation,
		{"a", " ", "1", "\u3000", "2"}, // and none before numbers
		{"a", "  "},
		{"a", " \n \n", "  ", " b"}, // through the last newline
		{"a", "\r\n \u3000\n"},
		{"!\n/\n", "x", " !/", " \n"}, // newlines and slashes behind punctuation
		{"123", "4½٣", "५6"},
		{"a", "\x7f\x7f\x00", "b"},
	} {
		text := strings.Join(want, "")
		if diff := cmp.Diff(want, splitAll(text)); diff != "" {
			t.Errorf("%q, want against split:\n%s", text, diff)
		}
		if diff := cmp.Diff(want, referenceSplit(text)); diff != "" {
			t.Errorf("%q, want against reference:\n%s", text, diff)
		}
	}
}

func splitAll(text string) (pieces []string) {
	b := []byte(text)
	for i := 0; i < len(b); {
		end := shared().split(b, i)
		pieces = append(pieces, text[i:end])
		i = end
	}
	return pieces
}

// TestReference compares split and count with the reference on random text.
func TestReference(t *testing.T) {
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := randomText(r, 40)
		checkReference(t, text)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func checkReference(t *testing.T, text string) {
	t.Helper()
	if valid := string([]rune(text)); valid == text {
		if diff := cmp.Diff(referenceSplit(text), splitAll(text)); diff != "" {
			t.Errorf("split %q, reference against ours:\n%s", text, diff)
		}
	}
	if got, want := Count(text), referenceCount(text); got != want {
		t.Errorf("%d tokens in %q, want %d", got, text, want)
	}
}

// traps are characters of every class, more of those that are easy to get
// wrong.
var traps = []rune("aabcetsrmldvSTRELM''ſÀÁéß中日本ʰ\u0321\u0301 \n\r\t\u00a0\u3000/!.-=_\"1234٣½Ⅷ" +
	"😀👍\u200d\ufe0f\ufffd\x7f\x00ǅ가한🇩🇪कष\u094d\u1c89\u1c8a")

// randomText has few or many different traps, and now and then a byte that is
// not UTF-8.
func randomText(r *rand.Rand, most int) string {
	few, first := 1+r.IntN(len(traps)), r.IntN(len(traps))
	var b strings.Builder
	for range r.IntN(most) {
		b.WriteRune(traps[(first+r.IntN(few))%len(traps)])
		if r.IntN(100) == 0 {
			b.WriteByte(byte(r.IntN(256)))
		}
	}
	return b.String()
}

// TestMergesAgree has the three merges each do all pieces they can.
func TestMergesAgree(t *testing.T) {
	c := borrow()
	defer c.giveBack()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		most := maxScanned
		if seed%2 == 0 {
			most = 200
		}
		for _, piece := range splitAll(string([]rune(randomText(r, most)))) {
			var want []int32
			end := int32(0)
			for _, token := range bytePairs(piece) {
				end += int32(len(token))
				want = append(want, end)
			}
			text, n := append([]byte(piece), make([]byte, slack)...), len(piece)
			check := func(merge string) {
				var got []int32
				for _, p := range c.path {
					got = append(got, p.end)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("seed %d, piece %q, reference against %s:\n%s", seed, piece, merge, diff)
				}
			}
			if n <= maxScanned {
				c.path = c.path[:0]
				c.scan(text, n)
				check("scan")
			}
			if c.backtrack(text, n) {
				check("backtrack")
			}
			c.batch(text, n)
			check("batch")
		}
	}
}

// TestLineage says that every token is what bytes merge to, which backtrack
// relies on, and that a token is in the vocabulary behind those it is made of,
// which batch relies on.
func TestLineage(t *testing.T) {
	v := shared().vocabulary
	for id := range uint32(vocabularySize) {
		l := v.lineageOf(id)
		size := len(v.token(id))
		switch {
		case l.size() != size:
			t.Errorf("token %d: %d bytes, want %d", id, l.size(), size)
		case size == 1:
			if !l.isByte() {
				t.Errorf("token %d: a byte is made of %d and %d", id, l.left(), l.right())
			}
		case l.isByte():
			t.Errorf("token %d: no merge makes %q", id, v.token(id))
		case l.left() >= id || l.right() >= id:
			t.Errorf("token %d: made of later tokens %d and %d", id, l.left(), l.right())
		default:
			made := append(bytes.Clone(v.token(l.left())), v.token(l.right())...)
			if !bytes.Equal(made, v.token(id)) || l.leftSize() != len(v.token(l.left())) {
				t.Errorf("token %d: made of %q, want %q", id, made, v.token(id))
			}
		}
	}
}

// TestClasses fails when the class of any character changes, as a new version
// of Go with other Unicode tables makes it. The digest is of the classes that
// were compared with OpenAI's tiktoken for all characters, in a text of 40
// with each between letters, digits, spaces and punctuation. When it fails,
// see which characters differ, and fill them in as added16 does.
func TestClasses(t *testing.T) {
	const want = "940abc4e0caa463d"
	table := newClasses()
	all := make([]byte, 0, unicode.MaxRune+1)
	for r := rune(0); r <= unicode.MaxRune; r++ {
		all = append(all, byte(table.of(r)))
	}
	digest := sha256.Sum256(all)
	if got := hex.EncodeToString(digest[:8]); got != want {
		t.Errorf("digest of classes is %s, want %s; Go's Unicode is %s", got, want, unicode.Version)
	}
}

func TestEdges(t *testing.T) {
	if n := CountBytes(nil); n != 0 {
		t.Errorf("%d tokens in no bytes", n)
	}
	for _, text := range []string{"\xff", "a\xffb", "\xe4\xb8", "\xe4\xb8\xad\xe4", "\xed\xa0\x80", "\xc0\x80", "\xff \xff\n\xff", "\xf0\x9f\x98"} {
		if got, want := Count(text), Count(string([]rune(text))); got != want {
			t.Errorf("%d tokens in %q, want %d", got, text, want)
		}
	}
}

// TestAdversaries counts a megabyte each of what is worst for some part. The
// limit is wide, for busy machines; what is quadratic takes many minutes.
func TestAdversaries(t *testing.T) {
	const limit = 10 * time.Second
	for _, a := range adversaries() {
		started := time.Now()
		n := Count(a.text)
		if took := time.Since(started); took > limit {
			t.Errorf("%s: took %v", a.name, took)
		}
		if n < len(a.text)/shared().longest || n > len(a.text) {
			t.Errorf("%s: %d tokens in %d bytes", a.name, n, len(a.text))
		}
	}
}

func TestConcurrent(t *testing.T) {
	cases := oracleCases(t)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range cases {
				c := cases[(i*7+worker*31)%len(cases)]
				if got := Count(c.text()); got != c.Tokens {
					t.Errorf("%d tokens in %q, want %d", got, c.text(), c.Tokens)
				}
			}
		})
	}
	group.Wait()
}

func TestCountDoesNotAllocate(t *testing.T) {
	text := strings.Repeat("The quick brown fox, it's said, jumps over 12 lazy dogs. 敏捷的棕色狐狸跳过懒狗。\n", 20)
	Count(text)
	if allocs := testing.AllocsPerRun(100, func() { Count(text) }); allocs >= 1 {
		t.Errorf("%v allocations", allocs)
	}
}

func FuzzCount(f *testing.F) {
	for _, c := range oracleCases(f) {
		if len(c.text()) < 200 {
			f.Add(c.text())
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 400 {
			t.Skip("the reference is quadratic")
		}
		checkReference(t, text)
	})
}
