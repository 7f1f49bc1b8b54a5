package mapper

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
)

// MapRun defines an llm_map and answers with its handle; the work goes on by
// itself.
func (s *Service) MapRun(ctx context.Context, in api.MapRunIn) (*api.MapOut, error) {
	return s.define(ctx, in, definition(mapjob.LLMMap, in))
}

// MapAgent defines an agentic_map.
func (s *Service) MapAgent(ctx context.Context, q api.MapAgentRequest) (*api.MapOut, error) {
	d := definition(mapjob.AgenticMap, q.MapRunIn)
	d.Limits.MaxTurns, d.Limits.RowTokens = q.MaxTurns, q.RowTokens
	if s.d.Grants == nil {
		return nil, noGrants()
	}
	var err error
	if d.Scope, err = agentScope(q, s.d.Now()); err != nil {
		return nil, err
	}
	return s.define(ctx, q.MapRunIn, d)
}

func definition(op mapjob.Op, in api.MapRunIn) mapjob.Definition {
	return mapjob.Definition{
		Op: op, Prompt: in.Prompt, Schema: in.OutputSchema, Model: in.Model, Output: in.OutputPath, Dedupe: op == mapjob.LLMMap && !in.NoDedupe,
		Limits: mapjob.Limits{
			Concurrency: in.Concurrency, Batch: in.Batch, Attempts: in.Attempts, TimeoutSeconds: in.TimeoutSeconds, MaxOutputTokens: in.MaxOutputTokens,
			RowsPerSecond: in.RowsPerSecond, MaxTokens: int64(in.MaxTokens), MaxCost: in.MaxCost,
		},
	}
}

// define checks a definition, keeps its input and stores it.
func (s *Service) define(ctx context.Context, in api.MapRunIn, d mapjob.Definition) (*api.MapOut, error) {
	d = d.WithDefaults()
	if !s.c.Configured {
		return nil, problem.New(problem.Unavailable, "no model is configured for maps").WithHint("set map.kind, map.model and map.base_url; see `lcm map run --help`")
	}
	if err := d.Validate(); err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	if d.Limits.MaxCost > 0 && s.c.Prices == (Prices{}) {
		return nil, problem.New(problem.Invalid, "max_cost needs prices").WithHint("set map.input_price and map.output_price, of a million tokens")
	}
	inputs := 0
	for _, one := range []string{in.InputPath, in.InputObject, in.InputRows} {
		if one != "" {
			inputs++
		}
	}
	if inputs != 1 {
		return nil, problem.New(problem.Invalid, "name one input: input_path, input_object or input_rows")
	}
	if d.Output != "" {
		if err := s.checkOutput(d.Output); err != nil {
			return nil, err
		}
	}
	ref := mapjob.Ref{Tenant: in.Tenant, Job: s.d.NewID()}
	var err error
	if d.Input, err = s.input(ctx, ref, in); err != nil {
		return nil, err
	}
	if err := s.publish(ctx, ref, mapjob.JobDefined{Definition: d}); err != nil {
		return nil, err
	}
	return s.stored(ctx, ref)
}

// input keeps what the job will read: a file is copied, so that what happens
// to it later changes nothing; an object is read once to count its rows.
func (s *Service) input(ctx context.Context, ref mapjob.Ref, in api.MapRunIn) (mapjob.Input, error) {
	kept := objectOf(ref.Tenant, jobPrefix+ref.Job)
	if in.InputRows != "" {
		out, err := storeInput(ctx, s.d.Objects, kept, strings.NewReader(in.InputRows))
		out.Name = cmp.Or(in.Name, "input_rows")
		return out, err
	}
	if in.InputPath == "" {
		name := objectOf(in.Tenant, in.InputObject)
		r, err := s.d.Objects.Object(ctx, name)
		if err != nil {
			return mapjob.Input{}, err
		}
		out, err := measure(r)
		out.Object, out.Name = name, cmp.Or(in.Name, in.InputObject)
		return out, err
	}
	f, err := s.openInput(in.InputPath)
	if err != nil {
		return mapjob.Input{}, err
	}
	defer f.Close()
	out, err := storeInput(ctx, s.d.Objects, kept, f)
	out.Name = in.InputPath
	return out, err
}

// objectOf is the name of a tenant's object in the bucket of all.
func objectOf(tenant, name string) string { return events.EncodeToken(tenant) + "/" + name }

// storeInput keeps an input as an object and counts its rows on the way.
func storeInput(ctx context.Context, o Objects, name string, r io.Reader) (mapjob.Input, error) {
	pr, pw := io.Pipe()
	type counted struct {
		in  mapjob.Input
		err error
	}
	result := make(chan counted, 1)
	go func() {
		in, err := measure(pr)
		pr.CloseWithError(err) // the writer does not wait for who has gone
		result <- counted{in, err}
	}()
	err := o.PutObject(ctx, name, io.TeeReader(r, pw))
	pw.CloseWithError(err)
	c := <-result
	c.in.Object = name
	if err != nil {
		return c.in, err
	}
	return c.in, c.err
}

// measure reads an input to its end.
func measure(r io.Reader) (mapjob.Input, error) {
	sum := sha256.New()
	var in mapjob.Input
	counter := &counting{w: sum}
	lines := mapjob.NewLines(io.TeeReader(r, counter))
	for {
		_, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return in, err
		}
		in.Rows++
	}
	in.Bytes, in.SHA256 = counter.n, hex.EncodeToString(sum.Sum(nil))
	return in, nil
}

type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

// uploadPrefix and jobPrefix begin the names of objects that this package
// makes: those it may delete.
const (
	uploadPrefix = "upload-"
	jobPrefix    = "job-"
)

// Upload keeps an input that a caller sends, under a new name. It needs no
// Service: whoever takes the bytes stores them.
func Upload(ctx context.Context, o Objects, tenant, id string, r io.Reader) (*api.MapUploadOut, error) {
	name := uploadPrefix + id
	in, err := storeInput(ctx, o, objectOf(tenant, name), r)
	if err != nil {
		return nil, err
	}
	return &api.MapUploadOut{Object: name, Rows: in.Rows, Bytes: in.Bytes}, nil
}

// MapCancel ends a job with what it has; calls on their way are kept.
func (s *Service) MapCancel(ctx context.Context, in api.MapIn) (*api.MapOut, error) {
	ref := mapjob.Ref{Tenant: in.Tenant, Job: in.Job}
	j, err := s.jobNow(ctx, ref)
	if err != nil {
		return nil, err
	}
	if j.State == mapjob.Running {
		if err := s.publish(ctx, ref, mapjob.JobCancelled{}); err != nil {
			return nil, err
		}
	}
	return s.stored(ctx, ref)
}

// MapRetry begins another round over what has no result.
func (s *Service) MapRetry(ctx context.Context, in api.MapRetryIn) (*api.MapOut, error) {
	ref := mapjob.Ref{Tenant: in.Tenant, Job: in.Job}
	j, err := s.jobNow(ctx, ref)
	if err != nil {
		return nil, err
	}
	if j.State == mapjob.Running {
		return nil, problem.New(problem.Conflict, "map job %s runs", in.Job).WithHint("wait for it, or `lcm map cancel %s`", in.Job)
	}
	if j.Failed == 0 && j.Pending() == 0 && j.OutErr == "" {
		return s.status(ctx, j)
	}
	d := j.Definition
	if _, err := s.d.Objects.Object(ctx, d.Input.Object); j.Failed+j.Pending() > 0 && problem.IsCode(err, problem.NotFound) {
		return nil, problem.New(problem.NotFound, "the input of map job %s is gone: it was kept for a while behind its end", in.Job).
			WithHint("run a new job; map.keep_input_hours says how long inputs are kept")
	}
	l := &d.Limits
	l.Concurrency = cmp.Or(in.Concurrency, l.Concurrency)
	l.Batch = cmp.Or(in.Batch, l.Batch)
	l.Attempts = cmp.Or(in.Attempts, l.Attempts)
	l.TimeoutSeconds = cmp.Or(in.TimeoutSeconds, l.TimeoutSeconds)
	l.MaxOutputTokens = cmp.Or(in.MaxOutputTokens, l.MaxOutputTokens)
	l.RowsPerSecond = cmp.Or(in.RowsPerSecond, l.RowsPerSecond)
	l.MaxTokens = cmp.Or(int64(in.MaxTokens), l.MaxTokens)
	l.MaxCost = cmp.Or(in.MaxCost, l.MaxCost)
	if err := d.Validate(); err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	if err := s.publish(ctx, ref, mapjob.RowsRetried{Limits: d.Limits}); err != nil {
		return nil, err
	}
	return s.stored(ctx, ref)
}
