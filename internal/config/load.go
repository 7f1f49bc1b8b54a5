package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"

	"lcm/events"
)

// Load lays file < environment < flags over the defaults. path "" reads
// $LCM_CONFIG, else lcm.toml in the data directory, if there is one. flags
// holds the names of this package's settings that were given.
func Load(path string, environ []string, flags map[string]any) (Config, error) {
	k := koanf.New(".")
	if err := loadEnv(k, environ); err != nil {
		return Config{}, err
	}
	if err := k.Load(confmap.Provider(flags, "."), nil); err != nil {
		return Config{}, err
	}
	if err := checkKeys(k); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	path, required := configPath(path, environ, k.String("data_dir"))
	c := Default()
	all := koanf.New(".")
	settings, models, err := readFile(path, required)
	if err == nil {
		err = all.Load(confmap.Provider(settings, ""), nil)
	}
	if err == nil {
		err = checkKeys(all)
	}
	if err != nil {
		return c, fmt.Errorf("configuration %s: %w", path, err)
	}
	c.Models = models
	if err := all.Merge(k); err != nil {
		return c, err
	}
	if err := all.UnmarshalWithConf("", &c, koanf.UnmarshalConf{}); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	if c.Token != "" && !all.Exists("tenant") {
		c.Tenant = "" // the token's
	}
	return c, c.Validate()
}

// envConfig names the configuration file.
const envConfig = envPrefix + "CONFIG"

func configPath(path string, environ []string, dataDir string) (string, bool) {
	if path != "" {
		return path, true
	}
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, envConfig+"="); ok && v != "" {
			return v, true
		}
	}
	if dataDir == "" {
		dataDir = defaultDataDir()
	}
	return filepath.Join(dataDir, "lcm.toml"), false
}

// loadEnv reads LCM_*. A variable that is empty is not set: that is how scripts
// and compose files leave one out.
func loadEnv(k *koanf.Koanf, environ []string) error {
	known := knownKeys()
	return k.Load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			if key, ok := envKey(known, name); ok && value != "" {
				return key, value
			}
			return "", nil // not set, another tool's, or LCM_CONFIG
		},
	}), nil)
}

// Validate rejects contradictions.
func (c Config) Validate() error {
	var errs []error
	if err := c.Session.Settings().ValidateNew(); err != nil {
		errs = append(errs, fmt.Errorf("session settings: %w", err))
	} else if err := c.Models.validate(c.Session.Settings()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(c.Summarizer.validate(), c.Reader.validate(), c.Map.validate()); err != nil {
		errs = append(errs, err)
	}
	if c.Partitions < 1 || c.Partitions > 1024 {
		errs = append(errs, fmt.Errorf("partitions is %d: 1 to 1024", c.Partitions))
	}
	if c.ReadyLag < 0 {
		errs = append(errs, fmt.Errorf("ready_lag is %d: at least 0", c.ReadyLag))
	}
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		errs = append(errs, fmt.Errorf("replicas is %d: 1, 3 or 5", c.Replicas))
	}
	if c.Scrub.EventsPerSecond < 0 || c.Scrub.EveryHours < 1 {
		errs = append(errs, errors.New("scrub.events_per_second cannot be negative, and scrub.every_hours must be at least 1"))
	}
	if c.Condenser.Workers < 1 || c.Condenser.Leaves < 1 {
		errs = append(errs, errors.New("condenser.workers and condenser.leaves must be at least 1"))
	}
	switch c.Auth.Mode {
	case "", "none", "tokens":
	case "oidc":
		if c.Auth.Issuer == "" || c.Auth.Audience == "" || c.Auth.TenantClaim == "" {
			errs = append(errs, errors.New("auth.mode is oidc: auth.issuer, auth.audience and auth.tenant_claim are needed"))
		}
	default:
		errs = append(errs, fmt.Errorf("auth.mode is %q: none, tokens or oidc", c.Auth.Mode))
	}
	if c.Auth.RequestsPerSecond < 0 || c.Auth.Concurrency < 0 || c.Auth.MaxBodyMB < 0 {
		errs = append(errs, errors.New("the limits of auth cannot be negative"))
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, errors.New("tls.cert and tls.key go together"))
	}
	if err := (events.Ref{Tenant: c.Tenant, Session: "x"}).Validate(); err != nil && (c.Tenant != "" || c.Token == "") {
		errs = append(errs, err)
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		errs = append(errs, fmt.Errorf("log_level is %q: debug, info, warn or error", c.LogLevel))
	}
	if u, err := url.Parse(c.Server); c.Server != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		errs = append(errs, fmt.Errorf("server is %q: a URL such as http://127.0.0.1:8420", c.Server))
	}
	return errors.Join(errs...)
}

// ownModel checks a section whose model is another one than the summarizer's,
// if it names any.
func ownModel(section, kind, model string) error {
	switch kind {
	case "":
		if model != "" {
			return fmt.Errorf("%s.model is set and %s.kind is not: openai or anthropic", section, section)
		}
	case "openai", "anthropic":
		if model == "" {
			return fmt.Errorf("%s.kind is %s but %s.model is empty", section, kind, section)
		}
	default:
		return fmt.Errorf("%s.kind is %q: openai or anthropic", section, kind)
	}
	return nil
}

func (r Reader) validate() error {
	var err error
	if r.Kind != None {
		err = ownModel("reader", r.Kind, r.Model)
	}
	if r.Turns < 1 || r.Turns > 50 || r.Seconds < 1 || r.Seconds > 3600 {
		err = errors.Join(err, fmt.Errorf("reader.turns is %d (1 to 50), reader.seconds %d (1 to 3600)", r.Turns, r.Seconds))
	}
	return err
}

// mcpName fits in front of a tool's name.
var mcpName = regexp.MustCompile(`^[A-Za-z0-9-]{1,24}$`)

func (m Map) validate() error {
	errs := []error{ownModel("map", m.Kind, m.Model)}
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("map."+format, a...)) }
	if m.Calls < 0 || m.Calls > 4096 || m.LeaseSeconds < 1 || m.KeepInputHours < 0 || !(m.InputPrice >= 0) || !(m.OutputPrice >= 0) {
		bad("calls is %d (0 to 4096), lease_seconds %d (at least 1), keep_input_hours %d (at least 0), prices %v and %v (at least 0)", m.Calls, m.LeaseSeconds, m.KeepInputHours, m.InputPrice, m.OutputPrice)
	}
	names := map[string]bool{}
	for i, s := range m.MCP {
		if !mcpName.MatchString(s.Name) || names[s.Name] || (len(s.Command) == 0) == (s.URL == "") {
			bad("mcp: server %d, %q, needs a name of its own (letters, digits, -) and either command or url", i+1, s.Name)
		}
		names[s.Name] = true
	}
	for _, dir := range m.RootDirs() {
		if !filepath.IsAbs(dir) {
			bad("roots: %q is no absolute path", dir)
		}
	}
	return errors.Join(errs...)
}

func (s Summarizer) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("summarizer."+format, a...)) }
	switch s.Kind {
	case Extractive:
		if len(s.Fallback) > 0 {
			bad("fallback is set, but kind is extractive, which never fails")
		}
	case "openai", "anthropic":
		if s.Model == "" {
			bad("kind is %s but summarizer.model is empty", s.Kind)
		}
	default:
		bad("kind is %q: extractive, openai or anthropic", s.Kind)
	}
	for i, f := range s.Fallback {
		if f.Kind != "openai" && f.Kind != "anthropic" || f.Model == "" {
			bad("fallback %d has kind %q and model %q: openai or anthropic, and a model", i+1, f.Kind, f.Model)
		}
	}
	if s.WhenDown != Wait && s.WhenDown != Extractive {
		bad("when_down is %q: wait or extractive", s.WhenDown)
	}
	if s.TokensPerHour < 0 {
		bad("tokens_per_hour is %d: at least 0", s.TokensPerHour)
	}
	return errors.Join(errs...)
}
