package grant

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// family is a root with descendants, in a ledger that is written and read
// between calls as a store would.
type family struct {
	claims map[string]Claims
	text   []byte
}

func (f *family) with(t *rapid.T, do func(*Ledger)) {
	var l Ledger
	if f.text != nil {
		if err := json.Unmarshal(f.text, &l); err != nil {
			t.Fatal(err)
		}
	}
	do(&l)
	var err error
	if f.text, err = json.Marshal(l); err != nil {
		t.Fatal(err)
	}
}

// Whatever is charged, narrowed, retried and revoked in whatever order: no
// grant's family spends more than its budget, an ancestor's spending is that of
// its family, and a retry costs nothing.
func TestBudgetsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := New("g0", "acme", wide, start)
		if err != nil {
			t.Fatal(err)
		}
		f := family{claims: map[string]Claims{"g0": root}}
		now := start
		f.with(t, func(l *Ledger) { err = l.Open(root, now) })
		if err != nil {
			t.Fatal(err)
		}
		paid := map[string]int{} // model: what each grant itself was charged
		keys := map[string]int{}
		revoked := map[string]bool{}
		descends := func(id, from string) bool {
			for _, a := range f.claims[id].Chain {
				if a == from {
					return true
				}
			}
			return id == from
		}
		anyID := func(t *rapid.T) string {
			return fmt.Sprint("g", rapid.IntRange(0, len(f.claims)-1).Draw(t, "grant"))
		}
		dead := func(id string) bool {
			for r := range revoked {
				if descends(id, r) {
					return true
				}
			}
			return !f.claims[id].Expires.After(now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"narrow": func(t *rapid.T) {
				id := fmt.Sprint("g", len(f.claims))
				child, err := Narrow(f.claims[anyID(t)], id, guard(Ask{
					Tokens: rapid.IntRange(1, 6000).Draw(t, "tokens"), Depth: rapid.IntRange(0, 2).Draw(t, "depth"),
				}), now, nil)
				if err != nil {
					t.Skip()
				}
				f.with(t, func(l *Ledger) { err = l.Open(child, now) })
				if (err == nil) == dead(child.Parent()) {
					t.Fatalf("a child of %s, dead = %t: %v", child.Parent(), dead(child.Parent()), err)
				}
				if err != nil {
					t.Skip()
				}
				f.claims[id] = child
			},
			"charge": func(t *rapid.T) {
				id, n := anyID(t), rapid.IntRange(0, 3000).Draw(t, "tokens")
				key := rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(t, "key")
				more := n
				if key != "" {
					more = max(0, n-keys[id+key])
				}
				var left int
				f.with(t, func(l *Ledger) { left, _, err = l.Charge(id, key, n, now) })
				room := MaxTokens
				for a, c := range f.claims {
					if descends(id, a) {
						spent := 0
						for d := range f.claims {
							if descends(d, a) {
								spent += paid[d]
							}
						}
						room = min(room, c.Tokens-spent)
					}
				}
				switch {
				case dead(id):
					if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrExpired) {
						t.Fatalf("a charge to %s, which is dead: %v", id, err)
					}
				case more > room:
					if !errors.Is(err, ErrSpent) || left != room {
						t.Fatalf("%d of %d tokens: %d, %v", more, room, left, err)
					}
				case err != nil || left != room-more:
					t.Fatalf("%d of %d tokens: %d left, %v", more, room, left, err)
				default:
					paid[id] += more
					if key != "" {
						keys[id+key] += more
					}
				}
			},
			"revoke": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					t.Skip()
				}
				id := anyID(t)
				f.with(t, func(l *Ledger) { l.Revoke(id) })
				revoked[id] = true
			},
			"time": func(t *rapid.T) { now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "s")) * time.Second) },
			"": func(t *rapid.T) {
				for a, c := range f.claims {
					spent := 0
					for d := range f.claims {
						if descends(d, a) {
							spent += paid[d]
						}
					}
					if spent > c.Tokens {
						t.Fatalf("the family of %s spent %d of %d", a, spent, c.Tokens)
					}
				}
			},
		})
	})
}

func TestLedgerStaysSmall(t *testing.T) {
	root, err := New("g", "acme", wide, start)
	if err != nil {
		t.Fatal(err)
	}
	var l Ledger
	if err := l.Open(root, start); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, _, err := l.Charge("g", fmt.Sprint(i), 1, start); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.Accounts["g"].Paid); n != maxPaid {
		t.Errorf("%d payments are remembered", n)
	}
	for i := range MaxFamily {
		c, err := Narrow(root, fmt.Sprint("c", i), guard(Ask{TTL: time.Minute}), start, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Open(c, start); (err != nil) != (i == MaxFamily-1) || err != nil && !errors.Is(err, ErrCrowded) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	late := start.Add(2 * time.Minute)
	c, err := Narrow(root, "late", guard(Ask{}), late, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(c, late); err != nil || len(l.Accounts) != 2 {
		t.Errorf("%v, %d accounts: those that expired are in the way", err, len(l.Accounts))
	}
	if n := l.Revoke("g"); n != 2 || len(l.Accounts) != 0 {
		t.Errorf("%d revoked, %d left", n, len(l.Accounts))
	}
}

// What is returned is free again, for the grant and all its ancestors; nobody
// returns what was not charged.
func TestReturn(t *testing.T) {
	l := new(Ledger)
	root, err := New("r", "t", Ask{Sessions: []string{"s"}, Tools: []string{"grep"}, Tokens: 100, TTL: time.Hour, Depth: 1}, start)
	if err != nil {
		t.Fatal(err)
	}
	child, err := Narrow(root, "r.c", guard(Ask{Tokens: 50}), start, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Open(root, start), l.Open(child, start)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Charge("r", "", 10, start); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Charge("r.c", "", 40, start); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 41} {
		if err := l.Return("r.c", n, start); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d returned: %v", n, err)
		}
	}
	if err := l.Return("r.c", 30, start); err != nil {
		t.Error(err)
	}
	if l.Accounts["r.c"].Spent != 10 || l.Accounts["r"].Spent != 20 {
		t.Errorf("%+v %+v", l.Accounts["r.c"], l.Accounts["r"])
	}
}
