package ingest

import (
	"context"
	"testing"

	"lcm/internal/api"
)

// Whatever an agent publishes, the inbox goes on, and a second delivery of it
// stores nothing.
func FuzzHandleInbox(f *testing.F) {
	for _, s := range []string{
		`{"role":"user","content":"a"}`, `[{"role":"user","content":"a"},{"role":"x"}]`, "", "\x00", "null",
		`{"messages":[{"role":"user","content":[{"type":"image"}]}]}`,
		`{"type":"user","uuid":"u","isSidechain":true,"message":{"role":"user","content":"x"}}`,
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte(`{"role":"user","content":"a"}`), "no-such-format")
	f.Fuzz(func(t *testing.T, data []byte, format string) {
		w := start(t)
		msg := api.InboxMessage{Ref: ref("s"), Seq: 1, Data: data, Format: format}
		if err := w.svc.HandleInbox(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
		n := len(w.log.all())
		w.head(t, "s")
		w.open(t, Config{})
		if err := w.svc.HandleInbox(context.Background(), msg); err != nil {
			t.Fatal(err)
		}
		if again := len(w.log.all()); again != n {
			t.Fatalf("%d events, then %d", n, again)
		}
	})
}
