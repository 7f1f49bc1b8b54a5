package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/knadh/koanf/parsers/toml/v2"
	"github.com/knadh/koanf/providers/file"

	"lcm/events"
)

// Models are what sessions of a model get in place of the session defaults:
//
//	[models."gpt-4.1"]
//	window = 1_000_000
//	max_context_tokens = 200_000
//	overhead = 6_000
//
// The names are those of the session section. They are applied where a session
// is configured with that model, and written into its SessionConfigured: from
// then on the session's own settings count, whatever the file says later.
type Models map[string]map[string]any

// readFile reads a configuration file and takes the models apart: their names
// may hold the dots that separate sections elsewhere.
func readFile(path string, required bool) (rest map[string]any, models Models, err error) {
	data, err := file.Provider(path).ReadBytes()
	if err != nil {
		if !required && errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return nil, nil, err
	}
	if rest, err = toml.Parser().Unmarshal(data); err != nil {
		return nil, nil, err
	}
	section, ok := rest["models"]
	delete(rest, "models")
	if !ok {
		return rest, nil, nil
	}
	byName, ok := section.(map[string]any)
	if !ok {
		return nil, nil, errors.New(`models is not a section: write [models."name"]`)
	}
	models = Models{}
	for name, v := range byName {
		if models[name], ok = v.(map[string]any); !ok {
			return nil, nil, fmt.Errorf(`models.%s is not a section: write [models.%q]`, name, name)
		}
	}
	return rest, models, nil
}

// SessionDefaults are the settings of a new session: the session section, and
// what is configured for its model.
func (c Config) SessionDefaults() (events.Settings, error) {
	s := c.Session.Settings()
	if s.Model == "" || c.Models[s.Model] == nil {
		return s, nil
	}
	return c.Models.over(s, s.Model)
}

// over lays a model's settings over others.
func (m Models) over(s events.Settings, name string) (events.Settings, error) {
	data, err := json.Marshal(m[name])
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		err = dec.Decode(&s)
	}
	s.Model = name
	if err == nil {
		err = s.ValidateNew()
	}
	if err != nil {
		return s, fmt.Errorf("models.%q: %w", name, err)
	}
	return s, nil
}

// validate rejects a model whose sessions could not be made.
func (m Models) validate(s events.Settings) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(m)) {
		for _, key := range []string{"model", "labels", "parent_session"} {
			if _, ok := m[name][key]; ok {
				errs = append(errs, fmt.Errorf("models.%q: %s is not a model's to set", name, key))
			}
		}
		if _, err := m.over(s, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
