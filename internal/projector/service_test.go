package projector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"lcm/boltstore"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/projector"
	"lcm/session"
)

// story appends a bit of everything to three sessions, bad events included.
func story(log *fakeLog, rounds int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	refs := []events.Ref{ref("one"), ref("two"), {Tenant: "other", Session: "one"}}
	for _, rf := range refs {
		log.configure(rf, nil)
		log.say(rf, events.RoleSystem, "You are a careful engineer.")
	}
	for i := range rounds {
		rf := refs[r.IntN(len(refs))]
		switch n := log.next(rf) - 1; r.IntN(12) {
		case 0: // a duplicate id
			t := turn("t1", events.RoleUser, "again")
			log.event(rf, t)
			log.forgetEntry(rf)
		case 1:
			log.event(rf, &events.LeafMoved{Entry: 1 + r.Uint64N(n)})
		case 2:
			log.put(events.Message{Subject: "lcm.ev.0.broken", Data: []byte("{")})
		case 3:
			log.put(events.Message{Subject: events.Subject(events.LaneTimeline, rf, log.parts), Data: []byte("forged")})
		case 4:
			log.unknown(rf)
		case 5:
			log.leaf(rf, 2, n, fmt.Sprintf("summary %d of what was said", i)) // mostly rejected
		case 6:
			t := turn(fmt.Sprintf("r%d", i), events.RoleTool, "")
			t.Blocks = []events.Block{{Type: events.BlockToolResult, CallID: "c1", Content: []events.Block{{Type: events.BlockText, Text: "result"}}}}
			log.event(rf, t)
		default:
			log.say(rf, events.RoleUser, fmt.Sprintf("turn %d says word%d and word%d", i, r.IntN(50), r.IntN(50)))
		}
	}
}

// forgetEntry: the fold rejects the last turn, it takes no number.
func (l *fakeLog) forgetEntry(rf events.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[rf]--
}

// unknown appends an event of a later build.
func (l *fakeLog) unknown(rf events.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	subject := events.Subject(events.LaneTimeline, rf, l.parts)
	m, _, err := events.Encode(subject, &events.LeafMoved{Entry: 1}, l.now, l.links[subject])
	if err != nil {
		panic(err)
	}
	m.Header[events.HeaderType], m.Header[events.HeaderSchema] = "SomethingNew", "1"
	prev := l.links[subject]
	l.links[subject] = events.Link{Version: prev.Version + 1, Hash: m.ChainHash(prev.Hash)}
	l.putLocked(m)
}

// TestLiveEqualsRebuild: the same log gives the same digest, however it was
// cut into batches, with stops in between, live or rebuilt.
func TestLiveEqualsRebuild(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log)
	f.cfg.BatchEvents = 7
	log.batch = 5
	f.start()
	for i := range 6 {
		story(log, 60, uint64(i))
		if i == 3 {
			f.healthy()
			must(t, f.halt())
			f.start()
		}
		f.digest()
	}
	live := f.digest()
	f.healthy()

	once := setup(t, log).start()
	if d := once.digest(); d != live {
		t.Error("one pass over the log gives another digest")
	}
	r, err := f.Rebuild(within(t), api.RebuildRequest{})
	must(t, err)
	if r.Digest != live || r.Live != live || r.Turns == 0 || r.Events != f.end().Seq {
		t.Errorf("rebuild: %+v, want digest %s", r, live)
	}
	f.healthy()
	restored := newLog("E2") // a restore has other epoch, same positions
	restored.records = log.records
	if d := setup(t, restored).start().digest(); d != live {
		t.Error("a restored log gives another digest")
	}
	st, err := f.Status(within(t))
	must(t, err)
	if st.Rejected == 0 || st.Unknown == 0 || st.Sessions != 3 {
		t.Errorf("status: %+v", st)
	}
}

func TestRebuildWhileEventsArrive(t *testing.T) {
	log := newLog("E1")
	story(log, 300, 1)
	f := setup(t, log).start()
	stop := make(chan struct{})
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				log.say(ref("busy"), events.RoleUser, fmt.Sprintf("busy %d", i))
			}
		}
	}()
	for range 3 {
		r, err := f.Rebuild(within(t), api.RebuildRequest{Store: true})
		must(t, err)
		if r.Live != r.Digest || r.Digest == "" {
			t.Errorf("rebuild while events arrive: %+v", r)
		}
		if _, err := f.View(within(t), api.ViewRequest{Ref: ref("one")}); err != nil {
			t.Errorf("read during a rebuild: %v", err)
		}
	}
	close(stop)
	<-writing
	live := f.digest()
	if d := setup(t, log).start().digest(); d != live {
		t.Error("the rebuilt store differs")
	}
	f.healthy()
	if left, _ := filepath.Glob(filepath.Join(f.dir, "*.new")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestRefusesAnotherLog(t *testing.T) {
	log := newLog("E1")
	story(log, 50, 1)
	f := setup(t, log).start()
	f.digest()
	must(t, f.halt())
	cases := map[string]struct {
		change func(*fakeLog, *projector.Config)
		want   []string
	}{
		"another epoch": {func(l *fakeLog, _ *projector.Config) { l.epoch = "E2" }, []string{"E1", "E2", "lcm rebuild"}},
		"shortened": {
			func(l *fakeLog, _ *projector.Config) { l.records = l.records[:10] },
			[]string{"ends at 10", fmt.Sprint(len(log.records)), "restore"},
		},
		"changed": {func(l *fakeLog, _ *projector.Config) {
			l.records = slices.Clone(l.records)
			l.records[len(l.records)-1].Data = []byte("changed")
		}, []string{"hash", "restore"}},
		"empty": {func(l *fakeLog, _ *projector.Config) { l.records = nil }, []string{"ends at 0"}},
		"other partitions": {
			func(_ *fakeLog, c *projector.Config) { c.Partitions = []int{1} },
			[]string{"partitions all", "[1]", "lcm rebuild"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			changed := newLog("E1")
			changed.records = log.records
			g := *f
			g.t, g.log, g.deps.Log = t, changed, changed
			c.change(changed, &g.cfg)
			err := g.start().ended()
			if !problem.IsCode(err, problem.Damaged) {
				t.Fatalf("Run = %v", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if _, err := g.Wait(within(t), events.Position{}); err != nil {
				return
			}
			if _, err := g.View(within(t), api.ViewRequest{Ref: ref("one")}); !problem.IsCode(err, problem.Unavailable) {
				t.Errorf("read after Run ended: %v", err)
			}
		})
	}
}

func TestGapStopsEverything(t *testing.T) {
	log := newLog("E1")
	story(log, 40, 1)
	f := setup(t, log).start()
	f.digest()
	at := f.end().Seq
	log.mu.Lock()
	log.skip = at + 1
	log.mu.Unlock()
	log.put(events.Message{Subject: "x"})
	log.mu.Lock()
	log.records = append(log.records, events.Record{Message: events.Message{Subject: "y"}, Seq: at + 3})
	log.records[at].Seq = at + 2 // as if at+1 had vanished
	log.skip = 0
	log.mu.Unlock()
	log.put(events.Message{Subject: "z"})
	err := f.ended()
	if !problem.IsCode(err, problem.Damaged) || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("Run = %v", err)
	}
}

func TestStoreDeleted(t *testing.T) {
	log := newLog("E1")
	story(log, 200, 1)
	f := setup(t, log).start()
	want := f.digest()
	f.awaitIndex()
	must(t, f.halt())
	must(t, os.Remove(filepath.Join(f.dir, "lcm.db")))
	f.start()
	if d := f.digest(); d != want {
		t.Error("another digest after the store was deleted")
	}
	f.healthy()
}

func TestStoreTornWhileStopped(t *testing.T) {
	log := newLog("E1")
	story(log, 400, 1)
	f := setup(t, log).start()
	want := f.digest()
	must(t, f.halt())
	path := filepath.Join(f.dir, "lcm.db")
	must(t, os.Truncate(path, 20_000))
	f.start()
	if d := f.digest(); d != want {
		t.Error("another digest after the store was torn")
	}
	if moved, _ := filepath.Glob(path + ".damaged-*"); len(moved) != 1 {
		t.Errorf("moved aside: %v", moved)
	}
}

// flip changes a byte of the first place where text stands in a file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	i := strings.LastIndex(string(raw), text)
	if i < 0 {
		t.Fatalf("%q is not in %s", text, path)
	}
	raw[i] ^= 1
	must(t, os.WriteFile(path, raw, 0o600))
	crash(t, path)
}

// crash leaves a store as one whose process was killed: what its file was is
// not known.
func crash(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path + ".sum"); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestOlderSchema: a store of an older build is made anew from the log, by itself.
func TestOlderSchema(t *testing.T) {
	log := newLog("E1")
	log.configure(ref("a"), nil)
	for i := range 50 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("turn number %d", i))
	}
	f := setup(t, log).start()
	want := f.digest()
	must(t, f.halt())
	path := filepath.Join(f.dir, "lcm.db")
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("1.1")) }))
	must(t, db.Close())
	crash(t, path)
	f.start()
	if d := f.digest(); d != want {
		t.Error("another digest after the rows were made anew")
	}
	f.healthy()
}

// TestFlippedRow: after a crash a read finds it and it is mended, doctor finds it
// and, told to, mends it; the fold mends it by itself where it meets it.
func TestFlippedRow(t *testing.T) {
	log := newLog("E1")
	log.configure(ref("a"), nil)
	for i := range 50 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("turn number %d", i))
	}
	f := setup(t, log).start()
	want := f.digest()
	f.awaitIndex()
	path := filepath.Join(f.dir, "lcm.db")

	must(t, f.halt())
	flip(t, path, "turn number 7\"")
	f.start()
	turns := func() error {
		_, err := f.Turns(within(t), api.TurnsRequest{Ref: ref("a"), Token: f.end()})
		return err
	}
	if err := turns(); !problem.IsCode(err, problem.Damaged) {
		t.Errorf("reading the row: %v", err)
	}
	for ctx := within(t); turns() != nil; {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the rows are not mended")
		}
	}
	if d := f.digest(); d != want {
		t.Error("another digest after the rows were mended")
	}

	must(t, f.halt())
	flip(t, path, "turn number 9\"")
	f.start()
	r, err := f.Doctor(within(t), api.DoctorRequest{Deep: true})
	must(t, err)
	if r.OK || !strings.Contains(fmt.Sprint(r.Checks), "b 10 of session acme/a") {
		t.Errorf("doctor: %+v", r)
	}
	if r, err = f.Doctor(within(t), api.DoctorRequest{Deep: true, Repair: true}); err != nil || !r.OK {
		t.Errorf("doctor --repair: %+v, %v", r, err)
	}
	if d := f.digest(); d != want {
		t.Error("another digest after the repair")
	}

	must(t, f.halt())
	// The head, from the number of its entries to its path: the fold reads it
	// with the next event.
	flip(t, path, "\x32\x00\x00\x00\x00\x32\x00\x00\x01\x01\x31")
	f.start()
	log.say(ref("a"), events.RoleUser, "one more")
	f.digest()
	f.healthy()
}

func TestIndexDeletedAndDamaged(t *testing.T) {
	log := newLog("E1")
	log.configure(ref("a"), nil)
	for i := range 300 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("turn number %d", i))
	}
	f := setup(t, log).start()
	f.awaitIndex()
	search := api.GrepRequest{Pattern: "number 123", Mode: "phrase"}
	want := f.grep(search)
	if len(want.Hits) != 1 {
		t.Fatalf("hits: %+v", want)
	}
	dir := filepath.Join(f.dir, "index")
	for name, harm := range map[string]func(){
		"deleted": func() { must(t, os.RemoveAll(dir)) },
		"meta":    func() { must(t, os.WriteFile(filepath.Join(dir, "index_meta.json"), []byte("?"), 0o600)) },
		"segment": func() {
			files, _ := filepath.Glob(filepath.Join(dir, "store", "*.zap"))
			raw, err := os.ReadFile(files[0])
			must(t, err)
			raw[len(raw)/2] ^= 4
			must(t, os.WriteFile(files[0], raw, 0o600))
		},
	} {
		must(t, f.halt())
		harm()
		f.start()
		f.recovers() // a segment is checked behind the start, not before it
		if got := f.grep(search); len(got.Hits) != 1 {
			t.Errorf("%s: hits %+v", name, got)
		}
	}
	must(t, os.RemoveAll(dir)) // under the running service
	for i := range 20 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("later %d", i))
		f.awaitIndex()
	}
	f.healthy()
}

// TestIndexFails: rows go on; whatever moment an index write fails at, the
// index comes back complete and without a document twice.
func TestIndexFails(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log)
	faults := &faultyIndexes{Indexes: f.deps.Indexes}
	f.deps.Indexes = faults
	f.cfg.IndexDocs = 20
	f.start()
	log.configure(ref("a"), nil)
	transient := errors.New("disk full")
	damaged := error(problem.New(problem.Damaged, "torn"))
	for i, e := range []error{transient, damaged} {
		for _, moment := range []string{"before", "after"} {
			at := &faults.before
			if moment == "after" {
				at = &faults.after
			}
			at.Store(&e)
			for n := range 50 {
				log.say(ref("a"), events.RoleUser, fmt.Sprintf("turn %d %s %d", i, moment, n))
			}
			if _, err := f.Wait(within(t), f.end()); err != nil {
				t.Fatalf("rows wait for a failing index: %v", err)
			}
			if st, err := f.Status(within(t)); err != nil || st.Lag != 0 {
				t.Errorf("status %+v, %v", st, err)
			}
			at.Store(nil)
			f.healthy()
		}
	}
}

// TestDiesBetweenStoreAndIndex: the index resumes from its own position.
func TestDiesBetweenStoreAndIndex(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log)
	faults := &faultyIndexes{Indexes: f.deps.Indexes}
	f.deps.Indexes = faults
	f.start()
	log.configure(ref("a"), nil)
	for n := range 30 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("early %d", n))
	}
	f.awaitIndex()
	dead := errors.New("dead")
	faults.before.Store(&dead)
	for n := range 30 {
		log.say(ref("a"), events.RoleUser, fmt.Sprintf("late %d", n))
	}
	_, err := f.Wait(within(t), f.end())
	must(t, err)
	if r := f.grep(api.GrepRequest{Pattern: "late", Limit: 100}); r.Total != 30 || len(r.NotSearched) > 0 {
		t.Errorf("the unindexed tail is not searched: %d, %v", r.Total, r.NotSearched)
	}
	must(t, f.halt())
	faults.before.Store(nil)
	faults.applied.Store(0)
	f.start()
	f.healthy()
	if n := faults.applied.Load(); n != 30 {
		t.Errorf("%d documents written after the restart, 30 were missing", n)
	}
}

func TestPartitionFilter(t *testing.T) {
	log := newLog("E1")
	var held, foreign []events.Ref
	for i := range 40 {
		rf := ref(fmt.Sprintf("s%d", i))
		log.configure(rf, nil)
		log.say(rf, events.RoleUser, "hello from "+rf.Session)
		if _, p, _, _ := events.ParseSubject(events.Subject(events.LaneTimeline, rf, log.parts)); p == 1 || p == 3 {
			held = append(held, rf)
		} else {
			foreign = append(foreign, rf)
		}
	}
	wrong := events.Subject(events.LaneTimeline, foreign[0], log.parts)
	tok := strings.Split(wrong, ".")
	tok[2] = "1" // a session of another partition under one that is held
	log.put(events.Message{Subject: strings.Join(tok, "."), Data: []byte("{}")})
	f := setup(t, log)
	f.cfg.Partitions = []int{3, 1}
	f.start()
	f.healthy()
	st, err := f.Status(within(t))
	must(t, err)
	if st.Sessions != len(held) || st.Applied != f.end().Seq || st.Rejected != 1 || !slices.Equal(st.Partitions, []int{1, 3}) {
		t.Errorf("status %+v, %d sessions are held", st, len(held))
	}
	if _, err := f.View(within(t), api.ViewRequest{Ref: held[0]}); err != nil {
		t.Error(err)
	}
	if _, err := f.View(within(t), api.ViewRequest{Ref: foreign[0]}); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a session of another partition: %v", err)
	}
	must(t, f.halt())
	f.start() // the set is recorded, in any order
	f.healthy()
}

func TestWait(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log)
	f.start()
	at := log.configure(ref("a"), nil)
	if got, err := f.Wait(within(t), at); err != nil || got.Seq < at.Seq || got.Epoch != "E1" {
		t.Errorf("Wait = %v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	got, err := f.Wait(ctx, events.Position{Epoch: "E1", Seq: at.Seq + 5})
	if !problem.IsCode(err, problem.Stale) || got.Seq != at.Seq || !strings.Contains(err.Error(), fmt.Sprint(at.Seq)) {
		t.Errorf("Wait beyond the end = %v, %v", got, err)
	}
	if _, err := f.Wait(within(t), events.Position{Epoch: "E0", Seq: 1}); !problem.IsCode(err, problem.Invalid) {
		t.Errorf("a token of another log: %v", err)
	}
	reached := make(chan error, 1)
	go func() {
		_, err := f.Wait(within(t), events.Position{Epoch: "E1", Seq: at.Seq + 1})
		reached <- err
	}()
	log.say(ref("a"), events.RoleUser, "hello")
	must(t, <-reached)
	must(t, f.halt())
	if _, err := f.View(within(t), api.ViewRequest{Ref: ref("a")}); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("read after the end: %v", err)
	}
}

func TestDispatch(t *testing.T) {
	log := newLog("E1")
	f := setup(t, log)
	f.deps.Due = func(v *session.View) bool { return v.Ref.Session == "big" && len(v.Tail) < 8 }
	f.start()
	window := func(s *events.Settings) { s.Window = 20_000 }
	log.configure(ref("small"), window)
	log.configure(ref("big"), window)
	log.say(ref("small"), events.RoleUser, "hello")
	var at events.Position
	for range 4 {
		at = log.say(ref("big"), events.RoleUser, strings.Repeat("many words ", 1_500))
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	await("a due session is published again and again", func() bool { return log.taskCount() > 3 })
	log.mu.Lock()
	last := log.tasks[len(log.tasks)-1]
	log.mu.Unlock()
	if last.ref != ref("big") || last.at.Seq != at.Seq {
		t.Errorf("task %+v, want %s at %d", last, ref("big"), at.Seq)
	}
	if st, err := f.Status(within(t)); err != nil || st.Due != 1 {
		t.Errorf("status %+v, %v", st, err)
	}
	for range 4 {
		log.say(ref("big"), events.RoleUser, "more")
	}
	_, err := f.Wait(within(t), f.end())
	must(t, err)
	await("a session that is no longer due is left alone", func() bool {
		n := log.taskCount()
		time.Sleep(30 * time.Millisecond)
		return log.taskCount() == n
	})
}

func TestConfigValidate(t *testing.T) {
	for _, c := range []projector.Config{
		{Partitions: []int{}}, {Partitions: []int{1, 1}}, {Partitions: []int{-1}}, {BatchEvents: -1}, {DispatchEvery: -1},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	must(t, projector.Config{}.Validate())
	log := newLog("E")
	deps := projector.Deps{Log: log, Stores: boltstore.Files{}, Indexes: &idleIndex{}}
	if _, err := projector.New(projector.Config{Partitions: []int{99}}, deps); err == nil {
		t.Error("a partition that does not exist is accepted")
	}
}
