package boltstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"lcm/boltstore"
	"lcm/events"
	"lcm/internal/api"
	"lcm/session"
)

// TestEveryBitOfAClosedStore: any bit of a closed file that changed is noticed
// when it is opened, wherever it stands: rows, keys, page numbers, the freelist.
func TestEveryBitOfAClosedStore(t *testing.T) {
	path := filled(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	sum, err := os.ReadFile(path + ".sum")
	must(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		at, bit := rng.IntN(len(whole)), byte(1)<<rng.IntN(8)
		spoiled := bytes.Clone(whole)
		spoiled[at] ^= bit
		must(t, os.WriteFile(path, spoiled, 0o600))
		must(t, os.WriteFile(path+".sum", sum, 0o600))
		if _, err := boltstore.Open(path, boltstore.Options{}); !errors.Is(err, boltstore.ErrDamaged) {
			t.Fatalf("bit %d of byte %d changed: %v", bit, at, err)
		}
	}
	must(t, os.WriteFile(path, spoil(whole), 0o600))
	s, err := boltstore.Files{Path: path}.Open()
	must(t, err)
	defer func() { _ = s.Close() }()
	must(t, s.View(func(tx api.StoreTx) error {
		if c, err := tx.Counts(); err != nil || c.Sessions != 0 {
			t.Errorf("in place of the damaged store: %+v, %v", c, err)
		}
		return nil
	}))
	if moved, err := filepath.Glob(path + ".damaged-*"); err != nil || len(moved) != 1 {
		t.Errorf("moved aside: %v, %v", moved, err)
	}
}

func spoil(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 4
	return out
}

// TestFlippedBitsAfterACrash: without sums a store does not panic, whatever
// bit changed, and gives no value that was not stored.
func TestFlippedBitsAfterACrash(t *testing.T) {
	path := filled(t)
	crash(t, path)
	whole, err := os.ReadFile(path)
	must(t, err)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		spoiled := bytes.Clone(whole)
		at := rng.IntN(len(whole))
		if rng.IntN(2) == 0 { // the front of a page: headers and elements
			at = at/4096*4096 + rng.IntN(64)
		}
		spoiled[at] ^= 1 << rng.IntN(8)
		must(t, os.WriteFile(path, spoiled, 0o600))
		readGiven(t, path)
	}
}

// readGiven reads all that fill stored, as far as the store gives it.
func readGiven(t *testing.T, path string) {
	t.Helper()
	s, err := boltstore.Open(path, boltstore.Options{ReadOnly: true})
	if err != nil {
		return
	}
	defer func() { must(t, s.Close()) }()
	_ = s.View(func(tx api.StoreTx) error {
		for _, ref := range []events.Ref{alice, bob} {
			r, err := tx.Rows(ref)
			if err != nil {
				return err
			}
			for n := uint64(1); n <= 200; n++ {
				v, err := r.Get(session.RowEntry, session.Num(n))
				if err != nil || v == nil {
					continue
				}
				if want := fmt.Sprintf("entry %d of %s", n, ref); string(v) != want {
					t.Errorf("%q, want %q", v, want)
				}
			}
		}
		_, err := tx.Digest()
		return err
	})
}

// TestSumsFollowTheFile: closing without a write leaves the sums as they are,
// and what was written is in them the next time.
func TestSumsFollowTheFile(t *testing.T) {
	path := filled(t)
	first, err := os.ReadFile(path + ".sum")
	must(t, err)
	s := open(t, path)
	if _, err := os.Stat(path + ".sum"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there are sums while the store is open: %v", err)
	}
	must(t, s.Close())
	if again, err := os.ReadFile(path + ".sum"); err != nil || !bytes.Equal(again, first) {
		t.Errorf("sums %s, %v", again, err)
	}
	for i := range 20 {
		s := open(t, path)
		must(t, s.Update(func(tx api.StoreTx) error {
			r, err := tx.Rows(alice)
			must(t, err)
			return r.Put(session.RowEntry, session.Num(uint64(i+1)), []byte("changed"))
		}))
		must(t, s.Close())
	}
	must(t, readAll(path))
	for _, b := range [][]byte{nil, []byte("{}"), first[:10], first[1:]} { // no sums at all
		must(t, os.WriteFile(path+".sum", b, 0o600))
		must(t, readAll(path))
	}
}
