package rank

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func termsOf(text string) []string {
	var out []string
	Terms(text, func(t Term) { out = append(out, t.Text) })
	return out
}

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"What did we decide about retries?":      "decid retri",
		"I'm sure it's John's, don't worry":      "sure john worri",
		"call getUserById in user_repo.go":       "call get user id user repo go",
		"HTTP 404":                               "http 404",
		"東京都 is":                                 "東京 京都 都",
		"naïve café":                             "naïve café",
		strings.Repeat("x", 100) + " relational": "relat",
		"":                                       "",
	} {
		if got := strings.Join(termsOf(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQuestion(t *testing.T) {
	for text, of := range map[string]bool{
		"What did you recommend for the cache?": true,
		"You said there was a limit":            true,
		"What was your advice on retries?":      true,
		"Could you show me the limit?":          false,
		"Can you explain the cache?":            false,
		"What did I say about the cache?":       false,
		"Where did the build fail?":             false,
	} {
		if got := Parse(text, Default()).OfAssistant; got != of {
			t.Errorf("%q asks the assistant: %v", text, got)
		}
	}
	q := Parse("Please summarize how the parser grew, and how the parser failed", Default())
	if !q.Broad || !slices.Contains(q.Terms, "parser") || len(q.Terms) != len(q.Weights) {
		t.Errorf("%+v", q)
	}
	if i := slices.Index(q.Terms, "summar"); i < 0 || q.Weights[i] != Default().Frame {
		t.Errorf("the frame: %+v", q)
	}
	if q := Parse("who are you", Default()); len(q.Terms) != 0 {
		t.Errorf("stop words: %+v", q)
	}
}

// TestBM25 holds the formula against numbers worked out by hand.
func TestBM25(t *testing.T) {
	q := Question{Terms: []string{"a"}, Weights: []float64{1}}
	s := NewScorer(q, Stats{Docs: 10, Length: 20, Found: []float64{2}}, Plain())
	idf := math.Log(1 + 8.5/2.5)
	if got, want := s.Term(0, 3, 40), idf*3*2.2/(3+1.2*(0.25+0.75*2)); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
	r := Plain()
	r.Floor = 20
	s = NewScorer(q, Stats{Docs: 10, Length: 20, Found: []float64{2}}, r)
	if s.Term(0, 1, 3) != s.Term(0, 1, 20) {
		t.Error("the floor does not hold")
	}
}

func TestPairs(t *testing.T) {
	r := Default()
	q := Parse("retry budget", r)
	s := NewScorer(q, Stats{Docs: 10, Length: 20, Found: []float64{1, 1}}, r)
	for text, want := range map[string]bool{
		"the retry budget": true, "a budget for each retry": true, "budget one two three four retry": false, "retry": false,
	} {
		if got := s.Pairs(q, q.Places(text)) > 0; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDirective(t *testing.T) {
	for text, want := range map[string]bool{
		"Always answer in French.": true, "please, from now on use tabs": true, "I prefer short answers": true,
		"I’d prefer tabs": true, "it hallways": false, "the cache failed": false,
	} {
		if Directive(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestRules: what each rule is for, on people chatting and on coding.
func TestRules(t *testing.T) {
	r := Default()
	search := func(question string, turns ...string) int {
		var c Corpus
		for _, turn := range turns {
			role, text, _ := strings.Cut(turn, ": ")
			c.Add(role, text)
		}
		return c.Search(question, r)[0]
	}
	filler := "assistant: there are many ways to do this and each of them has its merits and drawbacks in practice"
	for name, c := range map[string]struct {
		question string
		turns    []string
		want     int
	}{
		"the asker's own turn": {"Where is my sister's wedding?", []string{
			"user: My sister has her wedding in Porto in May", "assistant: A wedding in Porto, how lovely for your sister!", filler,
		}, 0},
		"what the other side said": {"What port did you suggest for the proxy?", []string{
			"user: which port for the proxy should we take", "assistant: For the proxy I suggest port 8443", filler,
		}, 1},
		"found by its answer": {"Which database did I choose for the ledger?", []string{
			"user: the second one for the ledger", "assistant: Good, PostgreSQL is the database for the ledger then", filler,
			"user: the ledger has a new colour", filler, "user: which ledger is it", filler,
		}, 0},
		"a standing wish": {"How should the code be indented?", []string{
			"user: the code is indented in main.go", "assistant: yes", "user: always have the code indented with tabs", filler,
		}, 2},
	} {
		if got := search(c.question, c.turns...); got != c.want {
			t.Errorf("%s: turn %d comes first, want %d", name, got, c.want)
		}
	}
}

func TestWithNext(t *testing.T) {
	in := []Candidate{{Number: 5}, {Number: 1}, {Number: 6}, {Group: 1, Number: 2}, {Number: 2}}
	var got []uint64
	for _, c := range WithNext(in, func(c Candidate) Candidate { return c }) {
		got = append(got, c.Number)
	}
	if !slices.Equal(got, []uint64{5, 6, 1, 2, 2}) {
		t.Error(got)
	}
}

func TestFuse(t *testing.T) {
	in := []int{30, 10, 20, 40}
	got := Fuse(in, func(a, b int) int { return b - a })
	if !slices.Equal(got, []int{30, 40, 10, 20}) { // 30: ranks 0 and 1; 40: 3 and 0
		t.Error(got)
	}
	if len(Fuse([]int(nil), func(a, b int) int { return 0 })) != 0 {
		t.Error("nothing becomes something")
	}
}

func TestDated(t *testing.T) {
	got := termsOf(Dated(time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC), "x"))
	if !slices.Equal(got, []string{"mondai", "2", "march", "2026", "x"}) {
		t.Error(got)
	}
}

func FuzzTerms(f *testing.F) {
	f.Add("What did I say about 東京 and don't?")
	f.Fuzz(func(t *testing.T, text string) {
		last := Term{}
		Terms(text, func(x Term) {
			if x.Start < last.Start || x.End > len(text) || x.Start >= x.End || x.Pos < last.Pos || x.Text == "" {
				t.Fatalf("%q: %+v after %+v", text, x, last)
			}
			last = x
		})
		q := Parse(text, Default())
		if len(q.Terms) != len(q.Weights) || len(q.Places(text)) != len(q.Terms) {
			t.Fatalf("%q: %+v", text, q)
		}
	})
}
