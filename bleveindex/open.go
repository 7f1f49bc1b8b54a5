package bleveindex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	berrors "go.etcd.io/bbolt/errors"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// schemaVersion of the mapping and the analyzer. Another version in the
// directory makes it damaged: it is filled anew from the rows.
const schemaVersion = 3

// ErrDamaged: the directory fails its checks. Throw it away and index anew.
// Errors that wrap it have the code problem.Damaged.
var ErrDamaged = errors.New("index damaged")

// Options of Open.
type Options struct {
	// Epoch of the log, written into a new index.
	Epoch string
	// Verify reads every file and checks its checksum before the index is
	// used: about a second for each gigabyte.
	Verify bool
	// LockTimeout is how long to wait for another process that holds the
	// directory. 0 = one second.
	LockTimeout time.Duration
	// Trigrams are indexed too (trigram.go): substrings and regular expressions
	// are narrowed down by any three bytes of theirs. An index that was made the
	// other way is ErrOutdated.
	Trigrams bool
	Log      *slog.Logger // nil = silent
}

// state is the internal row "lcm".
type state struct {
	Schema int    `json:"schema"`
	Epoch  string `json:"epoch"`
	Upto   uint64 `json:"upto"`
	// Trigrams: it has them.
	Trigrams bool `json:"trigrams,omitempty"`
}

var stateKey = []byte("lcm")

// Index is an open directory. It implements api.Index.
type Index struct {
	dir string
	idx bleve.Index
	log *slog.Logger

	known known // of the segments

	trigrams bool // as opened

	mu     sync.Mutex
	state  state
	failed error // first error that Bleve reported in the background
	full   error // that its disk takes no more, by then or in a write
}

var _ api.Index = (*Index)(nil)

// Open opens the index in dir, making an empty one where there is none.
func Open(dir string, o Options) (*Index, error) {
	m, err := newMapping(o.Trigrams)
	if err != nil {
		return nil, fmt.Errorf("index %s: %w", dir, err)
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	x := &Index{dir: dir, log: o.Log, trigrams: o.Trigrams, state: state{Schema: schemaVersion, Epoch: o.Epoch, Trigrams: o.Trigrams}}
	config := map[string]any{"bolt_timeout": o.LockTimeout.String(), "asyncErrorCallbackName": asyncName}
	listen(x)
	_, statErr := os.Stat(dir)
	fresh := errors.Is(statErr, fs.ErrNotExist)
	err = x.guarded(func() (err error) {
		if fresh {
			x.idx, err = bleve.NewUsing(dir, m, scorch.Name, scorch.Name, config)
			return err
		}
		x.idx, err = bleve.OpenUsing(dir, config)
		return err
	})
	if err == nil {
		err = x.prepare(fresh, o.Verify)
	}
	if err != nil {
		_ = x.Close()
		return nil, openError(dir, err)
	}
	return x, nil
}

func openError(dir string, err error) error {
	switch {
	case problem.IsCode(err, problem.Damaged):
		return err
	case full(err):
		return problem.New(problem.Unavailable, "index %s: its disk takes no more (%v): %w", dir, err, api.ErrReopen)
	case errors.Is(err, berrors.ErrTimeout):
		return problem.New(problem.Unavailable, "index %s is in use by another process: %w", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("index %s: %w", dir, err)
	}
	return damaged("index %s: %v", dir, err)
}

// prepare reads or writes the internal row.
func (x *Index) prepare(fresh, verify bool) error {
	if fresh {
		b := x.idx.NewBatch()
		if err := x.putState(b, x.state); err != nil {
			return err
		}
		return x.idx.Batch(b)
	}
	raw, err := x.idx.GetInternal(stateKey)
	if err != nil {
		return err
	}
	x.state = state{}
	if err := json.Unmarshal(raw, &x.state); err != nil {
		return damaged("index %s has no readable state: %v", x.dir, err)
	}
	if x.state.Schema != schemaVersion {
		return problem.New(problem.Damaged, "index %s has schema %d, this build needs %d: %w", x.dir, x.state.Schema, schemaVersion, api.ErrOutdated)
	}
	if x.state.Trigrams != x.trigrams {
		return problem.New(problem.Damaged, "index %s: trigrams are %v, the setting says %v: %w", x.dir, x.state.Trigrams, x.trigrams, api.ErrOutdated)
	}
	if verify {
		return x.Verify()
	}
	return nil
}

func (x *Index) putState(b *bleve.Batch, s state) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("index state: %w", err)
	}
	b.SetInternal(stateKey, raw)
	return nil
}

// Close ends the background work and closes the directory.
func (x *Index) Close() error {
	unlisten(x)
	if x.idx == nil {
		return nil
	}
	return x.guarded(x.idx.Close)
}

// Remove deletes an index directory.
func Remove(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove index: %w", err)
	}
	return nil
}

// damaged makes an error that is both ErrDamaged and problem.Damaged.
func damaged(format string, a ...any) error {
	return problem.New(problem.Damaged, "%w", damage{fmt.Sprintf(format, a...)}).
		WithHint("run `lcm rebuild --index`")
}

type damage struct{ text string }

func (d damage) Error() string        { return d.text }
func (d damage) Is(target error) bool { return target == ErrDamaged }

// guarded runs a call of Bleve; a panic in it, or a fault on a memory map, is
// damage: Bleve trusts the bytes of its segments.
func (x *Index) guarded(call func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			err = damaged("index %s cannot be read: %v", x.dir, p)
		}
	}()
	return call()
}

// Bleve reports errors of its background work through a callback that is
// registered by name for the whole process and told the path.
const asyncName = "lcm"

var (
	openIndexes sync.Map // path of the scorch directory → *Index
	hook        = sync.OnceFunc(func() {
		scorch.RegistryAsyncErrorCallbacks[asyncName] = func(err error, path string) {
			if x, ok := openIndexes.Load(path); ok {
				x.(*Index).fail(err)
			}
		}
	})
)

func storeDir(dir string) string { return filepath.Join(dir, "store") }

func listen(x *Index) {
	hook()
	openIndexes.Store(storeDir(x.dir), x)
}

func unlisten(x *Index) { openIndexes.CompareAndDelete(storeDir(x.dir), x) }

func (x *Index) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if full(err) {
		x.full = err
		return
	}
	if x.failed == nil {
		x.failed = damaged("index %s failed in the background: %v", x.dir, err)
		x.log.Error("index failed in the background", "dir", x.dir, "error", err)
	}
}

// health is the first background error.
func (x *Index) health() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}
