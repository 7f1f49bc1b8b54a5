package toolsvc

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"time"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// MapJobs begins and ends map jobs, in process or over NATS. What it answers
// is durable.
type MapJobs interface {
	MapRun(context.Context, api.MapRunIn) (*api.MapOut, error)
	MapAgent(context.Context, api.MapAgentRequest) (*api.MapOut, error)
	MapRetry(context.Context, api.MapRetryIn) (*api.MapOut, error)
	MapCancel(context.Context, api.MapIn) (*api.MapOut, error)
}

// MapReads tells about map jobs.
type MapReads interface {
	MapStatus(context.Context, api.MapIn) (*api.MapOut, error)
	MapList(context.Context, api.MapListIn) (*api.MapListOut, error)
	MapOutput(context.Context, api.MapOutputIn) (*api.MapOutputOut, error)
	MapAggregate(context.Context, api.MapAggregateIn) (*api.MapAggregateOut, error)
}

// Maps is both.
type Maps interface {
	MapJobs
	MapReads
}

// watchEvery is how often a watched job is looked at.
const watchEvery = 500 * time.Millisecond

func (s *Service) mapTools() []Tool {
	m := s.maps
	return []Tool{
		mapTool("llm_map", "One prompt over every row of a JSONL input that stays outside the context: one model call per row, each result checked against a JSON Schema and asked for again with the errors. Answers a job's handle at once; map-status and map-aggregate tell the rest.", m,
			func(in *api.MapRunIn) (*api.Scope, *string) { return &in.Scope, nil }, Maps.MapRun).long().needing("prompt", "output_schema").by(api.ScopeAppend),
		mapTool("agentic_map", "One sub-agent per row of a JSONL input, with read tools over the sessions or nodes that are named, under a grant and limits of its own; its answer is checked against a JSON Schema. Answers a job's handle at once.", m,
			func(in *api.MapAgentIn) (*api.Scope, *string) { return &in.Scope, nil },
			func(m Maps, ctx context.Context, in api.MapAgentIn) (*api.MapOut, error) {
				return m.MapAgent(ctx, api.MapAgentRequest{MapAgentIn: in, Parent: granted(ctx)})
			}).long().needing("prompt", "output_schema").by(api.ScopeExpand).grantable(),
		mapTool("map-status", "State of a map job: counts, failures by kind, first rows, tokens, cost.", m, ofJob, Maps.MapStatus).reading().needing("job").by(api.ScopeRead).grantable(),
		s.watchTool(),
		mapTool("map-list", "Map jobs, newest first.", m,
			func(in *api.MapListIn) (*api.Scope, *string) { return &in.Scope, nil }, Maps.MapList).reading().by(api.ScopeRead),
		mapTool("map-output", "A page of a map job's results, in the order of the input, also while it runs.", m,
			func(in *api.MapOutputIn) (*api.Scope, *string) { return &in.Scope, &in.Job }, Maps.MapOutput).reading().needing("job").by(api.ScopeRead).grantable(),
		mapTool("map-aggregate", "Count and measure a map job's results by code: by group, with conditions; exact.", m,
			func(in *api.MapAggregateIn) (*api.Scope, *string) { return &in.Scope, &in.Job }, Maps.MapAggregate).reading().long().needing("job").by(api.ScopeRead).grantable(),
		mapTool("map-retry", "Begin another round over the rows of a map job that failed or were never begun.", m,
			func(in *api.MapRetryIn) (*api.Scope, *string) { return &in.Scope, &in.Job }, Maps.MapRetry).needing("job").by(api.ScopeAppend),
		mapTool("map-cancel", "Stop a map job; what it has is kept.", m, ofJob, Maps.MapCancel).needing("job").by(api.ScopeAppend).grantable(),
		{
			Name: "map-upload", Doc: "Keep the rows of a map job: JSON lines, posted; answers the input_object to name.", Long: true, Scope: api.ScopeAppend,
			Body: "JSON lines, of any number",
			in:   reflect.TypeFor[api.StatusIn](), out: reflect.TypeFor[api.MapUploadOut](), raw: s.rawMapUpload,
		},
	}
}

// ofJob finds scope and job among the parameters of a tool about one.
func ofJob(in *api.MapIn) (*api.Scope, *string) { return &in.Scope, &in.Job }

// maps is whoever keeps map jobs, for a call about a job; nil = about none.
func (s *Service) maps(ctx context.Context, in *api.Scope, job *string) (Maps, error) {
	if job != nil && *job == "" {
		return nil, problem.New(problem.Invalid, "no job is named").WithHint("`lcm map list` lists them")
	}
	if err := s.setTenant(ctx, in); err != nil {
		return nil, err
	}
	if s.d.Maps == nil {
		return nil, problem.New(problem.Unavailable, "map jobs are not served here")
	}
	if g := granted(ctx); g != nil && job != nil { // it sees what was begun under it
		out, err := s.d.Maps.MapStatus(ctx, api.MapIn{Scope: *in, Job: *job})
		if err != nil || out.Grant != g.ID {
			return nil, outside("map job " + *job)
		}
	}
	return s.d.Maps, nil
}

// mapTool is a tool that passes its call on to whoever keeps map jobs.
func mapTool[In, Out any](name, doc string, maps func(context.Context, *api.Scope, *string) (Maps, error), about func(*In) (*api.Scope, *string), f func(Maps, context.Context, In) (*Out, error)) Tool {
	return tool(name, doc, false, false, func(ctx context.Context, in In) (*Out, error) {
		scope, job := about(&in)
		m, err := maps(ctx, scope, job)
		if err != nil {
			return nil, err
		}
		return f(m, ctx, in)
	})
}

// reading marks a tool that changes nothing.
func (t Tool) reading() Tool { t.Reads = true; return t }

// long lets it take as long as its caller waits.
func (t Tool) long() Tool { t.Long = true; return t }

// watchTool follows a job: as a stream of server-sent events, or, where it is
// called, by answering at the job's end.
func (s *Service) watchTool() Tool {
	t := tool("map-watch", "Server-sent events of a map job: progress with its state whenever that has changed, and end with the last one. A stream that broke is begun again with the state as it is then.", true, true,
		func(ctx context.Context, in api.MapIn) (*api.MapOut, error) {
			return s.watchMap(ctx, in, func(string, *api.MapOut) error { return nil }, func() error { return nil })
		}).needing("job").by(api.ScopeRead).grantable()
	t.raw = func(ctx context.Context, raw json.RawMessage, _ io.Reader, w *answer) error {
		var in api.MapIn
		if err := decodeStrict(raw, &in); err != nil {
			return problem.New(problem.Invalid, "map-watch: %w", err)
		}
		var events *eventWriter
		_, err := s.watchMap(ctx, in, func(name string, o *api.MapOut) error {
			if err := s.charge(ctx, t, raw, o); err != nil {
				return err
			}
			if events == nil {
				events = w.events()
				if err := events.retry(); err != nil {
					return err
				}
			}
			return events.event(name, "", o)
		}, func() error { return events.beat() })
		if events != nil {
			return nil // the answer has begun: who comes back is told
		}
		return err
	}
	return t
}

// watchMap tells a job's state whenever it has changed, until it has ended,
// and that it is alive while nothing changes.
func (s *Service) watchMap(ctx context.Context, in api.MapIn, tell func(name string, o *api.MapOut) error, beat func() error) (*api.MapOut, error) {
	m, err := s.maps(ctx, &in.Scope, &in.Job)
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	var told api.MapOut
	for at := time.Now(); ; {
		out, err := m.MapStatus(ctx, in)
		if err != nil {
			return nil, err
		}
		if out.State != "running" {
			return out, tell("end", out)
		}
		switch {
		case !out.Updated.Equal(told.Updated) || told.Job == "":
			told, at = *out, time.Now()
			err = tell("progress", out)
		case time.Since(at) >= eventBeat:
			at = time.Now()
			err = beat()
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Service) rawMapUpload(ctx context.Context, raw json.RawMessage, body io.Reader, w *answer) error {
	if s.d.MapUpload == nil {
		return problem.New(problem.Unavailable, "map jobs are not served here")
	}
	var in api.StatusIn
	if err := decodeStrict(raw, &in); err != nil {
		return problem.New(problem.Invalid, "map-upload: %w", err)
	}
	if err := s.setTenant(ctx, &in.Scope); err != nil {
		return err
	}
	out, err := s.d.MapUpload(ctx, in.Tenant, body)
	if err != nil {
		return err
	}
	return w.value(out)
}
