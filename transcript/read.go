package transcript

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
)

// keptBytes is how much of a record over the limit is kept.
const keptBytes = 512 << 10

// record is one piece of a source: a line, an element, or a whole document.
type record struct {
	line, index int
	conv        string
	src         []byte
	size        int64
	hash        string // of the whole record where src is cut, else ""
	reason      string // why it cannot be read, "" = it can
	checked     bool   // src is known to be JSON, or reason says why not
}

// collector gathers a record and stops holding on to it above a limit.
type collector struct {
	limit int
	buf   []byte
	size  int64
	sum   hash.Hash // non-nil once over the limit
}

func (c *collector) reset() { c.buf, c.size, c.sum = c.buf[:0], 0, nil }

func (c *collector) add(b []byte) {
	c.size += int64(len(b))
	if c.sum == nil && c.size <= int64(c.limit) {
		c.buf = append(c.buf, b...)
		return
	}
	if c.sum == nil {
		c.sum = sha256.New()
		c.sum.Write(c.buf)
		if room := keptBytes - len(c.buf); room > 0 {
			c.buf = append(c.buf, b[:min(room, len(b))]...)
		}
		c.buf = append([]byte(nil), c.buf[:min(len(c.buf), keptBytes)]...) // let go of the rest
	} else if room := keptBytes - len(c.buf); room > 0 {
		c.buf = append(c.buf, b[:min(room, len(b))]...)
	}
	c.sum.Write(b)
}

// record returns what was gathered; the bytes are the caller's.
func (c *collector) record() record {
	r := record{src: bytes.Clone(c.buf), size: c.size}
	if c.sum != nil {
		r.hash = hex.EncodeToString(c.sum.Sum(nil)[:8]) // as events.HashBytes
		r.reason = fmt.Sprintf("record of %d bytes, at most %d are allowed", c.size, c.limit)
	}
	return r
}

// lineReader cuts a source into lines. A line end is \n or \r\n and no part of
// the record.
type lineReader struct {
	br   *bufio.Reader
	c    collector
	line int
}

// next returns the next line that is not blank, io.EOF behind the last one.
func (l *lineReader) next() (record, error) {
	for {
		l.c.reset()
		cr, ended := false, false // a \r is held back until what follows it is known
		for !ended {
			chunk, err := l.br.ReadSlice('\n')
			if cr && !(len(chunk) == 1 && chunk[0] == '\n') {
				l.c.add([]byte{'\r'})
			}
			switch {
			case err == nil:
				chunk, ended = chunk[:len(chunk)-1], true
				chunk = bytes.TrimSuffix(chunk, []byte{'\r'})
			case errors.Is(err, bufio.ErrBufferFull):
				if cr = chunk[len(chunk)-1] == '\r'; cr {
					chunk = chunk[:len(chunk)-1]
				}
			case errors.Is(err, io.EOF):
				if l.c.size == 0 && len(chunk) == 0 {
					return record{}, io.EOF
				}
				ended = true
			default:
				return record{}, err
			}
			l.c.add(chunk)
		}
		l.line++
		if l.c.sum == nil && skipSpace(l.c.buf, 0) == len(l.c.buf) {
			continue
		}
		r := l.c.record()
		r.line = l.line
		return r, nil
	}
}

// more reports whether anything but blank space follows. It may block.
func (l *lineReader) more() bool { return moreInput(l.br) }

func moreInput(br *bufio.Reader) bool {
	for n := 1; ; n++ {
		b, err := br.Peek(n)
		if skipSpace(b, 0) < len(b) {
			return true
		}
		if err != nil {
			return errors.Is(err, bufio.ErrBufferFull) // pages of blanks: say yes, nothing may come
		}
		n = max(n, br.Buffered())
	}
}

// elementReader cuts one JSON array into its elements while it is read.
type elementReader struct {
	br    *bufio.Reader
	c     collector
	index int
	done  bool
}

// next returns the next element, io.EOF behind the last one. A fault of the
// array itself comes as a record with a reason, and is the last.
func (e *elementReader) next() (record, error) {
	if e.done {
		return record{}, io.EOF
	}
	if e.index == 0 {
		if _, err := e.skip(); err != nil {
			return record{}, err
		}
		_, _ = e.br.Discard(1) // the opening bracket the caller saw
	}
	c, err := e.skip()
	if errors.Is(err, io.EOF) {
		return e.fault("the array is not closed"), nil
	} else if err != nil {
		return record{}, err
	}
	if e.index > 0 && c == ',' {
		_, _ = e.br.Discard(1)
		if c, err = e.skip(); err != nil && !errors.Is(err, io.EOF) {
			return record{}, err
		}
	} else if e.index > 0 && c != ']' {
		return e.rest("a comma is missing between elements")
	}
	if c == ']' {
		_, _ = e.br.Discard(1)
		if _, err := e.skip(); err == nil {
			return e.rest("there is data behind the end of the array")
		}
		return record{}, io.EOF
	}
	if c == ',' || c == '}' || c == ':' {
		return e.rest("an element is missing")
	}
	return e.element()
}

// skip passes over blank space and tells the next byte without reading it.
func (e *elementReader) skip() (byte, error) {
	for {
		b, err := e.br.Peek(1)
		if len(b) == 0 {
			e.done = true
			return 0, err
		}
		if skipSpace(b, 0) == 0 {
			return b[0], nil
		}
		_, _ = e.br.Discard(1)
	}
}

func (e *elementReader) element() (record, error) {
	e.c.reset()
	e.index++
	var s splitter
	for {
		if _, err := e.br.Peek(1); err != nil {
			if !errors.Is(err, io.EOF) {
				return record{}, err
			}
			e.done = true
			break // cut off: validation names it
		}
		chunk, _ := e.br.Peek(e.br.Buffered())
		n, ended := s.step(chunk)
		e.c.add(chunk[:n])
		_, _ = e.br.Discard(n)
		if ended {
			break
		}
	}
	r := e.c.record()
	r.line = e.index
	return r, nil
}

func (e *elementReader) fault(reason string) record {
	e.done = true
	e.index++
	return record{line: e.index, reason: reason}
}

// rest takes everything that is left as one broken record.
func (e *elementReader) rest(reason string) (record, error) {
	e.c.reset()
	for {
		b, err := e.br.Peek(1)
		if len(b) == 0 {
			if errors.Is(err, io.EOF) {
				break
			}
			return record{}, err
		}
		b, _ = e.br.Peek(e.br.Buffered())
		e.c.add(b)
		_, _ = e.br.Discard(len(b))
	}
	r := e.c.record()
	f := e.fault(reason)
	r.line, r.reason = f.line, f.reason
	return r, nil
}

// splitter finds the end of a JSON value in text that comes in pieces. It
// counts brackets only; whether the value is JSON is checked later.
type splitter struct {
	depth     int
	inString  bool
	escaped   bool
	inLiteral bool
}

// step returns how much of b belongs to the value and whether it ends there.
func (s *splitter) step(b []byte) (n int, ended bool) {
	for i, c := range b {
		if s.inString {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.inString = false
				if s.depth == 0 {
					return i + 1, true
				}
			}
			continue
		}
		switch c {
		case '"':
			if s.inLiteral {
				return i, true
			}
			s.inString = true
		case '{', '[':
			if s.inLiteral {
				return i, true
			}
			s.depth++
		case '}', ']':
			if s.depth == 0 {
				return i, true
			}
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		case ',', ' ', '\n', '\r', '\t':
			if s.depth == 0 {
				return i, true
			}
		default:
			s.inLiteral = s.depth == 0
		}
	}
	return len(b), false
}
