package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"unicode/utf8"

	"lcm/events"
)

// DefaultMaxRecordBytes is the largest record read unless Options say otherwise.
const DefaultMaxRecordBytes = events.MaxSourceBytes

// Options of reading.
type Options struct {
	// Format of the source; Auto ("" is the same) recognises it by its head.
	Format Format
	// MaxRecordBytes bounds one record: a line, an element of an array, or a
	// JSON object over many lines. A larger one is rejected, and what follows
	// it is read. Memory stays within a small multiple of it. 0 = DefaultMaxRecordBytes.
	MaxRecordBytes int
}

// Errors about a whole source.
var (
	// ErrEmpty: the source has no records.
	ErrEmpty = errors.New("the transcript is empty")
	// ErrBinary: the source is not text.
	ErrBinary = errors.New("the transcript is not text; JSON or JSON Lines in UTF-8 is expected")
	// ErrUnknownFormat: the source is text, but no known transcript.
	ErrUnknownFormat = errors.New("unknown transcript format; known are claude-code, pi, codex, openai, anthropic, plain, lcm")
)

// Parse reads a transcript record by record, in source order. What is wrong
// with one record is an item of KindReject; an error is about the whole source
// and ends the sequence: ErrEmpty, ErrBinary, ErrUnknownFormat, or what r
// returned. Reading stops when the consumer does.
func Parse(r io.Reader, o Options) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		s, err := open(r, o)
		if err == nil {
			err = s.run(func(it Item) bool { return yield(it, nil) })
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(Item{}, err)
		}
	}
}

// ParseBody reads one request body or inbox message: a message, an array of
// them, a conversation, or JSON Lines.
func ParseBody(body []byte, o Options) ([]Item, error) {
	var items []Item
	for it, err := range Parse(bytes.NewReader(body), o) {
		if err != nil {
			return items, err
		}
		items = append(items, it)
	}
	return items, nil
}

// errStopped: the consumer has had enough.
var errStopped = errors.New("stopped")

// decoder turns records of one format into items, in order. flush lets go of
// what was held back.
type decoder interface {
	decode(rec record, out []Item) []Item
	flush(out []Item) []Item
}

func newDecoder(f Format) (decoder, error) {
	switch f {
	case ClaudeCode:
		return newClaudeCode(), nil
	case Pi:
		return newPi(), nil
	case Codex:
		return &codex{}, nil
	case OpenAI, Anthropic, Plain, LCM:
		return &chat{format: f}, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrUnknownFormat, f)
}

// source is an open transcript.
type source struct {
	br     *bufio.Reader
	max    int
	format Format
	dec    decoder
	buf    []Item
	emit   func(Item) bool
}

func open(r io.Reader, o Options) (*source, error) {
	s := &source{max: o.MaxRecordBytes, format: o.Format}
	if s.max <= 0 {
		s.max = DefaultMaxRecordBytes
	}
	if s.format == Auto || s.format == "" {
		head, err := io.ReadAll(io.LimitReader(r, headBytes))
		if err != nil {
			return nil, fmt.Errorf("read transcript: %w", err)
		}
		if s.format, err = Detect(head); err != nil {
			return nil, err
		}
		r = io.MultiReader(bytes.NewReader(head), r)
	}
	var err error
	s.dec, err = newDecoder(s.format)
	s.br = bufio.NewReaderSize(r, 64<<10)
	return s, err
}

// run reads the whole source.
func (s *source) run(emit func(Item) bool) error {
	s.emit = emit
	if b, _ := s.br.Peek(len(utf8BOM)); bytes.Equal(b, utf8BOM) {
		_, _ = s.br.Discard(len(utf8BOM))
	}
	shape, err := s.shape()
	if err != nil {
		return err
	}
	switch shape {
	case shapeArray:
		err = s.array()
	case shapeDocument:
		err = s.document()
	default:
		err = s.lines()
	}
	if err != nil {
		return err
	}
	return s.put(s.dec.flush(nil))
}

// shape is how a source holds its records.
type shape int

const (
	shapeLines    shape = iota // one a line
	shapeArray                 // one JSON array
	shapeDocument              // one JSON object over several lines
)

// shape looks at the first line, which it leaves unread.
func (s *source) shape() (shape, error) {
	head, err := s.firstLine()
	if err != nil {
		return 0, err
	}
	v := head[skipSpace(head, 0):]
	switch {
	case len(v) == 0:
		return 0, ErrEmpty
	case v[0] != '[' && v[0] != '{':
		seen, _ := s.br.Peek(s.br.Buffered())
		s.br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), s.br), 64<<10)
		if looksBinary(v) || !utf8.Valid(v) && looksBinary(seen) {
			return 0, ErrBinary
		}
		return shapeLines, nil
	}
	verr := validate(v)
	array := v[0] == '['
	var next []byte
	if array || verr != nil { // never waits behind an object: it may have been sent for an answer
		next, _ = s.br.Peek(4096)
	}
	// A value that is cut off by the line's end and does not break where the
	// next line begins goes on over it.
	goesOn := false
	if ended := head[len(head)-1] == '\n'; ended && len(next) > 0 && errors.Is(verr, errTruncated) {
		err := validate(append(bytes.Clone(v), next...))
		goesOn = err == nil || errors.Is(err, errTruncated) || atLeast(err, v, next)
	}
	sole := array && !moreInput(s.br) || len(head) > s.max && errors.Is(verr, errTruncated)
	s.br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(head), s.br), 64<<10)
	switch {
	case array && (sole || goesOn):
		return shapeArray, nil
	case goesOn:
		return shapeDocument, nil
	}
	return shapeLines, nil
}

// atLeast reports whether the first lines of a document hold together although
// something further on does not.
func atLeast(err error, v, next []byte) bool {
	line, _, found := bytes.Cut(next, []byte{'\n'})
	if !found || err == nil {
		return false
	}
	err = validate(append(bytes.Clone(v), line...))
	return err == nil || errors.Is(err, errTruncated)
}

// firstLine reads up to the end of the first line that is not blank, line end
// included, but not much more than the limit.
func (s *source) firstLine() ([]byte, error) {
	var line []byte
	for {
		chunk, err := s.br.ReadSlice('\n')
		line = append(line, chunk...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return line, nil
		case err != nil:
			return nil, fmt.Errorf("read transcript: %w", err)
		case skipSpace(line, 0) < len(line):
			return line, nil
		}
		if len(line) > s.max {
			return line, nil
		}
	}
}

// lines reads a record a line.
func (s *source) lines() error {
	l := &lineReader{br: s.br, c: collector{limit: s.max}}
	for n := 0; ; n++ {
		rec, err := l.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read transcript after line %d: %w", l.line, err)
		}
		if c, ok := s.conversation(&rec); ok {
			err = s.expand(rec, c, n == 0 && !l.more())
		} else {
			err = s.record(rec)
		}
		if err != nil {
			return err
		}
	}
}

// array reads a record an element.
func (s *source) array() error {
	e := &elementReader{br: s.br, c: collector{limit: s.max}}
	for {
		rec, err := e.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read transcript after element %d: %w", e.index, err)
		}
		if c, ok := s.conversation(&rec); ok {
			err = s.expand(rec, c, false)
		} else {
			err = s.record(rec)
		}
		if err != nil {
			return err
		}
	}
}

// document reads one object that is spread over lines.
func (s *source) document() error {
	c := collector{limit: s.max}
	for {
		b, err := s.br.Peek(1)
		if len(b) == 0 {
			if errors.Is(err, io.EOF) {
				break
			}
			return fmt.Errorf("read transcript: %w", err)
		}
		b, _ = s.br.Peek(s.br.Buffered())
		c.add(b)
		_, _ = s.br.Discard(len(b))
	}
	rec := c.record()
	rec.line = 1
	if rec.hash == "" {
		rec.src = bytes.TrimSpace(rec.src)
		rec.size = int64(len(rec.src))
	}
	if c, ok := s.conversation(&rec); ok {
		return s.expand(rec, c, true)
	}
	return s.record(rec)
}

// record reads one record.
func (s *source) record(rec record) error {
	rec.check()
	if rec.reason != "" {
		return s.put(append(s.dec.flush(s.buf[:0]), newItem(rec).reject("%s", rec.reason)))
	}
	return s.put(s.dec.decode(rec, s.buf[:0]))
}

func (s *source) put(items []Item) error {
	for i := range items {
		if !s.emit(items[i]) {
			return errStopped
		}
	}
	s.buf = items[:0]
	return nil
}
