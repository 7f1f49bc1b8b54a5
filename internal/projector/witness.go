package projector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/wholefile"
)

// The witness is a second memory of how far the log had come, in a file of its
// own beside the rows. Damage to the log can make a server answer, in good
// faith, that events never were; where the rows are lost as well, the witness
// is all that contradicts. It follows the rows' commits, about once a second,
// and is compared with the log before anything is appended.

// witnessEvery is how often the file is written.
const witnessEvery = time.Second

// witnessed is what the file says.
type witnessed struct {
	Epoch string      `json:"epoch"`
	Seq   uint64      `json:"seq"`
	Hash  events.Hash `json:"hash"` // of the record at Seq, as in a checkpoint
	Sum   uint32      `json:"sum"`  // CRC-32 of the other fields
}

func (w witnessed) sum() uint32 {
	return crc32.ChecksumIEEE(fmt.Appendf(nil, "%s\n%d\n%s", w.Epoch, w.Seq, w.Hash))
}

// readWitness returns nil where there is none. A file that is no witness is an
// error.
func readWitness(path string) (*witnessed, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w := new(witnessed)
	if err := json.Unmarshal(b, w); err != nil {
		return nil, fmt.Errorf("witness %s: %w", path, err)
	}
	if w.Sum != w.sum() {
		return nil, fmt.Errorf("witness %s fails its checksum", path)
	}
	return w, nil
}

// Witnessed is the log and the position that a witness file remembers; "" and 0
// where there is none that can be read.
func Witnessed(path string) (epoch string, seq uint64) {
	w, err := readWitness(path)
	if err != nil || w == nil {
		return "", 0
	}
	return w.Epoch, w.Seq
}

// write replaces the file: it is one whole witness or the other at any time.
func (w witnessed) write(path string) error {
	w.Sum = w.sum()
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return wholefile.Write(path, append(b, '\n'), 0o600)
}

// checkWitness compares the witness with the log. A witness that cannot be
// read proves nothing: it is moved aside.
func (s *Service) checkWitness(ctx context.Context) error {
	path := s.cfg.Witness
	if path == "" {
		return nil
	}
	w, err := readWitness(path)
	if err != nil {
		s.log.Error("witness unreadable, moved aside", "error", err)
		if err := os.Rename(path, path+".damaged"); err != nil {
			return fmt.Errorf("witness: %w", err)
		}
		return nil
	}
	if w == nil {
		return nil
	}
	log := s.deps.Log
	refuse := func(format string, a ...any) error {
		return problem.New(problem.Damaged, format, a...).
			WithHint("put the right log back, or restore a backup into an empty directory; run `lcm rebuild` only if this log is the one to keep")
	}
	if w.Epoch != log.Epoch() {
		return refuse("the log is %s, what was seen here was the log %s", log.Epoch(), w.Epoch)
	}
	last, err := log.LastSeq(ctx)
	if err != nil {
		return fmt.Errorf("end of the log: %w", err)
	}
	if last < w.Seq {
		return refuse("the log ends at %d, it had come to %d: it was shortened or replaced", last, w.Seq)
	}
	rec, err := log.Read(ctx, w.Seq)
	if err != nil {
		return fmt.Errorf("read position %d of the log: %w", w.Seq, err)
	}
	if have := witness(rec); have != w.Hash {
		return refuse("position %d of the log has hash %s, it had %s: the log was changed", w.Seq, have, w.Hash)
	}
	return nil
}

// witnessLoop writes the witness behind the rows until ctx ends.
func (s *Service) witnessLoop(ctx context.Context) error {
	tick := time.NewTicker(witnessEvery)
	defer tick.Stop()
	for {
		s.writeWitness()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// writeWitness brings the file to where the rows are. One caller at a time.
func (s *Service) writeWitness() {
	if s.cfg.Witness == "" {
		return
	}
	at, err := s.checkpoint()
	if err == nil && at.Seq != s.witnessed && at.Seq > 0 {
		if err = (witnessed{Epoch: at.Epoch, Seq: at.Seq, Hash: at.Hash}).write(s.cfg.Witness); err == nil {
			s.witnessed = at.Seq
		}
	}
	if err != nil { // a full disk stops nobody from reading
		s.witnessTrouble.Met(s.log, "witness", "witness not written, trying again", err)
		return
	}
	s.witnessTrouble.Over(s.log, "witness", "witness written")
}

// checkpoint of the rows in use.
func (s *Service) checkpoint() (at api.Checkpoint, err error) {
	err = s.look(func(tx api.StoreTx) (err error) { at, err = tx.Checkpoint(); return err })
	return at, err
}
