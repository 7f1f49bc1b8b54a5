package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/time/rate"

	"lcm/chat"
	"lcm/internal/await"
)

// Client calls one provider. It chats, and is a condense.Summarizer. It is safe
// for concurrent use; all its calls share one limiter and one breaker.
type Client struct {
	cfg     Config
	key     secret
	dialect dialect
	where   string // family and host, for errors
	http    *http.Client
	limit   *rate.Limiter
	breaker *breaker
	rand    func() float64
	onCall  func(Call)
	tally   tally
}

// dialect is what differs between the families.
type dialect interface {
	path() string
	header(h http.Header, key secret)
	body(c Config, r chat.Request, limit int) map[string]any
	// read decodes a body of status 200. ok = false: there is no answer in it.
	read(body []byte) (a chat.Response, ok bool)
}

// New makes a client. It reads the key from the environment once; it does not
// call the provider.
func New(cfg Config, d Deps) (*Client, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if d.Getenv == nil {
		d.Getenv = os.Getenv
	}
	key, err := readKey(cfg.KeyEnv, d.Getenv)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, key: key, where: string(cfg.Family) + " at " + u.Host,
		limit:   rate.NewLimiter(rate.Inf, cfg.Burst),
		breaker: &breaker{limit: cfg.BreakerFailures, cooldown: cfg.BreakerCooldown},
		rand:    d.Rand, onCall: d.OnCall,
	}
	c.dialect = openAI{}
	if cfg.Family == Anthropic {
		c.dialect = anthropic{}
	}
	if cfg.RequestsPerSecond > 0 {
		c.limit.SetLimit(rate.Limit(cfg.RequestsPerSecond))
	}
	if c.rand == nil {
		c.rand = rand.Float64
	}
	if c.onCall == nil {
		c.onCall = func(Call) {}
	}
	c.http = &http.Client{Transport: d.Transport, CheckRedirect: noRedirect}
	if d.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 512, 512 // as many as calls at once: each keeps its connection
		c.http.Transport = t
	}
	return c, nil
}

// noRedirect: Go would take x-api-key along to whatever host it is sent to.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Chat asks for the next message of a conversation. It returns ctx's error when
// ctx ends, and otherwise one of chat's.
func (c *Client) Chat(ctx context.Context, r chat.Request) (chat.Response, error) {
	if err := r.Validate(); err != nil {
		return chat.Response{}, err
	}
	r.Model = cmp.Or(r.Model, c.cfg.Model)
	body, err := c.encode(r)
	if err != nil {
		return chat.Response{}, err
	}
	for attempt := 1; ; attempt++ {
		pass, err := c.admit(ctx)
		if err != nil {
			return chat.Response{}, err
		}
		a, f := c.attempt(ctx, r.Model, body)
		if ctx.Err() != nil && f != nil {
			c.breaker.release(pass)
			return chat.Response{}, ctx.Err()
		}
		c.breaker.settle(pass, f, time.Now())
		c.tally.verdict(f, time.Now())
		if f == nil {
			a.Model = readable(a.Model, r.Model)
			return a, nil
		}
		if !f.retry || attempt >= c.cfg.Attempts || f.after > c.cfg.MaxWait {
			return chat.Response{}, f.err
		}
		if err := await.Sleep(ctx, c.pause(attempt, f.after)); err != nil {
			return chat.Response{}, err
		}
	}
}

// admit waits until the breaker and the limiter let a call out.
func (c *Client) admit(ctx context.Context) (admission, error) {
	pass, err := c.passBreaker(ctx)
	if err != nil {
		return pass, err
	}
	if err = c.limit.Wait(ctx); err == nil {
		return pass, nil
	}
	c.breaker.release(pass)
	if ctx.Err() != nil {
		return pass, ctx.Err()
	}
	return pass, fmt.Errorf("%w: the rate limit of %v requests a second leaves no room before the deadline", chat.ErrUnavailable, c.cfg.RequestsPerSecond)
}

func (c *Client) passBreaker(ctx context.Context) (admission, error) {
	for {
		if err := ctx.Err(); err != nil {
			return admission{}, err
		}
		pass, d, err := c.breaker.admit(time.Now())
		switch {
		case err != nil:
			return pass, fmt.Errorf("not called again yet: %w", err)
		case d == 0:
			return pass, nil
		case d > c.cfg.MaxWait:
			return pass, fmt.Errorf("%w: %s asked for a pause of %s", chat.ErrUnavailable, c.where, d.Round(time.Second))
		}
		if err := await.Sleep(ctx, d+c.jitter(d/8)); err != nil {
			return pass, err
		}
	}
}

// pause before the next attempt: what the provider asked for, else exponential
// with the upper half random.
func (c *Client) pause(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + c.jitter(asked/8)
	}
	d := c.cfg.BackoffMin
	for i := 1; i < attempt && d < c.cfg.BackoffMax; i++ {
		d *= 2
	}
	d = min(d, c.cfg.BackoffMax)
	return d/2 + c.jitter(d/2)
}

func (c *Client) jitter(d time.Duration) time.Duration { return time.Duration(c.rand() * float64(d)) }

// encode builds the request body once for all attempts.
func (c *Client) encode(r chat.Request) ([]byte, error) {
	limit := r.MaxTokens
	if limit <= 0 {
		limit = c.cfg.MaxOutputTokens
	}
	m := maps.Clone(c.cfg.Extra)
	if m == nil {
		m = map[string]any{}
	}
	maps.Copy(m, c.dialect.body(c.cfg, r, limit+c.cfg.ReasoningTokens))
	m["model"], m["stream"] = r.Model, false
	if t := cmp.Or(r.Temperature, c.cfg.Temperature); t != nil {
		m["temperature"] = *t
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("%w: extra fields or schemas: %v", chat.ErrRejected, err)
	}
	return buf.Bytes(), nil
}

// attempt makes one HTTP call and reads all of its answer.
func (c *Client) attempt(ctx context.Context, model string, body []byte) (chat.Response, *fault) {
	call := Call{Family: c.cfg.Family, Model: model}
	start := time.Now()
	a, f := c.exchange(ctx, body, &call)
	call.Duration, call.InputTokens, call.OutputTokens = time.Since(start), a.Usage.Input, a.Usage.Output
	c.tally.call(call)
	c.onCall(call)
	return a, f
}

func (c *Client) exchange(ctx context.Context, body []byte, call *Call) (chat.Response, *fault) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.BaseURL+c.dialect.path(), bytes.NewReader(body))
	if err != nil {
		return chat.Response{}, c.linkFault(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	c.dialect.header(req.Header, c.key)
	res, err := c.http.Do(req)
	if err != nil {
		return chat.Response{}, c.linkFault(err)
	}
	defer res.Body.Close()
	call.Code = res.StatusCode
	data, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxAnswerBytes+1))
	if res.StatusCode != http.StatusOK { // a cut error body is still an error
		return chat.Response{}, c.httpFault(res.StatusCode, res.Header, data)
	}
	if err != nil {
		return chat.Response{}, c.linkFault(err)
	}
	return c.read(data)
}

// read makes an answer of a body of status 200, which may still be an error or
// no answer at all: gateways do both.
func (c *Client) read(data []byte) (chat.Response, *fault) {
	if int64(len(data)) > c.cfg.MaxAnswerBytes {
		return chat.Response{}, c.answerFault("the answer exceeds %d bytes", c.cfg.MaxAnswerBytes)
	}
	if f := c.embeddedFault(data); f != nil {
		return chat.Response{}, f
	}
	a, ok := c.dialect.read(data)
	if !ok {
		return chat.Response{}, c.answerFault("the answer is not one of this API (%d bytes): is the family right?", len(data))
	}
	return a, nil
}

// embeddedFault finds an error object in a body of status 200 and judges it by
// the status it names.
func (c *Client) embeddedFault(data []byte) *fault {
	var probe struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &probe) != nil || len(probe.Error) == 0 || string(probe.Error) == "null" {
		return nil
	}
	status := http.StatusBadGateway
	w := readFault(data)
	var n int
	if _, err := fmt.Sscanf(w.code, "%d", &n); err == nil && n >= 400 && n < 600 {
		status = n
	} else if w.tooLong() {
		status = http.StatusBadRequest
	}
	return c.httpFault(status, http.Header{}, data)
}

// readable prefers what the provider says it used; its words are untrusted.
func readable(said, asked string) string {
	if said == "" || len(said) > 200 || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return asked
	}
	return said
}
