package boltstore_test

import (
	"errors"
	"fmt"
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
	"lcm/session"
)

// filled is a closed store with some rows, and its path.
func filled(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lcm.db")
	s, err := boltstore.Open(path, boltstore.Options{})
	must(t, err)
	must(t, s.Update(func(tx api.StoreTx) error { return fill(tx, []events.Ref{alice, bob}, "E1") }))
	must(t, s.Close())
	return path
}

func fill(tx api.StoreTx, refs []events.Ref, epoch string) error {
	seqs := map[events.Ref]uint64{alice: 0, bob: 500}
	for _, ref := range refs {
		seq := seqs[ref]
		r, err := tx.Rows(ref)
		if err != nil {
			return err
		}
		for n := uint64(1); n <= 200; n++ {
			err := errors.Join(
				r.Put(session.RowEntry, session.Num(n), fmt.Appendf(nil, "entry %d of %s", n, ref)),
				r.Put(session.RowBody, session.Num(n), []byte(strings.Repeat("body ", 60))),
				tx.PutFeed(api.FeedRow{Seq: seq + n, Ref: ref, Kind: session.RowEntry, N: n}),
			)
			if err != nil {
				return err
			}
		}
	}
	return errors.Join(
		tx.SetHot(bob, true),
		tx.PutRejected(api.RejectedEvent{Seq: 300, Subject: "lcm.x", Reason: "no session"}),
		tx.SetCounts(api.Counts{Events: 401, Entries: 400}),
		tx.SetCheckpoint(api.Checkpoint{Epoch: epoch, Seq: 700, Hash: events.Hash{1}}),
	)
}

func TestStoreKeepsEverything(t *testing.T) {
	s := open(t, filled(t))
	must(t, s.View(func(tx api.StoreTx) error {
		c, err := tx.Checkpoint()
		if err != nil || c.Epoch != "E1" || c.Seq != 700 || c.Hash != (events.Hash{1}) {
			t.Errorf("checkpoint %+v, %v", c, err)
		}
		n, err := tx.Counts()
		if err != nil || n.Sessions != 2 || n.Entries != 400 {
			t.Errorf("counts %+v, %v", n, err)
		}
		if !tx.Known(alice) || tx.Known(events.Ref{Tenant: "acme", Session: "carol"}) {
			t.Error("Known is wrong")
		}
		hot, err := tx.Hot()
		if err != nil || !slices.Equal(hot, []events.Ref{bob}) {
			t.Errorf("hot %v, %v", hot, err)
		}
		rej, err := tx.Rejected(0, 10)
		if err != nil || len(rej) != 1 || rej[0].Seq != 300 {
			t.Errorf("rejected %v, %v", rej, err)
		}
		row, err := tx.FeedAt(501)
		if err != nil || row == nil || *row != (api.FeedRow{Seq: 501, Ref: bob, Kind: session.RowEntry, N: 1}) {
			t.Errorf("feed at 501: %+v, %v", row, err)
		}
		up, err := tx.Feed(199, 2)
		if err != nil || len(up) != 2 || up[0].Seq != 200 || up[1].Seq != 501 {
			t.Errorf("feed behind 199: %v, %v", up, err)
		}
		down, err := tx.FeedBefore(501, 1)
		if err != nil || len(down) != 1 || down[0].Seq != 200 {
			t.Errorf("feed before 501: %v, %v", down, err)
		}
		if down, err = tx.FeedBefore(^uint64(0), 1); err != nil || len(down) != 1 || down[0].Seq != 700 {
			t.Errorf("end of the feed: %v, %v", down, err)
		}
		refs, next, err := tx.EachSession(0, 1)
		if err != nil || !slices.Equal(refs, []events.Ref{alice}) {
			t.Errorf("first session %v, %v", refs, err)
		}
		if refs, _, err = tx.EachSession(next, 5); err != nil || !slices.Equal(refs, []events.Ref{bob}) {
			t.Errorf("rest of the sessions %v, %v", refs, err)
		}
		return nil
	}))
}

func TestUpdateIsAllOrNothing(t *testing.T) {
	s := open(t, filled(t))
	boom := errors.New("boom")
	err := s.Update(func(tx api.StoreTx) error {
		r, err := tx.Rows(alice)
		must(t, err)
		must(t, r.Put(session.RowEntry, session.Num(1), []byte("changed")))
		must(t, tx.SetCheckpoint(api.Checkpoint{Epoch: "E1", Seq: 999}))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("Update = %v", err)
	}
	must(t, s.View(func(tx api.StoreTx) error {
		r, err := tx.Rows(alice)
		must(t, err)
		if v, _ := r.Get(session.RowEntry, session.Num(1)); string(v) != "entry 1 of acme/alice" {
			t.Errorf("row %q after a failed update", v)
		}
		if c, _ := tx.Checkpoint(); c.Seq != 700 {
			t.Errorf("checkpoint %d after a failed update", c.Seq)
		}
		if err := r.Put(session.RowEntry, session.Num(1), nil); err == nil {
			t.Error("a write in a View succeeds")
		}
		return nil
	}))
}

func TestSessionsByName(t *testing.T) {
	s := fresh(t)
	names := []string{"b", "a", "ab", "a\x00b", "aé", "中文", "ac"}
	must(t, s.Update(func(tx api.StoreTx) error {
		for _, tenant := range []string{"t", "t2", "s"} {
			for _, n := range names {
				r, err := tx.Rows(events.Ref{Tenant: tenant, Session: n})
				must(t, err)
				must(t, r.Put(session.RowHead, nil, []byte("{}")))
			}
		}
		return nil
	}))
	slices.Sort(names)
	must(t, s.View(func(tx api.StoreTx) error {
		all, err := tx.Sessions("t", "", "", 100)
		if err != nil || !slices.Equal(all, names) {
			t.Errorf("all: %q, %v", all, err)
		}
		var paged []string
		for after := ""; ; {
			page, err := tx.Sessions("t", "", after, 2)
			must(t, err)
			if len(page) == 0 {
				break
			}
			paged, after = append(paged, page...), page[len(page)-1]
		}
		if !slices.Equal(paged, names) {
			t.Errorf("paged: %q", paged)
		}
		some, err := tx.Sessions("t", "a", "ab", 100)
		if err != nil || !slices.Equal(some, []string{"ac", "aé"}) {
			t.Errorf("prefix a behind ab: %q, %v", some, err)
		}
		if none, _ := tx.Sessions("nobody", "", "", 10); none != nil {
			t.Errorf("another tenant: %q", none)
		}
		return nil
	}))
}

func TestDigest(t *testing.T) {
	digest := func(refs []events.Ref, epoch string, change func(api.StoreTx) error) string {
		s := fresh(t)
		var d string
		must(t, s.Update(func(tx api.StoreTx) error {
			err := fill(tx, refs, epoch)
			if change != nil {
				err = errors.Join(err, change(tx))
			}
			return err
		}))
		must(t, s.View(func(tx api.StoreTx) (err error) { d, err = tx.Digest(); return err }))
		return d
	}
	base := digest([]events.Ref{alice, bob}, "E1", nil)
	if d := digest([]events.Ref{bob, alice}, "E1", nil); d != base {
		t.Error("the digest depends on the order in which sessions came")
	}
	if d := digest([]events.Ref{alice, bob}, "E2", nil); d != base {
		t.Error("the digest depends on the epoch")
	}
	for name, change := range map[string]func(api.StoreTx) error{
		"position": func(tx api.StoreTx) error { return tx.SetCheckpoint(api.Checkpoint{Epoch: "E1", Seq: 701}) },
		"row": func(tx api.StoreTx) error {
			r, err := tx.Rows(bob)
			return errors.Join(err, r.Put(session.RowEntry, session.Num(7), []byte("x")))
		},
		"feed": func(tx api.StoreTx) error {
			return tx.PutFeed(api.FeedRow{Seq: 800, Ref: bob, Kind: session.RowNode, N: 1})
		},
		"rejected": func(tx api.StoreTx) error { return tx.PutRejected(api.RejectedEvent{Seq: 9}) },
	} {
		if d := digest([]events.Ref{alice, bob}, "E1", change); d == base {
			t.Errorf("the digest does not see another %s", name)
		}
	}
}

// A store of an older build is replaced, what it was stays beside it.
func TestOlderSchemaIsReplaced(t *testing.T) {
	for _, have := range []string{fmt.Sprintf("0.%d", session.SchemaVersion), fmt.Sprintf("1.%d", session.SchemaVersion-1)} {
		path := filled(t)
		poke(t, path, "meta", []byte("schema"), []byte(have))
		if _, err := (boltstore.Files{Path: path, Options: boltstore.Options{ReadOnly: true}}).Open(); !errors.Is(err, boltstore.ErrOlder) {
			t.Errorf("schema %s read-only: %v", have, err)
		}
		s, err := boltstore.Files{Path: path}.Open()
		must(t, err)
		must(t, s.View(func(tx api.StoreTx) error {
			if c, err := tx.Checkpoint(); err != nil || c.Seq != 0 {
				t.Errorf("schema %s: the new store stands at %d (%v)", have, c.Seq, err)
			}
			return nil
		}))
		must(t, s.Close())
		if aside, _ := filepath.Glob(path + ".older-1"); aside == nil {
			t.Errorf("schema %s: the old store is gone", have)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	for have, hint := range map[string]string{
		fmt.Sprintf("1.%d", session.SchemaVersion+1): "newer build",
		fmt.Sprintf("2.%d", session.SchemaVersion):   "newer build",
	} {
		path := filled(t)
		poke(t, path, "meta", []byte("schema"), []byte(have))
		_, err := boltstore.Files{Path: path}.Open()
		if !problem.IsCode(err, problem.Damaged) || !strings.Contains(err.Error(), hint) {
			t.Errorf("schema %s: %v", have, err)
		}
		if errors.Is(err, boltstore.ErrDamaged) {
			t.Errorf("schema %s counts as damage: it must stay where it is", have)
		}
		if moved, _ := filepath.Glob(path + ".damaged*"); moved != nil {
			t.Errorf("schema %s: moved to %v", have, moved)
		}
	}
}

// poke changes a value behind the store's back.
func poke(t testing.TB, path, bucket string, key, value []byte) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	must(t, err)
	must(t, db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put(key, value) }))
	must(t, db.Close())
	crash(t, path)
}

// crash leaves a closed store as one whose process was killed: without sums.
func crash(t testing.TB, path string) {
	t.Helper()
	must(t, os.Remove(path+".sum"))
}

func TestFlippedByteInARow(t *testing.T) {
	path := filled(t)
	raw, err := os.ReadFile(path)
	must(t, err)
	i := strings.LastIndex(string(raw), "entry 7 of acme/bob")
	raw[i] ^= 1
	must(t, os.WriteFile(path, raw, 0o600))
	crash(t, path)
	s := open(t, path)
	must(t, s.View(func(tx api.StoreTx) error {
		r, err := tx.Rows(bob)
		must(t, err)
		_, err = r.Get(session.RowEntry, session.Num(7))
		if !errors.Is(err, boltstore.ErrDamaged) || !problem.IsCode(err, problem.Damaged) ||
			!strings.Contains(err.Error(), "e 7") || !strings.Contains(err.Error(), "acme/bob") {
			t.Errorf("Get = %v: it must name session and row", err)
		}
		var bad []string
		for after := []byte(nil); ; {
			next, b, err := tx.VerifyRows(after, 50)
			must(t, err)
			bad = append(bad, b...)
			if after = next; next == nil {
				break
			}
		}
		if len(bad) != 1 || !strings.Contains(bad[0], "e 7 of session acme/bob") {
			t.Errorf("VerifyRows = %q", bad)
		}
		if _, err := tx.Digest(); !errors.Is(err, boltstore.ErrDamaged) {
			t.Errorf("Digest = %v", err)
		}
		return nil
	}))
}

// TestDamagedFiles: whatever is done to a closed file, opening it or reading
// all of it ends in ErrDamaged, never in a panic, and a new store can take its
// place.
func TestDamagedFiles(t *testing.T) {
	page := os.Getpagesize()
	damage := map[string]func([]byte) []byte{
		"cut in half":      func(b []byte) []byte { return b[:len(b)/2] },
		"cut to two pages": func(b []byte) []byte { return b[:2*page] },
		"cut to 100 bytes": func(b []byte) []byte { return b[:100] },
		"text":             func([]byte) []byte { return []byte(strings.Repeat("not a store ", 1000)) },
		"zeroed meta":      func(b []byte) []byte { clear(b[:2*page]); return b },
		"zeroed middle":    func(b []byte) []byte { clear(b[4*page : len(b)-2*page]); return b },
		"zeroed freelist":  func(b []byte) []byte { clear(b[2*page : 4*page]); return b },
		"all ones":         func(b []byte) []byte { fillOnes(b[2*page:]); return b },
	}
	for name, do := range damage {
		for _, crashed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/crashed %v", name, crashed), func(t *testing.T) { damagedFile(t, do, crashed) })
		}
	}
}

func damagedFile(t *testing.T, do func([]byte) []byte, crashed bool) {
	path := filled(t)
	raw, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, do(raw), 0o600))
	if crashed {
		crash(t, path)
	}
	err = readAll(path)
	if !errors.Is(err, boltstore.ErrDamaged) {
		t.Fatalf("reading all = %v", err)
	}
	moved, err := boltstore.MoveAside(path, "damaged")
	must(t, err)
	if _, err := os.Stat(moved); err != nil {
		t.Error(err)
	}
	s := open(t, path)
	must(t, s.Update(func(tx api.StoreTx) error { return fill(tx, []events.Ref{alice}, "E") }))
}

func fillOnes(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

func readAll(path string) error {
	s, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		return err
	}
	err = s.View(func(tx api.StoreTx) error {
		_, err := tx.Digest()
		return err
	})
	return errors.Join(err, s.Close())
}

func TestOpenMovesDamageAside(t *testing.T) {
	path := filled(t)
	must(t, os.WriteFile(path, []byte("garbage"), 0o600))
	s, err := boltstore.Files{Path: path}.Open()
	must(t, err)
	defer func() { _ = s.Close() }()
	if b, err := os.ReadFile(path + ".damaged-1"); err != nil || string(b) != "garbage" {
		t.Errorf("moved aside: %q, %v", b, err)
	}
}

func TestSecondOwnerIsRefused(t *testing.T) {
	path := filled(t)
	_ = open(t, path)
	_, err := boltstore.Open(path, boltstore.Options{LockTimeout: 50 * time.Millisecond})
	if !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("second owner: %v", err)
	}
}

func TestReadOnly(t *testing.T) {
	path := filled(t)
	for range 2 {
		s, err := boltstore.Open(path, boltstore.Options{ReadOnly: true})
		must(t, err)
		defer func() { _ = s.Close() }()
		if err := s.Update(func(api.StoreTx) error { return nil }); err == nil {
			t.Error("a read-only store takes updates")
		}
	}
	if _, err := boltstore.Open(path+"-none", boltstore.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestPromote(t *testing.T) {
	path := filled(t)
	files := boltstore.Files{Path: path}
	old, err := files.Open()
	must(t, err)
	next, err := files.Fresh()
	must(t, err)
	must(t, next.Update(func(tx api.StoreTx) error { return tx.SetCheckpoint(api.Checkpoint{Epoch: "E9", Seq: 9}) }))
	must(t, old.Close())
	must(t, files.Promote(next))
	must(t, next.Update(func(tx api.StoreTx) error { return tx.SetCheckpoint(api.Checkpoint{Epoch: "E9", Seq: 10}) }))
	must(t, next.Close())
	if err := next.View(func(api.StoreTx) error { return nil }); !problem.IsCode(err, problem.Unavailable) {
		t.Errorf("a closed store answers %v", err)
	}
	s := open(t, path)
	must(t, s.View(func(tx api.StoreTx) error {
		if c, err := tx.Checkpoint(); err != nil || c.Seq != 10 {
			t.Errorf("checkpoint %+v, %v", c, err)
		}
		return nil
	}))
}
