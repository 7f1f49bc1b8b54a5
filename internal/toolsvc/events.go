package toolsvc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/tokens"
)

// A session is followed through the projection: what the stream tells has been
// accepted, and can be read when it is told. Nothing is held for a follower but
// the page it is being sent: one that reads slowly is sent slower, one that
// stops reading is let go, and goes on later behind the last token it saw.

const (
	// eventPage is how many turns, or nodes, are read at a time.
	eventPage = 100
	// eventTextTokens of a turn's text stand in its event.
	eventTextTokens = 400
	// eventBeat: a silent stream shows that it is alive.
	eventBeat = 15 * time.Second
	// eventLook: so often the log is looked at without being told to.
	eventLook = 2 * time.Second
	// eventStall: a follower that takes nothing for so long is let go.
	eventStall = 30 * time.Second
	// eventRetry is what a follower is told to wait before it comes back, ms.
	eventRetry = 1000
)

// eventsTool streams what happens to a session.
func (s *Service) eventsTool() Tool {
	return Tool{
		Name: "events", Scope: api.ScopeRead, Reads: true, Long: true, Needs: []string{"session"}, Body: "nothing",
		Doc: "Server-sent events of a session: turn, node, cut, each with a token as its id. Last-Event-ID resumes.",
		in:  reflect.TypeFor[api.EventsIn](), out: reflect.TypeFor[api.SessionEvent](),
		resumes: "after", raw: s.rawEvents,
	}
}

func (s *Service) rawEvents(ctx context.Context, raw json.RawMessage, _ io.Reader, w *answer) error {
	var in api.EventsIn
	if err := decodeStrict(raw, &in); err != nil {
		return problem.New(problem.Invalid, "events: %w", err)
	}
	after := in.After
	in.Token, in.After = "", ""
	ref, end, err := s.session(ctx, &in.Scope)
	if err != nil {
		return err
	}
	f := &follower{s: s, ref: ref}
	if f.at, err = s.startOf(ctx, after, end); err != nil {
		return err
	}
	if err := f.open(ctx); err != nil {
		return err
	}
	woken, stop, err := s.d.Log.Watch(ctx, ref)
	if err != nil {
		return err
	}
	defer stop()
	f.w = w.events()
	_ = f.run(ctx, woken) // the answer has begun: whoever is gone is not told
	return nil
}

// startOf is the position a follower begins behind.
func (s *Service) startOf(ctx context.Context, after string, end events.Position) (uint64, error) {
	switch after {
	case "start":
		return 0, nil
	case "":
		last, err := s.d.Log.LastSeq(ctx)
		return max(last, end.Seq), err
	}
	p, err := events.ParsePosition(after)
	if err != nil {
		return 0, problem.New(problem.Invalid, "%w", err)
	}
	if p.Epoch != s.d.Log.Epoch() {
		return 0, problem.New(problem.Invalid, "token %s is of another log", after).WithHint("follow from start, or from now")
	}
	last, err := s.d.Log.LastSeq(ctx)
	if err == nil && p.Seq > last {
		err = problem.New(problem.Invalid, "token %s lies beyond the end of the log", after)
	}
	return p.Seq, err
}

// follower is one stream: how far it has told what happened.
type follower struct {
	s   *Service
	ref events.Ref
	w   *eventWriter

	at             uint64 // position
	entries, nodes uint64 // told so far
	cut            uint64 // the one that decides, as far as told; 0 = none
}

// open learns what there was at the start.
func (f *follower) open(ctx context.Context) error {
	if f.at == 0 {
		return nil
	}
	row, err := f.s.sessionRowAt(ctx, f.ref, f.at, events.Position{Epoch: f.s.d.Log.Epoch(), Seq: f.at})
	if problem.IsCode(err, problem.NotFound) {
		return nil // it did not exist yet
	}
	if err != nil {
		return err
	}
	f.entries, f.nodes, f.cut = row.Entries, row.Nodes, row.Cut
	return nil
}

func (f *follower) run(ctx context.Context, woken <-chan struct{}) error {
	if err := f.w.retry(); err != nil {
		return err
	}
	if err := f.tell(ctx, "open", f.at, api.SessionEvent{}); err != nil {
		return err
	}
	look := time.NewTicker(eventLook)
	defer look.Stop()
	beat := time.NewTicker(eventBeat)
	defer beat.Stop()
	for {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-woken:
		case <-look.C:
		case <-beat.C:
			if err := f.w.beat(); err != nil {
				return err
			}
		}
	}
}

// catchUp tells what has happened since.
func (f *follower) catchUp(ctx context.Context) error {
	end := uint64(0)
	for _, lane := range []events.Lane{events.LaneTimeline, events.LaneDerived} {
		last, err := f.s.d.Log.LastOf(ctx, events.Subject(lane, f.ref, f.s.d.Log.Partitions()))
		if err != nil {
			return err
		}
		end = max(end, last)
	}
	if end <= f.at {
		return nil
	}
	token := events.Position{Epoch: f.s.d.Log.Epoch(), Seq: end}
	row, err := f.s.sessionRow(ctx, f.ref, token)
	if problem.IsCode(err, problem.NotFound) {
		return nil // all that was written for it was refused
	}
	if err != nil {
		return err
	}
	if err := f.turnsAndNodes(ctx, row, token); err != nil {
		return err
	}
	if err := f.cuts(ctx, row, token, end); err != nil {
		return err
	}
	f.at = max(f.at, end)
	return nil
}

// told is an event with its position.
type told struct {
	seq  uint64
	name string
	ev   api.SessionEvent
}

// turnsAndNodes tells both in the order of the log, a page of each at a time.
func (f *follower) turnsAndNodes(ctx context.Context, row *api.SessionRow, token events.Position) error {
	for f.entries < row.Entries || f.nodes < row.Nodes {
		turns, err := f.turnPage(ctx, row.Entries, token)
		if err != nil {
			return err
		}
		nodes, err := f.nodePage(ctx, row.Nodes, token)
		if err != nil {
			return err
		}
		// What lies behind the end of a page that has another one waits for it.
		upto := ^uint64(0)
		if n := len(turns); n > 0 && f.entries+uint64(n) < row.Entries {
			upto = turns[n-1].seq
		}
		if n := len(nodes); n > 0 && f.nodes+uint64(n) < row.Nodes {
			upto = min(upto, nodes[n-1].seq)
		}
		all := append(turns, nodes...)
		slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(a.seq, b.seq) })
		if len(all) == 0 {
			return problem.New(problem.Internal, "session %s has fewer turns than it counts", f.ref.Session)
		}
		for _, t := range all {
			if t.seq > upto {
				break
			}
			if err := f.tell(ctx, t.name, t.seq, t.ev); err != nil {
				return err
			}
			if t.ev.Turn != nil {
				f.entries++
			} else {
				f.nodes++
			}
		}
	}
	return nil
}

func (f *follower) turnPage(ctx context.Context, last uint64, token events.Position) ([]told, error) {
	if f.entries >= last {
		return nil, nil
	}
	r, err := f.s.d.Reads.Turns(ctx, api.TurnsRequest{
		Ref: f.ref, Ranges: []events.Range{{First: f.entries + 1, Last: last}}, Token: token, Limit: eventPage,
	})
	if err != nil {
		return nil, err
	}
	var out []told
	for _, t := range r.Turns {
		o, err := turnOut(t, false)
		if err != nil {
			return nil, err
		}
		text := tokens.Head(o.Text, eventTextTokens)
		out = append(out, told{t.Entry.Seq, "turn", api.SessionEvent{Turn: &api.TurnEvent{
			Entry: o.Entry, ID: o.ID, Role: o.Role, Sender: o.Sender, Tokens: o.Tokens, Time: o.Time,
			Text: text, Truncated: len(text) < len(o.Text),
		}}})
	}
	return out, nil
}

func (f *follower) nodePage(ctx context.Context, last uint64, token events.Position) ([]told, error) {
	var numbers []uint64
	for n := f.nodes + 1; n <= last && len(numbers) < eventPage; n++ {
		numbers = append(numbers, n)
	}
	if numbers == nil {
		return nil, nil
	}
	r, err := f.s.d.Reads.Node(ctx, api.NodeRequest{Ref: f.ref, Numbers: numbers, Token: token})
	if err != nil {
		return nil, err
	}
	var out []told
	for _, d := range r.Nodes {
		out = append(out, told{d.Node.Seq, "node", api.SessionEvent{Node: nodeEvent(d.Node)}})
	}
	return out, nil
}

func nodeEvent(n session.Node) *api.NodeEvent {
	return &api.NodeEvent{
		ID: nodeID(n.N), Depth: n.Depth, Span: span(n.First, n.Last), Tokens: n.Primary.Tokens,
		SourceTokens: n.SourceTokens, Level: n.Primary.Level, Line: firstLine(n.Primary.Text),
	}
}

// cuts tells that another cut decides, which may be an older one: where the
// leaf went back. The positions of the stream do not.
func (f *follower) cuts(ctx context.Context, row *api.SessionRow, token events.Position, end uint64) error {
	if row.Cut == f.cut {
		return nil
	}
	r, err := f.s.d.Reads.View(ctx, api.ViewRequest{Ref: f.ref, Token: token})
	if err != nil {
		return err
	}
	ev := &api.CutEvent{Kind: "none", Nodes: []string{}}
	f.cut = 0
	if c := r.View.Cut; c != nil {
		f.cut = c.N
		ev.Cut, ev.Kind, ev.Through = c.N, string(c.Kind), entryID(c.Through)
		ev.TokensBefore, ev.TokensAfter = c.TokensBefore, c.TokensAfter
		for _, n := range c.Nodes {
			ev.Nodes = append(ev.Nodes, nodeID(n))
		}
	}
	return f.tell(ctx, "cut", end, api.SessionEvent{Cut: ev})
}

func (f *follower) tell(ctx context.Context, name string, seq uint64, ev api.SessionEvent) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.at = max(f.at, seq)
	ev.Session, ev.Token = f.ref.Session, events.Position{Epoch: f.s.d.Log.Epoch(), Seq: f.at}.String()
	return f.w.event(name, ev.Token, ev)
}

// events begins an answer of server-sent events.
func (w *answer) events() *eventWriter {
	e := &eventWriter{w: w.bytes(), limit: w.deadline}
	w.header().Set("Content-Type", "text/event-stream")
	w.header().Set("Cache-Control", "no-store")
	w.header().Set("X-Accel-Buffering", "no") // a proxy that would hold events back
	return e
}

// eventWriter sends what it is given at once.
type eventWriter struct {
	w     io.Writer
	limit func(time.Time)
}

// retry says how soon to come back. The first event follows it.
func (e *eventWriter) retry() error { return e.text(fmt.Sprintf("retry: %d\n", eventRetry)) }

func (e *eventWriter) beat() error { return e.text(": beat\n\n") }

// event sends one; id is what to go on behind, "" = the stream keeps no place.
func (e *eventWriter) event(name, id string, v any) error {
	data, err := json.Marshal(v) // one line: JSON writes line ends as escapes
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return e.text(fmt.Sprintf("event: %s\n%sdata: %s\n\n", name, id, data))
}

func (e *eventWriter) text(s string) error {
	e.limit(time.Now().Add(eventStall))
	if _, err := io.WriteString(e.w, s); err != nil {
		return err
	}
	if rw, ok := e.w.(http.ResponseWriter); ok {
		return http.NewResponseController(rw).Flush()
	}
	return nil
}
