//go:build linux

package mapper_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lcm/internal/api"
)

// smallDisk mounts a disk of so many bytes; the returned function enlarges it.
func smallDisk(t *testing.T, dir string, size string) (enlarge func()) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return func() {
		t.Helper()
		if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	}
}

// told signals that something was logged as an error.
type told struct {
	slog.Handler
	errors chan string
}

func (h told) Enabled(context.Context, slog.Level) bool { return true }

func (h told) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		select {
		case h.errors <- r.Message:
		default:
		}
	}
	return nil
}

// With no room for the state of jobs they stand still, the process goes on, and
// once there is room every row gets its one result.
func TestStateOnAFullDisk(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t))
	w.storeDir = filepath.Join(t.TempDir(), "small")
	enlarge := smallDisk(t, w.storeDir, "256k")
	h := told{slog.DiscardHandler, make(chan string, 1)}
	w.log = slog.New(h)
	w.open()
	job := w.begin(rowsOf(5000), api.MapRunIn{})
	select {
	case text := <-h.errors:
		if !strings.Contains(text, "cannot be stored") {
			t.Error(text)
		}
	case <-time.After(time.Minute):
		t.Fatal("the disk is not full")
	}
	enlarge()
	if out := w.end(job); out.OK != 5000 || len(w.output(job)) != 5000 {
		t.Errorf("%+v", out)
	}
}

// An output that its disk has no room for is an error of the output alone: the
// results stay, nothing is left half written, and a retry writes it.
func TestOutputOnAFullDisk(t *testing.T) {
	p := newProvider(t, 0, echo)
	w := newWorld(t, p.client(t))
	root := t.TempDir()
	small := filepath.Join(root, "small")
	enlarge := smallDisk(t, small, "16k")
	w.roots = []string{root}
	w.open()
	o, err := w.service.MapRun(t.Context(), api.MapRunIn{
		Scope: tenant, InputRows: rowsOf(1000), OutputPath: "small/out.jsonl", Prompt: "Label {{text}}", OutputSchema: json.RawMessage(labelSchema),
	})
	w.must(err)
	o = w.end(o.Job)
	if o.State != "done" || o.OK != 1000 || o.Output != "" || !strings.Contains(o.OutputError, "no space left") {
		t.Errorf("%+v", o)
	}
	if left, err := os.ReadDir(small); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	enlarge()
	if _, err := w.service.MapRetry(t.Context(), api.MapRetryIn{Scope: tenant, Job: o.Job}); err != nil {
		t.Fatal(err)
	}
	calls := p.calls.Load()
	if o = w.end(o.Job); o.Output != "small/out.jsonl" || p.calls.Load() != calls {
		t.Errorf("%+v after %d more calls", o, p.calls.Load()-calls)
	}
	if b, err := os.ReadFile(filepath.Join(small, "out.jsonl")); err != nil || strings.Count(string(b), "\n") != 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
