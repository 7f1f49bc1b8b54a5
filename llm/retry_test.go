package llm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lcm/condense"
)

// script is a provider in memory: one step per call, the last one repeated.
type script struct {
	steps []func() (*http.Response, error)
	start time.Time

	mu sync.Mutex
	at []time.Duration // when each call came, since the start
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	n := len(s.at)
	s.at = append(s.at, time.Since(s.start))
	s.mu.Unlock()
	return s.steps[min(n, len(s.steps)-1)]()
}

func status(code int, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		body := `{"error":{"message":"no"}}`
		if code == 200 {
			body = fmt.Sprintf(chatBody, `"fine"`, "stop")
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

func scripted(t *testing.T, cfg Config, steps ...func() (*http.Response, error)) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps, start: time.Now()}
	cfg.Family, cfg.Model = OpenAI, "m"
	c, err := New(cfg, Deps{Transport: s, Rand: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func (s *script) expect(t *testing.T, want ...time.Duration) {
	t.Helper()
	if fmt.Sprint(s.at) != fmt.Sprint(want) {
		t.Errorf("calls at %v, want %v", s.at, want)
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{Attempts: 5}, status(500), status(503), status(502), status(504), status(200))
		if got, err := c.Summarize(t.Context(), request()); err != nil || got.Text != "fine" {
			t.Fatal(got, err)
		}
		s.expect(t, 0, 250*time.Millisecond, 750*time.Millisecond, 1750*time.Millisecond, 3750*time.Millisecond)
	})
}

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, header, value string
		want                time.Duration
	}{
		{"seconds", "Retry-After", "7", 7 * time.Second},
		{"fraction", "Retry-After", "0.5", 500 * time.Millisecond},
		{"milliseconds", "Retry-After-Ms", "1500", 1500 * time.Millisecond},
		{"date", "Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT", 9 * time.Second},
		{"nonsense", "Retry-After", "soon", 250 * time.Millisecond},
		{"negative", "Retry-After", "-3", 250 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // the bubble's clock starts at 2000-01-01
				c, s := scripted(t, Config{}, status(429, tt.header, tt.value), status(200))
				if _, err := c.Summarize(t.Context(), request()); err != nil {
					t.Fatal(err)
				}
				s.expect(t, 0, tt.want)
			})
		})
	}
}

func TestAskedToWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{}, status(429, "Retry-After", "3600"))
		for range 2 {
			if _, err := c.Summarize(t.Context(), request()); !errors.Is(err, condense.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		s.expect(t, 0) // the second call was not made
	})
}

func TestOverloadPausesAllCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{}, status(529, "Retry-After", "10"), status(200))
		done := make(chan error)
		go func() { _, err := c.Summarize(t.Context(), request()); done <- err }()
		synctest.Wait()
		go func() { _, err := c.Summarize(t.Context(), request()); done <- err }()
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
		s.expect(t, 0, 10*time.Second, 10*time.Second)
	})
}

func TestShouldRetryHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{}, status(500, "X-Should-Retry", "false"))
		if _, err := c.Summarize(t.Context(), request()); !errors.Is(err, condense.ErrUnavailable) {
			t.Fatal(err)
		}
		s.expect(t, 0)
	})
}

func TestBreakerOpensOnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := func() (*http.Response, error) { return nil, errors.New("connection refused") }
		c, s := scripted(t, Config{Attempts: 1, BreakerFailures: 3, BreakerCooldown: 30 * time.Second}, down, down, down, down, down, status(200))
		call := func() error { _, err := c.Summarize(t.Context(), request()); return err }
		for range 10 {
			if err := call(); !errors.Is(err, condense.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		s.expect(t, 0, 0, 0)
		if c.State().Breaker != "outage" {
			t.Errorf("breaker open for %q", c.State().Breaker)
		}
		time.Sleep(31 * time.Second)
		call() // the probe fails: the cool-down doubles
		call()
		time.Sleep(31 * time.Second)
		call()
		time.Sleep(30 * time.Second)
		call() // the second probe fails: two minutes
		time.Sleep(2 * time.Minute)
		if err := errors.Join(call(), call()); err != nil || c.State().Breaker != "" {
			t.Errorf("%v, breaker open for %q", err, c.State().Breaker)
		}
		s.expect(t, 0, 0, 0, 31*time.Second, 92*time.Second, 212*time.Second, 212*time.Second)
	})
}

func TestBreakerOpensAtOnceOnRefusal(t *testing.T) {
	for _, tt := range []struct {
		code int
		want error
	}{{401, condense.ErrRefused}, {404, condense.ErrRefused}, {402, condense.ErrUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			c, s := scripted(t, Config{}, status(tt.code), status(200))
			for range 3 {
				if _, err := c.Summarize(t.Context(), request()); !errors.Is(err, tt.want) {
					t.Fatal(err)
				}
			}
			s.expect(t, 0)
			time.Sleep(31 * time.Second)
			if _, err := c.Summarize(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestBadRequestsDoNotOpenTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{BreakerFailures: 2}, status(400))
		for range 10 {
			_, _ = c.Summarize(t.Context(), request())
		}
		if len(s.at) != 10 || c.State().Breaker != "" {
			t.Errorf("%d calls, breaker open for %q", len(s.at), c.State().Breaker)
		}
	})
}

func TestCancelDuringProbeLeavesTheNextOneAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := scripted(t, Config{Attempts: 1, BreakerFailures: 1}, status(500),
			func() (*http.Response, error) { time.Sleep(time.Second); return nil, context.Canceled }, status(200))
		_, _ = c.Summarize(t.Context(), request())
		time.Sleep(31 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Summarize(ctx, request()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if _, err := c.Summarize(t.Context(), request()); err != nil {
			t.Error(err)
		}
	})
}

// A call that went out before the breaker opened is no probe: that its caller
// hangs up, or that it fails at last, neither lets a second probe out nor
// prolongs the cool-down.
func TestOneProbeAtATime(t *testing.T) {
	for _, end := range []string{"hangs up", "fails", "succeeds", "is overloaded"} {
		t.Run(end, func(t *testing.T) {
			b := &breaker{limit: 1, cooldown: time.Second}
			now := time.Unix(0, 0)
			outage := &fault{cause: causeOutage, err: errors.New("down")}
			pass := func() admission {
				t.Helper()
				a, d, err := b.admit(now)
				if d != 0 || err != nil {
					t.Fatalf("not admitted: %v %v", d, err)
				}
				return a
			}
			old, bad := pass(), pass()
			b.settle(bad, outage, now)
			now = now.Add(time.Second)
			probe := pass()
			switch end {
			case "hangs up":
				b.release(old)
			case "fails":
				b.settle(old, outage, now)
			case "succeeds":
				b.settle(old, nil, now)
			case "is overloaded":
				b.settle(old, &fault{cause: causeOverload}, now)
			}
			if _, _, err := b.admit(now); err == nil {
				t.Error("a second probe went out")
			}
			b.settle(probe, nil, now)
			pass()
		})
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := scripted(t, Config{RequestsPerSecond: 2}, status(200))
		for range 3 {
			if _, err := c.Summarize(t.Context(), request()); err != nil {
				t.Fatal(err)
			}
		}
		s.expect(t, 0, 500*time.Millisecond, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := c.Summarize(ctx, request()); !errors.Is(err, condense.ErrUnavailable) {
			t.Error(err)
		}
	})
}

func TestCancelWhileBackingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := scripted(t, Config{BackoffMin: time.Minute}, status(500))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Summarize(ctx, request()); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
