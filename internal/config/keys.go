package config

import (
	"fmt"
	"reflect"

	"github.com/knadh/koanf/v2"
)

// Key finds a setting by the name people use: with its section, or, for session
// settings, without.
func Key(name string) (string, bool) {
	known := knownKeys()
	for _, key := range []string{name, "session." + name} {
		if known[key] {
			return key, true
		}
	}
	return "", false
}

// knownKeys are the names of all settings, with their section.
func knownKeys() map[string]bool {
	out := map[string]bool{}
	collect(reflect.TypeFor[Config](), "", out)
	return out
}

func collect(t reflect.Type, prefix string, out map[string]bool) {
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
		out[name] = true
	}
}

// unknownKeys refuses a name nobody reads: a misspelt threshold must not be
// silently off.
func unknownKeys(k *koanf.Koanf) error {
	known := knownKeys()
	fields := map[string]map[string]bool{"summarizer.fallback": {}, "map.mcp": {}}
	collect(reflect.TypeFor[Provider](), "", fields["summarizer.fallback"])
	collect(reflect.TypeFor[MCPServer](), "", fields["map.mcp"])
	for _, key := range k.Keys() {
		if !known[key] {
			return fmt.Errorf("there is no setting %q", key)
		}
		list, _ := k.Get(key).([]any) // of sections
		for _, section := range list {
			m, _ := section.(map[string]any)
			for name := range m {
				if !fields[key][name] {
					return fmt.Errorf("there is no setting %q in %s", name, key)
				}
			}
		}
	}
	return nil
}
