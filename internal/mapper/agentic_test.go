package mapper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"lcm/chat"
	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/mapper"
	"lcm/internal/problem"
	"lcm/mapjob"
	"lcm/tokens"
)

// wild is a model that calls tools at random, answers badly at random, and
// tells honestly what that took.
type wild struct {
	mu   sync.Mutex
	rng  *rand.Rand
	rows map[string]spending // first message → what it took
}

type spending struct{ turns, tokens int }

func (w *wild) Chat(_ context.Context, q chat.Request) (chat.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in := tokens.Count(q.System)
	for _, t := range q.Tools {
		in += tokens.Count(t.Description) + tokens.Count(string(t.Schema))
	}
	for _, m := range q.Messages {
		in += tokens.Count(m.Text)
		for _, c := range m.Calls {
			in += tokens.Count(c.Arguments) + tokens.Count(c.Name)
		}
	}
	a := chat.Response{Stop: chat.StopEnd, Usage: chat.Usage{Input: in, Output: 1 + w.rng.IntN(q.MaxTokens)}}
	switch w.rng.IntN(4) {
	case 0:
		a.Text = `{"label":"x"}`
	case 1:
		a.Text = "I do not know"
	default:
		a.Stop = chat.StopTools
		for i := range 1 + w.rng.IntN(3) {
			a.Calls = append(a.Calls, chat.Call{ID: fmt.Sprint(i), Name: "read", Arguments: `{"n":1}`})
		}
	}
	s := w.rows[q.Messages[0].Text]
	w.rows[q.Messages[0].Text] = spending{s.turns + 1, s.tokens + a.Usage.Input + a.Usage.Output}
	return a, nil
}

// library gives out tools that answer with so many words, and counts grants.
type library struct{ open, most, opened atomic.Int64 }

func (l *library) Open(context.Context, mapjob.Ref, mapjob.Scope) (mapper.AgentTools, error) {
	n := l.open.Add(1)
	l.opened.Add(1)
	for most := l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
	}
	return shelf{l}, nil
}

type shelf struct{ l *library }

func (s shelf) Specs() []chat.ToolSpec {
	return []chat.ToolSpec{{Name: "read", Description: "reads", Schema: json.RawMessage(`{"type":"object"}`)}}
}

func (s shelf) Call(_ context.Context, _, args string) (string, error) {
	return strings.Repeat("word ", 60), nil
}
func (s shelf) Pay(context.Context, int) error { return nil }
func (s shelf) Close(context.Context)          { s.l.open.Add(-1) }

// Whatever the sub-agents do, in parallel: no row takes more tokens or turns
// than one may, no job more than a job may, and every grant is given back.
func TestBudgetsHold(t *testing.T) {
	model := &wild{rng: rand.New(rand.NewPCG(1, 1)), rows: map[string]spending{}}
	lib := &library{}
	w := newWorld(t, model)
	w.agents = lib
	w.open()
	rapid.Check(t, func(rt *rapid.T) {
		rows := rapid.IntRange(1, 30).Draw(rt, "rows")
		l := mapjob.Limits{
			Concurrency: rapid.IntRange(1, 16).Draw(rt, "concurrency"), Attempts: rapid.IntRange(1, 4).Draw(rt, "attempts"),
			MaxTurns: rapid.IntRange(1, 8).Draw(rt, "turns"), RowTokens: rapid.IntRange(300, 4000).Draw(rt, "row tokens"),
			MaxOutputTokens: rapid.IntRange(1, 200).Draw(rt, "output tokens"), MaxTokens: int64(rapid.IntRange(0, 40_000).Draw(rt, "job tokens")),
		}
		model.mu.Lock()
		model.rows = map[string]spending{}
		model.mu.Unlock()
		up, err := mapper.Upload(context.Background(), w.jobs, "t", ulid.Make().String(), strings.NewReader(rowsOf(rows)))
		w.must(err)
		out, err := w.service.MapAgent(context.Background(), api.MapAgentRequest{MapAgentIn: api.MapAgentIn{
			MapRunIn: api.MapRunIn{
				Scope: tenant, InputObject: up.Object, Prompt: "Label {{text}}", OutputSchema: json.RawMessage(labelSchema),
				Concurrency: l.Concurrency, Attempts: l.Attempts, MaxOutputTokens: l.MaxOutputTokens, MaxTokens: int(l.MaxTokens),
			},
			Sessions: []string{"s"}, MaxTurns: l.MaxTurns, RowTokens: l.RowTokens,
		}})
		w.must(err)
		end := w.end(out.Job)
		spent := int(end.InputTokens + end.OutputTokens)
		if l.MaxTokens > 0 && spent > int(l.MaxTokens) {
			rt.Fatalf("%d tokens of %d", spent, l.MaxTokens)
		}
		sum := 0
		model.mu.Lock()
		defer model.mu.Unlock()
		for row, s := range model.rows {
			if sum += s.tokens; s.tokens > l.RowTokens || s.turns > l.MaxTurns {
				rt.Fatalf("%s took %+v with %+v", row, s, l)
			}
		}
		if sum != spent || int(end.OK+end.Failed) != rows || lib.open.Load() != 0 {
			rt.Fatalf("%d tokens told of %d, %d grants open: %+v", spent, sum, lib.open.Load(), end)
		}
	})
	if lib.opened.Load() < 50 || lib.most.Load() > 16 {
		t.Errorf("%d sub-agents, %d at once", lib.opened.Load(), lib.most.Load())
	}
}

// What is handed on lies within the caller's grant, and who hands on more than
// reading says what is kept.
func TestDelegationGuard(t *testing.T) {
	w := newWorld(t, &wild{rng: rand.New(rand.NewPCG(1, 1)), rows: map[string]spending{}})
	w.agents = &library{}
	w.open()
	parent, err := grant.New("g", "t", grant.Ask{Sessions: []string{"a"}, Nodes: []grant.Node{{Session: "b", N: 3}}, Tools: []string{"grep"}, Tokens: 1000, TTL: time.Hour, Depth: 1}, time.Now())
	w.must(err)
	leaf := parent
	leaf.Depth = 0
	for _, c := range []struct {
		name   string
		in     api.MapAgentIn
		parent *grant.Claims
		code   problem.Code
	}{
		{"root", api.MapAgentIn{Sessions: []string{"z"}}, nil, ""},
		{"an explorer", api.MapAgentIn{}, &parent, ""},
		{"a part", api.MapAgentIn{Nodes: []string{"b/n3"}}, &parent, ""},
		{"wider", api.MapAgentIn{Sessions: []string{"z"}}, &parent, problem.Forbidden},
		{"another node", api.MapAgentIn{Nodes: []string{"b/n4"}}, &parent, problem.Forbidden},
		{"no node", api.MapAgentIn{Nodes: []string{"b/4"}}, &parent, problem.Invalid},
		{"writes without a word", api.MapAgentIn{MayWrite: true}, &parent, problem.Forbidden},
		{"keeps nothing", api.MapAgentIn{MayWrite: true, DelegatedScope: "all of it", KeptWork: "All of it"}, &parent, problem.Forbidden},
		{"says what it keeps", api.MapAgentIn{MayWrite: true, DelegatedScope: "labelling", KeptWork: "the report"}, &parent, ""},
		{"too deep", api.MapAgentIn{}, &leaf, problem.Forbidden},
	} {
		c.in.MapRunIn = api.MapRunIn{Scope: tenant, InputRows: rowsOf(1), Prompt: "x {{text}}", OutputSchema: json.RawMessage(labelSchema)}
		out, err := w.service.MapAgent(t.Context(), api.MapAgentRequest{MapAgentIn: c.in, Parent: c.parent})
		if c.code == "" && err != nil || c.code != "" && !problem.IsCode(err, c.code) {
			t.Errorf("%s: %v, want %q", c.name, err, c.code)
		}
		if err == nil && c.parent != nil && out.Grant != "g" {
			t.Errorf("%s: begun under %q", c.name, out.Grant)
		}
	}
}

// family gives sub-agents a tool that reads, and has every word paid for by
// the grants of the service.
type family struct{ s *mapper.Service }

func (f *family) Open(ctx context.Context, ref mapjob.Ref, _ mapjob.Scope) (mapper.AgentTools, error) {
	g, err := f.s.AgentOpen(ctx, api.AgentOpenIn{Ref: ref})
	if err != nil {
		return nil, err
	}
	return &member{f.s, g}, nil
}

type member struct {
	s *mapper.Service
	g *api.AgentGrant
}

func (m *member) Specs() []chat.ToolSpec { return shelf{}.Specs() }

func (m *member) Call(ctx context.Context, name, args string) (string, error) {
	text, _ := shelf{}.Call(ctx, name, args)
	if err := m.Pay(ctx, tokens.Count(text)); err != nil {
		return "", err
	}
	return text, nil
}

func (m *member) Pay(ctx context.Context, n int) error {
	return m.s.AgentPay(ctx, api.AgentPayIn{Claims: m.g.Claims, Tokens: n})
}
func (m *member) Close(ctx context.Context) { _ = m.s.AgentClose(ctx, m.g.Claims) }

// However many maps are begun below one grant at once: what their sub-agents'
// models take, and what they read, stays within it, is charged to it, and
// nothing else is.
func TestMapsBelowAGrantPayIntoIt(t *testing.T) {
	model := &wild{rng: rand.New(rand.NewPCG(2, 2)), rows: map[string]spending{}}
	f := &family{}
	w := newWorld(t, model)
	w.agents = f
	w.open()
	f.s = w.service
	limited := 0
	rapid.Check(t, func(rt *rapid.T) {
		budget := rapid.IntRange(500, 30_000).Draw(rt, "budget")
		model.mu.Lock()
		model.rows = map[string]spending{}
		model.mu.Unlock()
		_, parent, err := w.grants.NewRoot(context.Background(), "t", grant.Ask{
			Sessions: []string{"s"}, Tools: []string{"read", "agentic_map"}, Tokens: budget, TTL: time.Hour, Depth: 2,
		})
		w.must(err)
		var jobs []string
		for i := range rapid.IntRange(1, 3).Draw(rt, "jobs") {
			out, err := w.service.MapAgent(context.Background(), api.MapAgentRequest{Parent: &parent, MapAgentIn: api.MapAgentIn{
				MapRunIn: api.MapRunIn{
					Scope: tenant, InputRows: rowsOf(rapid.IntRange(1, 12).Draw(rt, "rows")), Prompt: fmt.Sprintf("Label %d {{text}}", i), OutputSchema: json.RawMessage(labelSchema),
					Concurrency: rapid.IntRange(1, 8).Draw(rt, "concurrency"), MaxOutputTokens: 100,
				},
				Depth: rapid.IntRange(0, 1).Draw(rt, "depth"), RowTokens: rapid.IntRange(300, 8000).Draw(rt, "row tokens"),
			}})
			w.must(err)
			jobs = append(jobs, out.Job)
		}
		took := 0
		for _, job := range jobs {
			end := w.end(job)
			took += int(end.InputTokens + end.OutputTokens)
			limited += int(end.Kinds[mapjob.Limit])
		}
		left, err := w.grants.Left(context.Background(), parent)
		w.must(err)
		if spent := budget - left; left < 0 || took > spent {
			rt.Fatalf("%d tokens were taken, %d of %d are charged", took, spent, budget)
		}
	})
	if limited == 0 {
		t.Error("no budget was ever met")
	}
}

// Nobody hands on files, another session, or more generations than there are.
func TestWhatMapsBelowAGrantMayNot(t *testing.T) {
	w := newWorld(t, &wild{rng: rand.New(rand.NewPCG(1, 1)), rows: map[string]spending{}})
	w.roots = []string{t.TempDir()}
	w.agents = &library{}
	w.open()
	parent, err := grant.New("g", "t", grant.Ask{Sessions: []string{"a"}, Tools: []string{"read", "agentic_map"}, Tokens: 1000, TTL: time.Hour, Depth: 1}, time.Now())
	w.must(err)
	for name, c := range map[string]struct {
		in   api.MapAgentIn
		code problem.Code
	}{
		"rows":            {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1)}}, ""},
		"a file":          {api.MapAgentIn{MapRunIn: api.MapRunIn{InputPath: "in.jsonl"}}, problem.Forbidden},
		"an object":       {api.MapAgentIn{MapRunIn: api.MapRunIn{InputObject: "upload-1"}}, problem.Forbidden},
		"a file to write": {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1), OutputPath: "out.jsonl"}}, problem.Forbidden},
		"another session": {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1)}, Sessions: []string{"b"}}, problem.Forbidden},
		"as deep again":   {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1)}, Depth: 1}, problem.Forbidden},
		"no depth":        {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1)}, Depth: 9}, problem.Invalid},
		"two inputs":      {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1), InputObject: "upload-1"}}, problem.Forbidden},
		"a batch":         {api.MapAgentIn{MapRunIn: api.MapRunIn{InputRows: rowsOf(1), Batch: 2}}, problem.Invalid},
	} {
		c.in.Tenant, c.in.Prompt, c.in.OutputSchema = "t", "x {{text}}", json.RawMessage(labelSchema)
		_, err := w.service.MapAgent(t.Context(), api.MapAgentRequest{MapAgentIn: c.in, Parent: &parent})
		if c.code == "" && err != nil || c.code != "" && !problem.IsCode(err, c.code) {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}
