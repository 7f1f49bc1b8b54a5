package bleveindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"
)

// Verify implements api.Index. A segment file ends in the CRC-32 of the rest;
// Bleve writes it and never looks at it again. The reader held meanwhile keeps
// the files from being merged away.
func (x *Index) Verify() error {
	if err := x.health(); err != nil {
		return err
	}
	return x.guarded(func() error {
		inner, err := x.idx.Advanced()
		if err != nil {
			return fmt.Errorf("index %s: %w", x.dir, err)
		}
		reader, err := inner.Reader()
		if err != nil {
			return fmt.Errorf("index %s: %w", x.dir, err)
		}
		defer func() { _ = reader.Close() }()
		snapshot, ok := reader.(*scorch.IndexSnapshot)
		if !ok {
			return nil
		}
		var errs []error
		for _, s := range snapshot.Segments() {
			if file, ok := s.Segment().(segment.PersistedSegment); ok {
				errs = append(errs, verifyFile(file.Path()))
			}
		}
		return errors.Join(errs...)
	})
}

const crcBytes = 4

// verifyFile checks the footer of one segment file.
func verifyFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return damaged("index segment: %v", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() < crcBytes {
		return damaged("index segment %s has no checksum", path)
	}
	h := crc32.NewIEEE()
	if _, err := io.CopyN(h, f, info.Size()-crcBytes); err != nil {
		return damaged("index segment %s: %v", path, err)
	}
	var sum [crcBytes]byte
	if _, err := io.ReadFull(f, sum[:]); err != nil {
		return damaged("index segment %s: %v", path, err)
	}
	if binary.BigEndian.Uint32(sum[:]) != h.Sum32() {
		return damaged("index segment %s fails its checksum", path)
	}
	return nil
}
