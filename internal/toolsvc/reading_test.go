package toolsvc

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/grants"
	"lcm/internal/problem"
	"lcm/internal/reader"
	"lcm/session"
	"lcm/tokens"
)

// ledgers are shared by replicas; every so many writes the answer is lost.
type ledgers struct {
	mu        sync.Mutex
	values    map[string][]byte
	revisions map[string]uint64
	writes    int
	loseEvery int
}

func (l *ledgers) LoadLedger(_ context.Context, root string) ([]byte, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[root], l.revisions[root], nil
}

func (l *ledgers) SaveLedger(_ context.Context, root string, value []byte, revision uint64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revisions[root] != revision {
		return false, nil
	}
	l.values[root], l.revisions[root] = value, revision+1
	if l.writes++; l.loseEvery > 0 && l.writes%l.loseEvery == 0 {
		return false, problem.New(problem.Unavailable, "the answer was lost")
	}
	return true, nil
}

func replica(t testing.TB, l *ledgers, d Deps) (*Service, *grants.Authority) {
	t.Helper()
	a := grants.New(l, func() (grant.Key, error) { return grant.NewKey([]byte(strings.Repeat("k", 32))) }, time.Now)
	d.Log, d.Grants = fakeLog{}, a
	s, err := New(DefaultConfig(), d)
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// shelves are sessions of a hundred long turns each.
type shelves struct{ Reads }

func (shelves) Grep(_ context.Context, q api.GrepRequest) (*api.GrepReply, error) {
	return &api.GrepReply{Hits: []api.Hit{}}, nil
}

func (shelves) Sessions(_ context.Context, q api.SessionsRequest) (*api.SessionsReply, error) {
	return &api.SessionsReply{Sessions: []api.SessionRow{{Session: "s"}}}, nil
}

func (shelves) Turns(_ context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	out := &api.TurnsReply{}
	for _, r := range q.Ranges {
		if n := r.First; n <= 100 {
			payload, err := json.Marshal(map[string]any{"id": fmt.Sprint(n), "role": "user", "text": strings.Repeat("word ", 300)})
			if err != nil {
				return nil, err
			}
			out.Turns = append(out.Turns, api.StoredTurn{Entry: session.Entry{N: n, Role: "user"}, Payload: payload})
		}
	}
	return out, nil
}

// browser is a reader without a model that opens turns until it is refused, or
// has enough of it.
type browser struct {
	mu   sync.Mutex
	rng  *rand.Rand
	read atomic.Int64
}

func (*browser) Time() time.Duration { return time.Minute }

func (b *browser) draw(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rng.IntN(n)
}

func (b *browser) Read(ctx context.Context, q reader.Question) (reader.Answer, error) {
	for range 1 + b.draw(8) {
		args := fmt.Sprintf(`{"id":"e%d","session":"s"}`, 1+b.draw(3))
		if b.draw(2) == 0 {
			args = fmt.Sprintf(`{"id":"e%d","session":"s","max_tokens":100000}`, 1+b.draw(3))
		}
		text, err := q.Tools.Call(ctx, "lcm_expand", args)
		if err == nil {
			b.read.Add(int64(tokens.Count(text)))
		} else if !problem.IsCode(err, problem.Limited) && !problem.IsCode(err, problem.Unavailable) {
			return reader.Answer{}, err
		}
	}
	return reader.Answer{Text: "It was so [e1]. " + strings.Repeat("And more [e2]. ", b.draw(300)), Model: "m", Calls: 1}, nil
}

// Whatever is asked under a grant and those below it, at once, again under the
// same name, on several replicas, with writes whose outcome nobody knows: what
// readers read and callers are told is never more than the grant holds.
func TestReadersStayWithinTheGrant(t *testing.T) {
	var answered atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		l := &ledgers{values: map[string][]byte{}, revisions: map[string]uint64{}, loseEvery: rapid.SampledFrom([]int{0, 3, 7}).Draw(rt, "lose every")}
		b := &browser{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))}
		var services []*Service
		var a *grants.Authority
		for range rapid.IntRange(1, 3).Draw(rt, "replicas") {
			var s *Service
			s, a = replica(t, l, Deps{Reads: shelves{}, Reader: b})
			services = append(services, s)
		}
		budget := rapid.IntRange(1000, 20_000).Draw(rt, "budget")
		mint := func(f func() (string, grant.Claims, error)) *grant.Claims {
			for range 10 { // a write whose answer was lost is made again
				if _, c, err := f(); err == nil {
					return &c
				}
			}
			rt.Fatal("no grant")
			return nil
		}
		root := mint(func() (string, grant.Claims, error) {
			return a.NewRoot(t.Context(), "acme", grant.Ask{Sessions: []string{"s"}, Tools: []string{"query"}, Tokens: budget, TTL: time.Hour, Depth: 3})
		})
		holders := []*grant.Claims{root}
		for range rapid.IntRange(0, 2).Draw(rt, "nested") {
			of := holders[len(holders)-1]
			holders = append(holders, mint(func() (string, grant.Claims, error) {
				return a.NewChild(t.Context(), *of, grant.Ask{DelegatedScope: "a part", KeptWork: "the rest", Depth: of.Depth - 1}, nil)
			}))
		}
		var told atomic.Int64
		var all sync.WaitGroup
		for i := range rapid.IntRange(1, 12).Draw(rt, "questions") {
			in := fmt.Sprintf(`{"prompt":"what?","session":"s","explore_tokens":%d,"max_tokens":%d}`,
				rapid.IntRange(1500, 8000).Draw(rt, "explore"), rapid.IntRange(200, 800).Draw(rt, "answer"))
			s, c := services[i%len(services)], holders[i%len(holders)]
			id := rapid.SampledFrom([]string{"", "a", "b"}).Draw(rt, "request")
			all.Go(func() {
				tool, _ := find(s, "query")
				ctx := api.WithRequestID(api.WithCaller(context.Background(), api.Caller{Name: "agent", Tenant: "acme", Grant: c}), id)
				out, err := tool.Call(ctx, json.RawMessage(in))
				if err != nil {
					if !problem.IsCode(err, problem.Limited) && !problem.IsCode(err, problem.Unavailable) {
						t.Error(err)
					}
					return
				}
				if id != "" {
					return // the same answer again is paid once
				}
				raw, _ := json.Marshal(out)
				told.Add(int64(tokens.Count(string(raw))))
				if out.(*api.QueryOut).Answer != "" {
					answered.Add(1)
				}
			})
		}
		all.Wait()
		if spent := b.read.Load() + told.Load(); spent > int64(budget) {
			rt.Fatalf("%d tokens were read and %d told, of %d", b.read.Load(), told.Load(), budget)
		}
	})
	if answered.Load() == 0 {
		t.Error("nothing was answered: the test shows nothing")
	}
}

// A grant that may not be handed on sends no reader, and the passages say so; a
// reader has nothing but reading, and less than its caller.
func TestReaderIsADescendant(t *testing.T) {
	l := &ledgers{values: map[string][]byte{}, revisions: map[string]uint64{}}
	b := &browser{rng: rand.New(rand.NewPCG(1, 1))}
	s, a := replica(t, l, Deps{Reads: shelves{}, Reader: b})
	tool, _ := find(s, "query")
	ask := func(depth, budget int) *api.QueryOut {
		t.Helper()
		_, c, err := a.NewRoot(t.Context(), "acme", grant.Ask{Sessions: []string{"s"}, Tools: []string{"query"}, Tokens: budget, TTL: time.Hour, Depth: depth})
		if err != nil {
			t.Fatal(err)
		}
		out, err := tool.Call(api.WithCaller(t.Context(), api.Caller{Tenant: "acme", Grant: &c}), json.RawMessage(`{"prompt":"what?","session":"s","max_tokens":300}`))
		if err != nil {
			t.Fatal(err)
		}
		left, err := a.Left(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		q := out.(*api.QueryOut)
		raw, _ := json.Marshal(q)
		if want := budget - q.Explored - tokens.Count(string(raw)); left > want+40 || left < want-40 {
			t.Errorf("%d tokens are left of %d, %d were read and %d told", left, budget, q.Explored, tokens.Count(string(raw)))
		}
		return q
	}
	if q := ask(1, 5000); q.Answer == "" || q.NoAnswer != "" || q.Explored == 0 {
		t.Errorf("%+v", q)
	}
	if q := ask(0, 5000); q.Answer != "" || !strings.Contains(q.NoAnswer, "no descendants") || b.read.Load() == 0 {
		t.Errorf("%+v", q)
	}
	if q := ask(1, 800); q.Answer != "" || !strings.Contains(q.NoAnswer, "500 left to read") {
		t.Errorf("%+v", q)
	}
}
