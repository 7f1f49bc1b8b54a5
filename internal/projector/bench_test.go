package projector_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"lcm/boltstore"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/projector"
)

// sessionLog is n turns of about 600 bytes over some sessions.
func sessionLog(n, sessions int) *fakeLog {
	log := newLog("BENCH")
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the parser reads a token and returns an error when the index of the buffer is behind its head so we keep the offset in user_repo.go and call getUserById again")
	var b strings.Builder
	for i := range n {
		rf := ref(fmt.Sprintf("s%03d", i%sessions))
		if i < sessions {
			log.configure(rf, nil)
		}
		b.Reset()
		for b.Len() < 600 {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteByte(' ')
		}
		role := events.RoleUser
		if i/sessions%2 == 1 {
			role = events.RoleAssistant
		}
		t := turn(fmt.Sprintf("%016x-%d", r.Uint64(), i), role, b.String())
		log.event(rf, t)
	}
	return log
}

// idleIndex is an index that takes part in nothing.
type idleIndex struct{ upto uint64 }

func (x *idleIndex) Open(string) (api.Index, error)       { return x, nil }
func (x *idleIndex) Create(string) (api.Index, error)     { return x, nil }
func (x *idleIndex) Beside(string) (api.Index, error)     { return x, nil }
func (x *idleIndex) Promote(api.Index) (api.Index, error) { return x, nil }
func (x *idleIndex) Apply(_ []api.IndexDoc, upto uint64) error {
	x.upto = upto
	return nil
}
func (x *idleIndex) Checkpoint() (uint64, string) { return 1 << 60, "BENCH/all" }
func (x *idleIndex) Search(context.Context, api.IndexQuery) (api.IndexHits, error) {
	return api.IndexHits{}, nil
}

func (x *idleIndex) Rank(context.Context, api.RankQuery) (api.RankHits, error) {
	return api.RankHits{}, nil
}
func (x *idleIndex) Narrows([][]string) bool                   { return false }
func (x *idleIndex) Locator(string, bool) (api.Locator, error) { return nil, nil }
func (x *idleIndex) Docs() (uint64, error)                     { return 0, nil }
func (x *idleIndex) Verify() error                             { return nil }
func (x *idleIndex) SizeBytes() int64                          { return 0 }
func (x *idleIndex) Close() error                              { return nil }

// BenchmarkReplay replays a log into bbolt and prints, from the same run, what
// bbolt itself does with the very same rows.
func BenchmarkReplay(b *testing.B) {
	const turns = 60_000
	log := sessionLog(turns, 50)
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "lcm.db")
		s, err := projector.New(projector.Config{}, projector.Deps{Log: log, Stores: boltstore.Files{Path: path}, Indexes: &idleIndex{}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- s.Run(ctx) }()
		if _, err := s.Wait(ctx, events.Position{Seq: uint64(len(log.records))}); err != nil {
			b.Fatal(err)
		}
		took := time.Since(start)
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		raw := rawPuts(b, path)
		b.ReportMetric(turns/took.Seconds(), "turns/s")
		b.ReportMetric(turns/raw.Seconds(), "raw-turns/s")
		b.ReportMetric(raw.Seconds()/took.Seconds(), "of-raw")
	}
}

// rawPuts copies all rows of a store into a new file with nothing but bbolt:
// key order, 5,000 turns' worth of rows in a transaction.
func rawPuts(b *testing.B, path string) time.Duration {
	from, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	to, err := bolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = to.Close() }()
	start := time.Now()
	err = from.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, rows *bolt.Bucket) error {
			c := rows.Cursor()
			for k, v := c.First(); k != nil; {
				err := to.Update(func(tx *bolt.Tx) error {
					bucket, err := tx.CreateBucketIfNotExists(name)
					for n := 0; err == nil && k != nil && n < 20_000; n++ {
						err = bucket.Put(k, append([]byte(nil), v...))
						k, v = c.Next()
					}
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}
