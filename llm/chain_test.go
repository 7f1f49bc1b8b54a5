package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"lcm/chat"
	"lcm/condense"
)

func chain(t *testing.T, perHour int, models ...*Client) *Chain {
	t.Helper()
	c, err := NewChain(models, perHour)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func hello(tenant string) chat.Request {
	return chat.Request{Tenant: tenant, Messages: []chat.Message{{Role: chat.User, Text: "hello"}}}
}

func TestChainAsksTheNext(t *testing.T) {
	down := func() (*http.Response, error) { return nil, errors.New("connection refused") }
	for _, tt := range []struct {
		name          string
		first, second func() (*http.Response, error)
		calls         [2]int // of two requests
		want          error
	}{
		{"well", status(200), status(500), [2]int{2, 0}, nil},
		{"down", down, status(200), [2]int{1, 2}, nil}, // the breaker spares the first the second time
		{"wrong key", status(401), status(200), [2]int{1, 2}, nil},
		{"rejected", status(400), status(200), [2]int{2, 2}, nil},
		{"too long", status(413), status(200), [2]int{2, 0}, chat.ErrTooLong},
		{"all down", down, down, [2]int{1, 1}, chat.ErrUnavailable},
		{"all refuse", status(401), status(401), [2]int{1, 1}, chat.ErrRefused},
		{"one refuses, one is down", status(401), down, [2]int{1, 1}, chat.ErrUnavailable},
		{"all reject", status(400), status(400), [2]int{2, 2}, chat.ErrRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{Attempts: 1, BreakerFailures: 1}
				a, s1 := scripted(t, cfg, tt.first)
				b, s2 := scripted(t, cfg, tt.second)
				c := chain(t, 0, a, b)
				for range 2 {
					if got, err := c.Chat(t.Context(), hello("t")); !errors.Is(err, tt.want) || (err == nil) != (got.Text == "fine") {
						t.Errorf("%v, %v, want %v", got, err, tt.want)
					}
				}
				if len(s1.at) != tt.calls[0] || len(s2.at) != tt.calls[1] {
					t.Errorf("%d and %d calls, want %v", len(s1.at), len(s2.at), tt.calls)
				}
				if st := c.State(); len(st) != 2 || st[0].Calls != uint64(len(s1.at)) || (st[0].Failed > 0) != (st[0].LastError != "") {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func TestSpending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := scripted(t, Config{}, status(200)) // 29 tokens an answer
		c := chain(t, 50, m)
		ask := func(r chat.Request) error { _, err := c.Chat(t.Context(), r); return err }
		if err := errors.Join(ask(hello("a")), ask(hello("a"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		err := ask(hello("a"))
		if !errors.Is(err, chat.ErrSpent) || !errors.Is(err, chat.ErrUnavailable) || len(s.at) != 2 {
			t.Errorf("over the limit: %v after %d calls", err, len(s.at))
		}
		going := hello("a")
		going.Continues = true
		if err := errors.Join(ask(going), ask(hello("b"))); err != nil {
			t.Errorf("what was begun, or another tenant: %v", err)
		}
		r := c.Spending()
		if r.TokensLastHour != 4*29 || len(r.Tenants) != 2 || r.Tenants[0].Tenant != "a" || !r.Tenants[0].Spent || r.Tenants[0].Refused != 1 || r.Tenants[1].Spent {
			t.Errorf("%+v", r)
		}
		time.Sleep(31 * time.Minute) // the first two are an hour old, the third is not
		if err := ask(hello("a")); err != nil {
			t.Errorf("an hour later: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if r := c.Spending(); len(r.Tenants) != 0 || r.TokensLastHour != 0 {
			t.Errorf("hours later: %+v", r)
		}
	})
}

// A summary that is being made is finished, whatever its first answer cost.
func TestSpendingNeverStopsASummary(t *testing.T) {
	m := serve(t, OpenAI, reply(200, fmt.Sprintf(chatBody, `""`, "stop"))) // never a summary
	c := chain(t, 1, m)
	lines := []condense.Line{{Ref: "e1", Role: "user", Text: string(make([]byte, 4000))}}
	ladder := condense.Ladder{Summarizer: c, Tenant: "a"}
	job := condense.LeafJob{Key: "k", Target: 100, HardCap: 300, InputMax: 4000}
	if _, err := ladder.Leaf(context.Background(), job, lines, false); err != nil {
		t.Errorf("level 2 was refused: %v", err)
	}
	if n := m.State().Calls; n != 2 {
		t.Errorf("%d calls", n)
	}
	if _, err := ladder.Leaf(context.Background(), job, lines, false); !errors.Is(err, chat.ErrSpent) {
		t.Errorf("the next one: %v", err)
	}
}
