package bleveindex

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/blevesearch/bleve/v2/mapping"

	"lcm/internal/api"
	"lcm/rank"
)

// Doc is a document to index.
type Doc = api.IndexDoc

// document is what the mapping sees.
type document struct {
	Text    string `json:"text"`
	Prose   string `json:"prose"`
	Grams   string `json:"grams"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Role    string `json:"role"`
	Kind    string `json:"kind"`
	Depth   string `json:"depth"`
	Time    string `json:"time"`
}

// Fields of a document and its id, as Bleve is given them.
func Fields(d Doc) (id string, fields any) {
	return api.DocID(d.Seq, d.Kind, d.Part), document{
		Text: d.Text, Prose: rank.Dated(d.Time, d.Text), Grams: d.Text, Tenant: d.Ref.Tenant, Session: d.Ref.Session, Role: d.Role,
		Kind: d.Kind, Depth: strconv.Itoa(d.Depth), Time: strings.Join(timeTerms(timeBits(d.Time)), " "),
	}
}

// Mapping of the index, for measuring Bleve by itself.
func (x *Index) Mapping() mapping.IndexMapping { return x.idx.Mapping() }

// Apply implements api.IndexWriter: the documents and the position become
// durable in one batch.
func (x *Index) Apply(docs []Doc, upto uint64) error {
	if err := x.health(); err != nil {
		return err
	}
	if err := x.blocked(); err != nil {
		return x.stopped(err)
	}
	x.mu.Lock()
	next := x.state
	x.mu.Unlock()
	if upto < next.Upto {
		return fmt.Errorf("index %s: position %d after %d", x.dir, upto, next.Upto)
	}
	next.Upto = upto
	err := x.guarded(func() error {
		b := x.idx.NewBatch()
		for _, d := range docs {
			id, fields := Fields(d)
			err := b.Index(id, fields)
			if err != nil {
				return err
			}
		}
		if err := x.putState(b, next); err != nil {
			return err
		}
		return x.idx.Batch(b)
	})
	if err == nil {
		err = x.warm()
	}
	if err == nil {
		err = x.health()
	}
	if err == nil {
		err = x.blocked()
	}
	if err != nil {
		return x.failure(err)
	}
	x.mu.Lock()
	x.state = next
	x.mu.Unlock()
	return nil
}

// failure of a write: the directory cannot be trusted with more.
func (x *Index) failure(err error) error {
	if full(err) {
		return x.stopped(err)
	}
	return damaged("index %s: %v", x.dir, err)
}

// Checkpoint implements api.IndexWriter.
func (x *Index) Checkpoint() (upto uint64, epoch string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state.Upto, x.state.Epoch
}

// Docs implements api.Index.
func (x *Index) Docs() (n uint64, err error) {
	err = x.guarded(func() error {
		n, err = x.idx.DocCount()
		return err
	})
	return n, err
}

// SizeBytes of the directory.
func (x *Index) SizeBytes() int64 {
	var n int64
	_ = filepath.WalkDir(x.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // files come and go while we look
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
