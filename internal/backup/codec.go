package backup

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"

	"lcm/events"
	"lcm/internal/problem"
)

// Format of the segments this build writes and reads.
const Format = "lcm-segment/1"

// Streams of a segment.
const (
	StreamLog   = "LCM"
	StreamInbox = "LCM_IN"
	StreamDead  = "LCM_DEAD"
	// Map jobs, and the inputs they read: none where there were none.
	StreamJobs   = "LCM_JOB"
	StreamInputs = "OBJ_LCM_MAP"
	// streamEnd and streamError end an export: all was sent, or not.
	streamEnd   = "end"
	streamError = "error"
)

// mapStreams in the order of a copy: a job that is in it has its input there.
var mapStreams = []string{StreamJobs, StreamInputs}

// Kinds of frame.
const (
	kindEvent   = 'e'
	kindLost    = 'l'
	kindTrailer = 'z'
)

// maxFrame bounds what a reader takes for a frame: the largest message a server
// stores, with its headers.
const maxFrame = 40 << 20

// Header is the first line of a segment.
type Header struct {
	Format     string `json:"format"`
	Stream     string `json:"stream"`
	Epoch      string `json:"epoch"`      // of the log that was copied
	Partitions int    `json:"partitions"` // of it
	// After is the position behind which a segment of the log begins, and the
	// witness of the event there.
	After     uint64 `json:"after,omitempty"`
	AfterHash string `json:"after_hash,omitempty"`
	// Until is where the log ended when the copy was begun.
	Until uint64          `json:"until,omitempty"`
	Error json.RawMessage `json:"error,omitempty"`
}

// Trailer ends a segment.
type Trailer struct {
	Count uint64 `json:"count"` // messages
	Lost  uint64 `json:"lost"`  // positions that could not be read
	Last  uint64 `json:"last"`  // last position
	// LastHash is the witness of the event at Last, "" where it is lost.
	LastHash string `json:"last_hash,omitempty"`
	SHA256   string `json:"sha256"`
}

// Message is a message as its stream holds it.
type Message = events.Record

// Frame is one message, or a position without one.
type Frame struct {
	Message Message
	// Lost: nothing is at Message.Seq; Reason says why.
	Lost   bool
	Reason string
}

// Witness is the hash by which a copy knows an event again, as projections
// do: it needs nothing but the event.
func Witness(m Message) string { return m.ChainHash(events.Hash{}).String() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes one segment.
type Writer struct {
	w       io.Writer
	sum     hash.Hash
	trailer Trailer
	bytes   int64
	buf     []byte
	body    []byte
}

// NewWriter begins a segment.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format = Format
	line, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	s := &Writer{w: w, sum: sha256.New(), trailer: Trailer{Last: h.After, LastHash: h.AfterHash}}
	return s, s.write(append(line, '\n'))
}

// Bytes written so far.
func (s *Writer) Bytes() int64 { return s.bytes }

// Last position written, and its witness.
func (s *Writer) Last() (uint64, string) { return s.trailer.Last, s.trailer.LastHash }

// Message writes a message.
func (s *Writer) Message(m Message) error {
	b := binary.AppendUvarint(s.body[:0], m.Seq)
	b = appendString(b, m.Subject)
	b = binary.AppendUvarint(b, uint64(len(m.Header)))
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		b = appendString(appendString(b, name), m.Header[name])
	}
	b = appendString(b, string(m.Data))
	s.body = b
	s.trailer.Count++
	s.trailer.Last, s.trailer.LastHash = m.Seq, Witness(m)
	return s.frame(kindEvent, b)
}

// Lost writes a position that could not be read.
func (s *Writer) Lost(seq uint64, reason string) error {
	s.trailer.Lost++
	s.trailer.Last, s.trailer.LastHash = seq, ""
	s.body = appendString(binary.AppendUvarint(s.body[:0], seq), reason)
	return s.frame(kindLost, s.body)
}

// Close ends the segment; it does not close the file.
func (s *Writer) Close() (Trailer, error) {
	s.trailer.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	b, err := json.Marshal(s.trailer)
	if err != nil {
		return s.trailer, err
	}
	return s.trailer, s.frame(kindTrailer, b)
}

func (s *Writer) frame(kind byte, body []byte) error {
	b := append(s.buf[:0], kind)
	b = binary.AppendUvarint(b, uint64(len(body)))
	b = append(b, body...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	s.buf = b
	return s.write(b)
}

func (s *Writer) write(b []byte) error {
	s.bytes += int64(len(b))
	s.sum.Write(b)
	_, err := s.w.Write(b)
	return err
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads one segment and checks everything in it. Several segments may
// stand behind each other in one stream.
type Reader struct {
	Header  Header
	Trailer Trailer // once Next has answered io.EOF

	r     *bufio.Reader
	sum   hash.Hash
	count Trailer // as read
}

// NewReader reads the header. io.EOF: there is no further segment.
func NewReader(r *bufio.Reader) (*Reader, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return nil, io.EOF
	case err != nil:
		return nil, damaged("the header is cut short")
	}
	s := &Reader{r: r, sum: sha256.New()}
	if err := json.Unmarshal(line, &s.Header); err != nil {
		return nil, damaged("the header cannot be read: %v", err)
	}
	if s.Header.Format != Format {
		return nil, damaged("its format is %q, this build reads %s", s.Header.Format, Format)
	}
	s.sum.Write(line)
	s.count = Trailer{Last: s.Header.After, LastHash: s.Header.AfterHash}
	return s, nil
}

// Next returns the next frame; io.EOF once the trailer has been read and
// everything is as it says. Any other error is the problem "damaged", or the
// fault of the stream that is read.
func (s *Reader) Next() (Frame, error) {
	kind, body, raw, err := s.frame()
	if err != nil {
		return Frame{}, err
	}
	if kind == kindTrailer {
		return Frame{}, s.end(body)
	}
	s.sum.Write(raw)
	f, err := decodeFrame(kind, body)
	if err != nil {
		return f, err
	}
	seq := f.Message.Seq
	if s.Header.Stream == StreamLog && seq != s.count.Last+1 || seq <= s.count.Last {
		return f, damaged("position %d stands behind position %d", seq, s.count.Last)
	}
	s.count.Last, s.count.LastHash = seq, ""
	if f.Lost {
		s.count.Lost++
	} else {
		s.count.Count++
		s.count.LastHash = Witness(f.Message)
	}
	return f, nil
}

func (s *Reader) frame() (kind byte, body, raw []byte, err error) {
	raw = make([]byte, 0, 64)
	b, err := s.r.ReadByte()
	if err != nil {
		return 0, nil, nil, s.short(err)
	}
	raw = append(raw, b)
	n := uint64(0)
	for shift := 0; ; shift += 7 {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, nil, nil, s.short(err)
		}
		raw = append(raw, c)
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
		if shift > 28 {
			return 0, nil, nil, damaged("a length behind position %d cannot be read", s.count.Last)
		}
	}
	if n > maxFrame {
		return 0, nil, nil, damaged("a length behind position %d cannot be read", s.count.Last)
	}
	head := len(raw)
	raw = slices.Grow(raw, int(n)+4)[:head+int(n)+4]
	if _, err := io.ReadFull(s.r, raw[head:]); err != nil {
		return 0, nil, nil, s.short(err)
	}
	end := len(raw) - 4
	if crc32.Checksum(raw[:end], castagnoli) != binary.LittleEndian.Uint32(raw[end:]) {
		return 0, nil, nil, damaged("the bytes behind position %d fail their checksum", s.count.Last)
	}
	return b, raw[head:end], raw, nil
}

func (s *Reader) short(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it is cut short behind position %d", s.count.Last)
	}
	return err
}

func (s *Reader) end(body []byte) error {
	if err := json.Unmarshal(body, &s.Trailer); err != nil {
		return damaged("the trailer cannot be read: %v", err)
	}
	s.count.SHA256 = hex.EncodeToString(s.sum.Sum(nil))
	if s.count != s.Trailer {
		return damaged("its trailer does not fit what stands before it")
	}
	return io.EOF
}

func decodeFrame(kind byte, body []byte) (Frame, error) {
	d := decoder{b: body}
	f := Frame{Message: Message{Seq: d.uvarint()}}
	switch kind {
	case kindLost:
		f.Lost, f.Reason = true, d.string()
	case kindEvent:
		m := &f.Message
		m.Subject = d.string()
		n := d.uvarint()
		m.Header = make(events.Header, min(n, 64))
		for range n {
			if d.bad {
				break
			}
			name := d.string()
			m.Header[name] = d.string()
		}
		m.Data = d.bytes()
	default:
		d.bad = true
	}
	if d.bad || len(d.b) > 0 {
		return f, damaged("a frame of kind %q at position %d cannot be read", kind, f.Message.Seq)
	}
	return f, nil
}

// decoder takes values off the front of a frame's body.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) string() string { return string(d.bytes()) }

func damaged(format string, a ...any) error {
	return problem.New(problem.Damaged, format, a...).WithHint("")
}

// named says which file a fault is in.
func named(file string, err error) error {
	p := problem.From(err)
	return problem.New(p.Code, "segment %s: %w", file, err).WithHint("take this file from another copy of the backup")
}
