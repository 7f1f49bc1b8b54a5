package mapjob

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
)

// Line is a row of an input as it stands there.
type Line struct {
	N    uint64 // from 1
	Text []byte // without its line end; nil where it is oversized
	Size int64  // bytes without the line end
	Hash [16]byte
}

// Oversized reports whether the text was left out.
func (l Line) Oversized() bool { return l.Size > MaxRowBytes }

// Lines reads the rows of an input one by one, in bounded memory. A line ends
// with LF or CRLF; the last one may lack it; a byte order mark in front is no
// part of the first.
type Lines struct {
	r *bufio.Reader
	n uint64
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 64<<10)} }

// Next is the next row, or io.EOF behind the last.
func (l *Lines) Next() (Line, error) {
	line := Line{N: l.n + 1}
	var buf []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return line, err
		}
		ended := err == nil
		if l.n == 0 && line.Size == 0 && len(buf) == 0 {
			part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
		}
		if errors.Is(err, io.EOF) && len(part) == 0 && line.Size == 0 {
			return line, io.EOF
		}
		line.Size += int64(len(part))
		if line.Size <= MaxRowBytes+2 {
			buf = append(buf, part...)
		} else {
			buf = nil
		}
		if ended || errors.Is(err, io.EOF) {
			l.n++
			return l.whole(line, buf, ended), nil
		}
	}
}

// whole takes the line end away.
func (l *Lines) whole(line Line, buf []byte, ended bool) Line {
	if buf == nil && line.Size > 0 {
		if ended {
			line.Size--
		}
		return line // oversized: never compared
	}
	if ended {
		buf = bytes.TrimSuffix(buf[:len(buf)-1], []byte{'\r'})
	}
	line.Size = int64(len(buf))
	if line.Oversized() {
		return line
	}
	line.Text = buf
	if line.Text == nil {
		line.Text = []byte{}
	}
	h := sha256.Sum256(buf)
	copy(line.Hash[:], h[:])
	return line
}
