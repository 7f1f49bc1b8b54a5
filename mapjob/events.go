package mapjob

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"lcm/events"
)

// The types of a job's events, all of schema 1.
const (
	TypeDefined   = "JobDefined"
	TypeFinished  = "RowsFinished"
	TypePaused    = "JobPaused"
	TypeResumed   = "JobResumed"
	TypeCancelled = "JobCancelled"
	TypeRetried   = "RowsRetried"
	TypeEnded     = "JobEnded"
)

const schemaVersion = 1

// JobDefined begins a job.
type JobDefined struct {
	Definition Definition `json:"definition"`
}

// RowsFinished brings results, of any rows in any order.
type RowsFinished struct {
	Results []Result `json:"results"`
}

// Usage of provider calls.
type Usage struct {
	Calls        int   `json:"calls,omitempty"`
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	// Micros are millionths of the currency of the configured prices.
	Micros int64 `json:"micros,omitempty"`
}

// Add sums.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Calls + v.Calls, u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.Micros + v.Micros}
}

// Tokens in and out.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Result of a row.
type Result struct {
	Row   uint64 `json:"row"` // from 1, the row's place in the input
	Round int    `json:"round,omitempty"`
	// Value is what the schema accepted; nil where the row failed.
	Value json.RawMessage `json:"result,omitempty"`
	Error *RowError       `json:"error,omitempty"`
	// Attempts at the row in this round. 0: it shares another row's result.
	Attempts int    `json:"attempts"`
	SameAs   uint64 `json:"same_as,omitempty"` // the row it shares, 0 = none
	Usage    Usage  `json:"usage,omitzero"`
}

// OK reports whether the row has a value.
func (r Result) OK() bool { return r.Error == nil }

// Kind of a row's failure: a word to count by.
type Kind string

// The kinds. The first group is the row's own fault and costs no call.
const (
	NotJSON      Kind = "not_json"
	NotObject    Kind = "not_object"
	Empty        Kind = "empty"
	TooLarge     Kind = "too_large"
	MissingField Kind = "missing_field"

	Malformed Kind = "malformed" // the answer is no JSON
	Mismatch  Kind = "mismatch"  // the answer breaks the schema
	CutOff    Kind = "cut_off"   // the answer ended at the output limit
	Refused   Kind = "refused"   // the model declined
	Late      Kind = "late"      // no answer in time
	Provider  Kind = "provider"  // the provider refuses this request
	Limit     Kind = "limit"     // the job's spending limit
	Turns     Kind = "turns"     // a sub-agent's own limits
)

// RowError says why a row has no value.
type RowError struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

func (e *RowError) Error() string { return string(e.Kind) + ": " + e.Text }

// Failed makes a row's error.
func Failed(k Kind, format string, a ...any) *RowError {
	return &RowError{Kind: k, Text: fmt.Sprintf(format, a...)}
}

// JobPaused says that nobody calls for now: the provider's fault, not a row's.
type JobPaused struct {
	Reason string `json:"reason"`
}

// JobResumed says that calls succeed again.
type JobResumed struct{}

// JobCancelled ends a job with what it has.
type JobCancelled struct {
	Reason string `json:"reason,omitempty"`
}

// RowsRetried begins another round: failed rows are pending again, and those
// a cancelled job never began.
type RowsRetried struct {
	// Limits of the new round.
	Limits Limits `json:"limits"`
}

// JobEnded closes a round in which every row has got a result.
type JobEnded struct {
	// Output that was written, "" = none was asked for.
	Output string `json:"output,omitempty"`
	// Error: why the output could not be written. The results are kept.
	Error string `json:"error,omitempty"`
}

// Event makes the message of an event.
func Event(ref Ref, payload any, now time.Time) (events.Message, error) {
	name, ok := typeOf(payload)
	if !ok {
		return events.Message{}, fmt.Errorf("mapjob: %T is no event", payload)
	}
	data, err := json.Marshal(payload)
	return events.Message{
		Subject: ref.Subject(), Data: data,
		Header: events.Header{
			events.HeaderType: name, events.HeaderSchema: strconv.Itoa(schemaVersion),
			events.HeaderTime: now.UTC().Format(time.RFC3339Nano),
		},
	}, err
}

func typeOf(payload any) (string, bool) {
	switch payload.(type) {
	case JobDefined:
		return TypeDefined, true
	case RowsFinished:
		return TypeFinished, true
	case JobPaused:
		return TypePaused, true
	case JobResumed:
		return TypeResumed, true
	case JobCancelled:
		return TypeCancelled, true
	case RowsRetried:
		return TypeRetried, true
	case JobEnded:
		return TypeEnded, true
	}
	return "", false
}

// Decode reads an event. A type that is not known is (nil, nil): a newer
// build's, to be skipped.
func Decode(r events.Record) (any, error) {
	if v := r.Header[events.HeaderSchema]; v != strconv.Itoa(schemaVersion) {
		return nil, fmt.Errorf("%s has schema %q, this build reads %d", r.Header[events.HeaderType], v, schemaVersion)
	}
	switch r.Header[events.HeaderType] {
	case TypeDefined:
		return decode[JobDefined](r.Data)
	case TypeFinished:
		return decode[RowsFinished](r.Data)
	case TypePaused:
		return decode[JobPaused](r.Data)
	case TypeResumed:
		return decode[JobResumed](r.Data)
	case TypeCancelled:
		return decode[JobCancelled](r.Data)
	case TypeRetried:
		return decode[RowsRetried](r.Data)
	case TypeEnded:
		return decode[JobEnded](r.Data)
	}
	return nil, nil
}

func decode[T any](data []byte) (any, error) {
	var v T
	err := json.Unmarshal(data, &v)
	return v, err
}

// When is the time an event carries, zero where it carries none.
func When(r events.Record) time.Time {
	t, err := time.Parse(time.RFC3339Nano, r.Header[events.HeaderTime])
	if err != nil {
		return time.Time{}
	}
	return t
}
