package boltstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The sums say what a closed file's bytes were. bbolt checks its meta pages
// only: a bit that flips in a key, a page number or the freelist makes it miss
// rows without a word. So a store that is closed leaves the checksums of its
// file beside it, and the next Open takes them away and compares, before
// anything is written. They stand only while the store is closed; after a
// crash there are none, and the rows' own checksums are left.

const (
	sumsSuffix = ".sum"
	sumChunk   = 4 << 20
	// openWait is how long Open waits for the comparison. A larger file is
	// compared beside the first reads; writes wait.
	openWait = 250 * time.Millisecond
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums of a file, in chunks.
type sums struct {
	Bytes  int64    `json:"bytes"`
	Chunks []uint32 `json:"chunks"` // CRC-32C of every sumChunk bytes
	Sum    uint32   `json:"sum"`    // of the other fields
}

func (s sums) own() uint32 {
	return crc32.Checksum(fmt.Append(nil, s.Bytes, s.Chunks), castagnoli)
}

// sumsOf reads the whole file.
func sumsOf(path string) (sums, error) {
	var s sums
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	buf := make([]byte, sumChunk)
	for {
		n, err := io.ReadFull(f, buf)
		if n > 0 {
			s.Bytes += int64(n)
			s.Chunks = append(s.Chunks, crc32.Checksum(buf[:n], castagnoli))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			s.Sum = s.own()
			return s, nil
		}
		if err != nil {
			return s, err
		}
	}
}

// readSums returns nil where there are none that can be read.
func readSums(path string) *sums {
	b, err := os.ReadFile(path + sumsSuffix)
	if err != nil {
		return nil
	}
	s := new(sums)
	if json.Unmarshal(b, s) != nil || s.Sum != s.own() {
		return nil
	}
	return s
}

// write puts the sums beside the file. Without them the next Open compares
// nothing, so that a failure is none of the caller's business.
func (s sums) write(path string) {
	b, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(path+sumsSuffix+".new", b, 0o644)
	}
	if err == nil {
		err = os.Rename(path+sumsSuffix+".new", path+sumsSuffix)
	}
	if err != nil {
		dropSums(path)
	}
}

func dropSums(path string) { _ = os.Remove(path + sumsSuffix) }

// differs says where a file is not what the sums say, nil where it is.
func (s sums) differs(path string) error {
	now, err := sumsOf(path)
	if err != nil {
		return fmt.Errorf("store %s: %w", path, err)
	}
	if now.Bytes < s.Bytes {
		return damaged("store %s has %d bytes, it had %d when it was closed: it was cut short", path, now.Bytes, s.Bytes)
	}
	for i, sum := range s.Chunks {
		if i >= len(now.Chunks) || now.Chunks[i] != sum {
			return damaged("store %s is not what it was when it was closed: the %d bytes from %d on fail their checksum", path, sumChunk, i*sumChunk)
		}
	}
	return nil
}

// comparison of a file with its sums, in the background.
type comparison struct {
	sums *sums
	tx   int           // transaction that the sums were taken behind, -1 = unknown
	done chan struct{} // closed when err is known
	err  error
}

// compare begins to read the file. Without sums there is nothing to compare.
func compare(path string) *comparison {
	c := &comparison{tx: -1, done: make(chan struct{})}
	if _, err := os.Stat(path); err == nil { // one that is gone is made anew
		c.sums = readSums(path)
	}
	if c.sums == nil {
		close(c.done)
		return c
	}
	go func() {
		defer close(c.done)
		c.err = c.sums.differs(path)
	}()
	return c
}

// within is the result, nil where there is none yet after d.
func (c *comparison) within(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.done:
		return c.err
	case <-t.C:
		return nil
	}
}

// wait returns the result.
func (c *comparison) wait() error { <-c.done; return c.err }

// lastTx is the number of the newest transaction in the file.
func lastTx(db *bolt.DB) int {
	tx, err := begin(db, false)
	if err != nil {
		return -1
	}
	defer func() { _ = rollback(tx) }()
	return tx.ID()
}
