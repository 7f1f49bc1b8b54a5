package projector_test

import (
	"encoding"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lcm/boltstore"
	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// change rewrites a JSON row.
func change[T encoding.BinaryMarshaler, P interface {
	*T
	encoding.BinaryUnmarshaler
}](t *testing.T, rows session.Rows, kind session.RowKind, key []byte, edit func(*T)) {
	t.Helper()
	b, err := rows.Get(kind, key)
	must(t, err)
	var v T
	must(t, P(&v).UnmarshalBinary(b))
	edit(&v)
	b, err = v.MarshalBinary()
	must(t, err)
	must(t, rows.Put(kind, key, b))
}

// TestDoctorFindsAndRepairs breaks the rows of a store in ways that no checksum
// notices. Doctor names each, repairs it, and the store is what it was.
func TestDoctorFindsAndRepairs(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, tx api.StoreTx, rows session.Rows)
		check string
		says  string
	}{
		"turns without a leaf": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			change(t, rows, session.RowHead, nil, func(h *session.Head) { h.Leaf, h.Path = 0, nil })
		}, "sessions", "no leaf"},
		"span": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			change(t, rows, session.RowNode, session.Num(1), func(d *session.Node) { d.Last = 4 })
		}, "sessions", "node #1 spans e2..e4"},
		"duplicate spans": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			change(t, rows, session.RowNode, session.Num(2), func(d *session.Node) {
				d.First, d.Last, d.Covered = 2, 5, []events.Range{{First: 2, Last: 5}}
			})
		}, "sessions", "cover the same entries"},
		"children": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			change(t, rows, session.RowNode, session.Num(2), func(d *session.Node) {
				d.Depth, d.ChildNodes = 1, []uint64{2}
			})
		}, "sessions", "node #2 has the child #2"},
		"references": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			b, err := rows.Get(session.RowNode, session.Num(1))
			must(t, err)
			var d session.Node
			must(t, d.UnmarshalBinary(b))
			must(t, rows.Put(session.RowNodeKey, []byte(d.Key), session.Num(2)))
		}, "sessions", "the key of node #1 leads to #2"},
		"coverage": {func(t *testing.T, _ api.StoreTx, rows session.Rows) {
			must(t, rows.Put(session.RowCovering, session.Num(3), []byte{}))
		}, "sessions", "e3 does not know that node #1 covers it"},
		"task without an owner": {func(t *testing.T, tx api.StoreTx, rows session.Rows) {
			must(t, tx.SetHot(ref("library"), true))
		}, "tasks", "session acme/library"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newLog("E1")
			rf, _ := library(log)
			f := setup(t, log).start()
			f.healthy()
			want := f.digest()
			must(t, f.halt())
			store, err := boltstore.Files{Path: filepath.Join(f.dir, "lcm.db")}.Open()
			must(t, err)
			must(t, store.Update(func(tx api.StoreTx) error {
				rows, err := tx.Rows(rf)
				must(t, err)
				tt.spoil(t, tx, rows)
				return nil
			}))
			must(t, store.Close())
			f.start()
			r, err := f.Doctor(within(t), api.DoctorRequest{Deep: true})
			must(t, err)
			found := ""
			for _, c := range r.Checks {
				if c.Name == tt.check && !c.OK {
					found = c.Detail
				}
			}
			if r.OK || !strings.Contains(found, tt.says) {
				t.Fatalf("doctor says %q, want %q\n%+v", found, tt.says, r.Checks)
			}
			if r, err = f.Doctor(within(t), api.DoctorRequest{Deep: true, Repair: true}); err != nil || !r.OK {
				t.Fatalf("doctor --repair: %+v, %v", r, err)
			}
			if d := f.digest(); d != want {
				t.Error("another digest after the repair")
			}
		})
	}
}

// TestDoctorNamesItsChecks: what an operator is promised.
func TestDoctorNamesItsChecks(t *testing.T) {
	log := newLog("E1")
	library(log)
	f := setup(t, log).start()
	f.awaitIndex()
	r, err := f.Doctor(within(t), api.DoctorRequest{Deep: true})
	must(t, err)
	got := ""
	for _, c := range r.Checks {
		got += c.Name + " "
	}
	for _, name := range []string{"log", "schema", "progress", "sessions", "tasks", "checksums", "index", "rejected", "sizes"} {
		if !strings.Contains(got, name+" ") {
			t.Errorf("no check %s: %s", name, fmt.Sprint(r.Checks))
		}
	}
}
