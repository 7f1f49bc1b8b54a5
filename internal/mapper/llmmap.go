package mapper

import (
	"context"
	"errors"

	"lcm/chat"
	"lcm/internal/subagent"
	"lcm/mapjob"
)

// llmMap asks the model once per row, and again with everything that was wrong.
type llmMap struct {
	d        mapjob.Definition
	schema   *mapjob.Schema
	template *mapjob.Template
	system   string
	model    Model
	prices   Prices
}

func newRowWorker(d mapjob.Definition, deps WorkerDeps) (rowWorker, error) {
	schema, err := mapjob.CompileSchema(d.Schema)
	if err != nil {
		return nil, err
	}
	m := &llmMap{
		d: d, schema: schema, template: mapjob.ParseTemplate(d.Prompt), system: mapjob.System(schema),
		model: deps.Model, prices: deps.Prices,
	}
	switch {
	case d.Op == mapjob.LLMMap && d.Limits.RowsPerCall() > 1:
		return &batchMap{m, mapjob.BatchSystem(schema)}, nil
	case d.Op == mapjob.LLMMap:
		return m, nil
	case d.Op == mapjob.AgenticMap && deps.Agents != nil:
		m.system = mapjob.AgentSystem(schema)
		return &agenticMap{m, deps.Agents, make(chan struct{}, d.Limits.Concurrency)}, nil
	}
	return nil, errNotHere
}

func (m *llmMap) work(ctx context.Context, t *task, items []*item) error {
	return each(items, func(row *mapjob.Object, r *mapjob.Result) error { return m.one(ctx, t, row, r) })
}

func (m *llmMap) one(ctx context.Context, t *task, row *mapjob.Object, r *mapjob.Result) error {
	prompt, bad := m.template.Fill(row)
	if bad != nil {
		r.Error = bad
		return nil
	}
	q := chat.Request{
		Tenant: t.queue.Ref.Tenant, Model: m.d.Model, System: m.system, MaxTokens: m.d.Limits.MaxOutputTokens,
		Messages: []chat.Message{{Role: chat.User, Text: prompt}},
	}
	for r.Attempts++; ; r.Attempts++ {
		a, bad, err := m.ask(ctx, t, q, &r.Usage)
		if err != nil {
			return err
		}
		if bad == nil {
			r.Value, bad = mapjob.Answer(m.schema, a.Text)
		}
		if r.Error = bad; bad == nil || final(bad.Kind) || r.Attempts >= m.d.Limits.Attempts {
			return nil
		}
		q.Continues = true
		if a.Text != "" { // else the same question again
			q.Messages = append(q.Messages[:1], a.Message(), chat.Message{Role: chat.User, Text: mapjob.Repair(bad)})
		}
	}
}

// final kinds are not tried again.
func final(k mapjob.Kind) bool {
	return k == mapjob.TooLarge || k == mapjob.Refused || k == mapjob.Limit
}

// ask makes one attempt. What is wrong with this row's answer, or with this
// row for the provider, comes as the second value; an error ends the work
// without a result.
func (m *llmMap) ask(ctx context.Context, t *task, q chat.Request, spent *mapjob.Usage) (a chat.Response, bad *mapjob.RowError, err error) {
	err = t.call(ctx, func(ctx context.Context, healthy func() bool) error {
		limited, cancel := context.WithTimeout(ctx, m.d.Limits.Timeout())
		defer cancel()
		a, err = m.model.Chat(limited, q)
		bad = nil
		if err == nil {
			*spent = spent.Add(m.usage(q, a))
			if len(q.Tools) == 0 || a.Stop != chat.StopTools {
				bad = stopped(a.Stop, q.MaxTokens)
			}
			return nil
		}
		bad, err = blame(ctx, limited, err, healthy, m.d.Limits.TimeoutSeconds)
		if bad != nil {
			spent.Calls++
		}
		if bad != nil && bad.Kind == mapjob.Late {
			return errNoVerdict
		}
		return err
	})
	return a, bad, err
}

// stopped reads a stop reason: an answer that did not end by itself is none.
func stopped(s chat.Stop, limit int) *mapjob.RowError {
	switch s {
	case chat.StopEnd:
		return nil
	case chat.StopLength:
		return mapjob.Failed(mapjob.CutOff, "It was cut off at %d tokens: be shorter.", limit)
	}
	return mapjob.Failed(mapjob.Refused, "The model ended its answer with the reason %q.", s)
}

// blame says whose fault a failed call is: the row's, or the provider's as a
// whole, which is an error. While other calls succeed it is the row's.
func blame(ctx, limited context.Context, err error, healthy func() bool, seconds int) (*mapjob.RowError, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case limited.Err() != nil:
		return mapjob.Failed(mapjob.Late, "no answer within %d seconds", seconds), nil
	case errors.Is(err, chat.ErrTooLong):
		return mapjob.Failed(mapjob.TooLarge, "the prompt does not fit the model: %v", err), nil
	case errors.Is(err, chat.ErrRejected):
		return mapjob.Failed(mapjob.Refused, "%v", err), nil
	case errors.Is(err, chat.ErrRefused), errors.Is(err, chat.ErrSpent): // nobody gets through
		return nil, err
	case healthy():
		return mapjob.Failed(mapjob.Provider, "%v", err), nil
	}
	return nil, err
}

// usage of an answer, and what it costs.
func (m *llmMap) usage(q chat.Request, a chat.Response) mapjob.Usage {
	u := subagent.Usage(q, a)
	return mapjob.Usage{Calls: 1, InputTokens: int64(u.Input), OutputTokens: int64(u.Output), Micros: m.prices.Micros(u.Input, u.Output)}
}
