package projector_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"lcm/bleveindex"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// kept is what the test knows of a document: all that a scan needs.
type kept struct {
	tenant, session, kind, role, text string
	seq                               uint64
	time                              time.Time
	removed                           bool
}

func (k kept) id() string { return api.DocID(k.seq, k.kind, 0) }

// library of mixed texts: real ones where this machine has them, and made ones
// of code, ids, prose and scripts without spaces.
type shelf struct {
	rng  *rand.Rand
	docs []kept
}

// LCM_SEARCH_SEED and LCM_SEARCH_QUERIES make other and longer runs.
var seed, queriesPerMode = fromEnv("LCM_SEARCH_SEED", 20261130), fromEnv("LCM_SEARCH_QUERIES", 1_000)

func fromEnv(name string, d int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return d
}

// realTexts are stretches of the shared transcripts, read only.
func realTexts(t testing.TB, n int) []string {
	files, _ := filepath.Glob("../../../shared/transcripts/*")
	var out []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || len(raw) < 4_000 {
			continue
		}
		text := strings.ToValidUTF8(string(raw), "\uFFFD")
		step := max(1, len(text)/(n/max(1, len(files))+1))
		for i := 0; i+1_200 < len(text) && len(out) < n; i += step {
			out = append(out, strings.ToValidUTF8(text[i:i+300+i%900], "\uFFFD"))
		}
	}
	if len(out) == 0 {
		t.Log("no shared transcripts here: made texts only")
	}
	return out
}

var pieces = strings.Fields(strings.NewReplacer(`\u0301`, "\u0301", `\u0308`, "\u0308", `\u200d`, "\u200d", `\u200b`, "\u200b", `\ufeff`, "\ufeff").Replace(`the parser reads getUserById from user_repo.go:42 with ERR-4242 and C++ or C# x:y a/b/c.txt
HTTPServer parseJSONBody MAX_DAG_FANOUT=8 jane.doe@example.com 192.168.10.24 01J9ZK4TQ8X2V5M7N3R6B1C0DE 3fa94c1e7b2d8f605a9c
東京都に住んでいます 我们使用Python编程语言 𠮷野家 한국어 ภาษาไทย café naïve STRASSE Straße don't it's ＦＵＬＬ ｗｉｄｔｈ v1.2.3-rc.1
snake_case_name kebab-case-name __init__ "quoted" (paren) [x] {y} foo->bar a&&b $HOME ~/.config #12 100% ſtone K µm Σίσυφος
e\u0301te\u0301 \u0301 u\u0308ber 👩\u200d👩\u200d👧 İstanbul ıI ẞ ß Ⱥ ǅ 京 都京 東東東 語Go語 a京b 一二三四五六 ﬁne \u200bzero \ufeffbom`))

func madeText(rng *rand.Rand) string {
	var b strings.Builder
	for range 5 + rng.IntN(60) {
		b.WriteString(pieces[rng.IntN(len(pieces))])
		b.WriteString([]string{" ", " ", " ", "\n", ", ", "", "\t", "\r\n", "\u00a0", "\u3000"}[rng.IntN(10)])
	}
	if rng.IntN(40) == 0 { // a blob, longer than any token
		b.WriteString(strings.Repeat("aGVsbG8gd29ybGQ", 12) + "needleInBlob" + strings.Repeat("xyz", 30))
	}
	return b.String()
}

// fill makes a log of several sessions with summaries and abandoned branches.
func fill(t testing.TB, log *fakeLog, turns int) *shelf {
	s := &shelf{rng: rand.New(rand.NewPCG(uint64(seed), 1))}
	texts := realTexts(t, turns/2)
	var refs []events.Ref
	for i := range 9 {
		rf := ref(fmt.Sprintf("s%d", i))
		if i == 8 {
			rf.Tenant = "other"
		}
		refs = append(refs, rf)
		log.configure(rf, nil)
	}
	roles := []events.Role{events.RoleUser, events.RoleAssistant}
	count := map[events.Ref]int{}
	for i := range turns {
		rf := refs[s.rng.IntN(len(refs))]
		text := madeText(s.rng)
		if len(texts) > 0 && i%2 == 0 {
			text = texts[i/2%len(texts)]
		}
		role := roles[count[rf]%2]
		count[rf]++
		at := log.say(rf, role, text)
		s.docs = append(s.docs, kept{rf.Tenant, rf.Session, api.KindTurn, string(role), text, at.Seq, log.now, false})
	}
	for _, rf := range refs[:4] {
		text := madeText(s.rng)
		_, at := log.leaf(rf, 1, 6, text)
		s.docs = append(s.docs, kept{rf.Tenant, rf.Session, api.KindSummary, "", text, at.Seq, log.now, false})
	}
	s.remove(log, refs[1], uint64(count[refs[1]])/2)
	return s
}

// remove moves a session's leaf back.
func (s *shelf) remove(log *fakeLog, rf events.Ref, leaf uint64) {
	log.event(rf, &events.LeafMoved{Entry: leaf})
	n := uint64(0)
	for i, d := range s.docs {
		if d.session == rf.Session && d.kind == api.KindTurn {
			n++
			s.docs[i].removed = n > leaf
		}
	}
}

// filtered makes a request's filters, and what passes them.
func (s *shelf) filtered(r *api.GrepRequest) (pass func(kept) bool) {
	r.Tenant = "acme"
	if s.rng.IntN(3) == 0 {
		for range 1 + s.rng.IntN(2) {
			r.Sessions = append(r.Sessions, fmt.Sprintf("s%d", s.rng.IntN(10)))
		}
	}
	if s.rng.IntN(4) == 0 {
		r.Roles = []string{[]string{"user", "assistant"}[s.rng.IntN(2)]}
	}
	if s.rng.IntN(4) == 0 {
		r.Kinds = []string{[]string{api.KindTurn, api.KindSummary}[s.rng.IntN(2)]}
	}
	if s.rng.IntN(4) == 0 {
		r.Since = s.docs[s.rng.IntN(len(s.docs))].time.Format(time.RFC3339)
	}
	if s.rng.IntN(4) == 0 {
		r.Until = s.docs[s.rng.IntN(len(s.docs))].time.Format(time.RFC3339)
	}
	r.IncludeRemoved = s.rng.IntN(3) == 0
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	return func(d kept) bool {
		since, _ := time.Parse(time.RFC3339, r.Since)
		until, err := time.Parse(time.RFC3339, r.Until)
		return d.tenant == r.Tenant && in(r.Sessions, d.session) && in(r.Roles, d.role) && in(r.Kinds, d.kind) &&
			(r.IncludeRemoved || !d.removed) && !d.time.Before(since) && (err != nil || !d.time.After(until))
	}
}

// stretch is a random part of a random text.
func (s *shelf) stretch(most int) string {
	text := []rune(s.docs[s.rng.IntN(len(s.docs))].text)
	if len(text) == 0 {
		return "x"
	}
	i := s.rng.IntN(len(text))
	return string(text[i:min(len(text), i+1+s.rng.IntN(most))])
}

// words are neighbouring words of a random text, whole or cut.
func (s *shelf) words(most int) string {
	f := strings.Fields(s.docs[s.rng.IntN(len(s.docs))].text)
	if len(f) == 0 {
		return "x"
	}
	i := s.rng.IntN(len(f))
	f = f[i:min(len(f), i+1+s.rng.IntN(most))]
	out := strings.Join(f, " ")
	switch s.rng.IntN(6) {
	case 0:
		out = strings.ToUpper(out)
	case 1:
		out = strings.TrimFunc(out, func(r rune) bool { return !unicode.IsLetter(r) })
	case 2:
		if parts := regexp.MustCompile(`[\pL\pN]+`).FindAllString(out, -1); len(parts) > 0 {
			out = parts[s.rng.IntN(len(parts))]
		}
	}
	return out
}

func (s *shelf) regex() string {
	q := regexp.QuoteMeta
	switch s.rng.IntN(15) {
	case 8:
		return `^` + q(s.stretch(9))
	case 9:
		return q(s.stretch(9)) + `$`
	case 10:
		return `(?s)` + q(s.stretch(4)) + `.*?` + q(s.stretch(4))
	case 11:
		return `(?:` + q(s.stretch(5)) + `|(?i:` + q(s.stretch(5)) + `)|` + q(s.words(1)) + `)(` + q(s.stretch(3)) + `)?`
	case 12:
		return `(?i)` + q(s.words(2)) + `|\b` + q(s.stretch(6))
	case 13:
		return `(` + q(s.stretch(3)) + `){1,2}[^` + q(s.stretch(1)) + `]` + q(s.stretch(4))
	case 0:
		return q(s.stretch(12))
	case 1:
		return `(?i)` + q(s.stretch(12))
	case 2:
		return `\b` + q(s.words(1)) + `\b`
	case 3:
		return q(s.stretch(8)) + `|` + q(s.stretch(8))
	case 4:
		return q(s.stretch(5)) + `.{0,9}` + q(s.stretch(3))
	case 5:
		return `[a-z]+` + q(s.stretch(6)) + `\d*`
	case 6:
		return `(?:` + q(s.stretch(6)) + `)?` + q(s.stretch(6)) + `+`
	case 7:
		return `(?m)^` + q(s.words(2))
	}
	return []string{`\d{4}-\d\d`, `[^\x00-\x7F]{9}`, `(a|e)(r|s)+\s`, `(?i)err`, `\p{Han}{3}`, `^.{0,20}$`}[s.rng.IntN(6)]
}

// TestEqualsBruteForce: on seeded random queries of every mode, filters
// included, a search finds what a scan over all texts finds, in its order.
func TestEqualsBruteForce(t *testing.T) {
	queries := queriesPerMode
	if testing.Short() {
		queries = 100
	}
	log := newLog("E1")
	s := fill(t, log, 600)
	f := setup(t, log).start()
	f.awaitIndex()
	scan := func(phrase bool) func(api.GrepRequest) (func(string) bool, error) {
		return func(r api.GrepRequest) (func(string) bool, error) {
			words, err := bleveindex.Locator(r.Pattern, phrase)
			return func(text string) bool { return words.Locate(words.Fold(text)) != nil }, err
		}
	}
	modes := []bruteMode{
		{"words", func() string { return s.words(1) + " " + s.words(1) }, scan(false)},
		{"phrase", func() string { return s.words(4) }, scan(true)},
		{"substring", func() string { return s.stretch(25) }, func(r api.GrepRequest) (func(string) bool, error) {
			if r.IgnoreCase {
				re, err := regexp.Compile(`(?i)` + regexp.QuoteMeta(r.Pattern))
				return func(text string) bool { return re.MatchString(text) }, err
			}
			return func(text string) bool { return strings.Contains(text, r.Pattern) }, nil
		}},
		{"regex", s.regex, func(r api.GrepRequest) (func(string) bool, error) {
			flags := ""
			if r.IgnoreCase {
				flags = "i"
			}
			if r.Multiline {
				flags += "m"
			}
			re, err := regexp.Compile("(?" + flags + ":" + r.Pattern + ")")
			return func(text string) bool { return re.MatchString(text) }, err
		}},
	}
	for _, m := range modes {
		t.Run(m.mode, func(t *testing.T) { m.equals(t, f, s, queries) })
	}
	f.halt()
	f.deps.Indexes = bleveindex.Files{Dir: filepath.Join(f.dir, "index"), Options: bleveindex.Options{Trigrams: true}}
	f.start() // makes the index anew
	f.awaitIndex()
	for _, m := range modes[2:] {
		t.Run(m.mode+" with trigrams", func(t *testing.T) { m.equals(t, f, s, queries) })
	}
}

// bruteMode is a mode with a maker of patterns, and what matches one.
type bruteMode struct {
	mode  string
	make  func() string
	match func(api.GrepRequest) (func(string) bool, error)
}

func (m bruteMode) equals(t *testing.T, f *fixture, s *shelf, queries int) {
	some := 0
	for n := range queries {
		r := api.GrepRequest{Pattern: m.make(), Mode: m.mode, Limit: 200}
		pass := s.filtered(&r)
		r.IgnoreCase = (m.mode == "regex" || m.mode == "substring") && s.rng.IntN(4) == 0
		r.Multiline = m.mode == "regex" && s.rng.IntN(4) == 0
		match, err := m.match(r)
		if err != nil {
			continue // tested elsewhere: an error, never zero hits
		}
		want := s.scan(func(d kept) bool { return pass(d) && match(d.text) })
		got, total := all(t, f, r)
		if !slices.Equal(got, want) || total != len(want) {
			t.Fatalf("seed %d, query %d: %+v\nfinds %v (total %d)\na scan %v", seed, n, r, got, total, want)
		}
		if len(want) > 0 {
			some++
		}
	}
	if some < queries/4 {
		t.Errorf("only %d of %d queries find anything", some, queries)
	}
}

func (s *shelf) scan(match func(kept) bool) []string {
	var out []string
	for _, d := range s.docs {
		if match(d) {
			out = append(out, d.id())
		}
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(b, a) })
	return out
}

// all pages of a search.
func all(t *testing.T, f *fixture, r api.GrepRequest) (ids []string, total int) {
	t.Helper()
	total = -1
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		out, err := f.Grep(ctx, r)
		cancel()
		if problem.IsCode(err, problem.Invalid) {
			return nil, 0
		}
		must(t, err)
		if len(out.NotSearched) > 0 {
			t.Fatalf("%+v: %v", r, out.NotSearched)
		}
		for _, h := range out.Hits {
			ids = append(ids, api.DocID(h.Seq, h.Kind, 0))
		}
		if !out.TotalEstimated {
			total = out.Total
		}
		if r.Cursor = out.Cursor; r.Cursor == "" {
			if total < 0 {
				total = len(ids)
			}
			return ids, total
		}
	}
}
