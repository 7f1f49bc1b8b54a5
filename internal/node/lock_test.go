package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The lock says who owns a directory. What server.json says counts only where
// it was written by the process that holds the lock.
func TestOwnerIsWhoHoldsTheLock(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		owner      bool
	}{
		{"no server", "", false},
		{"of this process", fmt.Sprintf(`{"pid":%d,"url":"http://127.0.0.1:1"}`, os.Getpid()), true},
		{"of a process that was killed", `{"pid":1,"url":"http://127.0.0.1:1"}`, false},
		{"garbage", "{", false},
		{"of other types", `{"pid":"x","url":5}`, false},
		{"a list", `[]`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			held, err := lockDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer held.release()
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(dir, ownerFile), []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			lock, owner, err := waitLock(ctx, dir)
			if lock != nil || (owner != nil) != tt.owner {
				t.Errorf("lock %v, owner %+v", lock, owner)
			}
			if !tt.owner && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("did not wait for the lock: %v", err)
			}
		})
	}
}

// A port that another program, or the server of another log, has taken over is
// not the owner.
func TestAliveKnowsItsOwner(t *testing.T) {
	answer := func(status int, epoch string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if epoch != "" {
				w.Header().Set("Lcm-Epoch", epoch)
			}
			w.WriteHeader(status)
		}
	}
	for _, tt := range []struct {
		name string
		h    http.HandlerFunc
		says string
	}{
		{"the owner", answer(200, "MINE"), ""},
		{"another log", answer(200, "OTHER"), "not MINE"},
		{"another program", answer(200, ""), "no lcm server"},
		{"an error", answer(404, "MINE"), "no lcm server"},
	} {
		srv := httptest.NewServer(tt.h)
		err := alive(t.Context(), &Owner{PID: 1, URL: srv.URL, Epoch: "MINE"})
		srv.Close()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
