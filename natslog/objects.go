package natslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"lcm/internal/problem"
)

// Bucket of the object store that holds the inputs of map jobs.
const Bucket = "LCM_MAP"

// streamInputs is the stream behind it.
const streamInputs = "OBJ_" + Bucket

func objectsConfig(o Options) jetstream.ObjectStoreConfig {
	return jetstream.ObjectStoreConfig{
		Bucket: Bucket, Description: "inputs of map jobs", Storage: jetstream.FileStorage, Replicas: o.Replicas, Compression: true,
	}
}

// objectChunk of one message, bytes.
const objectChunk = 256 << 10

// Objects keeps the inputs of map jobs. It needs no stream of jobs.
type Objects struct{ l *Log }

// Objects opens the store of inputs, made with the first use.
func (l *Log) Objects() Objects { return Objects{l} }

func (j Objects) store(ctx context.Context) (jetstream.ObjectStore, error) {
	s, err := j.l.js.ObjectStore(ctx, Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		s, err = j.l.js.CreateObjectStore(ctx, objectsConfig(j.l.o))
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody was faster
			s, err = j.l.js.ObjectStore(ctx, Bucket)
		}
	}
	if err != nil {
		return nil, unavailable("object store "+Bucket, err)
	}
	return s, nil
}

// PutObject stores what r holds under a new name. On an error of r or the
// store nothing is left of it.
func (j Objects) PutObject(ctx context.Context, name string, r io.Reader) error {
	s, err := j.store(ctx)
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: objectChunk}}, r)
	if err != nil {
		return fmt.Errorf("store object %s: %w", name, err)
	}
	return nil
}

// ListObjects visits the objects there are, with the times they were stored.
func (j Objects) ListObjects(ctx context.Context, visit func(name string, stored time.Time) error) error {
	s, err := j.store(ctx)
	if err != nil {
		return err
	}
	list, err := s.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	if err != nil {
		return unavailable("list the objects of "+Bucket, err)
	}
	for _, o := range list {
		if err := visit(o.Name, o.ModTime); err != nil {
			return err
		}
	}
	return nil
}

// DeleteObject removes an object; one that is not there is no error.
func (j Objects) DeleteObject(ctx context.Context, name string) error {
	s, err := j.store(ctx)
	if err == nil {
		err = s.Delete(ctx, name)
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return unavailable("delete object "+name, err)
	}
	return nil
}

// Object reads an object from its beginning: one chunk at a time, so that a
// reader may take as long as it likes and holds no more than that.
func (j Objects) Object(ctx context.Context, name string) (io.Reader, error) {
	s, err := j.store(ctx)
	if err != nil {
		return nil, err
	}
	info, err := s.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, problem.New(problem.NotFound, "there is no object %q in bucket %s", name, Bucket).WithHint("`nats object ls %s` lists them", Bucket)
	}
	if err != nil {
		return nil, unavailable("object "+name, err)
	}
	stream, err := j.l.js.Stream(ctx, streamInputs)
	if err != nil {
		return nil, unavailable("object "+name, err)
	}
	return &objectReader{ctx: ctx, stream: stream, name: name, subject: "$O." + Bucket + ".C." + info.NUID, next: 1, chunks: info.Chunks}, nil
}

type objectReader struct {
	ctx     context.Context // of the whole read
	stream  jetstream.Stream
	name    string
	subject string
	next    uint64 // look for a chunk from here
	chunks  uint32 // left
	data    []byte
}

func (r *objectReader) Read(p []byte) (int, error) {
	for len(r.data) == 0 {
		if r.chunks == 0 {
			return 0, io.EOF
		}
		m, err := r.stream.GetMsg(r.ctx, r.next, jetstream.WithGetMsgSubject(r.subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, problem.New(problem.Damaged, "object %s: %d chunks are missing", r.name, r.chunks)
		}
		if err != nil {
			if r.ctx.Err() != nil {
				return 0, r.ctx.Err()
			}
			return 0, unavailable("read object "+r.name, err)
		}
		r.data, r.next = m.Data, m.Sequence+1
		r.chunks--
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}
