package mapper

import (
	"context"
	"encoding/json"
	"strings"

	"golang.org/x/sync/errgroup"

	"lcm/chat"
	"lcm/mapjob"
)

// batchMap asks the model once for several rows, and again for those whose
// answer was wrong, with everything that was wrong with each. What ends such a
// call as a whole may be one row's fault: then each row is asked for by itself.
type batchMap struct {
	*llmMap
	system string
}

func (m *batchMap) work(ctx context.Context, t *task, items []*item) error {
	prompts := map[uint64]string{}
	var open []*item
	for _, it := range items {
		prompt, bad := m.template.Fill(it.row)
		if it.r.Error, it.done = bad, bad != nil; bad == nil {
			prompts[it.r.Row] = prompt
			open = append(open, it)
		}
	}
	q := chat.Request{Tenant: t.queue.Ref.Tenant, Model: m.d.Model, System: m.system}
	var tail []chat.Message // what was answered, and what is wrong with it
	for alone := len(open) < 2; !alone && len(open) > 0; {
		rows := numbers(open)
		var lines strings.Builder
		for _, n := range rows {
			lines.WriteString(mapjob.BatchLine(n, prompts[n]))
		}
		q.MaxTokens = m.d.Limits.MaxOutputTokens * len(open)
		q.Messages = append([]chat.Message{{Role: chat.User, Text: lines.String()}}, tail...)
		a, bad, err := m.ask(ctx, t, q, &open[0].r.Usage)
		if err != nil {
			return err
		}
		if alone = bad != nil; alone {
			continue
		}
		values, said, wrong := mapjob.Answers(m.schema, a.Text, rows)
		open = m.take(open, values, wrong)
		q.Continues = true
		tail = nil
		if rest := numbers(open); len(rest) > 0 && a.Text != "" {
			tail = []chat.Message{{Role: chat.Assistant, Text: wrongPart(rest, said, a.Text)}, {Role: chat.User, Text: mapjob.RepairBatch(rest, wrong)}}
		}
	}
	var g errgroup.Group
	for _, it := range open {
		g.Go(func() error { return m.llmMap.work(ctx, t, []*item{it}) })
	}
	return g.Wait()
}

// take gives items what was answered, and returns those to be asked for again.
func (m *batchMap) take(open []*item, values map[uint64]json.RawMessage, wrong map[uint64]*mapjob.RowError) (again []*item) {
	for _, it := range open {
		it.r.Attempts++
		it.r.Value, it.r.Error = values[it.r.Row], wrong[it.r.Row]
		if it.done = it.r.Error == nil || it.r.Attempts >= m.d.Limits.Attempts; !it.done {
			again = append(again, it)
		}
	}
	return again
}

func numbers(items []*item) []uint64 {
	out := make([]uint64, len(items))
	for i, it := range items {
		out[i] = it.r.Row
	}
	return out
}

// wrongPart of an answer: the values of some rows, or all of it where they
// cannot be told apart.
func wrongPart(rows []uint64, said map[uint64]json.RawMessage, text string) string {
	if said == nil {
		return text
	}
	part := map[string]json.RawMessage{}
	for _, n := range rows {
		if v := said[n]; v != nil {
			part[mapjob.Key(n)] = v
		}
	}
	b, _ := json.Marshal(part) // JSON that was read
	return string(b)
}
