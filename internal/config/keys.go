package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// Key finds a setting by the name people use: with its section, or, for session
// settings, without.
func Key(name string) (string, bool) {
	known := knownKeys()
	for _, key := range []string{name, "session." + name} {
		if known[key] != nil {
			return key, true
		}
	}
	return "", false
}

// knownKeys are the names of all settings, with their section, and their types.
func knownKeys() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	collect(reflect.TypeFor[Config](), "", out)
	return out
}

func collect(t reflect.Type, prefix string, out map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("koanf") == "-" {
			continue
		}
		name := prefix + f.Tag.Get("koanf")
		if f.Type.Kind() == reflect.Struct {
			collect(f.Type, name+".", out)
			continue
		}
		out[name] = f.Type
	}
}

// checkKeys refuses a name nobody reads and a value that would silently become
// another one: a misspelt threshold must not be off, an empty one must not be 0.
func checkKeys(k *koanf.Koanf) error {
	known := knownKeys()
	fields := map[string]map[string]reflect.Type{"summarizer.fallback": {}, "map.mcp": {}}
	collect(reflect.TypeFor[Provider](), "", fields["summarizer.fallback"])
	collect(reflect.TypeFor[MCPServer](), "", fields["map.mcp"])
	for _, key := range k.Keys() {
		if known[key] == nil {
			return fmt.Errorf("there is no setting %q", key)
		}
		if err := checkValue(key, known[key], k.Get(key)); err != nil {
			return err
		}
		list, _ := k.Get(key).([]any) // of sections
		for _, section := range list {
			m, _ := section.(map[string]any)
			for name, v := range m {
				if fields[key][name] == nil {
					return fmt.Errorf("there is no setting %q in %s", name, key)
				}
				if err := checkValue(key+"."+name, fields[key][name], v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkValue refuses what the decoder would take for a number or a switch
// although nobody wrote one; what it refuses by itself is left to it.
func checkValue(key string, t reflect.Type, v any) error {
	numeric := t.Kind() == reflect.Int || t.Kind() == reflect.Float64
	switch v := v.(type) {
	case string:
		if v == "" && (numeric || t.Kind() == reflect.Bool) {
			return fmt.Errorf("%s is empty: give a value, or leave it out for the default", key)
		}
	case bool:
		if numeric {
			return fmt.Errorf("%s is %v: a number is needed", key, v)
		}
	case float64:
		if t.Kind() == reflect.Int && v != math.Trunc(v) {
			return fmt.Errorf("%s is %v: a whole number is needed", key, v)
		}
	}
	return nil
}

// envKey is the setting that a variable sets: a name of the top level or of the
// session section, or a section and a name.
func envKey(known map[string]reflect.Type, variable string) (string, bool) {
	name := strings.ToLower(strings.TrimPrefix(variable, envPrefix))
	for _, key := range []string{name, "session." + name, strings.Replace(name, "_", ".", 1)} {
		if known[key] != nil {
			return key, true
		}
	}
	return "", false
}

const envPrefix = "LCM_"

// Misspelt says which variables of an environment look like settings and set
// none. Other LCM_* variables are somebody else's, among them those that c names
// as holding a key.
func Misspelt(environ []string, c Config) []string {
	known := knownKeys()
	keys := []string{c.Map.KeyEnv}
	for _, p := range c.Summarizer.Providers() {
		keys = append(keys, p.KeyEnv)
	}
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envConfig || slices.Contains(keys, name) {
			continue
		}
		if _, ok := envKey(known, name); ok {
			continue
		}
		if near := nearest(known, name); near != "" {
			out = append(out, fmt.Sprintf("%s is no setting and sets nothing; the nearest is %s", name, near))
		}
	}
	return out
}

// nearest is the variable of a setting that a name was probably meant for: a
// few letters away, or with the name as its beginning or end; "" = none.
func nearest(known map[string]reflect.Type, variable string) string {
	given := strings.TrimPrefix(strings.TrimPrefix(variable, envPrefix), "SESSION_")
	best, least := "", 0
	for key := range known {
		name := strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(key, "session."), ".", "_"))
		d := distance(given, name)
		meant := d <= len(given)/4 || len(given) > 3 && (strings.HasSuffix(name, "_"+given) || strings.HasPrefix(name, given+"_"))
		if meant && (best == "" || d < least || d == least && name < best) {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return envPrefix + best
}

// distance is how many letters must be put in, left out or replaced to make b
// of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
