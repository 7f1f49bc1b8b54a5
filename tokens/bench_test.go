package tokens

import (
	"bytes"
	"encoding/base64"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Corpora are built when asked for. Those that need a directory this machine
// may not have return nothing without it.
var corpora = []struct {
	name  string
	build func() []byte
}{
	{"transcripts", transcripts},
	{"code", func() []byte { return goSources(false) }},
	{"prose", func() []byte { return goSources(true) }},
	{"chinese", chinese},
	{"base64", func() []byte { return base64Text(1 << 20) }},
}

// transcripts is what agents said, JSON and all. It is shared with the
// project's developers and not part of the repository.
func transcripts() []byte {
	var all []byte
	files, _ := filepath.Glob("../../shared/transcripts/*.json*")
	for _, file := range files {
		b, _ := os.ReadFile(file)
		all = append(all, b...)
	}
	return all
}

// goSources is a megabyte and some of Go's standard library: its code, or for
// prose the text of its comments.
func goSources(prose bool) []byte {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil
	}
	goroot := strings.TrimSpace(string(out))
	var all []byte
	for _, dir := range []string{"net/http", "go/types", "encoding/json", "fmt", "os", "reflect"} {
		files, _ := filepath.Glob(filepath.Join(goroot, "src", dir, "*.go"))
		for _, file := range files {
			if !prose {
				b, _ := os.ReadFile(file)
				all = append(all, b...)
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				continue
			}
			for _, comment := range parsed.Comments {
				all = append(all, comment.Text()...)
			}
		}
	}
	return all
}

// chinese is sentences of words of the vocabulary, the more frequent the lower
// their id, as these were ordered by their frequency.
func chinese() []byte {
	r := rand.New(rand.NewPCG(1, 2))
	v := shared().vocabulary
	var words [][]byte
	for id := range uint32(vocabularySize) {
		if isHan(v.token(id)) {
			words = append(words, v.token(id))
		}
	}
	var all []byte
	for len(all) < 1<<20 {
		for range 3 + r.IntN(9) {
			all = append(all, words[int(float64(len(words))*r.Float64()*r.Float64())]...)
		}
		all = append(all, []string{"，", "。", "、", "，", "。\n"}[r.IntN(5)]...)
	}
	return all
}

func isHan(token []byte) bool {
	return utf8.Valid(token) && bytes.IndexFunc(token, func(r rune) bool {
		return !unicode.Is(unicode.Han, r)
	}) < 0
}

func base64Text(n int) []byte {
	raw := make([]byte, n*3/4)
	rand.NewChaCha8([32]byte{1}).Read(raw)
	return []byte(base64.StdEncoding.EncodeToString(raw))
}

// BenchmarkCount counts every corpus from an empty piece cache. Wanted are, for
// a core of its own, 80 MB/s of transcripts, code and prose, 25 MB/s of Chinese
// and base64.
func BenchmarkCount(b *testing.B) {
	for _, corpus := range corpora {
		b.Run(corpus.name, func(b *testing.B) {
			text := corpus.build()
			if len(text) == 0 {
				b.Skip("this machine does not have the corpus")
			}
			c := borrow()
			defer c.giveBack()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				clear(c.cache[:])
				c.countAll(text)
			}
		})
	}
}

// BenchmarkSmall is a message of usual size, with a warm cache.
func BenchmarkSmall(b *testing.B) {
	s := strings.Repeat("The quick brown fox can't jump over 12345 lazy dogs.\n", 8)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		Count(s)
	}
}

// BenchmarkAdversarial is a megabyte each of what is worst for some part.
// Wanted are 2 MB/s.
func BenchmarkAdversarial(b *testing.B) {
	for _, text := range adversaries() {
		b.Run(text.name, func(b *testing.B) {
			b.SetBytes(int64(len(text.text)))
			for b.Loop() {
				Count(text.text)
			}
		})
	}
}

// BenchmarkInit is what the first count of a process waits for, but for what
// the library does the first time only: it keeps the map it builds, which takes
// it about 15 ms.
func BenchmarkInit(b *testing.B) {
	for b.Loop() {
		newClasses()
		newVocabulary(loadTokens())
	}
}

// BenchmarkCut cuts a megabyte of code to a thousand tokens.
func BenchmarkCut(b *testing.B) {
	text := string(goSources(false))
	b.Run("head", func(b *testing.B) {
		for b.Loop() {
			Head(text, 1000)
		}
	})
	b.Run("tail", func(b *testing.B) {
		for b.Loop() {
			Tail(text, 1000)
		}
	})
}

type adversary struct{ name, text string }

func adversaries() []adversary {
	const size = 1 << 20
	r := rand.New(rand.NewPCG(3, 4))
	repeat := func(s string) string { return strings.Repeat(s, size/len(s)) }
	random := func(alphabet string) string {
		set := []rune(alphabet)
		var b strings.Builder
		for b.Len() < size {
			b.WriteRune(set[r.IntN(len(set))])
		}
		return b.String()
	}
	return []adversary{
		{"letter", repeat("a")},
		{"upper", repeat("A")},
		{"x", repeat("x")},
		{"spaces", repeat(" ")},
		{"tabs", repeat("\t")},
		{"newlines", repeat("\n")},
		{"crlf", repeat("\r\n")},
		{"space-newline", repeat(" \n")},
		{"newline-spaces", "\n" + repeat(" ") + "x"},
		{"nbsp", repeat("\u00a0")},
		{"dashes", repeat("-")},
		{"equals", repeat("=")},
		{"slashes", repeat("/")},
		{"digits", repeat("7")},
		{"digits-random", random("0123456789")},
		{"emoji", repeat("😀")},
		{"emoji-random", random("😀😁😂🤣😃👍🏽👩\u200d🔬🇩🇪❤️")},
		{"marks", repeat("\u0301")},
		{"letter-marks", "e" + repeat("\u0301")},
		{"han", repeat("中")},
		{"han-upper", repeat("中ABC")},
		{"thai", repeat("ที่")},
		{"cyrillic-random", random("абвгдежзийклмнопрстуфхцчшщъыьэюя")},
		{"base64", string(base64Text(size))},
		{"letters-random", random("abcdefghijklmnopqrstuvwxyz")},
		{"letters-two", random("ab")},
		{"upper-random", random("ABCDEFGHIJKLMNOPQRSTUVWXYZ")},
		{"punctuation-random", random("!\"#$%&'()*+,-.:;<=>?@[\\]^_`{|}~")},
		{"space-random", random(" \t\n\r\u00a0\u3000\u2003")},
		{"invalid", repeat("\xff")},
		{"invalid-partial", repeat("\xe4\xb8")},
		{"apostrophes", repeat("'")},
		{"contractions", repeat("'s't're")},
		{"nul", repeat("\x00")},
		{"del", repeat("\x7f")},
		{"replacement", repeat("\ufffd")},
		{"plane16", repeat("\U0010fffd")},
	}
}
