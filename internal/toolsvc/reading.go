package toolsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lcm/chat"
	"lcm/events"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/reader"
	"lcm/tokens"
)

// Reader answers questions from what its tools let it read.
type Reader interface {
	Read(context.Context, reader.Question) (reader.Answer, error)
	// Time a question may take.
	Time() time.Duration
}

// toolQuery is the tool whose grant pays what a reader reads.
const toolQuery = "query"

// Bounds of a reader.
const (
	// readerGrace is how long its grant outlives its time.
	readerGrace = 30 * time.Second
	// afterReader is what is left of a caller's time where no answer came, for
	// passages.
	afterReader = 1. / 5
	// citedMost is how many entries an answer may name.
	citedMost = 20
)

// readerTools are those of the table that a reader gets: all of them stand
// under the grant of a question.
func (s *Service) readerTools() ([]AgentTool, error) {
	var table []Tool
	for _, t := range s.dataTools() {
		if slices.Contains([]string{"describe", "expand", "grep"}, t.Name) {
			table = append(table, t.under(toolQuery))
		}
	}
	table = s.fenced(table)
	for i := range table {
		table[i] = s.observed(table[i])
	}
	return offered(table)
}

// answer puts a question to the reader. Where no answer comes of it, out says
// why; an error is the end of the call.
func (s *Service) answer(ctx context.Context, q question, out *api.QueryOut) error {
	none := func(format string, a ...any) { out.NoAnswer = fmt.Sprintf(format, a...) }
	switch {
	case q.in.Passages:
		return nil
	case s.d.Reader == nil:
		none("no model is configured for questions")
		return nil
	case s.d.Grants == nil:
		none("grants are not honoured here, and a reader reads under one")
		return nil
	}
	r, err := s.openReader(ctx, q)
	if err != nil {
		none("no reader may be sent: %v", problem.From(err))
		return ctx.Err()
	}
	defer r.close(context.WithoutCancel(ctx))
	reading, cancel := ctx, func() {}
	if end, ok := ctx.Deadline(); ok {
		reading, cancel = context.WithTimeout(ctx, time.Duration((1-afterReader)*float64(time.Until(end))))
	}
	defer cancel()
	a, err := s.d.Reader.Read(reading, reader.Question{Tenant: q.ref.Tenant, Prompt: q.in.Prompt, Scope: r.names, Tokens: q.most * 3 / 4, Tools: r})
	out.Explored, out.Model, out.Calls = r.read, a.Model, a.Calls
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		none("the caller's time does not hold a model's answer")
		return nil
	case err != nil:
		none("%v", err)
		return nil
	}
	return s.cited(ctx, q, r, a, out)
}

// cited takes an answer over with the citations that hold. One without any is
// none.
func (s *Service) cited(ctx context.Context, q question, r *reading, a reader.Answer, out *api.QueryOut) error {
	def := ""
	if only := sessionsOf(r.claims); len(only) == 1 {
		def = only[0]
	}
	hold, err := s.verified(api.WithCaller(ctx, r.caller()), q, reader.Citations(a.Text, def))
	if err != nil {
		return err
	}
	holds := func(c reader.Cited) bool { return hold[c] != "" }
	text, dropped := reader.Keep(a.Text, def, holds)
	if len(reader.Citations(text, def)) == 0 {
		out.NoAnswer, out.Dropped = "the model names no entry that is there and may be read", dropped
		return nil
	}
	out.Answer, out.Dropped = text, dropped
	out.Citations = citations(text, def, hold)
	if out.Why = a.Short; cost(out) > q.most {
		s.shorten(out, q.most, def, hold)
	}
	out.Truncated = out.Why != ""
	return nil
}

// shorten cuts an answer to a size, and the lists beside it to half of that.
func (s *Service) shorten(out *api.QueryOut, most int, def string, hold map[reader.Cited]string) {
	text := out.Answer
	out.Answer, out.Why = "", strings.TrimPrefix(out.Why+"; length: the answer is longer than max_tokens", "; ")
	for len(out.Dropped) > 0 && cost(out) > most/2 {
		out.Dropped = out.Dropped[:len(out.Dropped)-1]
	}
	for len(out.Citations) > 1 && cost(out) > most/2 {
		out.Citations = out.Citations[:len(out.Citations)-1]
	}
	out.Answer = fit(text, most-cost(out))
	stay := citations(out.Answer, def, hold)
	out.Citations = out.Citations[:min(len(out.Citations), len(stay))]
}

func citations(text, def string, hold map[reader.Cited]string) []api.Citation {
	out := []api.Citation{}
	for _, c := range reader.Citations(text, def) {
		out = append(out, api.Citation{Session: c.Session, Entry: entryID(c.Entry), Role: hold[c]})
	}
	return out
}

// verified gives the roles of those cited entries that are there and that the
// caller of ctx may read.
func (s *Service) verified(ctx context.Context, q question, cited []reader.Cited) (map[reader.Cited]string, error) {
	out := map[reader.Cited]string{}
	for _, c := range cited[:min(len(cited), citedMost)] {
		if c.Entry == 0 || inGrant(ctx, c.Session) != nil {
			continue
		}
		ref, only := events.Ref{Tenant: q.ref.Tenant, Session: c.Session}, []events.Range{{First: c.Entry, Last: c.Entry}}
		err := s.rangesInGrant(ctx, ref, only, q.token)
		if problem.IsCode(err, problem.Forbidden) {
			continue
		}
		var page *api.TurnsReply
		if err == nil {
			page, err = s.d.Reads.Turns(ctx, api.TurnsRequest{Ref: ref, Ranges: only, Token: q.token})
		}
		switch {
		case problem.IsCode(err, problem.NotFound):
		case err != nil:
			return nil, err
		case len(page.Turns) == 1:
			out[c] = string(page.Turns[0].Entry.Role)
		}
	}
	return out, nil
}

// reading is a reader's hand: tools under a grant of its own.
type reading struct {
	s      *Service
	claims grant.Claims
	names  []string
	read   int
}

// openReader mints the grant of one question: within the caller's, where it has
// one, whose budget keeps enough for the answer.
func (s *Service) openReader(ctx context.Context, q question) (*reading, error) {
	ask := grant.Ask{
		Tools: []string{toolQuery}, Tokens: q.explore - q.most, TTL: (s.d.Reader.Time() + readerGrace).Truncate(time.Second),
		DelegatedScope: "reading, to answer one question", KeptWork: "everything but that reading",
	}
	r := &reading{s: s}
	parent := granted(ctx)
	if err := s.readerScope(ctx, q, parent, &ask, r); err != nil {
		return nil, err
	}
	if parent != nil {
		left, err := s.d.Grants.Left(ctx, *parent)
		if err != nil {
			return nil, err
		}
		ask.Tokens = min(ask.Tokens, left-q.most)
		ask.TTL = min(ask.TTL, time.Until(parent.Expires).Truncate(time.Second))
	}
	var err error
	switch {
	case len(ask.Sessions)+len(ask.Nodes) == 0 && parent == nil:
		return nil, problem.New(problem.NotFound, "there is nothing to read").WithHint("")
	case ask.Tokens < minAnswerTokens:
		return nil, problem.New(problem.Limited, "beside an answer of %d tokens there are %d left to read, and at least %d are needed", q.most, max(0, ask.Tokens), minAnswerTokens).
			WithHint("raise explore_tokens, lower max_tokens, or ask for another grant")
	case parent == nil:
		_, r.claims, err = s.d.Grants.NewRoot(ctx, q.ref.Tenant, ask)
	default:
		_, r.claims, err = s.child(ctx, *parent, ask, q.token)
	}
	if r.names == nil {
		r.names = scopeOf(r.claims)
	}
	return r, err
}

// readerScope is what the question names, else what the caller's grant holds,
// else the sessions where something was found, and others while there is room.
func (s *Service) readerScope(ctx context.Context, q question, parent *grant.Claims, ask *grant.Ask, r *reading) error {
	if q.in.Session != "" {
		ask.Sessions = append(ask.Sessions, q.in.Session)
	}
	ask.Sessions = append(ask.Sessions, q.in.Sessions...)
	if q.in.Node != "" {
		where := q.in.Scope
		t, err := parseID(&where, q.in.Node)
		if err != nil {
			return err
		}
		ask.Sessions, ask.Nodes = nil, []grant.Node{{Session: where.Session, N: t.n}}
	}
	if len(ask.Sessions)+len(ask.Nodes) > 0 || parent != nil {
		return nil
	}
	add := func(name string) {
		if len(ask.Sessions) < grant.MaxScope && !slices.Contains(ask.Sessions, name) {
			ask.Sessions = append(ask.Sessions, name)
		}
	}
	for _, h := range q.hits.Hits {
		add(h.Session)
	}
	all, err := s.d.Reads.Sessions(ctx, api.SessionsRequest{Tenant: q.ref.Tenant, Limit: grant.MaxScope, Token: q.token})
	if err != nil {
		return err
	}
	for _, row := range all.Sessions {
		add(row.Session)
	}
	r.names = slices.Clone(ask.Sessions)
	return nil
}

func sessionsOf(c grant.Claims) []string {
	out := slices.Clone(c.Sessions)
	for _, n := range c.Nodes {
		out = append(out, n.Session)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func scopeOf(c grant.Claims) []string {
	out := slices.Clone(c.Sessions)
	for _, n := range c.Nodes {
		out = append(out, n.String())
	}
	return out
}

func (r *reading) caller() api.Caller {
	return api.Caller{Name: "reader", Tenant: r.claims.Tenant, Grant: &r.claims}
}

// Specs implements reader.Tools.
func (r *reading) Specs() []chat.ToolSpec { return Specs(r.s.readers) }

// Left implements reader.Tools. What does not hold the smallest answer is
// nothing.
func (r *reading) Left(ctx context.Context) int {
	left, err := r.s.d.Grants.Left(ctx, r.claims)
	if err != nil || left < minAnswerTokens {
		return 0
	}
	return left
}

// Call implements reader.Tools. An answer takes half of what is left, unless
// the reader asks for another size, and never more than there is.
func (r *reading) Call(ctx context.Context, name, arguments string) (string, error) {
	i := slices.IndexFunc(r.s.readers, func(t AgentTool) bool { return t.AgentName == name })
	if i < 0 {
		return "", problem.New(problem.NotFound, "there is no tool %q", name).WithHint("")
	}
	t, left := r.s.readers[i], r.Left(ctx)
	if left == 0 {
		return "", problem.New(problem.Limited, "as much was read as may be").WithHint("answer from what was read")
	}
	args := map[string]any{}
	if err := json.Unmarshal([]byte(arguments), &args); err != nil && strings.TrimSpace(arguments) != "" {
		return "", problem.New(problem.Invalid, "%s: %w", name, inWords(err))
	}
	if n, ok := args["max_tokens"].(float64); !ok || n <= 0 {
		args["max_tokens"] = max(minAnswerTokens, left/2)
	} else {
		args["max_tokens"] = min(int(n), left)
	}
	r.here(t, args)
	raw, err := json.Marshal(args)
	if err != nil {
		return "", err
	}
	out, err := t.Run(api.WithCaller(api.WithRequestID(ctx, ""), r.caller()), raw, r.s.c.ReadDeadline) // each call is paid
	if err != nil {
		return "", err
	}
	r.read += tokens.Count(string(out))
	return string(out), nil
}

// here completes an id that names no session by the only one there is.
func (r *reading) here(t AgentTool, args map[string]any) {
	only := sessionsOf(r.claims)
	id, _ := args["id"].(string)
	if t.Name == "grep" || len(only) != 1 || args["session"] != nil || NamesSession(id) || id == only[0] {
		return
	}
	args["session"] = only[0]
}

func (r *reading) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, _ = r.s.d.Grants.Revoke(ctx, r.claims.Tenant, r.claims.ID, nil) // else it runs out
}
