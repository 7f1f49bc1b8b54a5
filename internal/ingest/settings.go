package ingest

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"

	"lcm/events"
	"lcm/internal/problem"
)

// withFields changes the named fields (JSON names) of settings and validates
// the result. Labels are replaced as a whole.
func withFields(s events.Settings, set map[string]any) (events.Settings, error) {
	have := s
	s.Labels = maps.Clone(s.Labels)
	if _, ok := set["labels"]; ok {
		s.Labels = nil
	}
	for name, v := range set {
		if v == nil && name != "labels" {
			return s, problem.New(problem.Invalid, "setting %s has no value", name)
		}
	}
	data, err := json.Marshal(set)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		err = dec.Decode(&s)
	}
	if err != nil {
		return s, misnamed(err)
	}
	if err := s.ValidateChange(have); err != nil {
		return s, problem.New(problem.Invalid, "settings: %w", err)
	}
	return s, nil
}

// misnamed says which setting has no such name or value, without the names of
// Go types.
func misnamed(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return problem.New(problem.Invalid, "setting %s cannot be a %s", wrong.Field, wrong.Value).WithHint("`lcm configure SESSION --json` shows them all")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return problem.New(problem.Invalid, "there is no setting %s", name).WithHint("`lcm configure SESSION --json` shows them all")
	}
	return problem.New(problem.Invalid, "settings: %w", err)
}

// configured is what settings become by this configure. A model that is new to
// the session brings its own, as configured for it; fields that the request
// names count above them.
func (j *job) configured(have events.Settings, ok bool) (events.Settings, error) {
	set := j.set
	if name, named := set["model"].(string); named && j.models[name] != nil && (!ok || have.Model != name) {
		set = maps.Clone(j.models[name])
		maps.Copy(set, j.set)
	}
	want, err := withFields(have, set)
	if err != nil || j.usage == nil {
		return want, err
	}
	if j.usage.Counted <= 0 || j.usage.Reported <= 0 {
		return want, problem.New(problem.Invalid, "usage of %d counted and %d reported tokens: both must be positive", j.usage.Counted, j.usage.Reported)
	}
	want = want.Calibrated(j.usage.Counted, j.usage.Reported)
	if err := want.Validate(); err != nil {
		return want, problem.New(problem.Invalid, "settings with a token factor of %v: %w", want.TokenFactor, err)
	}
	return want, nil
}

// configure stages changed settings. A session that has none yet gets the
// defaults with the change in them.
func (b *builder) configure() result {
	have, ok := b.s.head.settings, b.s.head.configured
	if !ok {
		have = *b.j.settings
	}
	want, err := b.j.configured(have, ok)
	if err != nil {
		return result{err: err}
	}
	b.j.now = want
	if ok && reflect.DeepEqual(have, want) {
		r := result{seq: b.s.head.lastSeq}
		if n := len(b.s.places); n > 0 {
			r.seq, r.event = 0, b.s.places[n-1]
		}
		return r
	}
	event, err := b.emit(&events.SessionConfigured{Settings: want})
	if err != nil {
		return result{err: err}
	}
	b.s.head.settings, b.s.head.configured = want, true
	return result{event: event}
}
