//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/client"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// smallDisk mounts a disk of so many bytes on a directory.
func smallDisk(t *testing.T, dir string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// fill takes what is free on a disk; the returned function gives it back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, chunk := range [][]byte{make([]byte, 1<<20), make([]byte, 4096), make([]byte, 1)} {
		for err = nil; err == nil; {
			_, err = f.Write(chunk)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// logged is what a server writes to its log.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestFullDisk fills the disk of the log, and that of the projections, under a
// server that is appended to. Appends answer an error, reads go on, the log file
// is not flooded, and once there is room it all goes on by itself.
func TestFullDisk(t *testing.T) {
	for _, part := range []string{"jetstream", "projection", limited} {
		t.Run(part, func(t *testing.T) { fullDisk(t, part) })
	}
}

// limited: in place of a full disk, no file of the server may grow. It needs no
// right to mount.
const limited = "file sizes"

// limitFiles keeps a process's files from growing beyond so many bytes.
func limitFiles(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	limit := syscall.Rlimit{Cur: bytes, Max: math.MaxUint64}
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); err != 0 {
		t.Fatal(err)
	}
}

func fullDisk(t *testing.T, part string) {
	data := t.TempDir()
	disk := filepath.Join(data, part)
	if part != limited {
		smallDisk(t, disk, 64<<20)
	}
	addr, said := freeAddr(t), &logged{}
	server := serveInto(t, data, said, "--nats-listen", addr)
	c := ownerClient(data)
	append1 := func(session, id string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		body := fmt.Sprintf(`{"id":%q,"role":"user","content":%q}`, id, strings.Repeat("words ", 300))
		out, err := c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: session}, Format: "lcm"}, []byte(body))
		if err == nil && out.Turns[0].Error != "" {
			err = errors.New(out.Turns[0].Error)
		}
		return err
	}
	acked := map[string]bool{}
	for i := range 20 {
		id := fmt.Sprint("m", i)
		if err := append1("s", id); err != nil {
			t.Fatal(err)
		}
		acked[id] = true
	}
	read := func() (n int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		turns, err := shown(ctx, c, "s")
		return len(turns), err
	}
	if n, err := read(); err != nil || n != 20 {
		t.Fatalf("%d turns, %v", n, err)
	}

	free := func() { limitFiles(t, server.Process.Pid, math.MaxUint64) }
	if part == limited {
		limitFiles(t, server.Process.Pid, 8<<10)
	} else {
		free = fill(t, disk)
	}
	lines := strings.Count(said.String(), "\n")
	publish(t, addr, 5)
	start, refused := time.Now(), 0
	for i := 20; time.Since(start) < 5*time.Second; i++ {
		session := "s"
		if part == "projection" { // what is not projected cannot be read yet
			session = "other"
		}
		id := fmt.Sprint("m", i)
		switch err := append1(session, id); {
		case err == nil && session == "s":
			acked[id] = true
		case err != nil:
			if p := problem.From(err); p.Code == problem.Internal {
				t.Errorf("an append answers %v", err)
			}
			refused++
		}
		if n, err := read(); err != nil || n < 20 {
			t.Fatalf("on a full disk: %d turns, %v\n%s", n, err, said.String())
		}
	}
	if part != "projection" {
		standsStill(t, c, said)
	}
	if part != "projection" && refused == 0 {
		t.Error("every append to a full disk was acknowledged")
	}
	if n := strings.Count(said.String(), "\n") - lines; n > 30 {
		t.Errorf("%d lines in the log in %s:\n%.6000s", n, time.Since(start).Round(time.Second), said.String())
	}

	free()
	deadline := time.Now().Add(45 * time.Second)
	for {
		err := append1("s", "room")
		if err == nil {
			acked["room"] = true
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("with room on the disk: %v\n%s", err, said.String())
		}
	}
	if err := append1("fresh", "room"); err != nil {
		t.Error(err)
	}
	publish(t, addr, 5)
	counts := map[string]int{}
	turns, err := allTurns(t.Context(), c, "s")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range turns {
		counts[turn.ID]++
	}
	for id := range acked {
		if counts[id] != 1 {
			t.Errorf("turn %s, which was acknowledged, is stored %d times", id, counts[id])
		}
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	_ = server.Wait()
	if v := verified(t, data); !v.OK {
		t.Errorf("verify: %+v", v)
	}
	if out := lcm(t, data, "doctor", "--deep"); out.code != 0 {
		t.Errorf("doctor: %s%s", out.out, out.err)
	}
	t.Logf("%d appends were refused, %d lines were logged\n%s", refused, strings.Count(said.String(), "\n"), said.String())
}

// standsStill: doctor does not call it health.
func standsStill(t *testing.T, c *client.Client, said fmt.Stringer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var r api.DoctorReply
	if err := c.Call(ctx, "doctor", api.DoctorIn{}, &r); err != nil {
		t.Errorf("doctor on a full disk: %v\n%s", err, said)
		return
	}
	for _, check := range r.Checks {
		if check.Name == "streams" && !check.OK {
			return
		}
	}
	t.Errorf("doctor on a full disk: %+v", r.Checks)
}

// shown reads what is projected of a session.
func shown(ctx context.Context, c *client.Client, session string) ([]api.TurnOut, error) {
	var page api.TurnsOut
	err := c.Call(ctx, "show", api.ShowIn{Scope: api.Scope{Session: session}}, &page)
	return page.Turns, err
}

// publish sends turns to the inbox; a full disk may refuse them.
func publish(t *testing.T, addr string, n int) {
	t.Helper()
	nc, err := nats.Connect("nats://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(500*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		ref := events.Ref{Tenant: "default", Session: fmt.Sprint("inbox-", i)}
		_, _ = js.Publish(t.Context(), events.InboxSubject(ref), []byte(`{"role":"user","content":"published"}`))
	}
}
