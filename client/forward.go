package client

import (
	"bytes"
	"context"
	"net/http"
	"strconv"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// ForwardIn describes a request that is on its way to a provider.
type ForwardIn struct {
	Tenant, Session string
	// Format: openai or anthropic; "" = as the body looks.
	Format string
	// Window of the model, tokens; 0 = as the session has it.
	Window int
}

// Forwarded is what to send to the provider.
type Forwarded struct {
	// Body is always there: where anything failed it is the caller's.
	Body []byte
	// Context: untouched = the caller's bytes fit; projected = summaries stand
	// in for the aged part; passed = the caller's bytes because of Failure.
	Context string
	Failure error
	// Header of the answer: Lcm-Tokens, Lcm-Budget, Lcm-Cut and others.
	Header http.Header
}

// Forward takes the body of a request to a provider, with the whole history in
// it, records what is new, and answers with the body to send. It fails open: an
// agent goes on without its memory.
func (c *Client) Forward(ctx context.Context, in ForwardIn, body []byte) Forwarded {
	out := Forwarded{Body: body, Context: "passed", Header: http.Header{}}
	q := query(api.Scope{Tenant: in.Tenant, Session: in.Session}, map[string]string{"format": in.Format})
	if in.Window > 0 {
		q.Set("window", strconv.Itoa(in.Window))
	}
	resp, err := c.post(ctx, "context", q, "application/json", bytes.NewReader(body))
	if err != nil {
		out.Failure = err
		return out
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		out.Failure = decode("context", resp, nil)
		return out
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(resp.Body); err != nil {
		out.Failure = problem.New(problem.Unavailable, "the answer broke off: %w", err)
		return out
	}
	out.Body, out.Header, out.Context = got.Bytes(), resp.Header, resp.Header.Get("Lcm-Context")
	if reason := resp.Header.Get("Lcm-Passthrough"); reason != "" {
		out.Failure = problem.New(problem.Unavailable, "%s", reason).WithHint("")
	}
	return out
}
