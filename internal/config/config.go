// Package config is the manual of every setting: its unit, default and reason,
// and how a file, the environment and flags are laid over each other.
package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"lcm/events"
)

// Config of a process. Names are those of the file (TOML); the environment
// variable of a setting is LCM_ and its name, with sections written out, as in
// LCM_SUMMARIZER_MODEL; session settings need no section: LCM_FRESH_TAIL_COUNT.
// An empty variable is as good as none.
type Config struct {
	// DataDir holds everything of an embedded node. Default
	// $XDG_DATA_HOME/lcm, else ~/.local/share/lcm.
	DataDir string `koanf:"data_dir"`
	// NATS is the URL of an external server; "" = the embedded one.
	NATS string `koanf:"nats"`
	// NATSCreds is a credentials file for the external server.
	NATSCreds string `koanf:"nats_creds"`
	// Server is the URL of a running `lcm serve`, for commands.
	Server string `koanf:"server"`
	// Token is the bearer token that commands send to Server: best given as
	// LCM_TOKEN. It decides the tenant.
	Token Secret `koanf:"token"`
	// Tenant of commands, and of operators that name none. Default "default";
	// with a Token, its own.
	Tenant string `koanf:"tenant"`
	// HTTP is where `lcm serve` listens. Beyond loopback auth.mode must be set.
	HTTP string `koanf:"http"`
	// OpsListen is where a process answers /livez, /readyz, /metrics, and, on a
	// loopback address, /debug/pprof/. "" = where HTTP is answered, without
	// pprof; a role without HTTP takes 127.0.0.1 and port 8421 (ingestor), 8422
	// (condenser) or 8423 (projector), or a free port where that one is taken.
	OpsListen string `koanf:"ops_listen"`
	// ReadyLag is how many events a projection may be behind while /readyz
	// still says yes. Default 10,000: a second or two of catching up.
	ReadyLag int `koanf:"ready_lag"`
	// NATSListen lets the embedded server listen too: a loopback address, ""
	// = in process only.
	NATSListen string `koanf:"nats_listen"`
	// Partitions of a new log, fixed for ever after. Default 16: enough for
	// sixteen projector processes.
	Partitions int `koanf:"partitions"`
	// Replicas of the streams on an external server: 1 or 3.
	Replicas int `koanf:"replicas"`
	// LogLevel: debug, info, warn, error.
	LogLevel string `koanf:"log_level"`

	Auth       Auth       `koanf:"auth"`
	TLS        TLS        `koanf:"tls"`
	Projector  Projector  `koanf:"projector"`
	Scrub      Scrub      `koanf:"scrub"`
	Condenser  Condenser  `koanf:"condenser"`
	Summarizer Summarizer `koanf:"summarizer"`
	Reader     Reader     `koanf:"reader"`
	Map        Map        `koanf:"map"`
	// Session are the settings a new session gets.
	Session Session `koanf:"session"`
	// Models are what sessions of a model get in their place (models.go). The
	// file only.
	Models Models `koanf:"-"`
}

// Auth settings: who may call.
type Auth struct {
	// GrantKey is the file of the key that signs grants, 32 bytes in base64,
	// mode 600. Every toolsvc of a log needs the same one. Default grant.key in
	// the data directory, made when it is first needed.
	GrantKey string `koanf:"grant_key"`
	// Mode: none (the default; on loopback only: whoever reaches it is the
	// operator), tokens (`lcm token`), oidc (an OpenID issuer's tokens, and
	// those of `lcm token`). Grants are honoured in each.
	Mode string `koanf:"mode"`
	// Tokens is the file of `lcm token`. Default tokens.json in the data
	// directory.
	Tokens string `koanf:"tokens"`
	// Issuer and Audience as the claims iss and aud have them; JWKS is the URL
	// of the issuer's keys, "" = as its discovery says.
	Issuer   string `koanf:"issuer"`
	Audience string `koanf:"audience"`
	JWKS     string `koanf:"jwks"`
	// TenantClaim names the tenant, default lcm_tenant; ScopesClaim holds the
	// scopes, default scope, each behind ScopePrefix, default lcm:, as in
	// "lcm:read lcm:append".
	TenantClaim string `koanf:"tenant_claim"`
	ScopesClaim string `koanf:"scopes_claim"`
	ScopePrefix string `koanf:"scope_prefix"`
	// RequestsPerSecond of one caller that is no operator, in bursts of twice
	// as many. Default 50; 0 = no limit.
	RequestsPerSecond float64 `koanf:"requests_per_second"`
	// Concurrency is how many requests of such a caller are in hand at once.
	// Default 32: contexts that wait hold one each. 0 = no limit.
	Concurrency int `koanf:"concurrency"`
	// MaxBodyMB bounds one request of such a caller, in MiB. Default 256: an
	// import. 0 = no limit.
	MaxBodyMB int `koanf:"max_body_mb"`
}

// TLS settings of HTTP.
type TLS struct {
	// Cert and Key are PEM files.
	Cert string `koanf:"cert"`
	Key  string `koanf:"key"`
	// Elsewhere: a proxy ends TLS, and the network between it and this process
	// is private.
	Elsewhere bool `koanf:"elsewhere"`
}

// Secret is a string that shows itself to nobody who prints it.
type Secret string

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(secret)"
}

// GoString, MarshalText and LogValue keep it out of %#v, JSON and logs.
func (s Secret) GoString() string             { return s.String() }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(s.String()) }

// Projector settings.
type Projector struct {
	// Partitions this process keeps, as in "0-7" or "0,3"; "" = all. The set
	// is recorded in the store.
	Partitions string `koanf:"partitions"`
	// Trigrams are indexed too, so that substrings and wide regular expressions
	// are found by any three bytes in a row of theirs, in the middle of words
	// and of signs alone. Default false: the index grows by two thirds and takes
	// more than twice as long to make. A change makes the index anew.
	Trigrams bool `koanf:"trigrams"`
}

// Scrub settings: the background walk over the log, beside a projector.
type Scrub struct {
	// EventsPerSecond it reads at most; 0 = off. Default 500: a million events
	// in half an hour.
	EventsPerSecond int `koanf:"events_per_second"`
	// EveryHours a walk begins. Default 24.
	EveryHours int `koanf:"every_hours"`
}

// Condenser settings.
type Condenser struct {
	// Workers are sessions condensed at once. Default 2: one a core.
	Workers int `koanf:"workers"`
	// Leaves of one session made at once. Default 4.
	Leaves int `koanf:"leaves"`
}

// Summarizer settings: who makes summaries, and answers questions about a
// session.
type Summarizer struct {
	// Kind: extractive (offline, the default), openai (any compatible API),
	// anthropic. It is configured, never guessed.
	Kind string `koanf:"kind"`
	// BaseURL of the API, such as http://127.0.0.1:11434/v1 for Ollama.
	BaseURL string `koanf:"base_url"`
	// Model to call.
	Model string `koanf:"model"`
	// KeyEnv names the environment variable that holds the key.
	KeyEnv string `koanf:"key_env"`
	// TimeoutSeconds of one call. Default 120.
	TimeoutSeconds int `koanf:"timeout_seconds"`
	// RequestsPerMinute at most; 0 = no limit.
	RequestsPerMinute int `koanf:"requests_per_minute"`
	// OutputField names the limit of an answer for kind openai: max_tokens (the
	// default) or max_completion_tokens, which OpenAI's reasoning models demand.
	OutputField string `koanf:"output_field"`
	// ReasoningTokens an answer may take beside its text, for models that think
	// before they answer. Default 0.
	ReasoningTokens int `koanf:"reasoning_tokens"`

	// Fallback are models that are asked, one after the other, where the one
	// before is down, refuses the caller or rejects the request. The file only:
	//
	//	[[summarizer.fallback]]
	//	kind = "openai"
	//	base_url = "http://127.0.0.1:11434/v1"
	//	model = "qwen3"
	Fallback []Provider `koanf:"fallback"`
	// WhenDown says what becomes of a summary that no model makes: wait (the
	// default: it stays due, and is made when a model is back) or extractive
	// (it is made by rule, at once).
	WhenDown string `koanf:"when_down"`
	// TokensPerHour that one tenant may spend on models, of all processes of a
	// log together; 0 = no limit. Over it, work waits as when_down says; what was
	// begun is finished.
	TokensPerHour int `koanf:"tokens_per_hour"`
}

// Reader settings: who answers questions (`lcm query`).
type Reader struct {
	// Kind, BaseURL, Model, KeyEnv, RequestsPerMinute, OutputField and
	// ReasoningTokens are those of the model that reads, as in [summarizer].
	// Kind "" = the summarizer's model, if it has one; none = no model: the
	// passages that fit best are the answer.
	Kind              string `koanf:"kind"`
	BaseURL           string `koanf:"base_url"`
	Model             string `koanf:"model"`
	KeyEnv            string `koanf:"key_env"`
	RequestsPerMinute int    `koanf:"requests_per_minute"`
	OutputField       string `koanf:"output_field"`
	ReasoningTokens   int    `koanf:"reasoning_tokens"`
	// Turns are calls to the model for one question. Default 6: a look at the
	// map, some readings, an answer.
	Turns int `koanf:"turns"`
	// Seconds a question may take. Default 120.
	Seconds int `koanf:"seconds"`
}

// Map settings: llm_map and agentic_map.
type Map struct {
	// Kind, BaseURL, Model, KeyEnv, RequestsPerMinute, OutputField and
	// ReasoningTokens are those of the model that works on rows, as in
	// [summarizer]. Kind "" = the summarizer's model, if it has one.
	Kind              string `koanf:"kind"`
	BaseURL           string `koanf:"base_url"`
	Model             string `koanf:"model"`
	KeyEnv            string `koanf:"key_env"`
	RequestsPerMinute int    `koanf:"requests_per_minute"`
	OutputField       string `koanf:"output_field"`
	ReasoningTokens   int    `koanf:"reasoning_tokens"`
	// InputPrice and OutputPrice of a million tokens, in any currency, for the
	// cost of a job and its limit. Default 0.
	InputPrice  float64 `koanf:"input_price"`
	OutputPrice float64 `koanf:"output_price"`
	// Calls that this process makes at once, over all jobs; 0 = none: it only
	// keeps and answers. Default 64.
	Calls int `koanf:"calls"`
	// Roots are directories that jobs may read input_path from and write
	// output_path to, separated by colons. Default none.
	Roots string `koanf:"roots"`
	// LeaseSeconds: the rows of a worker that falls silent for this long are
	// handed to another. Default 30.
	LeaseSeconds int `koanf:"lease_seconds"`
	// KeepInputHours: so long after the end of its last job an input is deleted:
	// retries, and aggregates over fields of rows, need it. Uploads that no job
	// names are deleted after a day. 0 = inputs are kept for ever. Default 168.
	KeepInputHours int `koanf:"keep_input_hours"`
	// MCP are servers whose tools the sub-agents of agentic_map may use beside
	// those of the memory: [[map.mcp]]. Default none.
	MCP []MCPServer `koanf:"mcp"`
}

// MCPServer is one, started with Command, on stdio, or answering at URL, over
// streamable HTTP.
type MCPServer struct {
	// Name stands in front of its tools' names: NAME__TOOL.
	Name    string   `koanf:"name"`
	Command []string `koanf:"command"`
	// Env names the variables of this process that a started server is given,
	// beside PATH, HOME, LANG and TMPDIR.
	Env []string `koanf:"env"`
	URL string   `koanf:"url"`
	// TokenEnv names the variable that holds a bearer token for URL.
	TokenEnv string `koanf:"token_env"`
	// Tools that are offered, none = all. Without may_write only those whose
	// annotations say readOnlyHint are.
	Tools []string `koanf:"tools"`
}

// RootDirs are the directories of Roots.
func (m Map) RootDirs() []string {
	return slices.DeleteFunc(filepath.SplitList(m.Roots), func(s string) bool { return s == "" })
}

// Provider is one model to fall back to; its fields are those of Summarizer.
type Provider struct {
	Kind              string `koanf:"kind"`
	BaseURL           string `koanf:"base_url"`
	Model             string `koanf:"model"`
	KeyEnv            string `koanf:"key_env"`
	TimeoutSeconds    int    `koanf:"timeout_seconds"`
	RequestsPerMinute int    `koanf:"requests_per_minute"`
	OutputField       string `koanf:"output_field"`
	ReasoningTokens   int    `koanf:"reasoning_tokens"`
}

// Providers are the models to ask, in order; none where summaries are made by
// rule.
func (s Summarizer) Providers() []Provider {
	if s.Kind == Extractive {
		return nil
	}
	first := Provider{
		s.Kind, s.BaseURL, s.Model, s.KeyEnv, s.TimeoutSeconds, s.RequestsPerMinute, s.OutputField, s.ReasoningTokens,
	}
	return append([]Provider{first}, s.Fallback...)
}

// Values of Summarizer.Kind, WhenDown and Reader.Kind.
const (
	Extractive = "extractive"
	Wait       = "wait"
	None       = "none"
)

// Session mirrors events.Settings under the names people configure.
type Session struct {
	Window            int     `koanf:"window"`
	Overhead          int     `koanf:"overhead"`
	Model             string  `koanf:"model"`
	MaxContextTokens  int     `koanf:"max_context_tokens"`
	TokenFactor       float64 `koanf:"token_factor"`
	ContextThreshold  float64 `koanf:"context_threshold"`
	LeafTriggerTokens int     `koanf:"leaf_trigger_tokens"`
	CutTarget         float64 `koanf:"cut_target"`
	MinCut            float64 `koanf:"min_cut"`
	SummaryBudget     float64 `koanf:"summary_budget"`
	RecutThreshold    float64 `koanf:"recut_threshold"`
	RecutTarget       float64 `koanf:"recut_target"`
	FreshTailCount    int     `koanf:"fresh_tail_count"`
	FreshTailMax      float64 `koanf:"fresh_tail_max"`
	FanoutMin         int     `koanf:"fanout_min"`
	FanoutMax         int     `koanf:"fanout_max"`
	LeafChunkMin      int     `koanf:"leaf_chunk_min"`
	LeafChunkMax      int     `koanf:"leaf_chunk_max"`
	LeafInputMax      int     `koanf:"leaf_input_max"`
	OpenGroupEntries  int     `koanf:"open_group_entries"`
	LargeFileChars    int     `koanf:"large_file_chars"`
}

// Settings are the session defaults as the engine knows them.
func (s Session) Settings() events.Settings {
	return events.Settings{
		Window: s.Window, Overhead: s.Overhead, Model: s.Model, MaxContextTokens: s.MaxContextTokens, TokenFactor: s.TokenFactor,
		ContextThreshold: s.ContextThreshold, LeafTriggerTokens: s.LeafTriggerTokens, CutTarget: s.CutTarget,
		MinCut: s.MinCut, SummaryBudget: s.SummaryBudget, RecutThreshold: s.RecutThreshold, RecutTarget: s.RecutTarget,
		FreshTailCount: s.FreshTailCount, FreshTailMax: s.FreshTailMax, FanoutMin: s.FanoutMin, FanoutMax: s.FanoutMax,
		LeafChunkMin: s.LeafChunkMin, LeafChunkMax: s.LeafChunkMax, LeafInputMax: s.LeafInputMax,
		OpenGroupEntries: s.OpenGroupEntries, LargeFileChars: s.LargeFileChars,
	}
}

func sessionOf(d events.Settings) Session {
	return Session{
		Window: d.Window, Overhead: d.Overhead, Model: d.Model, MaxContextTokens: d.MaxContextTokens, TokenFactor: d.TokenFactor,
		ContextThreshold: d.ContextThreshold, LeafTriggerTokens: d.LeafTriggerTokens, CutTarget: d.CutTarget,
		MinCut: d.MinCut, SummaryBudget: d.SummaryBudget, RecutThreshold: d.RecutThreshold, RecutTarget: d.RecutTarget,
		FreshTailCount: d.FreshTailCount, FreshTailMax: d.FreshTailMax, FanoutMin: d.FanoutMin, FanoutMax: d.FanoutMax,
		LeafChunkMin: d.LeafChunkMin, LeafChunkMax: d.LeafChunkMax, LeafInputMax: d.LeafInputMax,
		OpenGroupEntries: d.OpenGroupEntries, LargeFileChars: d.LargeFileChars,
	}
}

// Default is the configuration without file, environment or flags.
func Default() Config {
	return Config{
		DataDir: defaultDataDir(), Tenant: "default", HTTP: "127.0.0.1:8420", ReadyLag: 10_000,
		Partitions: events.DefaultPartitions, Replicas: 1, LogLevel: "info",
		Scrub: Scrub{EventsPerSecond: 500, EveryHours: 24},
		Auth: Auth{
			TenantClaim: "lcm_tenant", ScopesClaim: "scope", ScopePrefix: "lcm:",
			RequestsPerSecond: 50, Concurrency: 32, MaxBodyMB: 256,
		},
		Condenser:  Condenser{Workers: 2, Leaves: 4},
		Summarizer: Summarizer{Kind: Extractive, TimeoutSeconds: 120, WhenDown: Wait},
		Reader:     Reader{Turns: 6, Seconds: 120},
		Map:        Map{Calls: 64, LeaseSeconds: 30, KeepInputHours: 168},
		Session:    sessionOf(events.DefaultSettings()),
	}
}

func defaultDataDir() string {
	if d := os.Getenv("XDG_DATA_HOME"); d != "" {
		return filepath.Join(d, "lcm")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "lcm-data"
	}
	return filepath.Join(home, ".local", "share", "lcm")
}
