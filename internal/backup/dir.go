package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lcm/internal/api"
	"lcm/internal/problem"
)

const (
	segmentSuffix = ".seg"
	partSuffix    = ".part" // a log segment that is being written
	newSuffix     = ".new"  // a side stream's copy, before the log's is whole
	readBuffer    = 1 << 20
)

// Progress of a backup or restore.
type Progress struct{ Seq, Until uint64 }

// Summary of what a directory holds, or of what was done.
type Summary struct {
	Dir        string `json:"dir"`
	Epoch      string `json:"epoch"` // of the log that was copied
	Partitions int    `json:"partitions"`
	Last       uint64 `json:"last"`     // last position
	Segments   int    `json:"segments"` // of the log
	Bytes      int64  `json:"bytes"`
	Events     uint64 `json:"events"`
	Lost       uint64 `json:"lost"` // positions that the log could not give
	Inbox      uint64 `json:"inbox"`
	Dead       uint64 `json:"dead"`
	// Jobs are events of map jobs, Inputs the messages that hold what they read.
	Jobs   uint64 `json:"jobs"`
	Inputs uint64 `json:"inputs"`
	// Added by this run, events.
	Added uint64 `json:"added"`
	// Whole: inbox and dead letters are there, the last backup was finished.
	Whole bool `json:"whole"`
}

// Dir is a directory of segments.
type Dir struct{ path string }

// OpenDir opens a directory, making it where it is absent.
func OpenDir(path string, create bool) (*Dir, error) {
	if create {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, problem.New(problem.Invalid, "backup directory %s: %w", path, err)
		}
	}
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem.New(problem.NotFound, "there is no backup directory %s", path)
	case err != nil:
		return nil, problem.New(problem.Invalid, "backup directory %s: %w", path, err)
	case !st.IsDir():
		return nil, problem.New(problem.Invalid, "%s is no directory", path)
	}
	return &Dir{path}, nil
}

// file is a segment of the log by its name.
type file struct {
	name        string
	first, last uint64
}

func segmentName(first, last uint64) string {
	return fmt.Sprintf("%s-%020d-%020d%s", StreamLog, first, last, segmentSuffix)
}

// files lists the log's segments in order. One that is missing is named.
func (d *Dir) files() ([]file, error) {
	list, err := os.ReadDir(d.path)
	if err != nil {
		return nil, problem.New(problem.Invalid, "backup directory %s: %w", d.path, err)
	}
	var out []file
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), StreamLog+"-")
		rest, ok2 := strings.CutSuffix(rest, segmentSuffix)
		a, b, ok3 := strings.Cut(rest, "-")
		if !ok || !ok2 || !ok3 {
			continue
		}
		first, err1 := strconv.ParseUint(a, 10, 64)
		last, err2 := strconv.ParseUint(b, 10, 64)
		if err1 != nil || err2 != nil || first == 0 || last < first {
			return nil, problem.New(problem.Damaged, "%s is no name of a segment", filepath.Join(d.path, e.Name()))
		}
		out = append(out, file{e.Name(), first, last})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	next := uint64(1)
	for _, f := range out {
		if f.first != next {
			return nil, problem.New(problem.Damaged, "the backup %s has no segment with the positions %d to %d", d.path, next, f.first-1).
				WithHint("take it from another copy of the backup")
		}
		next = f.last + 1
	}
	return out, nil
}

// each reads a segment, checks all of it, and hands its frames over; visit may
// be nil.
func (d *Dir) each(name string, visit func(Frame) error) (*Reader, error) {
	f, err := os.Open(filepath.Join(d.path, name))
	if err != nil {
		return nil, problem.New(problem.Damaged, "segment %s: %w", name, err)
	}
	defer f.Close()
	buf := bufio.NewReaderSize(f, readBuffer)
	r, err := NewReader(buf)
	if errors.Is(err, io.EOF) {
		err = damaged("it is empty")
	}
	for err == nil {
		var fr Frame
		if fr, err = r.Next(); err != nil {
			break
		}
		if visit != nil {
			if verr := visit(fr); verr != nil {
				return r, verr
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return r, named(name, err)
	}
	if _, err := buf.ReadByte(); !errors.Is(err, io.EOF) {
		return r, named(name, damaged("there are bytes behind its trailer"))
	}
	return r, nil
}

// Check reads every byte and compares it with its checksums, and the segments
// with each other. It names the first segment that is not as it was written.
func (d *Dir) Check(ctx context.Context) (Summary, error) {
	s := Summary{Dir: d.path, Whole: true}
	files, err := d.files()
	if err != nil {
		return s, err
	}
	hash := ""
	for i, f := range files {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		r, err := d.each(f.name, nil)
		if err != nil {
			return s, err
		}
		if err := fits(f, r, &s, i == 0, hash); err != nil {
			return s, err
		}
		hash = r.Trailer.LastHash
		s.Segments, s.Last = s.Segments+1, f.last
		s.Events, s.Lost = s.Events+r.Trailer.Count, s.Lost+r.Trailer.Lost
		s.Bytes += d.size(f.name)
	}
	for _, side := range []struct {
		stream string
		n      *uint64
	}{{StreamInbox, &s.Inbox}, {StreamDead, &s.Dead}, {StreamJobs, &s.Jobs}, {StreamInputs, &s.Inputs}} {
		name := d.sideName(side.stream)
		if name == "" { // a backup of an older build has no map jobs
			s.Whole = s.Whole && slices.Contains(mapStreams, side.stream)
			continue
		}
		r, err := d.each(name, nil)
		if err != nil {
			return s, err
		}
		if r.Header.Stream != side.stream || s.Epoch != "" && r.Header.Epoch != s.Epoch {
			return s, named(name, damaged("it holds %s of the log %s", r.Header.Stream, r.Header.Epoch))
		}
		s.Epoch, s.Partitions = r.Header.Epoch, r.Header.Partitions
		*side.n = r.Trailer.Count
		s.Bytes += d.size(name)
		s.Whole = s.Whole && strings.HasSuffix(name, segmentSuffix)
	}
	if s.Epoch == "" {
		return s, problem.New(problem.NotFound, "there is no backup in %s", d.path)
	}
	return s, nil
}

// fits compares a segment with its name and with the one before it.
func fits(f file, r *Reader, s *Summary, first bool, hash string) error {
	h := r.Header
	switch {
	case h.Stream != StreamLog || h.After != f.first-1 || r.Trailer.Last != f.last:
		return named(f.name, damaged("it holds %s from position %d to %d", h.Stream, h.After+1, r.Trailer.Last))
	case first:
		s.Epoch, s.Partitions = h.Epoch, h.Partitions
	case h.Epoch != s.Epoch || h.Partitions != s.Partitions:
		return named(f.name, damaged("it is of the log %s, those before it of %s", h.Epoch, s.Epoch))
	case h.AfterHash != hash:
		return named(f.name, damaged("it does not follow the segment before it"))
	}
	return nil
}

func (d *Dir) size(name string) int64 {
	st, err := os.Stat(filepath.Join(d.path, name))
	if err != nil {
		return 0
	}
	return st.Size()
}

// sideName is the copy of a side stream: of a finished backup, else of one
// that was interrupted; "" = none.
func (d *Dir) sideName(stream string) string {
	for _, name := range []string{stream + segmentSuffix, stream + newSuffix} {
		if _, err := os.Stat(filepath.Join(d.path, name)); err == nil {
			return name
		}
	}
	return ""
}

// Next says where the backup goes on: behind its last segment, which is
// checked. What an interrupted run left half written is removed.
func (d *Dir) Next() (api.ExportIn, error) {
	var in api.ExportIn
	files, err := d.files()
	if err != nil {
		return in, err
	}
	parts, err := filepath.Glob(filepath.Join(globQuote(d.path), "*"+partSuffix))
	if err != nil {
		return in, err
	}
	for _, p := range parts {
		if err := os.Remove(p); err != nil {
			return in, problem.New(problem.Invalid, "%w", err)
		}
	}
	if len(files) == 0 {
		if name := d.sideName(StreamInbox); name != "" { // a log that was empty
			r, err := d.each(name, nil)
			if err != nil {
				return in, err
			}
			in.Epoch = r.Header.Epoch
		}
		return in, nil
	}
	last := files[len(files)-1]
	r, err := d.each(last.name, nil)
	if err != nil {
		return in, err
	}
	return api.ExportIn{After: int(last.last), Epoch: r.Header.Epoch, Hash: r.Trailer.LastHash}, nil
}

func globQuote(p string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p)
}

// Receive writes what an export sends. Each segment is checked, synced and
// named as soon as it is whole, so that an interrupted backup goes on there.
func (d *Dir) Receive(ctx context.Context, src io.Reader, progress func(Progress)) (Summary, error) {
	s := Summary{Dir: d.path}
	in := bufio.NewReaderSize(src, readBuffer)
	for {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		r, err := NewReader(in)
		if err != nil {
			return s, brokeOff(err)
		}
		switch r.Header.Stream {
		case StreamLog, StreamInbox, StreamDead, StreamJobs, StreamInputs:
			if err := d.keep(r, &s, progress); err != nil {
				return s, err
			}
			continue
		case streamEnd:
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				return s, brokeOff(err)
			}
			return s, d.finish()
		case streamError:
			p := new(problem.Error)
			if err := json.Unmarshal(r.Header.Error, p); err != nil {
				return s, err
			}
			return s, p
		}
		return s, brokeOff(fmt.Errorf("unknown stream %q", r.Header.Stream))
	}
}

func brokeOff(err error) error {
	return problem.New(problem.Unavailable, "the copy broke off: %w", err).WithHint("run it again: it goes on behind the last whole segment")
}

// keep writes the segment that r reads into a file.
func (d *Dir) keep(r *Reader, s *Summary, progress func(Progress)) error {
	h := r.Header
	part := filepath.Join(d.path, h.Stream+partSuffix)
	f, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return problem.New(problem.Unavailable, "backup: %w", err)
	}
	err = d.copy(f, r, progress)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(part)
		var p *problem.Error
		if errors.As(err, &p) {
			return err
		}
		return problem.New(problem.Unavailable, "backup: %w", err)
	}
	t := r.Trailer
	name := h.Stream + newSuffix
	switch h.Stream {
	case StreamLog:
		name = segmentName(h.After+1, t.Last)
		s.Segments, s.Last = s.Segments+1, t.Last
		s.Added, s.Lost = s.Added+t.Count, s.Lost+t.Lost
	case StreamInbox:
		s.Inbox = t.Count
	case StreamDead:
		s.Dead = t.Count
	case StreamJobs:
		s.Jobs = t.Count
	case StreamInputs:
		s.Inputs = t.Count
	}
	s.Epoch, s.Partitions = h.Epoch, h.Partitions
	return d.rename(filepath.Base(part), name)
}

func (d *Dir) copy(f io.Writer, r *Reader, progress func(Progress)) error {
	out := bufio.NewWriterSize(f, readBuffer)
	w, err := NewWriter(out, r.Header)
	if err != nil {
		return err
	}
	for {
		fr, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return brokeOff(err)
		}
		if fr.Lost {
			err = w.Lost(fr.Message.Seq, fr.Reason)
		} else {
			err = w.Message(fr.Message)
		}
		if err != nil {
			return err
		}
		if progress != nil && r.Header.Stream == StreamLog && fr.Message.Seq%1024 == 0 {
			progress(Progress{fr.Message.Seq, r.Header.Until})
		}
	}
	t, err := w.Close()
	if err != nil {
		return err
	}
	if t != r.Trailer {
		return problem.New(problem.Internal, "a segment was not written as it was read")
	}
	return out.Flush()
}

// finish puts the side streams' copies in place: the log's is whole now.
func (d *Dir) finish() error {
	for _, stream := range []string{StreamDead, StreamInbox, StreamJobs, StreamInputs} {
		if err := d.rename(stream+newSuffix, stream+segmentSuffix); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dir) rename(from, to string) error {
	if err := os.Rename(filepath.Join(d.path, from), filepath.Join(d.path, to)); err != nil {
		return problem.New(problem.Unavailable, "backup: %w", err)
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return problem.New(problem.Unavailable, "backup: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return problem.New(problem.Unavailable, "backup: %w", err)
	}
	return nil
}
