package projector_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"lcm/events"
	"lcm/session"
	"lcm/tokens"
)

// fakeLog is a log in memory. It keeps the contract of projector.Log and
// projector.Tasks.
type fakeLog struct {
	epoch string
	parts int

	mu      sync.Mutex
	records []events.Record
	moved   chan struct{}
	links   map[string]events.Link // by subject
	entries map[events.Ref]uint64
	now     time.Time
	tasks   []task
	batch   int // records per handle call
	skip    uint64
}

type task struct {
	ref events.Ref
	at  events.Position
}

func newLog(epoch string) *fakeLog {
	return &fakeLog{
		epoch: epoch, parts: 4, moved: make(chan struct{}), links: map[string]events.Link{},
		entries: map[events.Ref]uint64{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), batch: 256,
	}
}

func (l *fakeLog) Epoch() string   { return l.epoch }
func (l *fakeLog) Partitions() int { return l.parts }

func (l *fakeLog) LastSeq(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.records)), nil
}

func (l *fakeLog) Read(_ context.Context, seq uint64) (events.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq == 0 || seq > uint64(len(l.records)) {
		return events.Record{}, errors.New("no such position")
	}
	return l.records[seq-1], nil
}

func (l *fakeLog) Follow(ctx context.Context, after uint64, handle func(context.Context, []events.Record) error) error {
	for {
		l.mu.Lock()
		var out []events.Record
		if after < uint64(len(l.records)) {
			out = l.records[after:min(uint64(len(l.records)), after+uint64(l.batch))]
		}
		if len(out) > 0 && l.skip == out[0].Seq && len(out) > 1 {
			out = out[1:]
		}
		moved := l.moved
		l.mu.Unlock()
		if len(out) > 0 {
			if err := handle(ctx, out); err != nil {
				return err
			}
			after = out[len(out)-1].Seq
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *fakeLog) PublishTask(_ context.Context, _ events.Urgency, ref events.Ref, at events.Position) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, task{ref, at})
	return nil
}

func (l *fakeLog) taskCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tasks)
}

// put appends any message.
func (l *fakeLog) put(m events.Message) events.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.putLocked(m)
}

func (l *fakeLog) putLocked(m events.Message) events.Position {
	seq := uint64(len(l.records)) + 1
	l.records = append(l.records, events.Record{Message: m, Seq: seq})
	close(l.moved)
	l.moved = make(chan struct{})
	return events.Position{Epoch: l.epoch, Seq: seq}
}

// event appends a valid event; turns get the next entry number.
func (l *fakeLog) event(ref events.Ref, p events.Payload) events.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := p.EventType().Lane()
	subject := events.Subject(lane, ref, l.parts)
	if t, ok := p.(*events.TurnAppended); ok {
		l.entries[ref]++
		t.Entry = l.entries[ref]
	}
	l.now = l.now.Add(time.Second)
	m, next, err := events.Encode(subject, p, l.now, l.links[subject])
	if err != nil {
		panic(err)
	}
	l.links[subject] = next
	return l.putLocked(m)
}

func (l *fakeLog) configure(ref events.Ref, change func(*events.Settings)) events.Position {
	st := events.DefaultSettings()
	if change != nil {
		change(&st)
	}
	return l.event(ref, &events.SessionConfigured{Settings: st})
}

// say appends a plain turn.
func (l *fakeLog) say(ref events.Ref, role events.Role, text string) events.Position {
	return l.event(ref, turn(fmt.Sprintf("t%d", l.next(ref)), role, text))
}

func (l *fakeLog) next(ref events.Ref) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.entries[ref] + 1
}

func turn(id string, role events.Role, text string) *events.TurnAppended {
	n := tokens.Count(text)
	return &events.TurnAppended{ID: id, Role: role, Text: text, Tokens: n + 4, InputTokens: n + 8}
}

// leaf appends a summary of entries first..last of a session without branches.
func (l *fakeLog) leaf(ref events.Ref, first, last uint64, text string) (string, events.Position) {
	covered := []events.Range{{First: first, Last: last}}
	key := session.LeafKey(covered, "p1", "")
	return key, l.event(ref, &events.NodeCommitted{
		Key: key, First: first, Last: last, Entries: covered, PromptVersion: "p1", Model: "test",
		Primary: events.Tier{Text: text, Tokens: tokens.Count(text), Level: 1}, InputTokens: 10_000,
		Bounds: events.Bounds{Target: 400, HardCap: 1_200, MaxFan: 8},
	})
}

func (l *fakeLog) cut(ref events.Ref, through uint64, keys ...string) events.Position {
	c := &events.CutCommitted{Through: through, Budget: 100_000, Window: 200_000, BlockTokens: 50, Kind: events.CutExtend, Regime: events.RegimeAsync}
	for _, k := range keys {
		c.Frontier = append(c.Frontier, events.Shown{Key: k, Tier: events.TierPrimary})
	}
	return l.event(ref, c)
}

func ref(name string) events.Ref { return events.Ref{Tenant: "acme", Session: name} }

// within is a context for one step of a test.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}
