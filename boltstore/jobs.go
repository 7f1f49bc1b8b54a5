package boltstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
)

// The file of map jobs. It is made from their events and disposable. Layout:
//
//	meta  "schema" → version; "checkpoint" → api.Checkpoint, JSON
//	name  <len tenant: 1 byte><tenant><job> → ordinal
//	job   ordinal → mapjob.Job, JSON
//	row   ordinal, row → CRC-32 (4 bytes, over key and value), mapjob.Row, JSON
var jobBuckets = [][]byte{bucketMeta, bucketName, bucketJob, bucketRow}

var (
	bucketJob = []byte("job")
	bucketRow = []byte("row")
)

// jobsSchema of the file; another one's is moved aside and made anew.
const jobsSchema = "1"

// Jobs is the open file of map jobs.
type Jobs struct{ db *bolt.DB }

// OpenJobs opens the file at path, making it where there is none. One that is
// damaged or of another schema is moved aside: its rows come from the log
// again.
func OpenJobs(path string, log *slog.Logger) (*Jobs, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	j, err := openJobs(path)
	if !errors.Is(err, ErrDamaged) {
		return j, err
	}
	aside, merr := MoveAside(path, "damaged")
	if merr != nil {
		return nil, errors.Join(err, merr)
	}
	log.Warn("the store of map jobs is made anew from the log", "error", err, "moved_to", aside)
	return openJobs(path)
}

func openJobs(path string) (*Jobs, error) {
	db, err := openBolt(path, Options{LockTimeout: time.Second})
	if err != nil {
		return nil, openError(path, err)
	}
	j := &Jobs{db}
	if err := j.prepare(path); err != nil {
		_ = db.Close()
		return nil, err
	}
	return j, nil
}

func (j *Jobs) prepare(path string) (err error) {
	old := guard()
	defer func() { settle(old, recover(), &err) }()
	return j.db.Update(func(tx *bolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			for _, b := range jobBuckets {
				if _, err := tx.CreateBucket(b); err != nil {
					return err
				}
			}
			return tx.Bucket(bucketMeta).Put(keySchema, []byte(jobsSchema))
		}
		for _, b := range jobBuckets {
			if tx.Bucket(b) == nil {
				return damaged("store %s has no bucket %s", path, b)
			}
		}
		if have := string(tx.Bucket(bucketMeta).Get(keySchema)); have != jobsSchema {
			return damaged("store %s has the schema %q", path, have)
		}
		return nil
	})
}

// Close waits for transactions to end and closes the file.
func (j *Jobs) Close() error { return j.db.Close() }

// Update runs fn in a write transaction: durable when it returns nil, without
// effect when it returns an error.
func (j *Jobs) Update(fn func(api.JobTx) error) error { return j.run(true, fn) }

// View runs fn on one state of the store. Keep it short.
func (j *Jobs) View(fn func(api.JobTx) error) error { return j.run(false, fn) }

func (j *Jobs) run(write bool, fn func(api.JobTx) error) error {
	tx, err := begin(j.db, write)
	if err != nil {
		return problem.New(problem.Unavailable, "store of map jobs: %w", err)
	}
	defer func() { _ = rollback(tx) }() // nothing is left to roll back after a commit
	if err := fn(&jobTx{newTx(tx), map[mapjob.Ref]uint64{}}); err != nil || !write {
		return err
	}
	if err := commit(tx); err != nil {
		return fmt.Errorf("store of map jobs: commit: %w", err)
	}
	return nil
}

// jobTx is a transaction. It implements api.JobTx.
type jobTx struct {
	*Tx
	known map[mapjob.Ref]uint64
}

var _ api.JobTx = (*jobTx)(nil)

func jobKey(r mapjob.Ref) []byte {
	k := append([]byte{byte(len(r.Tenant))}, r.Tenant...)
	return append(k, r.Job...)
}

// number of a job, 0 for one that is not known.
func (t *jobTx) number(r mapjob.Ref) (uint64, error) {
	if n := t.known[r]; n != 0 || len(r.Tenant) > 255 {
		return n, nil
	}
	v, err := t.get(bucketName, jobKey(r))
	if err != nil || v == nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, damaged("job %s has a number of %d bytes", r, len(v))
	}
	t.known[r] = binary.BigEndian.Uint64(v)
	return t.known[r], nil
}

// Job implements mapjob.Rows.
func (t *jobTx) Job(r mapjob.Ref) (*mapjob.Job, error) {
	n, err := t.number(r)
	if err != nil || n == 0 {
		return nil, err
	}
	v, err := t.get(bucketJob, num(n))
	if err != nil {
		return nil, err
	}
	return readJob(v)
}

func readJob(v []byte) (*mapjob.Job, error) {
	j := new(mapjob.Job)
	if err := json.Unmarshal(v, j); err != nil {
		return nil, damaged("a job cannot be read: %v", err)
	}
	return j, nil
}

// PutJob implements mapjob.Rows.
func (t *jobTx) PutJob(j *mapjob.Job) error {
	n, err := t.number(j.Ref)
	if err != nil {
		return err
	}
	if n == 0 {
		last, _, err := t.last(bucketJob)
		if err != nil {
			return err
		}
		n = 1
		if last != nil {
			n = binary.BigEndian.Uint64(last) + 1
		}
		if err := t.put(bucketName, jobKey(j.Ref), num(n)); err != nil {
			return err
		}
		t.known[j.Ref] = n
	}
	return t.putJSON(bucketJob, num(n), j)
}

// Jobs implements api.JobTx.
func (t *jobTx) Jobs(visit func(*mapjob.Job) (bool, error)) error {
	return t.scanBack(bucketJob, num(^uint64(0)), func(_, v []byte) (bool, error) {
		j, err := readJob(v)
		if err != nil {
			return false, err
		}
		return visit(j)
	})
}

func rowOf(n, row uint64) []byte { return binary.BigEndian.AppendUint64(num(n), row) }

// Row implements mapjob.Rows.
func (t *jobTx) Row(r mapjob.Ref, row uint64) (*mapjob.Row, error) {
	n, err := t.number(r)
	if err != nil || n == 0 {
		return nil, err
	}
	k := rowOf(n, row)
	v, err := t.get(bucketRow, k)
	if err != nil || v == nil {
		return nil, err
	}
	return readRow(k, v)
}

func readRow(k, v []byte) (*mapjob.Row, error) {
	if !intact(k, v) {
		return nil, damaged("row %x of a map job fails its checksum", k)
	}
	row := new(mapjob.Row)
	if err := json.Unmarshal(v[crcBytes:], row); err != nil {
		return nil, damaged("row %x of a map job cannot be read: %v", k, err)
	}
	return row, nil
}

// PutRow implements mapjob.Rows.
func (t *jobTx) PutRow(r mapjob.Ref, row *mapjob.Row) error {
	n, err := t.number(r)
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("store: job %s is not known", r)
	}
	b, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("store: row %d: %w", row.Row, err)
	}
	k := rowOf(n, row.Row)
	v := binary.BigEndian.AppendUint32(make([]byte, 0, crcBytes+len(b)), checksum(k, b))
	return t.put(bucketRow, k, append(v, b...))
}

// RowsFrom implements api.JobTx.
func (t *jobTx) RowsFrom(r mapjob.Ref, row uint64, visit func(*mapjob.Row) (bool, error)) error {
	n, err := t.number(r)
	if err != nil || n == 0 {
		return err
	}
	return t.scan(bucketRow, rowOf(n, row), func(k, v []byte) (bool, error) {
		if len(k) != 16 || binary.BigEndian.Uint64(k) != n {
			return false, nil
		}
		one, err := readRow(k, v)
		if err != nil {
			return false, err
		}
		return visit(one)
	})
}

// Seen is a set of hashes on disk, of one pass over one input: it finds rows
// that are the same. It is thrown away with the pass and never synced.
type Seen struct {
	db      *bolt.DB
	path    string
	pending map[[16]byte]uint64
}

// NewSeen makes an empty set in a directory.
func NewSeen(dir string) (*Seen, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "seen-*.bolt")
	if err != nil {
		return nil, err
	}
	path := f.Name()
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(bucketRow); return err })
	return &Seen{db, path, map[[16]byte]uint64{}}, err
}

// First returns the row that had this hash first, and keeps row for it where
// none had.
func (s *Seen) First(hash [16]byte, row uint64) (uint64, error) {
	if n, ok := s.pending[hash]; ok {
		return n, nil
	}
	var first uint64
	err := s.db.View(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bucketRow).Get(hash[:]); v != nil {
			first = binary.BigEndian.Uint64(v)
		}
		return nil
	})
	if err != nil || first != 0 {
		return first, err
	}
	if s.pending[hash] = row; len(s.pending) >= 4096 {
		err = s.flush()
	}
	return row, err
}

// flush writes what was gathered: one transaction for thousands of rows.
func (s *Seen) flush() error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRow)
		for h, n := range s.pending {
			if err := b.Put(h[:], num(n)); err != nil {
				return err
			}
		}
		return nil
	})
	clear(s.pending)
	return err
}

// Close drops the set.
func (s *Seen) Close() error { return errors.Join(s.db.Close(), os.Remove(s.path)) }
