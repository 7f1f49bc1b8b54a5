package boltstore_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lcm/boltstore"
	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

var (
	alice = events.Ref{Tenant: "acme", Session: "alice"}
	bob   = events.Ref{Tenant: "acme", Session: "bob"}
)

func open(t testing.TB, path string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fresh(t testing.TB) *boltstore.Store { return open(t, filepath.Join(t.TempDir(), "lcm.db")) }

// TestRowsConformance runs one suite over every implementation of session.Rows.
func TestRowsConformance(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		conform(t, func(t *testing.T, step func(session.Rows)) { step(session.NewMemory()) })
	})
	t.Run("bolt", func(t *testing.T) {
		conform(t, func(t *testing.T, step func(session.Rows)) {
			err := fresh(t).Update(func(tx api.StoreTx) error {
				noise(t, tx) // neighbours on both sides must never be seen
				rows, err := tx.Rows(bob)
				if err != nil {
					return err
				}
				noise(t, tx)
				step(rows)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	})
}

func noise(t *testing.T, tx api.StoreTx) {
	t.Helper()
	for _, ref := range []events.Ref{alice, {Tenant: "zeta", Session: "z"}} {
		rows, err := tx.Rows(ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []session.RowKind{session.RowBody, session.RowEntry, session.RowRun, session.RowStall} {
			for n := range uint64(3) {
				must(t, rows.Put(kind, session.Num(n), []byte("noise")))
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func conform(t *testing.T, with func(*testing.T, func(session.Rows))) {
	t.Run("absent", func(t *testing.T) {
		with(t, func(r session.Rows) {
			if v, err := r.Get(session.RowHead, nil); v != nil || err != nil {
				t.Errorf("Get of no row = %q, %v", v, err)
			}
			if k, v, err := r.Floor(session.RowRun, session.Num(9)); k != nil || v != nil || err != nil {
				t.Errorf("Floor of no row = %x, %q, %v", k, v, err)
			}
		})
	})
	t.Run("put and get", func(t *testing.T) {
		with(t, func(r session.Rows) { conformGet(t, r) })
	})
	t.Run("floor", func(t *testing.T) {
		with(t, func(r session.Rows) { conformFloor(t, r) })
	})
	t.Run("model", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			with(t, func(r session.Rows) { conformModel(rt, r) })
		})
	})
}

func conformGet(t *testing.T, r session.Rows) {
	key, value := []byte("key"), []byte("value")
	must(t, r.Put(session.RowTurn, key, value))
	key[0], value[0] = 'X', 'X' // the port keeps neither
	if v, err := r.Get(session.RowTurn, []byte("key")); string(v) != "value" || err != nil {
		t.Errorf("Get = %q, %v", v, err)
	}
	if v, err := r.Get(session.RowFile, []byte("key")); v != nil || err != nil {
		t.Errorf("another kind sees %q, %v", v, err)
	}
	must(t, r.Put(session.RowTurn, []byte("key"), []byte("again")))
	if v, _ := r.Get(session.RowTurn, []byte("key")); string(v) != "again" {
		t.Errorf("after a second Put: %q", v)
	}
	must(t, r.Put(session.RowHead, nil, nil))
	if v, err := r.Get(session.RowHead, nil); v == nil || len(v) != 0 || err != nil {
		t.Errorf("an empty row reads as %v, %v: it is there", v, err)
	}
	long := bytes.Repeat([]byte("tool-call-"), 10_000) // ids have any length
	must(t, r.Put(session.RowTurn, long, []byte("long")))
	must(t, r.Put(session.RowTurn, append(bytes.Clone(long), '2'), []byte("longer")))
	if v, err := r.Get(session.RowTurn, long); string(v) != "long" || err != nil {
		t.Errorf("row of a long key = %q, %v", v, err)
	}
}

func conformFloor(t *testing.T, r session.Rows) {
	for _, n := range []uint64{5, 10, 1 << 40} {
		must(t, r.Put(session.RowRun, session.Num(n), fmt.Append(nil, n)))
	}
	must(t, r.Put(session.RowNode, session.Num(1), []byte("other kind below")))
	must(t, r.Put(session.RowConfig, session.Num(1), []byte("other kind above")))
	for _, c := range []struct{ at, want uint64 }{{4, 0}, {5, 5}, {9, 5}, {10, 10}, {1 << 39, 10}, {1 << 41, 1 << 40}, {^uint64(0), 1 << 40}} {
		k, v, err := r.Floor(session.RowRun, session.Num(c.at))
		must(t, err)
		if c.want == 0 {
			if k != nil {
				t.Errorf("Floor(%d) = %x", c.at, k)
			}
			continue
		}
		if !bytes.Equal(k, session.Num(c.want)) || string(v) != fmt.Sprint(c.want) {
			t.Errorf("Floor(%d) = %x %q, want %d", c.at, k, v, c.want)
		}
	}
}

// conformModel holds the rows against a map.
func conformModel(rt *rapid.T, r session.Rows) {
	kinds := []session.RowKind{session.RowRun, session.RowMove, session.RowEntry}
	model := map[string]string{}
	id := func(kind session.RowKind, key []byte) string { return string(append([]byte{byte(kind)}, key...)) }
	kind := rapid.SampledFrom(kinds)
	key := rapid.Custom(func(rt *rapid.T) []byte { return session.Num(rapid.Uint64Range(0, 20).Draw(rt, "n")) })
	rt.Repeat(map[string]func(*rapid.T){
		"put": func(rt *rapid.T) {
			k, b, v := kind.Draw(rt, "kind"), key.Draw(rt, "key"), rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "value")
			if err := r.Put(k, b, v); err != nil {
				rt.Fatal(err)
			}
			model[id(k, b)] = string(v)
		},
		"get": func(rt *rapid.T) {
			k, b := kind.Draw(rt, "kind"), key.Draw(rt, "key")
			v, err := r.Get(k, b)
			want, ok := model[id(k, b)]
			if err != nil || ok != (v != nil) || string(v) != want {
				rt.Fatalf("Get(%c %x) = %q, %v; want %q, %v", k, b, v, err, want, ok)
			}
		},
		"floor": func(rt *rapid.T) {
			k, b := kind.Draw(rt, "kind"), key.Draw(rt, "key")
			best := ""
			for have := range model {
				if have[0] == byte(k) && have <= id(k, b) && have > best {
					best = have
				}
			}
			got, v, err := r.Floor(k, b)
			if err != nil || best == "" != (got == nil) || best != "" && (id(k, got) != best || string(v) != model[best]) {
				rt.Fatalf("Floor(%c %x) = %x %q, %v; want %x", k, b, got, v, err, best)
			}
		},
	})
}

func TestLongKeysDoNotCollide(t *testing.T) {
	err := fresh(t).Update(func(tx api.StoreTx) error {
		r, err := tx.Rows(alice)
		if err != nil {
			return err
		}
		for _, n := range []int{1023, 1024, 1025, 1026, 32768} {
			if err := r.Put(session.RowTurn, []byte(strings.Repeat("k", n)), fmt.Append(nil, n)); err != nil {
				return err
			}
		}
		for _, n := range []int{1023, 1024, 1025, 1026, 32768} {
			if v, err := r.Get(session.RowTurn, []byte(strings.Repeat("k", n))); string(v) != fmt.Sprint(n) || err != nil {
				t.Errorf("key of %d bytes: %q, %v", n, v, err)
			}
		}
		return nil
	})
	must(t, err)
}
