package lcm_test

import (
	"context"
	"fmt"
	"os"

	"lcm"
	"lcm/client"
)

// The whole system in one process: open a directory, append, search, read back.
func Example() {
	dir, _ := os.MkdirTemp("", "lcm")
	defer os.RemoveAll(dir)
	ctx := context.Background()

	store, err := lcm.Open(ctx, dir, lcm.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	_, _ = store.Append(ctx, "chat", client.Turn{ID: "m1", Role: "user", Content: "The port is 8420."})
	found, _ := store.Grep(ctx, client.GrepIn{Scope: client.Scope{Fresh: true}, Pattern: "port"})
	model, _ := store.Context(ctx, client.ContextIn{Scope: client.Scope{Session: "chat"}})

	fmt.Println(found.Hits[0].Entry, found.Hits[0].Snippet)
	fmt.Println(string(model.Messages[0]))
	// Output:
	// e1 The port is 8420.
	// {"role":"user","content":"The port is 8420."}
}
