package projector_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lcm/bleveindex"
	"lcm/boltstore"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/projector"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a projector over real stores in a directory and a log in memory.
type fixture struct {
	*projector.Service
	t    testing.TB
	log  *fakeLog
	dir  string
	cfg  projector.Config
	deps projector.Deps
	stop context.CancelFunc
	done chan error
}

func setup(t testing.TB, log *fakeLog) *fixture {
	dir := t.TempDir()
	return &fixture{
		t: t, log: log, dir: dir,
		cfg: projector.Config{IndexEvery: 5 * time.Millisecond, DispatchEvery: 5 * time.Millisecond},
		deps: projector.Deps{
			Log: log, Tasks: log,
			Stores:  boltstore.Files{Path: filepath.Join(dir, "lcm.db")},
			Indexes: bleveindex.Files{Dir: filepath.Join(dir, "index")},
			Logger:  slog.New(slog.NewTextHandler(testWriter{t}, nil)),
		},
	}
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// start runs the service until halt or the end of the test.
func (f *fixture) start() *fixture {
	f.t.Helper()
	s, err := projector.New(f.cfg, f.deps)
	must(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	f.Service, f.stop, f.done = s, cancel, make(chan error, 1)
	go func() { f.done <- s.Run(ctx) }()
	f.t.Cleanup(func() { f.halt() })
	return f
}

// halt ends the service and returns what Run said.
func (f *fixture) halt() error {
	if f.stop == nil {
		return nil
	}
	f.stop()
	f.stop = nil
	return <-f.done
}

// ended waits for Run to end by itself.
func (f *fixture) ended() error {
	f.t.Helper()
	select {
	case err := <-f.done:
		f.stop()
		f.stop = nil
		return err
	case <-time.After(20 * time.Second):
		f.t.Fatal("Run does not end")
		return nil
	}
}

func (f *fixture) end() events.Position {
	last, _ := f.log.LastSeq(context.Background())
	return events.Position{Epoch: f.log.epoch, Seq: last}
}

// digest of everything in the log.
func (f *fixture) digest() string {
	f.t.Helper()
	d, at, err := f.Digest(within(f.t), f.end())
	must(f.t, err)
	if at.Seq != f.end().Seq {
		f.t.Fatalf("digest at %d, the log ends at %d", at.Seq, f.end().Seq)
	}
	return d
}

// indexed waits until the index has everything.
func (f *fixture) awaitIndex() {
	f.t.Helper()
	ctx := within(f.t)
	for {
		_, err := f.Wait(ctx, f.end())
		must(f.t, err)
		st, err := f.Status(ctx)
		must(f.t, err)
		if st.IndexLag == 0 && st.Lag == 0 {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			f.t.Fatalf("the index stays behind: %+v", st)
		}
	}
}

func (f *fixture) grep(r api.GrepRequest) *api.GrepReply {
	f.t.Helper()
	if r.Tenant == "" {
		r.Tenant = "acme"
	}
	out, err := f.Grep(within(f.t), r)
	must(f.t, err)
	return out
}

func places(r *api.GrepReply) (out []string) {
	for _, h := range r.Hits {
		p := h.Session + "/" + h.Entry + h.Node
		if h.Kind == api.KindFile {
			p += " file"
		}
		if h.Removed {
			p += " removed"
		}
		out = append(out, p)
	}
	return out
}

// healthy fails the test unless a deep doctor is green.
func (f *fixture) healthy() {
	f.t.Helper()
	f.awaitIndex()
	r, err := f.Doctor(within(f.t), api.DoctorRequest{Deep: true})
	must(f.t, err)
	if !r.OK {
		f.t.Fatalf("doctor: %+v", r.Checks)
	}
}

// recovers waits until a deep doctor is green.
func (f *fixture) recovers() {
	f.t.Helper()
	for ctx := within(f.t); ; {
		r, err := f.Doctor(ctx, api.DoctorRequest{Deep: true})
		must(f.t, err)
		if r.OK {
			return
		}
	}
}

// faultyIndexes wraps the index: Apply fails while fail is set, before or
// after its effect.
type faultyIndexes struct {
	api.Indexes
	before, after atomic.Pointer[error]
	applied       atomic.Int64
}

type faultyIndex struct {
	api.Index
	f *faultyIndexes
}

func (f *faultyIndexes) Open(epoch string) (api.Index, error) {
	x, err := f.Indexes.Open(epoch)
	if err != nil {
		return nil, err
	}
	return faultyIndex{x, f}, nil
}

func (f *faultyIndexes) Create(epoch string) (api.Index, error) {
	x, err := f.Indexes.Create(epoch)
	if err != nil {
		return nil, err
	}
	return faultyIndex{x, f}, nil
}

func (x faultyIndex) Apply(docs []api.IndexDoc, upto uint64) error {
	if err := x.f.before.Load(); err != nil {
		return *err
	}
	if err := x.Index.Apply(docs, upto); err != nil {
		return err
	}
	x.f.applied.Add(int64(len(docs)))
	if err := x.f.after.Load(); err != nil {
		return *err
	}
	return nil
}
