package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asLCM makes the test binary behave as the command, so that tests can start
// real processes, and kill them, without building anything.
const asLCM = "LCM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asLCM) != "" {
		main()
	}
	if os.Getenv(asToolServer) != "" {
		serveTools()
	}
	os.Exit(m.Run())
}

// result of one command line.
type result struct {
	out, err string
	code     int
}

// lcm runs a command line in this process against a data directory.
func lcm(t *testing.T, dir string, args ...string) result {
	t.Helper()
	return lcmIn(t, dir, "", args...)
}

func lcmIn(t *testing.T, dir, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := run(ctx, append([]string{"--data-dir", dir}, args...), strings.NewReader(stdin), &out, &errs)
	return result{out.String(), errs.String(), code}
}

// ok runs a command line that must succeed.
func ok(t *testing.T, dir string, args ...string) string {
	t.Helper()
	r := lcm(t, dir, args...)
	if r.code != 0 {
		t.Fatalf("lcm %s: exit %d\n%s", strings.Join(args, " "), r.code, r.err)
	}
	return r.out
}

// decode reads one JSON value from a command's output.
func decode[T any](t *testing.T, out string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("output is not JSON: %v\n%s", err, out)
	}
	return v
}

// lines reads one JSON value a line.
func lines[T any](t *testing.T, out string) []T {
	t.Helper()
	var all []T
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var v T
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("output is not JSON lines: %v\n%.2000s", err, out)
		}
		all = append(all, v)
	}
}

// command prepares a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe, args...)
	c.Env = append(os.Environ(), asLCM+"=1")
	return c
}

// serve starts `lcm serve` as a process and waits until it answers.
func serve(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return serveInto(t, dir, new(bytes.Buffer), args...)
}

// serveInto is serve with a place for its log.
func serveInto(t *testing.T, dir string, log interface {
	io.Writer
	fmt.Stringer
}, args ...string,
) *exec.Cmd {
	t.Helper()
	c := command(t, append([]string{"serve", "--data-dir", dir, "--http", "127.0.0.1:0"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	line := make([]byte, 4096)
	n, err := out.Read(line)
	if err != nil || !strings.Contains(string(line[:n]), "://") {
		t.Fatalf("lcm serve said %q, %v\n%s", line[:n], err, log.String())
	}
	return c
}

// shared is the directory of real transcripts; tests that need it are skipped
// where it is absent.
func shared(t *testing.T, elem ...string) string {
	t.Helper()
	dir := os.Getenv("LCM_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(append([]string{dir}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared transcripts here: %v", err)
	}
	return path
}
