package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"lcm/chat"
)

// cause says what a failed call tells about the next one.
type cause string

const (
	causeRequest  cause = "request"  // this request alone: the provider is well
	causeRefused  cause = "refused"  // key, permission, model or URL is wrong
	causeQuota    cause = "quota"    // nothing is left to spend
	causeOverload cause = "overload" // come back later
	causeOutage   cause = "outage"   // no answer, a server error, garbage
)

// fault is a failed attempt.
type fault struct {
	cause cause
	retry bool
	after time.Duration // pause the provider asked for, 0 = none
	code  int           // HTTP status, 0 = no answer
	err   error         // wraps one of chat's errors
}

// wireFault is what an error body says, whatever its shape.
type wireFault struct{ kind, code, message string }

// readFault understands {"error": {…}}, {"error": "…"} and a bare object.
// Anything else, such as a proxy's HTML, says nothing.
func readFault(body []byte) wireFault {
	var outer map[string]json.RawMessage
	if json.Unmarshal(body, &outer) != nil {
		return wireFault{}
	}
	inner := outer
	if raw, ok := outer["error"]; ok {
		var text string
		if json.Unmarshal(raw, &text) == nil {
			return wireFault{message: text}
		}
		inner = nil
		if json.Unmarshal(raw, &inner) != nil {
			return wireFault{}
		}
	}
	return wireFault{kind: scalar(inner["type"]), code: scalar(inner["code"]), message: scalar(inner["message"])}
}

// scalar reads a string or a number; codes come as both.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var n json.Number
	if json.Unmarshal(raw, &n) == nil {
		return n.String()
	}
	return ""
}

// tooLong are the ways providers say that the input does not fit the model:
// OpenAI, vLLM, llama.cpp, Anthropic (prompt, and prompt plus output), others.
var tooLong = []string{
	"context_length_exceeded", "maximum context length", "exceed_context_size", "context size",
	"prompt is too long", "exceed context limit", "context window", "input is too long", "input too long",
}

func (w wireFault) tooLong() bool {
	all := strings.ToLower(w.kind + " " + w.code + " " + w.message)
	for _, s := range tooLong {
		if strings.Contains(all, s) {
			return true
		}
	}
	return false
}

func (w wireFault) quota() bool {
	return w.code == "insufficient_quota" || w.kind == "insufficient_quota" || w.kind == "billing_error"
}

// statusOverloaded is Anthropic's and others' "overloaded".
const statusOverloaded = 529

// httpFault classifies an answer that is an error.
func (c *Client) httpFault(status int, h http.Header, body []byte) *fault {
	w := readFault(body)
	f := &fault{code: status, after: retryAfter(h, time.Now())}
	base := chat.ErrUnavailable
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		f.cause, base = causeRefused, chat.ErrRefused
		w.message = "" // providers quote the key they refuse
	case status == http.StatusNotFound || status >= 300 && status < 400:
		f.cause, base = causeRefused, chat.ErrRefused
	case status == http.StatusPaymentRequired || w.quota():
		f.cause = causeQuota
	case status == http.StatusRequestEntityTooLarge || status < 500 && status != http.StatusTooManyRequests && w.tooLong():
		f.cause, base = causeRequest, chat.ErrTooLong
	case status == http.StatusRequestTimeout || status == http.StatusConflict ||
		status == http.StatusTooManyRequests || status == statusOverloaded:
		f.cause, f.retry = causeOverload, true
	case status >= 500:
		f.cause, f.retry = causeOutage, true
	default:
		f.cause, base = causeRequest, chat.ErrRejected
	}
	switch h.Get("X-Should-Retry") { // OpenAI and Anthropic send it where they know better
	case "true":
		f.retry = f.retry || base == chat.ErrRejected
	case "false":
		f.retry = false
	}
	f.err = fmt.Errorf("%w: %s answered %d%s", base, c.where, status, c.describe(w))
	return f
}

// answerFault is an answer with status 200 that is none.
func (c *Client) answerFault(format string, a ...any) *fault {
	what := c.scrub(fmt.Sprintf(format, a...))
	return &fault{
		cause: causeOutage, retry: true, code: http.StatusOK,
		err: fmt.Errorf("%w: %s: %s", chat.ErrUnavailable, c.where, what),
	}
}

// linkFault is a call that brought no whole answer.
func (c *Client) linkFault(err error) *fault {
	var u *url.Error
	if errors.As(err, &u) { // its text holds the URL
		err = u.Err
	}
	what := c.scrub(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		what = "no answer within " + c.cfg.Timeout.String()
	}
	return &fault{
		cause: causeOutage, retry: true,
		err: fmt.Errorf("%w: %s: %s", chat.ErrUnavailable, c.where, what),
	}
}

func (c *Client) describe(w wireFault) string {
	var b strings.Builder
	for _, s := range []string{w.kind, w.code} {
		if s = c.scrub(s); s != "" {
			b.WriteString(" " + s)
		}
	}
	if s := c.scrub(w.message); s != "" {
		b.WriteString(": " + s)
	}
	return b.String()
}

// keyLike matches what looks like a key, also half masked.
var keyLike = regexp.MustCompile(`(?i)\b(?:sk|pk|rk|key|api)-[a-z0-9_.*…-]{6,}|\bbearer\s+\S+|[a-z0-9_*-]{32,}`)

const maxQuoteBytes = 240

// scrub makes a provider's words fit to stand in an error: one line, bounded,
// without anything that is or looks like a key.
func (c *Client) scrub(s string) string {
	if c.key != "" {
		s = strings.ReplaceAll(s, string(c.key), "[secret]")
	}
	s = keyLike.ReplaceAllString(s, "[secret]")
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	if len(s) > maxQuoteBytes {
		s = strings.ToValidUTF8(s[:maxQuoteBytes], "") + "…"
	}
	return s
}

// retryAfter reads retry-after-ms (milliseconds) or retry-after (seconds or an
// HTTP date); 0 = not said.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if d, ok := parseUnits(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	s := h.Get("Retry-After")
	if d, ok := parseUnits(s, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(s); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

func parseUnits(s string, unit time.Duration) (time.Duration, bool) {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(f >= 0) {
		return 0, false
	}
	return time.Duration(min(f, 1e6) * float64(unit)), true
}
