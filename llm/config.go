package llm

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Family of the provider's API. It is configured, never guessed from a URL or
// a model's name.
type Family string

// The families.
const (
	OpenAI    Family = "openai"    // chat completions: OpenAI, Ollama, vLLM, llama.cpp, …
	Anthropic Family = "anthropic" // messages
)

// Config of a client. Zero fields take the default that is named; see
// WithDefaults.
type Config struct {
	// Family of the API: "openai" or "anthropic". No default.
	Family Family
	// BaseURL without the call's own path. Default https://api.openai.com/v1
	// or https://api.anthropic.com; Ollama is http://localhost:11434/v1. It
	// carries no user, query or fragment: a key belongs into KeyEnv.
	BaseURL string
	// Model as the provider names it. No default.
	Model string
	// KeyEnv names the environment variable that holds the key. Empty sends
	// no key, which local servers accept. The key itself is never configured,
	// so that a configuration file can be shown and stored.
	KeyEnv string

	// Timeout of one HTTP attempt. Default 120 s: a summary of 60k tokens by a
	// slow local model takes about a minute. The caller's context bounds all
	// attempts together.
	Timeout time.Duration
	// Attempts for one summary, the first included. Default 4.
	Attempts int
	// BackoffMin doubles per attempt up to BackoffMax; half of it is jitter.
	// Defaults 500 ms and 8 s. A provider's own retry-after wins.
	BackoffMin, BackoffMax time.Duration
	// MaxWait is the longest pause a provider may ask for; above it the call
	// fails as unavailable at once, and the caller's back-off takes over.
	// Default 60 s.
	MaxWait time.Duration

	// RequestsPerSecond of this process, retries included, and Burst of them.
	// 0 = unlimited. Burst defaults to 1.
	RequestsPerSecond float64
	Burst             int

	// BreakerFailures consecutive outages (5xx, no connection, time-outs,
	// garbage) open the breaker: calls then fail at once for BreakerCooldown,
	// doubling up to ten times that while probes fail. A refused key and an
	// exhausted quota open it with the first answer. Defaults 5 and 30 s.
	BreakerFailures int
	BreakerCooldown time.Duration

	// MaxOutputTokens where a request sets no limit. Default 4,096.
	MaxOutputTokens int
	// ReasoningTokens is added to every output limit, for models that spend
	// tokens on thinking before they answer: without it their answers end at
	// the limit and none is accepted. Default 0.
	ReasoningTokens int
	// OutputField is the name of the output limit for the OpenAI family:
	// "max_tokens" (default, what local servers know) or
	// "max_completion_tokens" (what OpenAI's reasoning models demand).
	OutputField string
	// Temperature, nil = the provider's own. Some models accept none.
	Temperature *float64
	// Extra fields of the request body, for vendors' switches such as
	// {"reasoning_effort": "low"}. They cannot replace what the client sets.
	Extra map[string]any
	// MaxAnswerBytes of one response body. Default 8 MiB.
	MaxAnswerBytes int64
}

// Defaults of Config.
const (
	defaultOpenAIURL    = "https://api.openai.com/v1"
	defaultAnthropicURL = "https://api.anthropic.com"
	anthropicVersion    = "2023-06-01"
	fieldMaxTokens      = "max_tokens"
	fieldMaxCompletion  = "max_completion_tokens"
)

// WithDefaults fills in the zero fields.
func (c Config) WithDefaults() Config {
	if c.BaseURL == "" {
		c.BaseURL = map[Family]string{OpenAI: defaultOpenAIURL, Anthropic: defaultAnthropicURL}[c.Family]
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	c.Timeout = cmp.Or(c.Timeout, 120*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 4)
	c.BackoffMin = cmp.Or(c.BackoffMin, 500*time.Millisecond)
	c.BackoffMax = cmp.Or(c.BackoffMax, max(8*time.Second, c.BackoffMin))
	c.MaxWait = cmp.Or(c.MaxWait, time.Minute)
	c.Burst = cmp.Or(c.Burst, 1)
	c.BreakerFailures = cmp.Or(c.BreakerFailures, 5)
	c.BreakerCooldown = cmp.Or(c.BreakerCooldown, 30*time.Second)
	c.MaxOutputTokens = cmp.Or(c.MaxOutputTokens, 4096)
	c.OutputField = cmp.Or(c.OutputField, fieldMaxTokens)
	c.MaxAnswerBytes = cmp.Or(c.MaxAnswerBytes, 8<<20)
	return c
}

// Validate rejects what cannot work, after the defaults are filled in. It
// names fields and variables, never a key.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("llm: "+format, a...)) }
	if c.Family != OpenAI && c.Family != Anthropic {
		bad("family %q: set it to %q or %q", c.Family, OpenAI, Anthropic)
	}
	if c.Model == "" {
		bad("no model: name one as the provider does")
	}
	if err := checkURL(c.BaseURL); err != nil {
		bad("base URL: %v", err)
	}
	if strings.ContainsAny(c.KeyEnv, "= \t\n") || strings.HasPrefix(c.KeyEnv, "sk-") {
		bad("key_env is not the name of an environment variable: put the key into one and its name here")
	}
	if c.Timeout < 0 || c.BackoffMin < 0 || c.BackoffMax < c.BackoffMin || c.MaxWait < 0 || c.BreakerCooldown < 0 {
		bad("durations must be positive, and backoff min %s at most max %s", c.BackoffMin, c.BackoffMax)
	}
	if c.Attempts < 1 || c.BreakerFailures < 1 || c.Burst < 1 || !(c.RequestsPerSecond >= 0) {
		bad("attempts %d, breaker failures %d, burst %d and requests per second %v must be positive", c.Attempts, c.BreakerFailures, c.Burst, c.RequestsPerSecond)
	}
	if c.MaxOutputTokens < 1 || c.ReasoningTokens < 0 || c.MaxAnswerBytes < 1 {
		bad("max output tokens %d, reasoning tokens %d and max answer bytes %d must be positive", c.MaxOutputTokens, c.ReasoningTokens, c.MaxAnswerBytes)
	}
	if c.OutputField != fieldMaxTokens && c.OutputField != fieldMaxCompletion {
		bad("output field %q: %q or %q", c.OutputField, fieldMaxTokens, fieldMaxCompletion)
	}
	if t := c.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		bad("temperature %v: between 0 and 2", *t)
	}
	return errors.Join(errs...)
}

// checkURL does not quote the URL: it may hold a password.
func checkURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("needs http:// or https:// and a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not carry a user, query or fragment: name the key's variable in key_env")
	}
	return nil
}

// secret is a key that cannot be printed, logged or encoded by accident.
type secret string

func (secret) String() string               { return "[secret]" }
func (secret) GoString() string             { return "[secret]" }
func (secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// readKey fetches the key from the environment.
func readKey(name string, getenv func(string) string) (secret, error) {
	if name == "" {
		return "", nil
	}
	key := strings.TrimSpace(getenv(name))
	if key == "" {
		return "", fmt.Errorf("llm: environment variable %s is not set: it holds the provider's key", name)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("llm: environment variable %s holds characters that no key has", name)
	}
	return secret(key), nil
}

// Call is one HTTP attempt, for metrics.
type Call struct {
	Family Family
	Model  string // as configured
	// Code is the HTTP status; 0 where no answer came.
	Code     int
	Duration time.Duration
	// InputTokens and OutputTokens as the provider reported, 0 = unknown.
	InputTokens, OutputTokens int
}

// Deps of a client; zero fields take the real thing.
type Deps struct {
	Transport http.RoundTripper        // default: a transport of the client's own
	Getenv    func(name string) string // default os.Getenv
	Rand      func() float64           // jitter in [0, 1), default math/rand/v2
	// OnCall is told of every attempt; it must not block.
	OnCall func(Call)
}
