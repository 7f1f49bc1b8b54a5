package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"lcm/internal/api"
)

// flaky answers with the given statuses, then with 200, and keeps what it read.
type flaky struct {
	statuses []int
	bodies   []string
	answer   string
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	f.bodies = append(f.bodies, string(b))
	if len(f.statuses) > 0 {
		status := f.statuses[0]
		f.statuses = f.statuses[1:]
		code := map[int]string{503: "unavailable", 409: "conflict", 429: "limited"}[status]
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":"so it is"}`, status, code)
		return
	}
	fmt.Fprint(w, f.answer)
}

func quick(h http.Handler) *Client {
	c := InProcess(h)
	c.pause = time.Microsecond
	return c
}

func TestPassingFailuresAreTriedAgain(t *testing.T) {
	f := &flaky{statuses: []int{503, 429}, answer: `{"turns":[{"id":"x","entry":"e1"}],"token":"E@1"}`}
	out, err := quick(f).Append(t.Context(), "s", Turn{Role: "user", Content: "hello"})
	if err != nil || out.Turns[0].Entry != "e1" {
		t.Fatalf("%+v, %v", out, err)
	}
	if len(f.bodies) != 3 || f.bodies[0] != f.bodies[2] {
		t.Fatalf("%d tries: %q", len(f.bodies), f.bodies)
	}
	var sent Turn
	if err := json.Unmarshal([]byte(f.bodies[0]), &sent); err != nil || sent.ID == "" {
		t.Fatalf("a turn without an id cannot be sent again: %s, %v", f.bodies[0], err)
	}
}

func TestOtherFailuresAreNot(t *testing.T) {
	f := &flaky{statuses: []int{409}}
	_, err := quick(f).Append(t.Context(), "s", Turn{Role: "user", Content: "hello"})
	var p *Error
	if !errors.As(err, &p) || p.Code != "conflict" || len(f.bodies) != 1 {
		t.Fatalf("%v after %d tries", err, len(f.bodies))
	}
	// A report of usage counts every time it is sent.
	f = &flaky{statuses: []int{503}}
	if _, err := quick(f).Configure(t.Context(), ConfigureIn{Usage: &api.Usage{Counted: 1, Reported: 1}}); err == nil || len(f.bodies) != 1 {
		t.Fatalf("%v after %d tries", err, len(f.bodies))
	}
	// One that does not pass ends.
	f = &flaky{statuses: []int{503, 503, 503, 503, 503, 503, 503}}
	if _, err := quick(f).Status(t.Context()); !errors.As(err, &p) || p.Code != "unavailable" || len(f.bodies) != defaultTries {
		t.Fatalf("%v after %d tries", err, len(f.bodies))
	}
}
