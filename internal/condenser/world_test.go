package condenser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/window"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const epoch = "01TEST"

// world is one session in memory: a log that enforces expectations and the
// fold that projects it, at once or when told to. It is both ports.
type world struct {
	t   testing.TB
	ref events.Ref

	mu       sync.Mutex
	log      []events.Record
	last     map[string]uint64 // subject → sequence of its last event
	links    map[events.Lane]events.Link
	rows     *session.Memory
	fold     *session.Fold
	applied  int
	held     bool // the projection stands still
	outcomes []session.Outcome
	bodies   map[uint64]json.RawMessage
	commits  int
	// fault, if set, is asked before each commit; store = false fails before
	// the effect, true after it.
	fault    func(commit int) (store bool, err error)
	pageSize int
}

func newWorld(t testing.TB, change ...func(*events.Settings)) *world {
	return newWorldOf(t, events.Ref{Tenant: "t", Session: "s"}, change...)
}

func newWorldOf(t testing.TB, ref events.Ref, change ...func(*events.Settings)) *world {
	w := &world{
		t: t, ref: ref, last: map[string]uint64{},
		links: map[events.Lane]events.Link{}, rows: session.NewMemory(), bodies: map[uint64]json.RawMessage{},
	}
	var err error
	if w.fold, err = session.NewFold(w.ref, w.rows); err != nil {
		t.Fatal(err)
	}
	s := events.DefaultSettings()
	s.Window = 20_000
	for _, c := range change {
		c(&s)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	w.emit(&events.SessionConfigured{Settings: s})
	return w
}

// emit appends an event as the ingestor, or as another condenser.
func (w *world) emit(p events.Payload) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	lane := p.EventType().Lane()
	m, next, err := events.Encode(events.Subject(lane, w.ref, 16), p, time.Now(), w.links[lane])
	if err != nil {
		w.t.Fatal(err)
	}
	w.links[lane] = next
	w.store(m)
}

func (w *world) store(m events.Message) uint64 {
	seq := uint64(len(w.log)) + 1
	w.log = append(w.log, events.Record{Message: m, Seq: seq})
	w.last[m.Subject] = seq
	if !w.held {
		w.project()
	}
	return seq
}

func (w *world) project() {
	for ; w.applied < len(w.log); w.applied++ {
		d, err := session.Decode(w.log[w.applied])
		if err != nil {
			w.t.Error(err)
			continue
		}
		out, err := w.fold.Apply(d)
		if err != nil {
			w.t.Error(err)
		}
		w.outcomes = append(w.outcomes, out)
		if p, ok := d.Payload.(*events.TurnAppended); ok && out.Reason == "" {
			w.bodies[p.Entry] = w.log[w.applied].Data
		}
	}
	w.links[events.LaneDerived] = w.fold.Head().Derived.Link
	if err := w.fold.Flush(); err != nil {
		w.t.Error(err)
	}
}

// talk appends n turns of about so many tokens, user and assistant in turn.
func (w *world) talk(n, tokens int) {
	w.t.Helper()
	for range n {
		t := &events.TurnAppended{Role: events.RoleUser, Entry: w.fold.Head().Entries + 1}
		if t.Entry%2 == 0 {
			t.Role = events.RoleAssistant
		}
		t.ID = fmt.Sprintf("id%d", t.Entry)
		t.Text = fmt.Sprintf("turn %d %s", t.Entry, strings.Repeat("word ", tokens))
		measure(t)
		w.emit(t)
	}
}

func measure(t *events.TurnAppended) {
	t.Tokens, t.InputTokens = window.TurnTokens(t), condense.InputTokens(t)
}

// hold stops the projection or lets it go on.
func (w *world) hold(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held = on; !on {
		w.project()
	}
}

func (w *world) reader() session.Reader { return session.NewReader(w.rows) }

func (w *world) View(ctx context.Context, q api.ViewRequest) (*api.ViewReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.Ref != w.ref {
		return nil, problem.New(problem.NotFound, "session %s is unknown", q.Ref)
	}
	if q.Token.Seq > uint64(w.applied) {
		return nil, problem.New(problem.Stale, "applied %d of %d", w.applied, q.Token.Seq)
	}
	s, err := w.reader().Now()
	if err != nil {
		return nil, err
	}
	v, err := w.reader().View(w.ref, s)
	return &api.ViewReply{Watermark: events.Position{Epoch: epoch, Seq: uint64(w.applied)}, View: v}, err
}

func (w *world) Turns(ctx context.Context, q api.TurnsRequest) (*api.TurnsReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &api.TurnsReply{}
	for _, r := range q.Ranges {
		for n := max(r.First, q.After+1); n <= r.Last; n++ {
			if w.pageSize > 0 && len(out.Turns) == w.pageSize {
				out.Next = out.Turns[len(out.Turns)-1].Entry.N
				return out, nil
			}
			e, err := w.reader().Entry(n)
			if err != nil {
				return nil, err
			}
			out.Turns = append(out.Turns, api.StoredTurn{Entry: e, Payload: w.bodies[n]})
		}
	}
	return out, nil
}

func (w *world) Node(ctx context.Context, q api.NodeRequest) (*api.NodeReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &api.NodeReply{}
	for _, n := range q.Numbers {
		d, err := w.reader().Node(n)
		if err != nil {
			return nil, err
		}
		by, err := w.reader().SupersededBy(n)
		if err != nil {
			return nil, err
		}
		out.Nodes = append(out.Nodes, api.StoredNode{Node: d, SupersededBy: by})
	}
	return out, nil
}

// Commit enforces the contract: an expectation that does not hold stores nothing.
func (w *world) Commit(ctx context.Context, batch []api.Append) ([]uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrUnknownOutcome, err)
	}
	w.commits++
	store, fault := true, error(nil)
	if w.fault != nil {
		store, fault = w.fault(w.commits)
	}
	if fault != nil && !store {
		return make([]uint64, len(batch)), fault
	}
	seqs := make([]uint64, len(batch))
	for i, a := range batch {
		if w.last[a.Message.Subject] != a.Expect {
			return seqs, &api.ConflictError{Subjects: []string{a.Message.Subject}}
		}
		seqs[i] = w.store(a.Message)
	}
	return seqs, fault
}

// check is the invariant of every test: nothing was rejected but what two
// condensers may both commit, one node per key and entry, the context whole.
func (w *world) check() *session.View {
	w.t.Helper()
	w.hold(false)
	reply, err := w.View(context.Background(), api.ViewRequest{Ref: w.ref})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, o := range w.outcomes {
		if o.Reason != "" {
			w.t.Errorf("event %d (%s) was rejected: %s", i+1, o.Type, o.Reason)
		}
	}
	covered := map[uint64]uint64{}
	for n := uint64(1); n <= w.fold.Head().Nodes; n++ {
		d, err := w.reader().Node(n)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range d.Entries {
			for e := r.First; e <= r.Last && d.Supersedes == ""; e++ {
				if covered[e] != 0 {
					w.t.Errorf("e%d is covered by #%d and #%d", e, covered[e], n)
				}
				covered[e] = n
			}
		}
	}
	return reply.View
}

func (w *world) kinds() map[events.Type]int {
	out := map[events.Type]int{}
	for _, o := range w.outcomes {
		out[o.Type]++
	}
	return out
}

func (w *world) service(s condense.Summarizer, change ...func(*Config)) *Service {
	w.t.Helper()
	c := Config{CommitTimeout: 2 * time.Second}
	for _, f := range change {
		f(&c)
	}
	svc, err := New(c, Deps{Reads: w, Log: w, Summarizer: s})
	if err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func (w *world) token() events.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return events.Position{Epoch: epoch, Seq: uint64(len(w.log))}
}

// model is a scripted summariser.
type model func(ctx context.Context, r condense.Request) (condense.Response, error)

func (m model) Summarize(ctx context.Context, r condense.Request) (condense.Response, error) {
	return m(ctx, r)
}

func says(text string) (condense.Response, error) {
	return condense.Response{Text: text, Stop: condense.StopEnd, Model: "test-model"}, nil
}

// good writes short, distinct summaries.
func good(_ context.Context, r condense.Request) (condense.Response, error) {
	return says(fmt.Sprintf("- depth %d, level %d: %s to %s were talked about\nExpand for details.", r.Depth, r.Level, r.Lines[0].Ref, r.Lines[len(r.Lines)-1].Ref))
}

func down(context.Context, condense.Request) (condense.Response, error) {
	return condense.Response{}, fmt.Errorf("%w: connection refused", condense.ErrUnavailable)
}

var errBoom = errors.New("boom")
