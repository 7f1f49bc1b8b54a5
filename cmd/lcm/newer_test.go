package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"lcm/internal/api"
)

// TestNewerStoreIsRefused: rows that a later build made are refused with the
// reason, by reads and appends, and stay as they are.
func TestNewerStoreIsRefused(t *testing.T) {
	data := t.TempDir()
	appendLines(t, data, "s", `{"id":"a","role":"user","content":"one"}`)
	ok(t, data, "sessions")
	path := filepath.Join(data, "projection", "lcm.bolt")
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("99.99")) })
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	remove(t, path+".sum") // the later build's
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	oneError(t, lcm(t, data, "sessions"), 4, "made by a newer build")
	oneError(t, lcmIn(t, data, `{"id":"b","role":"user","content":"two"}`, "append", "s"), 4, "made by a newer build")
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the newer store was touched: %v", err)
	}
	// The log is the same for both builds: made anew from it, all is there.
	ok(t, data, "rebuild", "--store")
	if got := lines[api.TurnOut](t, ok(t, data, "show", "--json", "s")); len(got) != 1 {
		t.Errorf("%d turns", len(got))
	}
}
