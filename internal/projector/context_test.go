package projector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/condenser"
	"lcm/internal/projector"
	"lcm/session"
	"lcm/window"
)

// countedStores counts the rows that reads touch.
type countedStores struct {
	api.Stores
	reads *atomic.Int64
}

func (s countedStores) Open() (api.Store, error) {
	st, err := s.Stores.Open()
	return countedStore{st, s.reads}, err
}

type countedStore struct {
	api.Store
	reads *atomic.Int64
}

func (s countedStore) View(fn func(api.StoreTx) error) error {
	return s.Store.View(func(tx api.StoreTx) error { return fn(countedTx{tx, s.reads}) })
}

type countedTx struct {
	api.StoreTx
	reads *atomic.Int64
}

func (t countedTx) Rows(ref events.Ref) (session.Rows, error) {
	r, err := t.StoreTx.Rows(ref)
	return countedRows{r, t.reads}, err
}

type countedRows struct {
	session.Rows
	reads *atomic.Int64
}

func (r countedRows) Get(kind session.RowKind, key []byte) ([]byte, error) {
	r.reads.Add(1)
	return r.Rows.Get(kind, key)
}

func (r countedRows) Floor(kind session.RowKind, key []byte) (k, v []byte, err error) {
	r.reads.Add(1)
	return r.Rows.Floor(kind, key)
}

// derived lets a condenser append to the log.
type derived struct{ *fakeLog }

func (d derived) Commit(_ context.Context, batch []api.Append) ([]uint64, error) {
	var seqs []uint64
	for _, a := range batch {
		seqs = append(seqs, d.put(a.Message).Seq)
	}
	return seqs, nil
}

// instant is a summariser that answers at once.
type instant struct{}

func (instant) Summarize(_ context.Context, r condense.Request) (condense.Response, error) {
	text := fmt.Sprintf("- %s to %s: the parser was changed and the tests were run again.\n", r.Lines[0].Ref, r.Lines[len(r.Lines)-1].Ref)
	return condense.Response{Text: strings.Repeat(text, 8), Stop: condense.StopEnd, Model: "instant"}, nil
}

// condensed is a long session, condensed to a 128k window, and then talked on
// up to its soft threshold: the largest context that stands between two cuts.
func condensed(t testing.TB, turns int) (*fixture, events.Ref, *atomic.Int64) {
	log := newLog("LONG")
	log.batch = 1000
	rf := ref("long")
	log.configure(rf, func(s *events.Settings) { s.Window = 128_000 })
	text := strings.Repeat("They changed the parser, ran the tests, and case 17 still fails on nested lists. ", 7)
	say := func(n int) {
		for i := range n {
			log.say(rf, []events.Role{events.RoleUser, events.RoleAssistant}[i%2], text)
		}
	}
	say(turns)
	f := setup(t, log)
	reads := new(atomic.Int64)
	f.deps.Stores, f.deps.Indexes = countedStores{f.deps.Stores, reads}, &idleIndex{}
	f.cfg = projector.Config{DispatchEvery: time.Hour, IndexEvery: time.Hour}
	f.start()
	c, err := condenser.New(condenser.Config{Partitions: log.parts, MaxPasses: 1_000}, condenser.Deps{Reads: f, Log: derived{log}, Summarizer: instant{}})
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := c.Condense(ctx, rf, f.end())
	must(t, err)
	for {
		say(40)
		v, err := f.View(ctx, api.ViewRequest{Ref: rf, Token: f.end()})
		must(t, err)
		if n := window.ContextTokens(v.View); n > v.View.Settings.Soft()*95/100 {
			t.Logf("%d turns, %d nodes, a context of %d tokens: %d pointers and %d turns", v.View.Entries, out.Nodes, n, len(v.View.Frontier), len(v.View.Tail))
			return f, rf, reads
		}
	}
}

// assemble reads and renders a context as the context tool does, up to JSON.
func assemble(t testing.TB, f *fixture, rf events.Ref) *window.Context {
	ctx := context.Background()
	r, err := f.View(ctx, api.ViewRequest{Ref: rf})
	must(t, err)
	tail := r.View.Tail
	bodies := map[uint64]*events.TurnAppended{}
	q := api.TurnsRequest{Ref: rf, Ranges: []events.Range{{First: tail[0].N, Last: tail[len(tail)-1].N}}, MaxBytes: 64 << 20, Limit: 2_000}
	for {
		page, err := f.Turns(ctx, q)
		must(t, err)
		for _, turn := range page.Turns {
			p, err := events.DecodeTurn(turn.Payload)
			must(t, err)
			bodies[turn.Entry.N] = p
		}
		if q.After = page.Next; page.Next == 0 {
			break
		}
	}
	c, err := window.Render(r.View, func(n uint64) (*events.TurnAppended, error) { return bodies[n], nil }, window.Options{})
	must(t, err)
	return c
}

// cpu is the processor time this process has used.
func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A context of a condensed session of 100,000 turns reads what it renders, never
// the session, and so takes little: 2 ms in the middle and 20 ms at worst where the
// machine does nothing else. Here it is processor time that is bounded.
func TestContextReadsWhatItRenders(t *testing.T) {
	turns := 100_000
	if testing.Short() {
		turns = 5_000
	}
	f, rf, reads := condensed(t, turns)
	c := assemble(t, f, rf)
	before, busy := reads.Load(), cpu(t)
	var took []time.Duration
	const rounds = 300
	for range rounds {
		start := time.Now()
		assemble(t, f, rf)
		took = append(took, time.Since(start))
	}
	perContext, spent := int(reads.Load()-before)/rounds, (cpu(t)-busy)/rounds
	slices.Sort(took)
	t.Logf("p50 %s, p99 %s, processor %s; %d row reads for %d parts", took[rounds/2], took[rounds*99/100],
		spent, perContext, len(c.Parts))
	// An entry is read twice (view and turns), with its body; a pointer with
	// its parents and its repair; the rest is a handful.
	if most := 8*len(c.Parts) + 60; perContext > most {
		t.Errorf("%d row reads for %d parts, at most %d expected", perContext, len(c.Parts), most)
	}
	if most := 12 * time.Millisecond; !testing.Short() && spent > most {
		t.Errorf("%s of a processor for a context, at most %s expected", spent, most)
	}
}

func BenchmarkContext(b *testing.B) {
	f, rf, _ := condensed(b, 20_000)
	b.ReportAllocs()
	for b.Loop() {
		assemble(b, f, rf)
	}
}
