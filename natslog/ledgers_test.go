package natslog

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lcm/grant"
	"lcm/internal/grants"
)

// Ledgers on a server: a stale revision writes nothing, and authorities that
// charge at once never give more than the budget.
func TestLedgers(t *testing.T) {
	l := open(t)
	if v, rev, err := l.LoadLedger(ctx(t), "01ROOT"); v != nil || rev != 0 || err != nil {
		t.Fatalf("%q, %d, %v", v, rev, err)
	}
	for _, bad := range []string{"", "a b", "../x", "a.*", ">"} {
		if v, _, err := l.LoadLedger(ctx(t), bad); v != nil || err != nil {
			t.Errorf("%q: %q, %v", bad, v, err)
		}
	}
	save := func(value string, rev uint64, want bool) {
		t.Helper()
		if ok, err := l.SaveLedger(ctx(t), "01ROOT", []byte(value), rev); ok != want || err != nil {
			t.Errorf("%s at %d: %t, %v", value, rev, ok, err)
		}
	}
	save("a", 0, true)
	save("b", 0, false)
	_, rev, err := l.LoadLedger(ctx(t), "01ROOT")
	if err != nil {
		t.Fatal(err)
	}
	save("c", rev, true)
	save("d", rev, false)

	seed := func() (grant.Key, error) { return grant.NewKey([]byte(strings.Repeat("k", 32))) }
	replicas := []*grants.Authority{grants.New(l, seed, time.Now), grants.New(l, seed, time.Now), grants.New(l, seed, time.Now)}
	_, c, err := replicas[0].NewRoot(ctx(t), "t", grant.Ask{Sessions: []string{"s"}, Tools: []string{"expand"}, Tokens: 1000, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var given atomic.Int64
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			switch _, err := replicas[i%3].Charge(ctx(t), c, "", 30); {
			case err == nil:
				given.Add(30)
			case !errors.Is(err, grant.ErrSpent):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left, err := replicas[1].Left(ctx(t), c); given.Load() != 990 || left != 10 || err != nil {
		t.Errorf("%d of 1000 tokens were given, %d are left, %v", given.Load(), left, err)
	}
}
