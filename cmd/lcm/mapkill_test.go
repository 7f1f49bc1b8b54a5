package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lcm/client"
	"lcm/internal/api"
)

// mapConcurrency of the killed jobs, and the rows that are claimed then.
const (
	mapConcurrency = 64
	mapLeases      = 2 * mapConcurrency
)

// beginMapJob uploads rows and starts a job through a server.
func beginMapJob(t *testing.T, c *client.Client, rows int) string {
	t.Helper()
	f, err := os.Open(writeRows(t, rows))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	up, err := c.MapUpload(t.Context(), api.Scope{}, f)
	if err != nil {
		t.Fatal(err)
	}
	var out api.MapOut
	err = c.Call(t.Context(), "llm_map", api.MapRunIn{
		InputObject: up.Object, Prompt: "Label {{text}}", OutputSchema: []byte(mapSchema), Concurrency: mapConcurrency,
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Job
}

// awaitCalls returns once the provider has been asked so often.
func (p *rowProvider) awaitCalls(t *testing.T, n int64) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); p.calls.Load() < n; {
		<-tick.C
		if time.Since(start) > time.Minute {
			t.Fatalf("a minute passed with %d of %d calls", p.calls.Load(), n)
		}
	}
}

// finishedMap waits for the end of a job and checks that every row has exactly
// its result.
func finishedMap(t *testing.T, dir, job string, rows int) api.MapOut {
	t.Helper()
	c := ownerClient(dir)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := c.WatchMap(ctx, api.MapIn{Job: job}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out.State != "done" || int(out.OK) != rows || out.Failed != 0 {
		t.Fatalf("%+v", out)
	}
	n := 0
	for _, r := range lines[api.MapRow](t, ok(t, dir, "map", "output", job)) {
		n++
		if want := fmt.Sprintf(`{"label":"w%d"}`, n); int(r.Row) != n || !r.OK || string(r.Result) != want {
			t.Fatalf("line %d is %+v, want %s", n, r, want)
		}
	}
	if n != rows {
		t.Fatalf("%d lines for %d rows", n, rows)
	}
	return *out
}

// TestMapSurvivesKills kills the whole system again and again in the middle of
// a job: every row has exactly one result, and no more calls were made twice
// than rows were claimed at the kills.
func TestMapSurvivesKills(t *testing.T) {
	kills, rows := soak(4, 20), soak(4_000, 100_000)
	p := newRowProvider(t, 20*time.Millisecond)
	dir := t.TempDir()
	server := serve(t, dir, p.options()...)
	job := beginMapJob(t, ownerClient(dir), rows)
	for k := range kills {
		p.awaitCalls(t, int64(rows*(k+1)/(kills+1)))
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		server = serve(t, dir, p.options()...)
	}
	out := finishedMap(t, dir, job, rows)
	extra := int(p.calls.Load()) - rows
	if extra > kills*mapLeases {
		t.Errorf("%d calls were made twice after %d kills with %d rows claimed", extra, kills, mapLeases)
	}
	t.Logf("%d kills, %d rows, %d calls made twice, %d results that came twice", kills, rows, extra, int(p.calls.Load())-out.Calls)
}

// TestMapWorkersAreKilled runs workers as processes of their own, kills one of
// them again and again, and the keeper of the jobs in between.
func TestMapWorkersAreKilled(t *testing.T) {
	kills, rows := soak(4, 20), soak(3_000, 30_000)
	p := newRowProvider(t, 20*time.Millisecond)
	for name, v := range map[string]string{"KIND": "openai", "BASE_URL": p.URL, "MODEL": "fake", "LEASE_SECONDS": "1"} {
		t.Setenv("LCM_MAP_"+name, v)
	}
	url, dir := natsServer(t), t.TempDir()
	keeper := serve(t, dir, "--nats", url, "--option", "map.calls=0")
	bin := filepath.Join(t.TempDir(), "mapworker")
	if out, err := exec.Command("go", "build", "-o", bin, "lcm/cmd/mapworker").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	start := func() *exec.Cmd {
		c := exec.Command(bin, "--nats", url, "--data-dir", t.TempDir())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c
	}
	workers := []*exec.Cmd{start(), start(), start()}
	job := beginMapJob(t, ownerClient(dir), rows)
	for k := range kills {
		p.awaitCalls(t, int64(rows*(k+1)/(kills+2)))
		if k%4 == 3 { // what it handed out is handed out again
			_ = keeper.Process.Kill()
			_ = keeper.Wait()
			keeper = serve(t, dir, "--nats", url, "--option", "map.calls=0")
			continue
		}
		w := k % len(workers)
		_ = workers[w].Process.Kill()
		_ = workers[w].Wait()
		workers[w] = start()
	}
	finishedMap(t, dir, job, rows)
	extra := int(p.calls.Load()) - rows
	if extra > kills*mapLeases {
		t.Errorf("%d calls were made twice after %d kills with %d rows claimed", extra, kills, mapLeases)
	}
	t.Logf("%d kills, %d rows, %d calls made twice", kills, rows, extra)
}

// TestMapSpeed measures a large job against its ideal, which is the provider's
// latency alone, and the memory of the process that does it. A machine that
// does something else meanwhile proves nothing: it runs in a soak only.
func TestMapSpeed(t *testing.T) {
	if os.Getenv("LCM_SOAK") == "" {
		t.Skip("a measurement: LCM_SOAK=1")
	}
	rows := cycles(t, 0, 100_000)
	p := newRowProvider(t, 20*time.Millisecond)
	dir := t.TempDir()
	server := serve(t, dir, p.options()...)
	start := time.Now()
	job := beginMapJob(t, ownerClient(dir), rows)
	begun := time.Now()
	var mib []int
	for part := range 10 {
		p.awaitCalls(t, int64(rows*(part+1)/10))
		mib = append(mib, anonymousMiB(t, server.Process.Pid))
	}
	c := ownerClient(dir)
	if _, err := c.WatchMap(t.Context(), api.MapIn{Job: job}, nil); err != nil {
		t.Fatal(err)
	}
	wall := time.Since(begun)
	ideal := time.Duration(rows) * p.latency / mapConcurrency
	t.Logf("%d rows: upload and definition %s, rows %s, ideal %s, ratio %.3f, at most %d calls at once", rows, begun.Sub(start).Round(time.Millisecond), wall.Round(time.Millisecond), ideal, wall.Seconds()/ideal.Seconds(), p.most.Load())
	t.Logf("anonymous MiB at each tenth of the rows: %v", mib)
	finishedMap(t, dir, job, rows)
	if int(p.calls.Load()) != rows {
		t.Errorf("%d calls", p.calls.Load())
	}
}

// anonymousMiB is the memory a process has for itself: without the pages of
// files that it maps, which are the system's to take away.
func anonymousMiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("no /proc here: %v", err)
	}
	_, rest, _ := strings.Cut(string(b), "RssAnon:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
