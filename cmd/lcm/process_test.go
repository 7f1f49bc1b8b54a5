package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"lcm/client"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/node"
	"lcm/internal/problem"
	"lcm/natsembed"
	"lcm/natsmicro"
)

// TestKillUnderLoad kills the server again and again while clients append,
// import, publish to the inbox and condense. A turn whose token or PubAck a
// client has seen is there afterwards, once; the chains are whole, and the
// projections are what a rebuild makes.
func TestKillUnderLoad(t *testing.T) {
	kills := cycles(t, 10, 200)
	data := t.TempDir()
	acked := &ledger{seen: map[string]map[string]string{}, counts: make([]int, kills)}
	rng := rand.New(rand.NewPCG(seedOf(t), 1))
	for round := range kills {
		addr := freeAddr(t)
		server := serve(t, data, "--nats-listen", addr)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for s := range 4 {
			wg.Go(func() { appendUntilDead(ctx, data, fmt.Sprint("live-", s), round, acked) })
		}
		wg.Go(func() { importUntilDead(ctx, data, round, acked) })
		wg.Go(func() { publishUntilDead(ctx, data, addr, round, acked) })
		wg.Go(func() { condenseUntilDead(ctx, data) })
		acked.await(t, round, 50+rng.IntN(150))
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		cancel()
		wg.Wait()
	}
	server := serve(t, data)
	acked.drained(t, data)
	_ = server.Process.Kill()
	_ = server.Wait()
	total := 0
	for session, turns := range acked.seen {
		stored := map[string]int{}
		entries := map[string]string{}
		for _, turn := range lines[api.TurnOut](t, ok(t, data, "show", "--json", session)) {
			stored[turn.ID]++
			entries[turn.ID] = turn.Entry
		}
		for id, entry := range turns {
			total++
			if stored[id] != 1 || entry != "" && entries[id] != entry {
				t.Errorf("%s: turn %s was acknowledged as %s and is stored %d times, as %s", session, id, entry, stored[id], entries[id])
			}
		}
		for id, n := range stored {
			if n != 1 {
				t.Errorf("%s: turn %s is stored %d times", session, id, n)
			}
		}
	}
	v := decode[api.VerifyReply](t, ok(t, data, "verify", "--json"))
	r := decode[api.RebuildReply](t, ok(t, data, "rebuild", "--json"))
	if r.Digest != r.Live {
		t.Errorf("the rebuild differs from the live store: %+v", r)
	}
	if out := lcm(t, data, "doctor", "--deep"); out.code != 0 {
		t.Errorf("doctor: %s%s", out.out, out.err)
	}
	if r.Nodes == 0 {
		t.Errorf("nothing was condensed: %+v", r)
	}
	t.Logf("%d kills, %d acknowledged turns, %d by the inbox; %d events verified, %d summaries", kills, total, len(acked.seen[inboxSession]), v.Events, r.Nodes)
}

// freeAddr is a loopback address that nobody listens on just now.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// inboxSession is published to by agents that speak nothing but NATS.
const inboxSession = "inbox"

// publishUntilDead publishes to the inbox, every second turn without an id; a
// PubAck is an acknowledgement.
func publishUntilDead(ctx context.Context, data, addr string, round int, acked *ledger) {
	nc, err := nats.Connect("nats://"+addr, nats.NoReconnect())
	if err != nil {
		return
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		return
	}
	epoch := owner(data).Epoch
	subject := events.InboxSubject(events.Ref{Tenant: "default", Session: inboxSession})
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("in-%d-%d", round, i)
		turn := map[string]string{"id": id, "role": "user", "content": "published " + id}
		if i%2 == 1 {
			delete(turn, "id")
		}
		body, _ := json.Marshal(turn)
		ack, err := js.Publish(ctx, subject, body)
		if err != nil {
			return
		}
		if i%2 == 1 {
			id = fmt.Sprintf("in:%s:%d:0", epoch, ack.Sequence)
		}
		acked.add(round, inboxSession, id, "")
	}
}

// condenseUntilDead condenses what is imported for the smallest window.
func condenseUntilDead(ctx context.Context, data string) {
	c := ownerClient(data)
	for i := 0; ctx.Err() == nil; i++ {
		var out api.CondenseOut
		err := c.Call(ctx, "condense", api.CondenseIn{Scope: api.Scope{Session: fmt.Sprintf("file-%d", i%3)}, Window: 16_000}, &out)
		if problem.IsCode(err, problem.Unavailable) {
			return
		}
	}
}

// ledger is what clients were told is durable: session → turn id → entry.
type ledger struct {
	mu     sync.Mutex
	seen   map[string]map[string]string
	counts []int // by round
}

func (l *ledger) add(round int, session, id, entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen[session] == nil {
		l.seen[session] = map[string]string{}
	}
	l.seen[session][id] = entry
	l.counts[round]++
}

// await returns once this round has enough acknowledged turns.
func (l *ledger) await(t *testing.T, round, enough int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case <-deadline:
			t.Fatalf("round %d: fewer than %d turns were acknowledged in a minute", round, enough)
		case <-tick.C:
			l.mu.Lock()
			n := l.counts[round]
			l.mu.Unlock()
			if n >= enough {
				return
			}
		}
	}
}

// drained waits until every message of the inbox that was acknowledged is a
// turn.
func (l *ledger) drained(t *testing.T, data string) {
	t.Helper()
	c, missing := ownerClient(data), len(l.seen[inboxSession])
	for deadline := time.Now().Add(time.Minute); missing > 0; {
		turns, err := allTurns(t.Context(), c, inboxSession)
		if err != nil && !problem.IsCode(err, problem.NotFound) {
			t.Fatal(err)
		}
		missing = len(l.seen[inboxSession])
		for _, turn := range turns {
			if _, ok := l.seen[inboxSession][turn.ID]; ok {
				missing--
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages that the inbox acknowledged are no turns after a minute", missing)
		}
	}
}

func owner(data string) node.Owner {
	o := node.Owner{URL: "http://127.0.0.1:1"}
	if b, err := os.ReadFile(filepath.Join(data, "server.json")); err == nil {
		_ = json.Unmarshal(b, &o)
	}
	return o
}

func ownerClient(data string) *client.Client { return client.New(owner(data).URL) }

func appendUntilDead(ctx context.Context, data, session string, round int, acked *ledger) {
	c := ownerClient(data)
	for i := 0; ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d-%d", session, round, i)
		body, _ := json.Marshal(map[string]string{"id": id, "role": "user", "content": "turn " + id})
		out, err := c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: session}, Format: "lcm"}, body)
		if err != nil {
			return
		}
		for _, turn := range out.Turns {
			if turn.Error == "" {
				acked.add(round, session, turn.ID, turn.Entry)
			}
		}
	}
}

// importUntilDead imports files of its own; a report is an acknowledgement of
// every turn in the file.
func importUntilDead(ctx context.Context, data string, round int, acked *ledger) {
	c := ownerClient(data)
	for i := 0; ctx.Err() == nil; i++ {
		var file bytes.Buffer
		session := fmt.Sprintf("file-%d", i%3)
		var ids []string
		for k := range 300 {
			id := fmt.Sprintf("%d-%d-%d", round, i, k)
			ids = append(ids, id)
			fmt.Fprintf(&file, `{"id":%q,"role":"user","content":"line %d of file %d"}`+"\n", id, k, i)
		}
		in := api.ImportIn{Scope: api.Scope{Session: session}, File: session + ".jsonl", Format: "lcm"}
		if _, err := c.Import(ctx, in, &file, nil); err != nil {
			return
		}
		for _, id := range ids {
			acked.add(round, session, id, "")
		}
	}
}

// TestFourProcesses serves one stream by the four roles as processes of their
// own on an external server, and compares with one embedded node.
func TestFourProcesses(t *testing.T) {
	file := demoFile(t)
	embedded := t.TempDir()
	ok(t, embedded, "import", "--session", "s", file)
	ok(t, embedded, "condense", "s", "--window", fmt.Sprint(smallWindow))

	url := natsServer(t)
	dir := t.TempDir()
	if r := lcm(t, dir, "init", "--nats", url); r.code != 0 {
		t.Fatal(r.err)
	}
	for _, role := range []string{"projector", "ingestor", "condenser", "toolsvc"} {
		startRole(t, role, url, filepath.Join(dir, role))
	}
	remote := func(args ...string) string {
		t.Helper()
		var r result
		for deadline := time.Now().Add(20 * time.Second); ; {
			if r = lcm(t, filepath.Join(dir, "cli"), append([]string{"--nats", url}, args...)...); r.code == 0 {
				return r.out
			}
			if time.Now().After(deadline) {
				t.Fatalf("lcm %v: %s", args, r.err)
			}
		}
	}
	remote("import", "--session", "s", file)
	remote("condense", "s", "--window", fmt.Sprint(smallWindow))
	a := decode[api.ContextOut](t, ok(t, embedded, "context", "s", "--json"))
	b := decode[api.ContextOut](t, remote("context", "s", "--json"))
	if a.PrefixHash != b.PrefixHash || a.Tokens != b.Tokens || len(a.Pointers) == 0 {
		t.Errorf("embedded: %s, %d tokens; four processes: %s, %d tokens", a.PrefixHash, a.Tokens, b.PrefixHash, b.Tokens)
	}
	overNATS(t, url)
	live := decode[api.RebuildReply](t, remote("rebuild", "--json"))
	if live.Live != live.Digest || live.Digest == "" {
		t.Errorf("rebuild on four processes: %+v", live)
	}
	// The same stream under one process with every role.
	c := serve(t, filepath.Join(dir, "one"), "--nats", url)
	one := decode[api.RebuildReply](t, ok(t, filepath.Join(dir, "one"), "rebuild", "--json"))
	if one.Digest != live.Digest {
		t.Errorf("one process: %+v, four: %+v", one, live)
	}
	_ = c.Process.Signal(syscall.SIGTERM)
}

// overNATS publishes to the inbox and calls a tool as an agent does that speaks
// nothing but NATS.
func overNATS(t *testing.T, url string) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ref := events.Ref{Tenant: "default", Session: "inbox/支付"}
	ids := map[string]bool{}
	for i := range 5 { // the last one twice
		id := fmt.Sprint("m", min(i, 3))
		ids[id] = true
		body := fmt.Sprintf(`{"id":%q,"role":"user","content":"by inbox %s"}`, id, id)
		if _, err := js.Publish(t.Context(), events.InboxSubject(ref), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	tools := natsmicro.NewTools(nc, ref.Tenant)
	var page api.SessionsReply
	arrived := func() bool { return len(page.Sessions) == 1 && page.Sessions[0].Entries >= uint64(len(ids)) }
	for deadline := time.Now().Add(20 * time.Second); !arrived() && time.Now().Before(deadline); {
		_ = tools.Call(t.Context(), "sessions", api.SessionsIn{Scope: api.Scope{Session: ref.Session, Fresh: true}}, &page)
	}
	if !arrived() || page.Sessions[0].Entries != uint64(len(ids)) {
		t.Errorf("by the inbox arrived %+v, want %d turns", page.Sessions, len(ids))
	}
	for _, who := range []string{"default", "acme"} { // opening needs more than a subject
		err := natsmicro.NewTools(nc, who).Call(t.Context(), "show", api.ShowIn{Scope: api.Scope{Session: ref.Session}}, nil)
		if !problem.IsCode(err, problem.Forbidden) {
			t.Errorf("show for %s: %v", who, err)
		}
	}
	if err := natsmicro.NewTools(nc, "acme").Call(t.Context(), "context", api.ContextIn{Scope: api.Scope{Session: ref.Session}}, nil); !problem.IsCode(err, problem.NotFound) {
		t.Errorf("another tenant's context: %v", err)
	}
	var out api.AppendOut
	in := api.AppendIn{Scope: api.Scope{Session: ref.Session}, Turns: json.RawMessage(`[{"id":"m3","role":"user","content":"by inbox m3"},{"id":"m4","role":"user","content":"by request"}]`)}
	if err := tools.Call(t.Context(), "append", in, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Turns) != 2 || !out.Turns[0].Duplicate || out.Turns[1].Entry != "e5" {
		t.Errorf("append over NATS: %+v", out)
	}
}

// demoFile writes the bundled session to a file.
func demoFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(path, demoSession(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startRole builds and starts cmd/<role>.
func startRole(t *testing.T, role, url, dir string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), role)
	if out, err := exec.Command("go", "build", "-o", bin, "lcm/cmd/"+role).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", role, err, out)
	}
	c := exec.Command(bin, "--nats", url, "--data-dir", dir)
	if role == "toolsvc" {
		c.Args = append(c.Args, "--http", "127.0.0.1:0")
	}
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", role, err, errs.String())
		}
	})
}

// natsServer starts a NATS server for other processes, on a loopback port.
func natsServer(t *testing.T) string {
	t.Helper()
	s, err := natsembed.Start(natsembed.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s.URL()
}

// TestOwnership: one owner at a time, the others go through it, wait, or say so.
func TestOwnership(t *testing.T) {
	data := t.TempDir()
	server := serve(t, data)
	ok(t, data, "sessions") // through the server
	oneError(t, lcm(t, data, "serve", "--http", "127.0.0.1:0"), 1, "already served by process")
	addr := strings.TrimPrefix(ownerURL(t, data), "http://")
	oneError(t, lcm(t, t.TempDir(), "serve", "--http", addr), 1, addr)
	oneError(t, lcm(t, t.TempDir(), "serve", "--http", "0.0.0.0:0"), 2, "loopback")

	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	oneError(t, lcm(t, data, "sessions"), 1, fmt.Sprintf("process %d, which does not answer", server.Process.Pid))
	if err := server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	ok(t, data, "sessions") // what it left behind does not matter
}

func ownerURL(t *testing.T, data string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(data, "server.json"))
	if err != nil {
		t.Fatal(err)
	}
	return decode[node.Owner](t, string(b)).URL
}

// TestEightStartAtOnce: eight processes on one fresh directory all get through.
func TestEightStartAtOnce(t *testing.T) {
	data := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := command(t, "append", "--data-dir", data, "s")
			c.Stdin = strings.NewReader(fmt.Sprintf(`{"id":"p%d","role":"user","content":"hello"}`, i))
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("process %d: %v\n%s", i, err, out)
			}
		})
	}
	wg.Wait()
	if got := lines[api.TurnOut](t, ok(t, data, "show", "--json", "s")); len(got) != 8 {
		t.Errorf("%d turns, want 8", len(got))
	}
}

// `lcm show | head`: who reads may stop reading, and the store is left as it should be.
func TestOutputThatNobodyReads(t *testing.T) {
	data := t.TempDir()
	appendLines(t, data, "s", fmt.Sprintf(`{"id":"a","role":"user","content":%q}`, strings.Repeat("much to say ", 50_000)))
	c := command(t, "--data-dir", data, "show", "s")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	if err := c.Wait(); c.ProcessState.ExitCode() != exitPipe || errs.Len() > 0 {
		t.Errorf("%v, %q; want exit %d and not a word", err, errs.String(), exitPipe)
	}
	if r := lcm(t, data, "status"); r.code != 0 || r.err != "" {
		t.Errorf("the next command: %d %s", r.code, r.err)
	}
}
