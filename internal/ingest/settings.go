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
	if err := s.Validate(); err != nil {
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

// configure stages changed settings. A session that has none yet gets the
// defaults with the change in them.
func (b *builder) configure() result {
	have, ok := b.s.head.settings, b.s.head.configured
	if !ok {
		have = *b.j.settings
	}
	want, err := withFields(have, b.j.set)
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
