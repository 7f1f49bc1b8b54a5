package ingest

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"testing"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// fault says what goes wrong with one call of a port.
type fault string

const (
	faultNone        fault = ""
	faultBefore      fault = "unknown outcome, nothing stored"
	faultAfter       fault = "unknown outcome, everything stored"
	faultHalf        fault = "unknown outcome, half stored"
	faultHalfKnown   fault = "unavailable behind the first half"
	faultUnavailable fault = "unavailable"
	faultLate        fault = "unknown outcome, stored at the next call"
)

var commitFaults = []fault{faultNone, faultBefore, faultAfter, faultHalf, faultHalfKnown, faultUnavailable, faultLate}

// fakeLog keeps the contract of Log in memory, and breaks on request.
type fakeLog struct {
	mu      sync.Mutex
	records []events.Record
	last    map[string]uint64
	letters []api.DeadLetter
	late    []api.Append

	// commit and lastOf take the next fault, nil = none. before runs ahead of
	// every commit: another writer's chance.
	commit func() fault
	lastOf func() error
	before func(l *fakeLog)
}

func newFakeLog() *fakeLog { return &fakeLog{last: map[string]uint64{}} }

func (l *fakeLog) Epoch() string   { return "E" }
func (l *fakeLog) Partitions() int { return events.DefaultPartitions }

func (l *fakeLog) LastOf(_ context.Context, subject string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.landLate()
	if l.lastOf != nil {
		if err := l.lastOf(); err != nil {
			return 0, err
		}
	}
	return l.last[subject], nil
}

func (l *fakeLog) landLate() {
	late := l.late
	l.late = nil
	l.store(late)
}

func (l *fakeLog) Commit(_ context.Context, batch []api.Append) ([]uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.landLate()
	if l.before != nil {
		l.before(l)
	}
	f := faultNone
	if l.commit != nil {
		f = l.commit()
	}
	none := make([]uint64, len(batch))
	switch f {
	case faultBefore:
		return none, api.ErrUnknownOutcome
	case faultAfter:
		l.store(batch)
		return none, api.ErrUnknownOutcome
	case faultHalf:
		l.store(batch[:(len(batch)+1)/2])
		return none, api.ErrUnknownOutcome
	case faultHalfKnown:
		seqs, err := l.store(batch[:(len(batch)+1)/2])
		copy(none, seqs)
		return none, errors.Join(api.ErrLogUnavailable, err)
	case faultUnavailable:
		return nil, api.ErrLogUnavailable
	case faultLate:
		l.late = batch
		return none, api.ErrUnknownOutcome
	}
	return l.store(batch)
}

// store is what a log does: in order, each subject's first event only where
// the subject ends as expected, nothing of a subject behind a refusal.
func (l *fakeLog) store(batch []api.Append) ([]uint64, error) {
	seqs := make([]uint64, len(batch))
	bad, ok := map[string]bool{}, map[string]bool{}
	conflict := &api.ConflictError{}
	for i, a := range batch {
		subject := a.Message.Subject
		if !ok[subject] && !bad[subject] && l.last[subject] != a.Expect {
			bad[subject] = true
			conflict.Subjects = append(conflict.Subjects, subject)
		}
		if bad[subject] {
			continue
		}
		ok[subject] = true
		seqs[i] = uint64(len(l.records) + 1)
		l.records = append(l.records, events.Record{Message: a.Message, Seq: seqs[i]})
		l.last[subject] = seqs[i]
	}
	if len(conflict.Subjects) > 0 {
		return seqs, conflict
	}
	return seqs, nil
}

func (l *fakeLog) Bury(_ context.Context, d api.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.letters {
		if have.Hash == d.Hash && have.Ref == d.Ref {
			return nil
		}
	}
	l.letters = append(l.letters, d)
	return nil
}

func (l *fakeLog) all() []events.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.records[:len(l.records):len(l.records)]
}

// projection folds a log into memory: the Lookup port.
type projection struct {
	mu       sync.Mutex
	source   func() []events.Record
	epoch    string
	applied  uint64
	sessions map[events.Ref]*session.Memory
	calls    map[callKey]events.Block
	rejected []string

	// lag is how far behind the log an answer stays, if the token allows.
	lag uint64
	// fail, nil = never.
	fail func() error
}

func newProjection(epoch string, source func() []events.Record) *projection {
	return &projection{epoch: epoch, source: source, sessions: map[events.Ref]*session.Memory{}, calls: map[callKey]events.Block{}}
}

func (p *projection) lookup(_ context.Context, r api.LookupRequest) (*api.LookupReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		if err := p.fail(); err != nil {
			return nil, err
		}
	}
	recs, end := p.source(), uint64(0)
	if len(recs) > 0 {
		end = recs[len(recs)-1].Seq
	}
	to := max(r.Token.Seq, end-min(p.lag, end))
	if to > end {
		return nil, problem.New(problem.Stale, "the projection is at %d", end)
	}
	place := func(seq uint64) int { // of the first record behind a position
		return sort.Search(len(recs), func(i int) bool { return recs[i].Seq > seq })
	}
	if to > p.applied {
		p.apply(recs[place(p.applied):place(to)])
	}
	return p.answer(r)
}

func (p *projection) rows(ref events.Ref) *session.Memory {
	m := p.sessions[ref]
	if m == nil {
		m = session.NewMemory()
		p.sessions[ref] = m
	}
	return m
}

// apply folds records. It panics where the fold itself fails.
func (p *projection) apply(recs []events.Record) {
	for _, rec := range recs {
		d, err := session.Decode(rec)
		if err != nil {
			panic(err)
		}
		f, err := session.NewFold(d.Ref, p.rows(d.Ref))
		if err != nil {
			panic(err)
		}
		out, err := f.Apply(d)
		if err == nil {
			err = f.Flush()
		}
		if err != nil {
			panic(err)
		}
		if out.Reason != "" {
			p.rejected = append(p.rejected, fmt.Sprintf("%s at %d: %s", d.Ref, rec.Seq, out.Reason))
		}
		if t, ok := d.Payload.(*events.TurnAppended); ok {
			for _, b := range t.Blocks {
				if b.Type == events.BlockToolUse {
					p.calls[callKey{d.Ref, b.CallID}] = b
				}
			}
		}
		p.applied = rec.Seq
	}
}

func (p *projection) answer(r api.LookupRequest) (*api.LookupReply, error) {
	out := &api.LookupReply{
		Watermark: events.Position{Epoch: p.epoch, Seq: p.applied},
		Known:     map[string]api.Known{}, Calls: map[string]events.Block{}, Compactions: map[string]uint64{},
	}
	m := p.sessions[r.Ref]
	if m == nil {
		return out, nil
	}
	q := session.NewReader(m)
	var err error
	if !r.SkipHead {
		if out.Head, err = q.Head(); err != nil {
			return nil, err
		}
	}
	for _, id := range r.IDs {
		n, err := q.EntryOf(id)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		e, err := q.Entry(n)
		if err != nil {
			return nil, err
		}
		out.Known[id] = api.Known{Entry: n, Seq: e.Seq, Hash: e.Hash, SourceHash: e.SourceHash}
	}
	for _, id := range r.Calls {
		if b, ok := p.calls[callKey{r.Ref, id}]; ok {
			out.Calls[id] = b
		}
	}
	for _, id := range r.Compactions {
		if seq, err := q.CompactionSeq(id); err != nil {
			return nil, err
		} else if seq != 0 {
			out.Compactions[id] = seq
		}
	}
	return out, nil
}

// measures without the tokenizer: tests are about the path, not the counts.
var quickMeasures = Measures{
	Tokens:      func(t *events.TurnAppended) int { return 1 + len(t.DerivedText())/4 },
	InputTokens: func(t *events.TurnAppended) int { return 1 + len(t.DerivedText())/4 },
}

// world is a service over fakes, with its committer running.
type world struct {
	log  *fakeLog
	proj *projection
	svc  *Service
	stop func()
}

func newWorld(t fataler) *world {
	w := &world{log: newFakeLog()}
	w.proj = newProjection("E", w.log.all)
	w.open(t, Config{})
	return w
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// open starts a service on what the log holds, as a new process would.
func (w *world) open(t fataler, c Config) {
	t.Helper()
	if w.stop != nil {
		w.stop()
	}
	if c.Backoff == 0 {
		c.Backoff = time.Microsecond
	}
	n := 0
	svc, err := New(c, Deps{
		Log: w.log, Lookup: w.proj.lookup, Measures: quickMeasures,
		NewID: func() string { n++; return fmt.Sprintf("gen-%d-%d", len(w.log.all()), n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.svc = svc
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = svc.Run(ctx) }()
	w.stop = func() { cancel(); <-done }
}

func start(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	t.Cleanup(func() { w.stop() })
	return w
}

func ref(name string) events.Ref { return events.Ref{Tenant: "t", Session: name} }

// said is a user's turn.
func said(id, text string) api.Write {
	return api.Write{Turn: &api.Turn{Turn: events.TurnAppended{ID: id, Role: events.RoleUser, Text: text}}}
}

func (w *world) append(t testing.TB, name string, writes ...api.Write) []api.Written {
	t.Helper()
	r, err := w.svc.Append(context.Background(), api.AppendRequest{Ref: ref(name), Writes: writes})
	if err != nil {
		t.Fatal(err)
	}
	return r.Written
}

// head of a session once everything is folded; nothing may be rejected.
func (w *world) head(t fataler, name string) session.Head {
	t.Helper()
	lag := w.proj.lag
	w.proj.lag, w.proj.fail = 0, nil
	defer func() { w.proj.lag = lag }()
	r, err := w.proj.lookup(context.Background(), api.LookupRequest{Ref: ref(name)})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.proj.rejected) > 0 {
		t.Fatalf("the fold rejects what was appended: %v", w.proj.rejected)
	}
	return r.Head
}
