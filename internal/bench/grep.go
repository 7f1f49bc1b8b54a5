package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lcm/internal/api"
)

// grepRounds is how many queries of each kind are measured.
const grepRounds = 200

// grepPatience: slower kinds of query get fewer rounds.
const grepPatience = 6 * time.Second

// corpusSessions is how many sessions the turns are spread over.
const corpusSessions = 500

// corpusText makes a turn of mixed prose, code, ids and Chinese. Word
// frequencies fall off as in language.
func corpusText(rng *rand.Rand, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "turn %d ", n)
	for b.Len() < turnBytes {
		k := int(4_000 * rng.Float64() * rng.Float64() * rng.Float64())
		switch rng.IntN(14) {
		case 2:
			if rng.IntN(8) == 0 { // an id in every other turn
				fmt.Fprintf(&b, "%016x ", rng.Uint64())
			}
		case 0:
			fmt.Fprintf(&b, "internal/pkg%d/file_%d.go:%d ", k%40, k, rng.IntN(900))
		case 1:
			fmt.Fprintf(&b, "getThing%dById ERR-%d ", k%200, 1000+k)
		case 3:
			fmt.Fprintf(&b, "数据库连接%d失败 ", k%50)
		default:
			fmt.Fprintf(&b, "%s%s ", words[k%len(words)], suffixOf(k))
		}
	}
	return b.String()
}

func suffixOf(k int) string {
	if k < len(words) {
		return ""
	}
	return []string{"ing", "ed", "s", "er", "ly", "ness"}[k%6] + string(rune('a'+k/len(words)%26))
}

func grepBench(ctx context.Context, r *rig) (Result, error) {
	if err := r.fillCorpus(ctx); err != nil {
		return Result{}, err
	}
	var res Result
	for _, m := range grepMeasures() {
		r.say("%s", m.name)
		waits, err := r.measure(ctx, m)
		if err != nil {
			return res, fmt.Errorf("%s: %w", m.name, err)
		}
		res.More = append(res.More, Figure{m.name + ", p50", quantile(waits, 0.5), "ms"}, Figure{m.name + ", p95", quantile(waits, 0.95), "ms"})
	}
	res.Ours = res.More[0]
	raw, err := r.rawSearch(ctx)
	if err != nil {
		return res, err
	}
	res.Raw, res.More = raw[0], append(res.More, raw[1:]...)
	more, err := r.crowd(ctx)
	res.More = append(res.More, more...)
	if err == nil {
		more, err = r.whileRebuilding(ctx)
		res.More = append(res.More, more...)
	}
	if err == nil {
		more, err = r.whileFlooded(ctx)
		res.More = append(res.More, more...)
	}
	return res, err
}

// fillCorpus imports the turns and waits for the index.
func (r *rig) fillCorpus(ctx context.Context) error {
	r.say("importing %d turns of %d bytes in %d sessions", r.Turns, turnBytes, corpusSessions)
	rng := rand.New(rand.NewPCG(1, 2))
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	slots := make(chan struct{}, 8)
	per := max(1, r.Turns/corpusSessions)
	for s := range max(1, r.Turns/per) {
		texts := make([]string, per)
		for i := range texts {
			texts[i] = corpusText(rng, s*per+i)
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := r.importTexts(ctx, fmt.Sprintf("s%03d", s), texts); err != nil {
				failed.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	r.say("waiting for the index")
	return r.searchable(ctx)
}

func (r *rig) importTexts(ctx context.Context, session string, texts []string) error {
	_, err := r.importFile(ctx, session, turnFile(0, len(texts), func(i int) string { return texts[i] }), len(texts))
	return err
}

// measure is one kind of query.
type measure struct {
	name string
	http bool
	in   func(rng *rand.Rand) api.GrepIn
}

func grepMeasures() []measure {
	word := func(rng *rand.Rand) string {
		for {
			k := int(4_000 * rng.Float64() * rng.Float64() * rng.Float64())
			if w := words[k%len(words)]; w != "./..." {
				return w + suffixOf(k)
			}
		}
	}
	two := func(rng *rand.Rand) api.GrepIn { return api.GrepIn{Pattern: word(rng) + " " + word(rng)} }
	session := func(rng *rand.Rand, in api.GrepIn) api.GrepIn {
		in.Session = fmt.Sprintf("s%03d", rng.IntN(corpusSessions))
		return in
	}
	return []measure{
		{"words, in process", false, two},
		{"phrase", false, func(rng *rand.Rand) api.GrepIn {
			return api.GrepIn{Pattern: fmt.Sprintf("internal/pkg%d/file_", rng.IntN(40)), Phrase: true}
		}},
		{"words in a session", false, func(rng *rand.Rand) api.GrepIn { return session(rng, api.GrepIn{Pattern: word(rng)}) }},
		{"one word, newest first", false, func(rng *rand.Rand) api.GrepIn { return api.GrepIn{Pattern: word(rng)} }},
		{"relevance, all sessions", false, func(rng *rand.Rand) api.GrepIn {
			return api.GrepIn{Pattern: "what did we say about " + word(rng) + " and " + word(rng) + " in the " + word(rng), Mode: "relevance"}
		}},
		{"relevance in a session", false, func(rng *rand.Rand) api.GrepIn {
			return session(rng, api.GrepIn{Pattern: "what did we say about " + word(rng) + " and " + word(rng), Mode: "relevance"})
		}},
		{"substring", false, func(rng *rand.Rand) api.GrepIn {
			return api.GrepIn{Pattern: fmt.Sprintf("Thing%dById ERR-1", rng.IntN(200)), Mode: "substring"}
		}},
		{"regex with a literal", false, func(rng *rand.Rand) api.GrepIn {
			return api.GrepIn{Pattern: fmt.Sprintf(`Thing%dById ERR-\d+9\b`, rng.IntN(200)), Regex: true}
		}},
		{"regex with a case-blind literal", false, func(rng *rand.Rand) api.GrepIn {
			return api.GrepIn{Pattern: fmt.Sprintf(`(?i)thing%dBYID err-\d+9\b`, rng.IntN(200)), Regex: true}
		}},
		{"grep over HTTP", true, two},
	}
}

func (r *rig) measure(ctx context.Context, m measure) ([]time.Duration, error) {
	ask := r.n.Tools().Grep
	if m.http {
		srv := httptest.NewServer(r.n.Handler())
		defer srv.Close()
		ask = func(ctx context.Context, in api.GrepIn) (*api.GrepReply, error) {
			return &api.GrepReply{}, get(ctx, srv.URL+"/v1/grep?pattern="+url.QueryEscape(in.Pattern))
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var waits []time.Duration
	begun := time.Now()
	for n := range grepRounds + grepRounds/4 {
		warm := n >= grepRounds/4 || time.Since(begun) > grepPatience/4
		if len(waits) > 10 && time.Since(begun) > grepPatience {
			break
		}
		in := m.in(rng)
		start := time.Now()
		if _, err := ask(ctx, in); err != nil {
			return nil, err
		}
		if warm {
			waits = append(waits, time.Since(start))
		}
	}
	return waits, nil
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	var sink [4096]byte
	for err == nil {
		_, err = resp.Body.Read(sink[:])
	}
	return nil
}

const crowdCallers = 64

// crowd asks from many callers at once, what each of them asked alone before.
func (r *rig) crowd(ctx context.Context) ([]Figure, error) {
	const each = 20 // searches of a caller
	r.say("64 callers at once")
	ask := grepMeasures()[0].in
	caller := func(c int, took []time.Duration) error {
		rng := rand.New(rand.NewPCG(uint64(c), 5))
		for i := range took {
			start := time.Now()
			if _, err := r.n.Tools().Grep(ctx, ask(rng)); err != nil {
				return err
			}
			took[i] = time.Since(start)
		}
		return nil
	}
	alone, together := make([]time.Duration, crowdCallers*each), make([]time.Duration, crowdCallers*each)
	of := func(took []time.Duration, c int) []time.Duration { return took[c*each : (c+1)*each] }
	for c := range crowdCallers {
		if err := caller(c, of(alone, c)); err != nil {
			return nil, err
		}
	}
	var g errgroup.Group
	for c := range crowdCallers {
		g.Go(func() error { return caller(c, of(together, c)) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// What each of the callers would wait if all took turns and a search took as
	// long as alone.
	turns := mean(alone) * crowdCallers / float64(runtime.GOMAXPROCS(0))
	return []Figure{
		{"words, 64 callers at once, p95", quantile(together, 0.95), "ms"},
		{"words, 64 callers at once, slowest", quantile(together, 1), "ms"},
		{"the same searches, alone, p50", quantile(alone, 0.5), "ms"},
		{"the same searches, alone, slowest", quantile(alone, 1), "ms"},
		{"words, 64 callers taking turns at the speed of one", turns, "ms"},
		{"words, 64 callers at once, slowest / that", quantile(together, 1) / turns, ""},
	}, nil
}

// whileFlooded searches while turns are imported as fast as they go in.
func (r *rig) whileFlooded(ctx context.Context) ([]Figure, error) {
	r.say("searching while turns flood in")
	ictx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rng := rand.New(rand.NewPCG(7, 8))
		for n := 0; ictx.Err() == nil; n++ {
			texts := make([]string, 200)
			for i := range texts {
				texts[i] = corpusText(rng, n)
			}
			_ = r.importTexts(ictx, fmt.Sprintf("more%d", n), texts) // ends with the context
		}
	}()
	waits, err := r.measure(ctx, grepMeasures()[0])
	stop()
	<-ended
	if err != nil {
		return nil, err
	}
	return []Figure{
		{"words while turns flood in, p50", quantile(waits, 0.5), "ms"}, {"words while turns flood in, p95", quantile(waits, 0.95), "ms"},
	}, nil
}

// whileRebuilding searches while the index is made anew beside the one in use,
// as fast as that goes.
func (r *rig) whileRebuilding(ctx context.Context) ([]Figure, error) {
	r.say("searching while the index is made anew")
	rctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for rctx.Err() == nil {
			if _, err := r.n.Tools().Rebuild(rctx, api.RebuildIn{Index: true}); err != nil && rctx.Err() == nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	waits, err := r.measure(ctx, grepMeasures()[0])
	stop()
	err = cmp.Or(err, <-ended)
	if err != nil {
		return nil, err
	}
	return []Figure{
		{"words while indexing, p50", quantile(waits, 0.5), "ms"}, {"words while indexing, p95", quantile(waits, 0.95), "ms"},
	}, nil
}
