package bleveindex_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lcm/bleveindex"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// corpus: position → text. Every query below names the positions it finds.
var corpus = map[uint64]string{
	1:  "call getUserById before the cache is warm",
	2:  "see internal/store/user_repo.go:42 for the query",
	3:  "the build failed with ERR-4242 in stage two",
	4:  "rewrite it in C++ or in C# but not in plain C",
	5:  "it's late, don't push",
	6:  "the map holds x:y pairs",
	7:  "either a AND b, or nothing",
	8:  `he wrote "unclosed and went away`,
	9:  "mail jane.doe@example.com about the invoice",
	10: "the host is 192.168.10.24, port 8080",
	11: "request 01J9ZK4TQ8X2V5M7N3R6B1C0DE was slow",
	12: "commit 3fa94c1e7b2d8f605a9c and after",
	13: "東京都に住んでいます",
	14: "我们使用Python编程语言",
	15: "𠮷野家で食べる",
	16: "HTTPServer and parseJSONBody are types",
	17: "the word café and the word naïve",
	18: "ＦＵＬＬ ｗｉｄｔｈ letters",
	19: "MAX_DAG_FANOUT=8 is the cap",
	20: "get user by id, said the prose",
	21: "한국어 문장입니다",
	22: "https://example.org/a/b?q=1#frag",
	23: "version v1.2.3-rc.1 of the tool",
	24: "error error error: connection refused (os error 111)",
	25: "ภาษาไทยไม่มีช่องว่าง",
	26: "京",
	27: "the don’t of typographers",
	28: "Ünïcödé STRASSE Straße",
	29: "path C:\\Users\\jane\\file.txt",
	30: "kebab-case-name and snake_case_name",
	31: "error 4242 without a dash, and ERR alone",
}

// queries are the classes of query that tokenizers are known to miss.
var queries = []struct {
	name, text string
	phrase     bool
	want       []uint64
}{
	{name: "camel case", text: "getUserById", want: []uint64{1}},
	{name: "camel case, lower", text: "getuserbyid", want: []uint64{1}},
	{name: "end of an identifier", text: "UserById", want: []uint64{1}},
	{name: "one word of an identifier", text: "user", want: []uint64{1, 2, 20}},
	{name: "file name", text: "user_repo.go", want: []uint64{2}},
	{name: "snake case", text: "user_repo", want: []uint64{2}},
	{name: "path", text: "internal/store/user_repo.go:42", want: []uint64{2}},
	{name: "part of a path", text: "store/user_repo.go", want: []uint64{2}},
	{name: "error code", text: "ERR-4242", want: []uint64{3}},
	{name: "error code, lower", text: "err-4242", want: []uint64{3}},
	{name: "C++", text: "C++", want: []uint64{4}},
	{name: "C#", text: "c#", want: []uint64{4}},
	{name: "apostrophe", text: "it's", want: []uint64{5}},
	{name: "apostrophes alike", text: "don't", want: []uint64{5, 27}},
	{name: "colon", text: "x:y", want: []uint64{6}},
	{name: "operator word", text: "a AND", want: []uint64{7, 31}},
	{name: "unclosed quote", text: `"unclosed`, want: []uint64{8}},
	{name: "brackets", text: "(os error 111)", want: []uint64{24}},
	{name: "unclosed bracket", text: "connection [refused", want: []uint64{24}},
	{name: "e-mail", text: "jane.doe@example.com", want: []uint64{9}},
	{name: "address", text: "192.168.10.24", want: []uint64{10}},
	{name: "ULID", text: "01J9ZK4TQ8X2V5M7N3R6B1C0DE", want: []uint64{11}},
	{name: "hash", text: "3fa94c1e7b2d8f605a9c", want: []uint64{12}},
	{name: "one character at the start of a run", text: "東", want: []uint64{13}},
	{name: "one character inside a run", text: "京", want: []uint64{13, 26}},
	{name: "one character at the end of a run", text: "す", want: []uint64{13}},
	{name: "two characters", text: "京都", want: []uint64{13}},
	{name: "three characters", text: "東京都", want: []uint64{13}},
	{name: "five characters", text: "住んでいま", want: []uint64{13}},
	{name: "characters that do not follow", text: "東都", want: nil},
	{name: "Latin glued to Han", text: "Python", want: []uint64{14}},
	{name: "Han and Latin", text: "使用python编程", want: []uint64{14}},
	{name: "Han before Latin", text: "用Python", want: []uint64{14}},
	{name: "Latin before one Han", text: "Python编", want: []uint64{14}},
	{name: "outside the BMP", text: "𠮷野家", want: []uint64{15}},
	{name: "outside the BMP, one", text: "𠮷", want: []uint64{15}},
	{name: "Hangul", text: "한국", want: []uint64{21}},
	{name: "Thai", text: "ไทย", want: []uint64{25}},
	{name: "acronym", text: "server", want: []uint64{16}},
	{name: "acronym inside", text: "JSON", want: []uint64{16}},
	{name: "accent", text: "café", want: []uint64{17}},
	{name: "full width text", text: "full width", want: []uint64{18}},
	{name: "full width query", text: "ＦＵＬＬ", want: []uint64{18}},
	{name: "constant", text: "MAX_DAG_FANOUT", want: []uint64{19}},
	{name: "assignment", text: "MAX_DAG_FANOUT=8", want: []uint64{19}},
	{name: "address of a page", text: "https://example.org/a/b?q=1#frag", want: []uint64{22}},
	{name: "version", text: "v1.2.3-rc.1", want: []uint64{23}},
	{name: "drive path", text: `C:\Users\jane\file.txt`, want: []uint64{29}},
	{name: "kebab case", text: "kebab-case-name", want: []uint64{30}},
	{name: "capital umlauts", text: "ÜNÏCÖDÉ", want: []uint64{28}},
	{name: "words in any order", text: "cap is the", want: []uint64{19}},
	{name: "several words", text: "error refused", want: []uint64{24}},
	{name: "no such word", text: "absent", want: nil},
	{name: "stop words are words", text: "the", want: []uint64{1, 2, 3, 6, 9, 10, 17, 19, 20, 23, 27}},
	{name: "phrase", text: "the word naïve", phrase: true, want: []uint64{17}},
	{name: "phrase out of order", text: "word the", phrase: true, want: nil},
	{name: "phrase over punctuation", text: "late don't push", phrase: true, want: []uint64{5}},
	{name: "phrase with an identifier", text: "call getUserById before", phrase: true, want: []uint64{1}},
	{name: "phrase in Han", text: "编程语言", phrase: true, want: []uint64{14}},
	{name: "phrase that ends in one Han", text: "Python 编", phrase: true, want: []uint64{14}},
}

var day = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func indexed(t testing.TB) *bleveindex.Index {
	t.Helper()
	x, err := bleveindex.Open(filepath.Join(t.TempDir(), "index"), bleveindex.Options{Epoch: "E1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	var docs []bleveindex.Doc
	for seq, text := range corpus {
		docs = append(docs, bleveindex.Doc{
			Seq: seq, Kind: api.KindTurn, Ref: events.Ref{Tenant: "acme", Session: "s"}, Role: "user",
			Depth: api.NoDepth, Time: day.Add(time.Duration(seq) * time.Hour), Text: text,
		})
	}
	if err := x.Apply(docs, 40); err != nil {
		t.Fatal(err)
	}
	return x
}

// found is what a search answers, after the exact check.
func found(t testing.TB, x *bleveindex.Index, q bleveindex.Query) []uint64 {
	t.Helper()
	q.Tenant, q.Limit = "acme", 100
	hits, err := x.Search(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	words, err := x.Locator(q.Text, q.Phrase)
	if err != nil {
		t.Fatal(err)
	}
	var out []uint64
	for _, h := range hits.Hits {
		if spans := words.Locate(words.Fold(corpus[h.Seq])); spans != nil {
			out = append(out, h.Seq)
		}
	}
	slices.Sort(out)
	return out
}

func TestQueries(t *testing.T) {
	x := indexed(t)
	for _, c := range queries {
		t.Run(c.name, func(t *testing.T) {
			if got := found(t, x, bleveindex.Query{Text: c.text, Phrase: c.phrase}); !slices.Equal(got, c.want) {
				t.Errorf("%q finds %v, want %v", c.text, got, c.want)
			}
		})
	}
}

// TestLocatorAgreesWithSearch: the index may over-match, it must never miss
// what the text holds.
func TestLocatorAgreesWithSearch(t *testing.T) {
	x := indexed(t)
	for _, c := range queries {
		words, err := x.Locator(c.text, c.phrase)
		if err != nil {
			t.Fatal(err)
		}
		var scanned []uint64
		for seq, text := range corpus {
			if words.Locate(words.Fold(text)) != nil {
				scanned = append(scanned, seq)
			}
		}
		slices.Sort(scanned)
		if !slices.Equal(scanned, c.want) {
			t.Errorf("%s: scanning for %q finds %v, want %v", c.name, c.text, scanned, c.want)
		}
	}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct{ query, text, want string }{
		{"UserById", "call getUserById now", "UserById"},
		{"user_repo.go", "in store/user_repo.go:42", "user_repo.go"},
		{"京", "東京都", "京"},
		{"京都", "東京都", "京都"},
		{"python编", "使用Python编程", "Python编"},
		{"C++", "in C++ or", "C++"},
		{"straße", "die Straße", "Straße"},
	} {
		words, err := bleveindex.Locator(c.query, false)
		if err != nil {
			t.Fatal(err)
		}
		spans := words.Locate(words.Fold(c.text))
		if len(spans) == 0 || c.text[spans[0][0]:spans[0][1]] != c.want {
			t.Errorf("%q in %q: %v", c.query, c.text, spans)
		}
	}
}

func TestPatternsWithoutWords(t *testing.T) {
	x := indexed(t)
	for _, text := range []string{"", "  ", "+++", "\"\"", "🚀", "—"} {
		if _, err := x.Search(context.Background(), bleveindex.Query{Text: text, Tenant: "acme", Limit: 1}); !problem.IsCode(err, problem.Invalid) {
			t.Errorf("%q: %v, want a clear error", text, err)
		}
	}
}

func FuzzLocator(f *testing.F) {
	for _, c := range queries {
		f.Add(c.text, corpus[1])
		f.Add(c.text, c.text)
	}
	f.Fuzz(func(t *testing.T, query, text string) {
		for _, phrase := range []bool{false, true} {
			words, err := bleveindex.Locator(query, phrase)
			if err != nil {
				continue
			}
			for _, s := range words.Locate(words.Fold(text)) {
				if s[0] < 0 || s[0] >= s[1] || s[1] > len(text) {
					t.Fatalf("%q in %q: span %v", query, text, s)
				}
			}
			if words.Locate(words.Fold(query)) == nil && len(query) < 100 {
				t.Fatalf("%q (phrase %v) does not find itself", query, phrase)
			}
		}
	})
}

// TestLongPhrase: two tokens at one position must not double the ways through
// a phrase with each word.
func TestLongPhrase(t *testing.T) {
	x := open(t, filepath.Join(t.TempDir(), "i"), bleveindex.Options{})
	text := strings.Repeat("user_repo.getById ", 40)
	must(t, x.Apply([]bleveindex.Doc{doc(1, "acme", "a", text)}, 1))
	h, err := x.Search(context.Background(), bleveindex.Query{Text: text, Phrase: true, Tenant: "acme", Limit: 1})
	if err != nil || len(h.Hits) != 1 {
		t.Errorf("%v, %v", h, err)
	}
}
