package llm

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"lcm/chat"
)

// ledger keeps what was told, in memory.
type ledger struct {
	mu    sync.Mutex
	value map[[2]string][]byte
	fails bool
}

func (l *ledger) SaveSpending(_ context.Context, process, tenant string, value []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails {
		return errors.New("away")
	}
	l.value[[2]string{process, tenant}] = value
	return nil
}

func (l *ledger) EachSpending(_ context.Context, each func(process, tenant string, value []byte)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, v := range l.value {
		each(k[0], k[1], v)
	}
	return nil
}

// A limit is one of all processes, and of those that were before; an hour later
// nothing of it is left. What could not be told is told with the next call.
func TestSpendingIsShared(t *testing.T) {
	l := &ledger{value: map[[2]string][]byte{}}
	now := time.Now()
	open := func(process string) *budget {
		b := newBudget(100)
		b.process, b.ledger = process, l
		if err := b.learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b := open("a"), open("b")
	a.spend("acme", 60, now)
	l.fails = true
	b.spend("acme", 30, now)
	l.fails = false
	b.spend("acme", 15, now)
	for name, one := range map[string]*budget{"a": a, "b": b} {
		if err := one.learn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := one.admit("acme", false, now); !errors.Is(err, chat.ErrSpent) {
			t.Errorf("%s: %v", name, err)
		}
		if err := one.admit("globex", false, now); err != nil {
			t.Errorf("%s for another tenant: %v", name, err)
		}
	}
	again := open("a2") // a after a restart
	if err := again.admit("acme", false, now); !errors.Is(err, chat.ErrSpent) {
		t.Errorf("after a restart: %v", err)
	}
	if err := again.admit("acme", false, now.Add(61*time.Minute)); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}
