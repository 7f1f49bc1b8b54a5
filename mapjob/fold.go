package mapjob

import (
	"encoding/json"
	"fmt"
	"time"

	"lcm/events"
)

// State of a job.
type State string

// The states. A job that is done or cancelled may be retried: it runs again.
const (
	Running   State = "running"
	Cancelled State = "cancelled"
	Done      State = "done"
)

// Job is what a job's events have come to.
type Job struct {
	Ref        Ref        `json:"ref"`
	Definition Definition `json:"definition"`
	State      State      `json:"state"`
	Paused     string     `json:"paused,omitempty"` // why, "" = it is not
	// Round of retries, from 0. A row that failed in an earlier round is
	// pending: nothing is rewritten when a round begins.
	Round  int             `json:"round"`
	OK     uint64          `json:"ok"`
	Failed uint64          `json:"failed"`
	Kinds  map[Kind]uint64 `json:"kinds,omitempty"` // failures of this round
	// Repeats are results that came for a row that had one.
	Repeats uint64 `json:"repeats,omitempty"`
	Usage   Usage  `json:"usage"`
	Output  string `json:"output,omitempty"`       // written
	OutErr  string `json:"output_error,omitempty"` // why it is not

	Seq     uint64    `json:"seq"` // position of the definition
	Defined time.Time `json:"defined"`
	Started time.Time `json:"started"` // of this round
	Updated time.Time `json:"updated"`
}

// Pending rows have no result in this round.
func (j *Job) Pending() uint64 { return j.Definition.Input.Rows - j.OK - j.Failed }

// InlineBytes is the largest value that is kept beside its row; a larger one
// stays in its event.
const InlineBytes = 64 << 10

// Row is a result with the position of the event that brought it.
type Row struct {
	Result
	Seq uint64 `json:"seq"`
	// InLog: the value is in the event alone.
	InLog bool `json:"in_log,omitempty"`
}

// ValueIn finds the value of a row in the event that brought it.
func (r *Row) ValueIn(e RowsFinished) (json.RawMessage, error) {
	for _, one := range e.Results {
		if one.Row == r.Row && one.Value != nil {
			return one.Value, nil
		}
	}
	return nil, fmt.Errorf("event %d has no value of row %d", r.Seq, r.Row)
}

// Finished reports whether the row needs no work in a round.
func (r *Row) Finished(round int) bool { return r != nil && (r.OK() || r.Round >= round) }

// Rows is where the fold keeps its state. A job or row that is not there is
// nil. Calls see their own writes.
type Rows interface {
	Job(Ref) (*Job, error)
	PutJob(*Job) error
	Row(Ref, uint64) (*Row, error)
	PutRow(Ref, *Row) error
}

// Applied says what an event changed.
type Applied struct {
	Ref Ref
	// Rows that have got their result.
	Rows []uint64
	// Rejected: why the event, or a part of it, changed nothing.
	Rejected string
}

// Apply folds one event. What an event means follows from the state and the
// event alone, so that a replay gives the same rows. Its error is that of
// rows; an event that cannot hold is rejected, which is none.
func Apply(rows Rows, rec events.Record) (Applied, error) {
	ref, err := ParseSubject(rec.Subject)
	if err != nil {
		return Applied{Rejected: err.Error()}, nil
	}
	out := Applied{Ref: ref}
	payload, err := Decode(rec)
	if err != nil || payload == nil {
		out.Rejected = fmt.Sprintf("%s cannot be read: %v", rec.Header[events.HeaderType], err)
		return out, nil
	}
	job, err := rows.Job(ref)
	if err != nil {
		return out, err
	}
	f := fold{rows: rows, job: job, rec: rec, out: &out}
	if err := f.apply(ref, payload); err != nil {
		return out, err
	}
	if f.job == nil || !f.changed {
		return out, nil
	}
	f.job.Updated = When(rec)
	return out, rows.PutJob(f.job)
}

type fold struct {
	rows    Rows
	job     *Job
	rec     events.Record
	out     *Applied
	changed bool
}

func (f *fold) reject(format string, a ...any) { f.out.Rejected = fmt.Sprintf(format, a...) }

func (f *fold) apply(ref Ref, payload any) error {
	if d, ok := payload.(JobDefined); ok {
		f.define(ref, d)
		return nil
	}
	if f.job == nil {
		f.reject("job %s is not defined", ref)
		return nil
	}
	switch p := payload.(type) {
	case RowsFinished:
		return f.finish(p)
	case JobPaused:
		f.pause(p.Reason)
	case JobResumed:
		f.pause("")
	case JobCancelled:
		f.cancel()
	case RowsRetried:
		f.retry(p)
	case JobEnded:
		f.end(p)
	}
	return nil
}

func (f *fold) define(ref Ref, d JobDefined) {
	if f.job != nil {
		f.reject("job %s is defined already", ref)
		return
	}
	f.changed = true
	f.job = &Job{
		Ref: ref, Definition: d.Definition, State: Running, Kinds: map[Kind]uint64{},
		Seq: f.rec.Seq, Defined: When(f.rec), Started: When(f.rec),
	}
}

// finish takes the first result of each row and counts the others. Results
// that come after the end of a job were paid for: they are kept.
func (f *fold) finish(p RowsFinished) error {
	for _, r := range p.Results {
		if r.Row < 1 || r.Row > f.job.Definition.Input.Rows {
			f.reject("row %d of %d", r.Row, f.job.Definition.Input.Rows)
			continue
		}
		have, err := f.rows.Row(f.job.Ref, r.Row)
		if err != nil {
			return err
		}
		f.changed = true
		f.job.Usage = f.job.Usage.Add(r.Usage) // spent, whether it holds or not
		if have.Finished(f.job.Round) || r.Round > f.job.Round || r.Round < f.job.Round && !r.OK() {
			f.job.Repeats++
			continue
		}
		r.Round = f.job.Round
		row := &Row{Result: r, Seq: f.rec.Seq}
		if row.InLog = len(r.Value) > InlineBytes; row.InLog {
			row.Value = nil
		}
		if err := f.rows.PutRow(f.job.Ref, row); err != nil {
			return err
		}
		f.count(r)
		f.out.Rows = append(f.out.Rows, r.Row)
	}
	return nil
}

func (f *fold) count(r Result) {
	if r.OK() {
		f.job.OK++
		return
	}
	f.job.Failed++
	if f.job.Kinds == nil {
		f.job.Kinds = map[Kind]uint64{}
	}
	f.job.Kinds[r.Error.Kind]++
}

func (f *fold) pause(reason string) {
	if f.job.State != Running || f.job.Paused == reason {
		return
	}
	f.job.Paused, f.changed = reason, true
}

func (f *fold) cancel() {
	if f.job.State != Running {
		f.reject("job %s is %s", f.job.Ref, f.job.State)
		return
	}
	f.job.State, f.job.Paused, f.changed = Cancelled, "", true
}

func (f *fold) retry(p RowsRetried) {
	if f.job.State == Running {
		f.reject("job %s runs", f.job.Ref)
		return
	}
	f.changed = true
	f.job.State, f.job.Started = Running, When(f.rec)
	f.job.Definition.Limits = p.Limits
	f.job.Round++
	f.job.Failed, f.job.Kinds = 0, map[Kind]uint64{}
	f.job.Output, f.job.OutErr = "", ""
}

func (f *fold) end(p JobEnded) {
	if f.job.Pending() > 0 || f.job.State == Cancelled {
		f.reject("job %s has %d pending rows and is %s", f.job.Ref, f.job.Pending(), f.job.State)
		return
	}
	f.job.State, f.job.Paused, f.changed = Done, "", true
	f.job.Output, f.job.OutErr = p.Output, p.Error
}
