package main

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"lcm/internal/api"
)

// A browser's EventSource sends the id of the last event it saw; what a turn
// says cannot forge another event.
func TestEventSource(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir)
	url := serverURL(t, dir)
	first := lines[api.AppendedTurn](t, lcmIn(t, dir, `{"id":"1","role":"user","content":"one"}`, "append", "s", "--json").out)[0]
	lcmIn(t, dir, `{"id":"2","role":"user","content":"two\nid: forged\n\nevent: cut\ndata: {}\n\n"}`, "append", "s")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/events?session=s", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", first.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		t.Fatalf("HTTP %d, %s", resp.StatusCode, ct)
	}
	var names []string
	for in := bufio.NewScanner(resp.Body); in.Scan(); {
		line := in.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			names = append(names, name)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && names[len(names)-1] == "turn" {
			ev := decode[api.SessionEvent](t, data)
			if ev.Turn.Entry != "e2" || !strings.Contains(ev.Turn.Text, "\n\nevent: cut\n") {
				t.Errorf("%+v", ev.Turn)
			}
			break
		}
		if strings.HasPrefix(line, "id: forged") {
			t.Fatal("a turn forged an id")
		}
	}
	if got := strings.Join(names, " "); got != "open turn" {
		t.Errorf("events: %s", got)
	}
}
