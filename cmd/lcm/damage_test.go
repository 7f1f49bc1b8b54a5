package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lcm/client"
	"lcm/internal/api"
	"lcm/internal/config"
	"lcm/internal/node"
	"lcm/internal/problem"
)

// soak scales the long tests: LCM_SOAK=1, as `make soak` sets it.
func soak(short, long int) int {
	if os.Getenv("LCM_SOAK") != "" {
		return long
	}
	return short
}

// cycles of a random test: LCM_CYCLES chooses, so that a soak can be done in
// pieces, each with a seed of its own.
func cycles(t *testing.T, short, long int) int {
	t.Helper()
	s := os.Getenv("LCM_CYCLES")
	if s == "" {
		return soak(short, long)
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("LCM_CYCLES is %q", s)
	}
	return n
}

// seedOf a random test: the same cases every time, other ones in a soak.
// LCM_SEED chooses.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(soak(1, int(time.Now().UnixNano())))
	if s, err := strconv.ParseUint(os.Getenv("LCM_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("LCM_SEED=%d", seed)
	return seed
}

const (
	damagedSessions = 4
	damagedTurns    = 26 // of each session
	damagedBytes    = 90_000
)

// target is a part of a stopped store that is damaged.
type target struct {
	name  string
	files func(data string) []string
	// log: what is damaged is the only copy, else it must be made anew.
	log bool
}

func streamDir(data, stream string) string {
	return filepath.Join(data, "jetstream", "jetstream", "$G", "streams", stream)
}

func blocks(data string) []string {
	var out []string
	_ = filepath.WalkDir(filepath.Join(streamDir(data, "LCM"), "msgs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".blk") {
			out = append(out, path)
		}
		return nil
	})
	number := func(p string) int { n, _ := strconv.Atoi(strings.TrimSuffix(filepath.Base(p), ".blk")); return n }
	slices.SortFunc(out, func(a, b string) int { return number(a) - number(b) })
	return out
}

func filesUnder(elem ...string) []string {
	var out []string
	_ = filepath.WalkDir(filepath.Join(elem...), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return nil
	})
	slices.Sort(out)
	return out
}

var targets = []target{
	{"closed block", func(d string) []string { b := blocks(d); return b[:len(b)-1] }, true},
	{"open block", func(d string) []string { b := blocks(d); return b[len(b)-1:] }, true},
	{"stream index", func(d string) []string { return []string{filepath.Join(streamDir(d, "LCM"), "msgs", "index.db")} }, true},
	{"stream metadata", func(d string) []string {
		return []string{filepath.Join(streamDir(d, "LCM"), "meta.inf"), filepath.Join(streamDir(d, "LCM"), "meta.sum")}
	}, true},
	{"rows", func(d string) []string { return []string{filepath.Join(d, "projection", "lcm.bolt")} }, false},
	{"full-text index", func(d string) []string { return filesUnder(d, "projection", "index") }, false},
	{"open block and index", func(d string) []string {
		b := blocks(d)
		return []string{b[len(b)-1], filepath.Join(streamDir(d, "LCM"), "msgs", "index.db")}
	}, true},
}

// TestDamage spoils one part of a stopped store at a time, opens it, appends,
// and opens it again: everything reads as before, or somebody says what is
// wrong. Nothing acknowledged is lost in silence, no session goes on from an
// earlier state, and nothing panics.
func TestDamage(t *testing.T) {
	base := filledForDamage(t)
	seed := seedOf(t)
	outcomes := map[string]int{}
	for i := range cycles(t, 10, 210) {
		c := targets[i%len(targets)]
		t.Run(fmt.Sprintf("%d/%s", i, c.name), func(t *testing.T) {
			data := copyTree(t, base.dir)
			defer remove(t, data)
			what := spoil(t, rand.New(rand.NewPCG(seed, uint64(i))), c, data)
			fmt.Fprintf(os.Stderr, "damage seed %d case %d: %s\n", seed, i, what) // survives a panic
			d := &damagedStore{t: t, base: base, data: data, what: what, c: c}
			outcomes[c.name+": "+d.run()]++
		})
	}
	for _, k := range slices.Sorted(mapKeys(outcomes)) {
		t.Logf("%-50s %d", k, outcomes[k])
	}
}

func mapKeys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// spoil flips bits, cuts, or removes.
func spoil(t *testing.T, rng *rand.Rand, c target, data string) string {
	t.Helper()
	files := c.files(data)
	if c.name != "open block and index" {
		files = []string{files[rng.IntN(len(files))]}
	}
	var did []string
	for i, f := range files {
		rel, _ := filepath.Rel(data, f)
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		how := rng.IntN(4)
		if i == 1 {
			how = 3 // the block spoiled, the index gone
		}
		switch {
		case how == 3 || len(b) == 0:
			err, did = os.Remove(f), append(did, "remove "+rel)
		case how == 2:
			n := rng.IntN(len(b))
			err, did = os.Truncate(f, int64(n)), append(did, fmt.Sprintf("cut %s at %d of %d", rel, n, len(b)))
		default:
			at := rng.IntN(len(b))
			b[at] ^= 1 << rng.IntN(8)
			err, did = os.WriteFile(f, b, 0o600), append(did, fmt.Sprintf("flip a bit of %s at %d of %d", rel, at, len(b)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(did, ", ")
}

// damageBase is a whole store and what is in it.
type damageBase struct {
	dir   string
	last  uint64
	turns map[string][]api.TurnOut // by session
}

func damagedName(i int) string { return fmt.Sprintf("s%d", i) }

// filledForDamage makes a log of several blocks with small projections: the
// bulk is images, whose bodies stay in the log.
func filledForDamage(t *testing.T) damageBase {
	t.Helper()
	b := damageBase{dir: t.TempDir(), turns: map[string][]api.TurnOut{}}
	rng := rand.New(rand.NewPCG(1, 1))
	image := make([]byte, damagedBytes)
	boot(t, b.dir, func(ctx context.Context, c *client.Client) error {
		for n := range damagedTurns {
			for s := range damagedSessions {
				for i := range image {
					image[i] = byte(rng.Uint32())
				}
				turn := map[string]any{"id": fmt.Sprint("m", n), "role": "user", "content": []any{
					map[string]any{"type": "text", "text": fmt.Sprintf("picture %d of session %d", n, s)},
					map[string]any{"type": "image", "source": map[string]any{"type": "base64", "media_type": "image/png", "data": base64.StdEncoding.EncodeToString(image)}},
				}}
				body, err := json.Marshal(turn)
				if err != nil {
					return err
				}
				out, err := c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: damagedName(s)}, Format: "anthropic"}, body)
				if err != nil || out.Turns[0].Error != "" {
					return fmt.Errorf("%v %+v", err, out)
				}
			}
		}
		for s := range damagedSessions {
			turns, err := allTurns(ctx, c, damagedName(s))
			if err != nil || len(turns) != damagedTurns {
				return fmt.Errorf("%d turns, %v", len(turns), err)
			}
			b.turns[damagedName(s)] = turns
		}
		var st api.StatusReply
		err := c.Call(ctx, "status", api.StatusIn{Scope: api.Scope{Fresh: true}}, &st)
		b.last = st.LogSeq
		return err
	})
	if n := len(blocks(b.dir)); n < 3 {
		t.Fatalf("the log has %d blocks: too few to damage a closed one", n)
	}
	return b
}

// boot opens a data directory for the length of f.
func boot(t *testing.T, data string, f func(context.Context, *client.Client) error) {
	t.Helper()
	if err := tryBoot(t, data, f); err != nil {
		t.Fatal(err)
	}
}

func tryBoot(t *testing.T, data string, f func(context.Context, *client.Client) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cfg := config.Default()
	cfg.DataDir = data
	c, done, err := node.Connect(ctx, cfg, slog.New(slog.DiscardHandler), "test")
	if err != nil {
		return err
	}
	err = f(ctx, c)
	if derr := done(); err == nil {
		err = derr
	}
	return err
}

func allTurns(ctx context.Context, c *client.Client, session string) ([]api.TurnOut, error) {
	var out []api.TurnOut
	for cursor := ""; ; {
		var page api.TurnsOut
		err := c.Call(ctx, "show", api.ShowIn{Scope: api.Scope{Session: session, Fresh: true}, Cursor: cursor, Raw: true}, &page)
		out = append(out, page.Turns...)
		if err != nil || page.Cursor == "" {
			return out, err
		}
		cursor = page.Cursor
	}
}

// damagedStore is one case.
type damagedStore struct {
	t     *testing.T
	base  damageBase
	data  string
	what  string
	c     target
	acked map[string]string // session → id acknowledged after the damage
	said  []string          // complaints
}

func (d *damagedStore) run() string {
	d.acked = map[string]string{}
	d.complain("first start", tryBoot(d.t, d.data, d.appendAll))
	whole := true
	d.complain("second start", tryBoot(d.t, d.data, func(ctx context.Context, c *client.Client) error {
		whole = d.readAll(ctx, c)
		var r api.RebuildReply
		err := c.Call(ctx, "rebuild", api.RebuildIn{}, &r)
		if err == nil && r.Live != "" && r.Live != r.Digest {
			d.said = append(d.said, "the rebuild differs from the live rows")
		}
		return err
	}))
	v := lcm(d.t, d.data, "verify", "--json")
	if v.code == 0 || v.code == problem.ExitDegraded && v.out != "" {
		reply := decode[api.VerifyReply](d.t, v.out)
		for _, f := range reply.Faults {
			if f.Kind == api.FaultBroken && f.Seq > d.base.last {
				d.t.Errorf("%s: a session was forked: %+v", d.what, f)
			}
		}
	}
	if v.code != 0 {
		d.said = append(d.said, fmt.Sprintf("verify: exit %d %.200s%.300s", v.code, v.err, v.out))
	}
	switch {
	case len(d.said) == 0 && whole:
		return "as before"
	case len(d.said) == 0:
		d.t.Errorf("%s: something is lost and nobody says so", d.what)
	case !d.c.log:
		d.t.Errorf("%s: a projection did not come back: %s", d.what, strings.Join(d.said, "\n"))
	}
	return "detected"
}

// complain notes an error, which must say what is wrong.
func (d *damagedStore) complain(when string, err error) {
	if err == nil {
		return
	}
	p := problem.From(err)
	if p.Code == problem.Internal {
		d.t.Errorf("%s: %s: %v", d.what, when, err)
	}
	d.said = append(d.said, when+": "+err.Error())
}

func (d *damagedStore) appendAll(ctx context.Context, c *client.Client) error {
	var first error
	for s := range damagedSessions {
		name := damagedName(s)
		out, err := c.AppendBody(ctx, api.AppendIn{Scope: api.Scope{Session: name}, Format: "lcm"}, []byte(`{"id":"after","role":"user","content":"after the damage"}`))
		switch {
		case err != nil:
			if first == nil {
				first = err
			}
		case out.Turns[0].Error != "":
			d.said = append(d.said, name+": "+out.Turns[0].Error)
		default:
			d.acked[name] = out.Turns[0].ID
			if want := fmt.Sprint("e", damagedTurns+1); out.Turns[0].Entry != want {
				d.t.Errorf("%s: %s went on at %s, want %s: it was forked", d.what, name, out.Turns[0].Entry, want)
			}
		}
	}
	return first
}

// readAll compares every session with what it was; it reports false where
// something is missing, and notes what the store says about it.
func (d *damagedStore) readAll(ctx context.Context, c *client.Client) bool {
	whole := true
	for name, want := range d.base.turns {
		got, err := allTurns(ctx, c, name)
		d.complain("show "+name, err)
		ids := map[string]int{}
		for i, turn := range got {
			ids[turn.ID]++
			if i < len(want) && (turn.ID != want[i].ID || turn.Raw != want[i].Raw || turn.Entry != want[i].Entry) {
				d.t.Errorf("%s: %s %s is not what it was", d.what, name, turn.Entry)
			}
		}
		if len(got) < len(want) {
			whole = false
		}
		if id, ok := d.acked[name]; ok && ids[id] != 1 {
			whole = false
			if err == nil {
				d.t.Errorf("%s: %s: the turn acknowledged after the damage is stored %d times", d.what, name, ids[id])
			}
		}
	}
	return whole
}
