package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// layoutVersion of the buckets and keys of this package.
const layoutVersion = 1

// ErrDamaged: the file fails its checks. Move it aside and rebuild it. Errors
// that wrap it have the code problem.Damaged.
var ErrDamaged = errors.New("store damaged")

// ErrOlder: the file was made by an older build. Its rows are made anew from
// the log, never migrated.
var ErrOlder = errors.New("store of an older build")

var (
	bucketMeta     = []byte("meta")
	bucketName     = []byte("name")
	bucketSession  = []byte("session")
	bucketRows     = []byte("rows")
	bucketFeed     = []byte("feed")
	bucketHot      = []byte("hot")
	bucketRejected = []byte("rejected")

	keySchema     = []byte("schema")
	keyCheckpoint = []byte("checkpoint")
	keyCounts     = []byte("counts")
)

var buckets = [][]byte{bucketMeta, bucketName, bucketSession, bucketRows, bucketFeed, bucketHot, bucketRejected}

// Options of Open.
type Options struct {
	// ReadOnly opens an existing file for reading, beside other readers.
	ReadOnly bool
	// LockTimeout is how long to wait for another process that holds the
	// file. 0 = one second: a second owner is a mistake, not a queue.
	LockTimeout time.Duration
}

// Store is an open file. It implements api.Store.
type Store struct {
	db       *bolt.DB
	path     string
	readOnly bool
	compared *comparison
}

// Open opens the store at path, making an empty one where there is none. A
// damaged file is ErrDamaged, one of an older schema ErrOlder. One of a newer
// schema is problem.Damaged with what helps. Each is left as it is.
func Open(path string, o Options) (*Store, error) {
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if !o.ReadOnly {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("store %s: %w", path, err)
		}
	}
	cmp := compare(path)
	db, err := openBolt(path, o)
	if worse := cmp.within(openWait); err == nil && worse != nil {
		_ = db.Close()
		return nil, worse
	}
	if err != nil {
		return nil, openError(path, err)
	}
	s := &Store{db: db, path: path, readOnly: o.ReadOnly, compared: cmp}
	if cmp.tx = lastTx(db); !o.ReadOnly {
		dropSums(path) // from here on the file may change
	}
	if err := s.prepare(o.ReadOnly); err != nil {
		_ = db.Close()
		return nil, err
	}
	return s, nil
}

// openError says why a file does not open.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return problem.New(problem.Unavailable, "store %s is in use by another process: %w", path, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("store %s: %w", path, err)
	}
	return damaged("store %s: %v", path, err)
}

// openBolt opens the file. bbolt panics, or reads beyond the mapping, where
// the file is damaged or cut short.
func openBolt(path string, o Options) (db *bolt.DB, err error) {
	var file *os.File
	defer func() {
		if err != nil && file != nil {
			_ = file.Close() // also gives up the lock that a panic left behind
		}
	}()
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return bolt.Open(path, 0o644, &bolt.Options{
		Timeout: o.LockTimeout, ReadOnly: o.ReadOnly, FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			var err error
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
	})
}

// prepare checks size and schema, and makes the buckets of a new file.
func (s *Store) prepare(readOnly bool) error {
	empty, err := s.inspect()
	if err != nil || !empty {
		return err
	}
	if readOnly {
		return damaged("store %s has no buckets", s.path)
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(schema()))
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	return nil
}

// inspect reports whether the file is new, and what is wrong with it.
func (s *Store) inspect() (empty bool, err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	err = s.db.View(func(tx *bolt.Tx) error {
		info, err := os.Stat(s.path)
		if err != nil {
			return fmt.Errorf("store %s: %w", s.path, err)
		}
		if info.Size() < tx.Size() {
			return damaged("store %s has %d bytes and uses %d: it was cut short", s.path, info.Size(), tx.Size())
		}
		if k, _ := tx.Cursor().First(); k == nil {
			empty = true
			return nil
		}
		for _, b := range buckets {
			if tx.Bucket(b) == nil {
				return damaged("store %s has no bucket %s", s.path, b)
			}
		}
		return checkSchema(s.path, string(tx.Bucket(bucketMeta).Get(keySchema)))
	})
	return empty, err
}

func schema() string { return fmt.Sprintf("%d.%d", layoutVersion, session.SchemaVersion) }

func checkSchema(path, have string) error {
	if have == schema() {
		return nil
	}
	layout, rows, _ := strings.Cut(have, ".")
	l, err1 := strconv.Atoi(layout)
	r, err2 := strconv.Atoi(rows)
	if err1 != nil || err2 != nil {
		return damaged("store %s has the schema %q", path, have)
	}
	if l > layoutVersion || r > session.SchemaVersion {
		return problem.New(problem.Damaged, "store %s has schema %s, this build reads %s: it was made by a newer build", path, have, schema()).
			WithHint("use the newer build, or make the store anew with `lcm rebuild --store`")
	}
	return problem.New(problem.Damaged, "%w: %s has schema %s, this build needs %s", ErrOlder, path, have, schema()).
		WithHint("run `lcm rebuild --store`")
}

// Update runs fn in a write transaction: durable when it returns nil, without
// effect when it returns an error.
func (s *Store) Update(fn func(api.StoreTx) error) error { return s.run(true, fn) }

// View runs fn on one state of the store. Keep it short: while it runs, the
// file cannot reuse freed pages.
func (s *Store) View(fn func(api.StoreTx) error) error { return s.run(false, fn) }

func (s *Store) run(write bool, fn func(api.StoreTx) error) error {
	if err := s.intact(write); err != nil {
		return err
	}
	tx, err := begin(s.db, write)
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return problem.New(problem.Unavailable, "store %s is closed: %w", s.path, err)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	defer func() { _ = rollback(tx) }() // nothing is left to roll back after a commit
	t := newTx(tx)
	if err := fn(t); err != nil || !write {
		return err
	}
	if err := commit(tx); err != nil {
		return fmt.Errorf("store %s: commit: %w", s.path, err)
	}
	return nil
}

// intact is what the comparison with the sums says; before a write it is
// waited for: what is written blurs it.
func (s *Store) intact(write bool) error {
	if write {
		return s.compared.wait()
	}
	select {
	case <-s.compared.done:
		return s.compared.err
	default:
		return nil
	}
}

// Path of the file.
func (s *Store) Path() string { return s.path }

// SizeBytes of the file.
func (s *Store) SizeBytes() int64 {
	info, err := os.Stat(s.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// Close waits for transactions to end and closes the file. One that is damaged
// is moved aside: it would be opened as if nothing were.
func (s *Store) Close() error {
	bad := s.compared.wait()
	if bad == nil && !s.readOnly {
		s.leaveSums()
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("store %s: %w", s.path, err)
	}
	if errors.Is(bad, ErrDamaged) && !s.readOnly {
		if _, err := MoveAside(s.path, "damaged"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// leaveSums writes the checksums of the file as it is now, between two
// writers, while the lock on it is held.
func (s *Store) leaveSums() {
	tx, err := begin(s.db, true)
	if err != nil { // closed already
		return
	}
	defer func() { _ = rollback(tx) }()
	now := s.compared.sums
	if now == nil || tx.ID()-1 != s.compared.tx { // something was written
		fresh, err := sumsOf(s.path)
		if err != nil {
			return
		}
		now = &fresh
	}
	now.write(s.path)
}
