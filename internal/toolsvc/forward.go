package toolsvc

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
	"lcm/tokens"
	"lcm/transcript"
)

// A request that is on its way to a provider: what is new in it is appended,
// and what goes back is the body to send on. The caller keeps its whole history
// and sends it every time; the projection takes the place of its aged part.

// Headers of the answer to a request that was posted for forwarding.
const (
	// headerContext: "untouched" = the caller's bytes, which fit; "projected" =
	// the aged part is summaries; "passed" = the caller's bytes, because
	// something failed: headerPassthrough says what.
	headerContext     = "Lcm-Context"
	headerPassthrough = "Lcm-Passthrough"
)

const (
	// forwardPage is how many turns one append of a long history carries, and
	// how many bytes.
	forwardPage      = 500
	forwardPageBytes = 4 << 20
	// forwardWithin bounds reading and appending: an agent waits for it.
	forwardWithin = 10 * time.Second
	// overheadStep: tools and instructions may grow this much, tokens, before
	// the session's overhead follows. Each change is an event and moves B.
	overheadStep = 500
)

// isRequest reports whether a body posted to the context tool is a provider's
// request rather than parameters. Beside a session in the query anything that
// is no object of parameters is taken for one, so that it is passed back.
func isRequest(in json.RawMessage, body []byte) bool {
	var o map[string]json.RawMessage
	if json.Unmarshal(body, &o) != nil {
		var q struct {
			Session string `json:"session"`
		}
		return json.Unmarshal(in, &q) == nil && q.Session != ""
	}
	_, ok := o["messages"]
	return ok
}

// forward answers with the body to send on. Only who may not call, or names no
// session, is refused; everything else that fails passes the caller's bytes
// back: an agent does not stand still because its memory does.
func (s *Service) forward(ctx context.Context, raw json.RawMessage, body []byte, w *answer) error {
	var in api.ContextIn
	if err := decodeStrict(raw, &in); err != nil {
		return problem.New(problem.Invalid, "context: %w", err)
	}
	if in.At != "" || in.Cursor != "" || in.MaxTokens != 0 || in.Overhead != 0 {
		return problem.New(problem.Invalid, "context: at, overhead, cursor and max_tokens are not for a request that is forwarded")
	}
	if in.Session == "" {
		return problem.New(problem.Invalid, "no session is named").WithHint("name it in the query: POST /v1/context?session=NAME")
	}
	if _, _, err := s.scope(ctx, &in.Scope); err != nil {
		return err
	}
	h := w.header()
	f, err := s.guardedForward(ctx, in, body)
	if err != nil {
		h.Set(headerContext, "passed")
		h.Set(headerPassthrough, headerText(problem.From(err).Error()))
	} else {
		f.headers(h)
		body = f.body
	}
	out := w.bytes() // before Content-Type, which it sets
	h.Set("Lcm-Session", headerText(in.Session))
	h.Set("Content-Type", "application/json")
	_, err = out.Write(body)
	return err
}

// guardedForward turns a panic into a reason to pass the caller's bytes back.
func (s *Service) guardedForward(ctx context.Context, in api.ContextIn, body []byte) (f *forwarded, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.New(problem.Internal, "the projection failed inside: %v", v)
		}
	}()
	return s.forwarded(ctx, in, body)
}

// headerText is a text as a header may carry it.
func headerText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 500)]
}

// forwarded is a body to send on, and what it is.
type forwarded struct {
	body     []byte
	touched  bool
	context  *Assembled
	appended int
}

func (f *forwarded) headers(h http.Header) {
	c := f.context
	h.Set(headerContext, "untouched")
	if f.touched {
		h.Set(headerContext, "projected")
	}
	for name, v := range map[string]string{
		"Lcm-Tokens": strconv.Itoa(c.Tokens), "Lcm-Budget": strconv.Itoa(c.Budget), "Lcm-Cut": strconv.FormatUint(c.Cut, 10),
		"Lcm-Prefix-Hash": c.PrefixHash, "Lcm-Regime": string(c.Regime), "Lcm-Degraded": strconv.FormatBool(c.Degraded),
		"Lcm-Ends-With": string(c.EndsWith), "Lcm-Appended": strconv.Itoa(f.appended), "Lcm-Token": c.Reply.Watermark.String(),
	} {
		h.Set(name, v)
	}
}

func (s *Service) forwarded(ctx context.Context, in api.ContextIn, body []byte) (*forwarded, error) {
	req, err := transcript.ReadRequest(body, transcript.Format(in.Format))
	if err != nil {
		return nil, problem.New(problem.Invalid, "the request cannot be read: %w", err)
	}
	h, token, appended, err := s.remember(ctx, in, req, body)
	if err != nil {
		return nil, err
	}
	wait := s.c.BlockingDeadline
	if in.WaitSeconds > 0 {
		wait = time.Duration(in.WaitSeconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, min(forwardWithin, s.c.ReadDeadline)+wait)
	defer cancel()
	in.Window, in.Token = 0, token.String() // the session has that window now
	c, err := s.Assemble(ctx, in)
	if err != nil {
		return nil, err
	}
	f := &forwarded{body: body, context: c, appended: appended}
	if c.Cut == 0 && !c.Degraded {
		return f, nil
	}
	messages, err := h.projected(c, req)
	if err != nil {
		return nil, err
	}
	f.body, f.touched = req.With(messages), true
	return f, nil
}

// remember makes the session what the request says was said.
func (s *Service) remember(ctx context.Context, in api.ContextIn, req *transcript.Request, body []byte) (h *history, token events.Position, appended int, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(forwardWithin, s.c.ReadDeadline))
	defer cancel()
	if h, err = s.readHistory(ctx, &in.Scope, req, body); err != nil {
		return nil, token, 0, err
	}
	if err = s.fitSettings(ctx, h, req, in.Window); err != nil {
		return nil, token, 0, err
	}
	token, appended, err = s.appendHistory(ctx, h)
	return h, token, appended, err
}

// history is what a request says was said, beside what the session has of it.
type history struct {
	ref     events.Ref
	leading int // instructions at the front of the request's messages
	// pinned are instructions as turns, said those behind them: one for each
	// message of the request.
	pinned, said []api.Write
	// root is the id of the instruction in front of the first turn, "" = none.
	root    string
	ids     []string // of said
	known   map[string]api.Known
	head    session.Head
	token   events.Position
	entries map[uint64]int // entry → place in said
}

// readHistory reads the messages as turns and finds those that the session has.
func (s *Service) readHistory(ctx context.Context, scope *api.Scope, req *transcript.Request, body []byte) (*history, error) {
	ref, token, err := s.session(ctx, scope)
	if err != nil {
		return nil, err
	}
	h := &history{ref: ref, token: token, leading: req.Leading(), known: map[string]api.Known{}}
	writes, err := s.d.Parse(body, string(req.Format))
	if err != nil {
		return nil, problem.New(problem.Invalid, "the messages cannot be read: %w", err)
	}
	equal := map[string]int{}
	for _, w := range writes {
		if w.Refused != "" || w.Turn == nil {
			return nil, problem.New(problem.Invalid, "a message is no turn: %s", w.Refused)
		}
		t := *w.Turn // the source's own ids name messages of the provider, not turns of this session
		content := t.Turn.ContentHash()
		equal[content]++
		t.Turn.ID = events.UnnamedID(ref.Session, content, equal[content])
		if w.Turn = &t; t.Line <= h.leading {
			h.pinned = append(h.pinned, w)
			continue
		}
		h.said, h.ids = append(h.said, w), append(h.ids, t.Turn.ID)
	}
	if len(h.said) == 0 || len(h.said) != len(req.Messages)-h.leading {
		return nil, problem.New(problem.Invalid, "%d of %d messages are turns", len(h.said), len(req.Messages)-h.leading)
	}
	ids := h.ids
	if n := len(h.pinned); n > 0 {
		h.root = h.pinned[n-1].Turn.Turn.ID
		ids = append([]string{h.root}, ids...)
	}
	if err := s.lookup(ctx, h, ids); err != nil {
		return nil, err
	}
	return h, s.branch(ctx, h)
}

// lookup learns which ids the session has.
func (s *Service) lookup(ctx context.Context, h *history, ids []string) error {
	r, err := s.d.Reads.Lookup(ctx, api.LookupRequest{Ref: h.ref, IDs: ids, Token: h.token})
	if err != nil {
		return err
	}
	for id, k := range r.Known {
		h.known[id] = k
	}
	h.head = r.Head
	return nil
}

// branch gives the turns behind the place where the history leaves the turns
// it is recognised as an identity of their own: what was said there is said
// again, on another branch. Everything before that place is each the next one's
// parent, on the current path or on another.
func (s *Service) branch(ctx context.Context, h *history) error {
	parents, err := s.parents(ctx, h)
	if err != nil {
		return err
	}
	path := session.Path(h.head.Path)
	last, at := h.head.Pinned, len(h.ids)
	for i, id := range h.ids {
		k, ok := h.known[id]
		if !ok {
			continue // new, or behind what is new: nothing to contradict yet
		}
		onPath := path.Contains(k.Entry) && k.Entry > last && (i == 0 || path.Contains(last) || last == 0)
		follows := parents[k.Entry] == last || i == 0
		newBefore := i > 0 && h.known[h.ids[i-1]] == (api.Known{})
		if newBefore || !onPath && !follows {
			at = i
			break
		}
		last = k.Entry
	}
	if at == len(h.ids) {
		return nil
	}
	for i := at; i < len(h.ids); i++ {
		before := ""
		if i > 0 {
			before = h.ids[i-1]
		}
		h.ids[i] = events.UnnamedID(h.ref.Session, "behind "+before+" "+h.said[i].Turn.Turn.ContentHash(), 1)
		t := *h.said[i].Turn
		t.Turn.ID = h.ids[i]
		h.said[i].Turn = &t
	}
	return s.lookup(ctx, h, h.ids[at:])
}

// parents of the known turns that the current path does not hold.
func (s *Service) parents(ctx context.Context, h *history) (map[uint64]uint64, error) {
	path, out := session.Path(h.head.Path), map[uint64]uint64{}
	var off []events.Range
	for _, id := range h.ids {
		if k, ok := h.known[id]; ok && !path.Contains(k.Entry) {
			off = session.Joined(off, []events.Range{{First: k.Entry, Last: k.Entry}})
		}
	}
	if off == nil {
		return out, nil
	}
	err := s.turns(ctx, api.TurnsRequest{Ref: h.ref, Ranges: off, Token: h.token}, func(t api.StoredTurn) error {
		out[t.Entry.N] = t.Entry.Parent
		return nil
	})
	return out, err
}

// fitSettings makes the session's window what the call says, and its overhead
// what stands around the messages: both decide when to condense.
func (s *Service) fitSettings(ctx context.Context, h *history, req *transcript.Request, window int) error {
	around := tokens.Count(string(req.Around()))
	for _, m := range req.Messages[:h.leading] {
		around += tokens.Count(string(m))
	}
	set := map[string]any{}
	if h.head.Settings.Overhead+overheadStep < around {
		set["overhead"] = around
	}
	if window < 0 {
		return problem.New(problem.Invalid, "the window cannot be negative")
	}
	if window > 0 && window != h.head.Settings.Window {
		set["window"] = window
	}
	if len(set) == 0 {
		return nil
	}
	_, err := s.d.Writes.Configure(ctx, api.ConfigureRequest{Ref: h.ref, Set: set})
	return err
}

// appendHistory appends what is new, each turn behind the one before it, and
// moves the leaf to the last one.
func (s *Service) appendHistory(ctx context.Context, h *history) (token events.Position, appended int, err error) {
	var writes []api.Write
	if h.head.Entries == 0 {
		writes = append(writes, h.pinned...) // instructions stand in front, or nowhere
	}
	for i, w := range h.said {
		if _, ok := h.known[h.ids[i]]; ok {
			continue
		}
		if i > 0 {
			w.Turn.ParentID = h.ids[i-1]
		} else if _, ok := h.known[h.root]; ok {
			w.Turn.ParentID = h.root // another beginning; without instructions it follows the leaf
		}
		writes = append(writes, w)
	}
	last := h.ids[len(h.ids)-1]
	if k, ok := h.known[last]; ok && k.Entry != h.head.Leaf {
		writes = append(writes, api.Write{MoveTo: last})
	}
	token = h.token
	for len(writes) > 0 {
		n, bytes := 0, 0
		for n < len(writes) && n < forwardPage && bytes < forwardPageBytes {
			if t := writes[n].Turn; t != nil {
				bytes += len(t.Turn.Text) + len(t.Turn.Original)
			}
			n++
		}
		r, err := s.d.Writes.Append(ctx, api.AppendRequest{Ref: h.ref, Writes: writes[:n]})
		if err != nil {
			return token, appended, err
		}
		for i, out := range r.Written {
			if out.Error != "" {
				return token, appended, problem.New(problem.Code(out.Code), "a message was refused: %s", out.Error)
			}
			if t := writes[i].Turn; t != nil {
				h.known[t.Turn.ID] = api.Known{Entry: out.Entry}
				appended++
			}
		}
		if r.Token.Seq > token.Seq {
			token = r.Token
		}
		writes = writes[n:]
	}
	h.entries = make(map[uint64]int, len(h.ids))
	for i, id := range h.ids {
		h.entries[h.known[id].Entry] = i
	}
	return token, appended, nil
}

// projected are the messages to send: the caller's instructions, what the cut
// shows, and the caller's own messages behind it, as they are, unless the view
// shows one of them otherwise.
func (h *history) projected(c *Assembled, req *transcript.Request) ([]json.RawMessage, error) {
	v := c.Reply.View
	front, tail := c.Messages, 0
	for len(front) > 0 && front[0].Role.Pinned() && front[0].Entry != 0 && front[0].Entry <= h.head.Pinned+uint64(len(h.pinned)) {
		front = front[1:]
	}
	own := !c.Degraded && len(v.Answered) == 0 && len(v.Tail) > 0 && (v.Cut == nil || len(v.Cut.Clips) == 0)
	if own {
		for tail = range front {
			if front[tail].Entry == v.Tail[0].N {
				break
			}
		}
	}
	first := -1
	for i, e := range v.Tail {
		at, ok := h.entries[e.N]
		if i == 0 {
			first = at
		}
		own = own && ok && at == first+i
	}
	if !own || first+len(v.Tail) != len(h.said) {
		e, err := transcript.Encode(req.Format, front)
		if err != nil {
			return nil, err
		}
		return append(h.instructions(req), e.Messages...), nil
	}
	e, err := transcript.Encode(req.Format, front[:tail])
	if err != nil {
		return nil, fmt.Errorf("what the cut shows: %w", err)
	}
	return append(h.instructions(req), req.Joined(e.Messages, req.Messages[h.leading+first:])...), nil
}

func (h *history) instructions(req *transcript.Request) []json.RawMessage {
	return append([]json.RawMessage{}, req.Messages[:h.leading]...)
}
