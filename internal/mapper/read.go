package mapper

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"lcm/grant"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/mapjob"
)

const (
	firstRows  = 3   // lines of a summary
	firstBytes = 300 // of each of them
	listJobs   = 50
	pageRows   = 100
	// readRows are read in one transaction: the store keeps no page for long.
	readRows   = 1000
	groupsPage = 100
)

// MapStatus is the summary of a job.
func (s *Service) MapStatus(ctx context.Context, in api.MapIn) (*api.MapOut, error) {
	j, err := s.jobNow(ctx, mapjob.Ref{Tenant: in.Tenant, Job: in.Job})
	if err != nil {
		return nil, err
	}
	return s.status(ctx, j)
}

// stored is the summary of a job behind an event of our own, which publish has
// waited for.
func (s *Service) stored(ctx context.Context, ref mapjob.Ref) (*api.MapOut, error) {
	j, err := s.job(ref)
	if err != nil {
		return nil, err
	}
	return s.status(ctx, j)
}

func (s *Service) status(ctx context.Context, j *mapjob.Job) (*api.MapOut, error) {
	out := s.summary(j)
	rows, _, err := s.rows(ctx, j, 0, firstRows, nil)
	for _, r := range rows {
		if b, err := json.Marshal(r); err == nil {
			if len(b) > firstBytes {
				b = append(b[:firstBytes], "…"...)
			}
			out.First = append(out.First, strings.ToValidUTF8(string(b), ""))
		}
	}
	return &out, err
}

func (s *Service) summary(j *mapjob.Job) api.MapOut {
	out := api.MapOut{
		Job: j.Ref.Job, Op: string(j.Definition.Op), State: string(j.State), Paused: j.Paused, Input: j.Definition.Input.Name,
		Rows: j.Definition.Input.Rows, OK: j.OK, Failed: j.Failed, Pending: j.Pending(), Kinds: j.Kinds, Round: j.Round,
		First: []string{}, Calls: j.Usage.Calls, InputTokens: j.Usage.InputTokens, OutputTokens: j.Usage.OutputTokens,
		Cost: float64(j.Usage.Micros) / 1e6, Output: j.Output, OutputError: j.OutErr, Started: j.Started, Updated: j.Updated,
	}
	if d := j.Definition.Scope; d != nil && len(d.Parent) > 0 {
		var parent grant.Claims
		if json.Unmarshal(d.Parent, &parent) == nil {
			out.Grant = parent.ID
		}
	}
	if out.Kinds == nil {
		out.Kinds = map[mapjob.Kind]uint64{}
	}
	s.mu.Lock()
	r := s.runners[j.Ref]
	s.mu.Unlock()
	if r != nil && j.State == mapjob.Running {
		if out.RowsPerSecond = r.rate(); out.RowsPerSecond > 0 {
			out.SecondsLeft = float64(out.Pending) / out.RowsPerSecond
		}
	}
	return out
}

// MapList lists the jobs of a tenant, newest first.
func (s *Service) MapList(ctx context.Context, in api.MapListIn) (*api.MapListOut, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	if in.Limit <= 0 || in.Limit > listJobs {
		in.Limit = listJobs
	}
	var jobs []*mapjob.Job
	err := s.d.Store.View(func(tx api.JobTx) error {
		return tx.Jobs(func(j *mapjob.Job) (bool, error) {
			if j.Ref.Tenant == in.Tenant {
				jobs = append(jobs, j)
			}
			return len(jobs) < in.Limit, nil
		})
	})
	out := &api.MapListOut{Jobs: []api.MapOut{}}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, s.summary(j))
	}
	return out, err
}

// rows reads results after a row, at most limit that keep allows; next is
// where to go on, 0 = nowhere.
func (s *Service) rows(ctx context.Context, j *mapjob.Job, after uint64, limit int, keep func(*mapjob.Row) bool) (out []api.MapRow, next uint64, err error) {
	var stored []*mapjob.Row
	err = s.d.Store.View(func(tx api.JobTx) error {
		looked := 0
		return tx.RowsFrom(j.Ref, after+1, func(r *mapjob.Row) (bool, error) {
			next = r.Row
			if r.Finished(j.Round) && (keep == nil || keep(r)) {
				stored = append(stored, r)
			}
			looked++
			return len(stored) < limit && looked < 100*readRows, nil
		})
	})
	if err != nil {
		return nil, 0, err
	}
	if err := s.fetch(ctx, j.Ref, stored...); err != nil {
		return nil, 0, err
	}
	for _, r := range stored {
		out = append(out, api.MapRow{Row: r.Row, OK: r.OK(), Result: r.Value, Error: r.Error, Attempts: r.Attempts})
	}
	if next == after || next >= j.Definition.Input.Rows {
		next = 0
	}
	return out, next, nil
}

// fetch gives rows the values that are in the log alone. An event holds the
// results of many rows: each is read once.
func (s *Service) fetch(ctx context.Context, ref mapjob.Ref, rows ...*mapjob.Row) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *mapjob.Row) bool { return !r.InLog })
	slices.SortFunc(rows, func(a, b *mapjob.Row) int { return cmp.Compare(a.Seq, b.Seq) })
	var e mapjob.RowsFinished
	var at uint64
	for _, r := range rows {
		if r.Seq != at {
			rec, err := s.d.Events.Event(ctx, r.Seq)
			if err != nil {
				return err
			}
			payload, err := mapjob.Decode(rec)
			if err != nil {
				return problem.New(problem.Damaged, "row %d of job %s: %w", r.Row, ref.Job, err)
			}
			e, _ = payload.(mapjob.RowsFinished) // another type has no values
			at = r.Seq
		}
		var err error
		if r.Value, err = r.ValueIn(e); err != nil {
			return problem.New(problem.Damaged, "row %d of job %s: %w", r.Row, ref.Job, err)
		}
	}
	return nil
}

// MapOutput is a page of a job's output.
func (s *Service) MapOutput(ctx context.Context, in api.MapOutputIn) (*api.MapOutputOut, error) {
	j, err := s.jobNow(ctx, mapjob.Ref{Tenant: in.Tenant, Job: in.Job})
	if err != nil {
		return nil, err
	}
	if in.After < 0 {
		return nil, problem.New(problem.Invalid, "after is %d: a row's number", in.After)
	}
	if in.Limit <= 0 || in.Limit > readRows {
		in.Limit = pageRows
	}
	var keep func(*mapjob.Row) bool
	if in.Failed {
		keep = func(r *mapjob.Row) bool { return !r.OK() }
	}
	rows, next, err := s.rows(ctx, j, uint64(in.After), in.Limit, keep)
	out := &api.MapOutputOut{Rows: rows, Next: next, Whole: j.Pending() == 0}
	if out.Rows == nil {
		out.Rows = []api.MapRow{}
	}
	return out, err
}

// WriteRows writes the output of a job whose every row has a result: a line
// per row, in the order of the input. It checks that there are as many.
func (s *Service) WriteRows(ctx context.Context, ref mapjob.Ref, w io.Writer) error {
	j, err := s.job(ref)
	if err != nil {
		return err
	}
	if j.Pending() > 0 {
		return problem.New(problem.Conflict, "map job %s has %d rows without a result", ref.Job, j.Pending()).WithHint("wait for it, or retry it")
	}
	buf := bufio.NewWriterSize(w, 64<<10)
	lines := json.NewEncoder(buf)
	var written, after uint64
	for {
		rows, next, err := s.rows(ctx, j, after, readRows, nil)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if written++; r.Row != written {
				return problem.New(problem.Damaged, "map job %s: row %d comes where row %d should", ref.Job, r.Row, written)
			}
			if err := lines.Encode(r); err != nil {
				return err
			}
		}
		if after = next; next == 0 {
			break
		}
	}
	if written != j.Definition.Input.Rows {
		return problem.New(problem.Damaged, "map job %s: %d rows came out of %d", ref.Job, written, j.Definition.Input.Rows)
	}
	return buf.Flush()
}

// MapAggregate reduces the results of a job.
func (s *Service) MapAggregate(ctx context.Context, in api.MapAggregateIn) (*api.MapAggregateOut, error) {
	j, err := s.jobNow(ctx, mapjob.Ref{Tenant: in.Tenant, Job: in.Job})
	if err != nil {
		return nil, err
	}
	q, err := parseQuery(in)
	if err != nil {
		return nil, problem.New(problem.Invalid, "%w", err)
	}
	a := mapjob.NewAggregate(q)
	if err := s.addAll(ctx, j, q.NeedsRows(), a); err != nil {
		return nil, err
	}
	groups := a.Groups()
	if in.Limit <= 0 {
		in.Limit = groupsPage
	}
	out := &api.MapAggregateOut{
		By: in.By, Measures: in.Measures, Groups: groups[:min(in.Limit, len(groups))], More: max(0, len(groups)-in.Limit),
		Counted: a.Rows, Skipped: a.Skipped, Failed: j.Failed, Pending: j.Pending(),
	}
	if out.By == nil {
		out.By = []string{}
	}
	if out.Measures == nil {
		out.Measures = []string{}
	}
	return out, nil
}

func parseQuery(in api.MapAggregateIn) (q mapjob.Query, err error) {
	var errs []error
	for _, s := range in.By {
		f, err := mapjob.ParseField(s)
		q.By, errs = append(q.By, f), append(errs, err)
	}
	for _, s := range in.Measures {
		m, err := mapjob.ParseMeasure(s)
		q.Measures, errs = append(q.Measures, m), append(errs, err)
	}
	for _, s := range in.Where {
		c, err := mapjob.ParseCondition(s)
		q.Where, errs = append(q.Where, c), append(errs, err)
	}
	return q, errors.Join(errs...)
}

// addAll reads the results in order, beside the input where it is needed.
func (s *Service) addAll(ctx context.Context, j *mapjob.Job, withInput bool, a *mapjob.Aggregate) error {
	var lines *mapjob.Lines
	if withInput {
		src, err := s.d.Objects.Object(ctx, j.Definition.Input.Object)
		if err != nil {
			return err
		}
		lines = mapjob.NewLines(src)
	}
	ok := func(r *mapjob.Row) bool { return r.OK() }
	for after := uint64(0); ; {
		rows, next, err := s.rows(ctx, j, after, readRows, ok)
		if err != nil {
			return err
		}
		for _, r := range rows {
			var text []byte
			if lines != nil {
				if text, err = lineAt(lines, r.Row); err != nil {
					return err
				}
			}
			if err := a.Add(r.Result, text); err != nil {
				return problem.New(problem.Invalid, "row %d: %w", r.Row, err)
			}
		}
		if after = next; next == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func lineAt(lines *mapjob.Lines, n uint64) ([]byte, error) {
	for {
		line, err := lines.Next()
		if err != nil || line.N == n {
			return line.Text, err
		}
	}
}
