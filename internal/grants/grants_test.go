package grants

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lcm/grant"
	"lcm/internal/problem"
)

// store is a Store in memory. Every failEvery-th write is stored and then
// reported as failed.
type store struct {
	mu        sync.Mutex
	values    map[string][]byte
	revisions map[string]uint64
	writes    int
	failEvery int
}

func (s *store) LoadLedger(_ context.Context, root string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[root], s.revisions[root], nil
}

func (s *store) SaveLedger(_ context.Context, root string, value []byte, revision uint64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revisions[root] != revision {
		return false, nil
	}
	s.values[root], s.revisions[root] = value, revision+1
	if s.writes++; s.failEvery > 0 && s.writes%s.failEvery == 0 {
		return false, problem.New(problem.Unavailable, "the answer was lost")
	}
	return true, nil
}

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func authority(s Store) *Authority {
	return New(s, func() (grant.Key, error) { return grant.NewKey([]byte(strings.Repeat("k", 32))) }, func() time.Time { return start })
}

func fake() *store { return &store{values: map[string][]byte{}, revisions: map[string]uint64{}} }

func root(t testing.TB, a *Authority, tokens int) (string, grant.Claims) {
	t.Helper()
	token, c, err := a.NewRoot(t.Context(), "acme", grant.Ask{Sessions: []string{"s"}, Tools: []string{"expand"}, Tokens: tokens, TTL: time.Hour, Depth: 3})
	if err != nil {
		t.Fatal(err)
	}
	return token, c
}

var guard = grant.Ask{DelegatedScope: "the search", KeptWork: "the fix"}

func TestLife(t *testing.T) {
	a, b := authority(fake()), (*Authority)(nil)
	b = authority(a.store) // a replica
	token, parent := root(t, a, 1000)
	childToken, child, err := b.NewChild(t.Context(), parent, guard, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Open(t.Context(), token); err != nil || got.ID != parent.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if left, err := a.Charge(t.Context(), child, "", 400); err != nil || left != 600 {
		t.Fatalf("%d left, %v", left, err)
	}
	if left, err := b.Left(t.Context(), parent); err != nil || left != 600 {
		t.Fatalf("%d left with the parent, %v", left, err)
	}
	if _, err := b.Charge(t.Context(), parent, "", 601); !problem.IsCode(err, problem.Limited) || !errors.Is(err, grant.ErrSpent) {
		t.Fatal(err)
	}
	for name, revoke := range map[string]struct {
		tenant, id string
		by         *grant.Claims
	}{
		"another tenant": {"other", parent.ID, nil}, "a child its parent": {"acme", parent.ID, &child},
		"nobody's": {"acme", "nothing", nil}, "empty": {"acme", "", nil},
	} {
		if _, err := a.Revoke(t.Context(), revoke.tenant, revoke.id, revoke.by); !problem.IsCode(err, problem.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := a.Revoke(t.Context(), "acme", parent.ID, nil); n != 2 || err != nil {
		t.Fatalf("%d revoked, %v", n, err)
	}
	for _, token := range []string{token, childToken} {
		if _, err := b.Open(t.Context(), token); !problem.IsCode(err, problem.Unauthorized) {
			t.Errorf("a revoked grant opens: %v", err)
		}
	}
	if _, err := b.Charge(t.Context(), child, "", 1); !problem.IsCode(err, problem.Unauthorized) {
		t.Error(err)
	}
	if _, _, err := b.NewChild(t.Context(), parent, guard, nil); !problem.IsCode(err, problem.Unauthorized) {
		t.Error(err)
	}
	if _, err := authority(fake()).Open(t.Context(), token); !problem.IsCode(err, problem.Unauthorized) {
		t.Errorf("a grant whose ledger is not here: %v", err)
	}
}

// Replicas charge a family at once, with retries of calls whose answer was
// lost: nobody spends above any budget, and a call is paid once.
func TestBudgetUnderConcurrency(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := fake()
		s.failEvery = rapid.IntRange(0, 5).Filter(func(n int) bool { return n != 1 }).Draw(rt, "fail every")
		replicas := []*Authority{authority(s), authority(s), authority(s)}
		budget := rapid.IntRange(100, 3000).Draw(rt, "budget")
		var family []grant.Claims
		try := func(f func() (grant.Claims, error)) (c grant.Claims) {
			for {
				var err error
				if c, err = f(); err == nil {
					return c
				} else if !problem.IsCode(err, problem.Unavailable) {
					rt.Fatal(err)
				}
			}
		}
		family = append(family, try(func() (grant.Claims, error) {
			_, c, err := replicas[0].NewRoot(t.Context(), "acme", grant.Ask{Sessions: []string{"s"}, Tools: []string{"expand"}, Tokens: budget, TTL: time.Hour, Depth: 4})
			return c, err
		}))
		for range rapid.IntRange(1, 3).Draw(rt, "depth") {
			ask := guard
			parent := family[len(family)-1]
			ask.Tokens, ask.Depth = max(1, parent.Tokens*2/3), parent.Depth-1
			family = append(family, try(func() (grant.Claims, error) {
				_, c, err := replicas[1].NewChild(t.Context(), parent, ask, nil)
				return c, err
			}))
		}
		seed := rapid.Uint64().Draw(rt, "seed")
		paid := make([]int, len(family)) // by the grant that was charged
		var mu sync.Mutex
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(w)))
				for i := range 10 {
					g, n, key := rng.IntN(len(family)), rng.IntN(200), fmt.Sprint(w, "-", i)
					for {
						_, err := replicas[rng.IntN(3)].Charge(t.Context(), family[g], key, n)
						if problem.IsCode(err, problem.Unavailable) {
							continue // as a client does: the same call again
						}
						if err == nil {
							mu.Lock()
							paid[g] += n
							mu.Unlock()
						} else if !errors.Is(err, grant.ErrSpent) {
							t.Error(err)
						}
						break
					}
				}
			})
		}
		all.Wait()
		spent := 0
		for g := len(family) - 1; g >= 0; g-- {
			spent += paid[g]
			if spent > family[g].Tokens {
				rt.Fatalf("grant %d of %d tokens: its family was given %d", g, family[g].Tokens, spent)
			}
			l, _, err := replicas[2].load(t.Context(), family[0].ID)
			if err != nil || l.Accounts[family[g].ID].Spent != spent {
				rt.Fatalf("grant %d: the ledger says %d, %d were given (%v)", g, l.Accounts[family[g].ID].Spent, spent, err)
			}
		}
	})
}
