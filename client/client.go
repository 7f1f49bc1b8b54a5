// Package client calls the tools over HTTP: of a server, or of a handler in
// the same process. The command line has no other way to reach a store, so
// what works against one works against the other.
//
//	c := client.New("http://127.0.0.1:8420")
//	out, err := c.Append(ctx, "chat", client.Turn{Role: "user", Content: "hello"})
//
// A call that failed carries an *Error with a code and a hint. Typed calls are
// tried again where that is safe: reading always is, and appending is because
// every turn has an id. To open a data directory in this process, see package
// lcm.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/request"
)

// Client of one server. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	// tries of a call that may be repeated; pause before the second one, it
	// doubles.
	tries int
	pause time.Duration
}

// New calls the server at base, such as http://127.0.0.1:8420.
func New(base string) *Client {
	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{}, tries: defaultTries, pause: defaultPause}
}

// InProcess calls a handler directly, without a socket.
func InProcess(h http.Handler) *Client {
	c := New("http://localhost")
	c.http.Transport = direct{h}
	return c
}

// WithToken sends a bearer token with every call; "" sends none.
func (c *Client) WithToken(token string) *Client {
	if token == "" {
		return c
	}
	next := c.http.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return c.WithTransport(withToken{token, next})
}

type withToken struct {
	token string
	next  http.RoundTripper
}

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	return t.next.RoundTrip(r)
}

// WithTransport is the client over another transport, for proxies, certificates
// and tests.
func (c *Client) WithTransport(t http.RoundTripper) *Client {
	d := *c
	d.http = &http.Client{Transport: t}
	return &d
}

// Call runs a tool with in as its parameters and decodes its answer into out.
func (c *Client) Call(ctx context.Context, tool string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	resp, err := c.post(ctx, tool, nil, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decode(tool, resp, out)
}

// Tool runs a tool with JSON parameters and answers with its JSON, as it is.
func (c *Client) Tool(ctx context.Context, tool string, in json.RawMessage) (json.RawMessage, error) {
	if tool == "map-watch" {
		return c.mapEnd(ctx, in)
	}
	var out json.RawMessage
	if tool != "append" {
		return out, c.Call(ctx, tool, in, &out)
	}
	var a api.AppendIn
	if err := json.Unmarshal(in, &a); err != nil {
		return nil, problem.New(problem.Invalid, "append: %w", err)
	}
	r, err := c.AppendBody(ctx, a, a.Turns)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}

func (c *Client) mapEnd(ctx context.Context, in json.RawMessage) (json.RawMessage, error) {
	var job api.MapIn
	if err := json.Unmarshal(in, &job); err != nil {
		return nil, problem.New(problem.Invalid, "map-watch: %w", err)
	}
	out, err := c.WatchMap(ctx, job, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// AppendBody posts a body of turns in any accepted format, once: without ids in
// it, a second try could store them twice.
func (c *Client) AppendBody(ctx context.Context, in api.AppendIn, body []byte) (*api.AppendOut, error) {
	resp, err := c.post(ctx, "append", query(in.Scope, map[string]string{"format": in.Format}), "application/octet-stream", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := new(api.AppendOut)
	return out, decode("append", resp, out)
}

// Import streams a transcript; progress may be nil.
func (c *Client) Import(ctx context.Context, in api.ImportIn, r io.Reader, progress func(api.ImportProgress)) ([]api.ImportReport, error) {
	q := query(in.Scope, map[string]string{"format": in.Format, "file": in.File})
	resp, err := c.post(ctx, "import", q, "application/octet-stream", r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, decode("import", resp, nil)
	}
	for d := json.NewDecoder(resp.Body); ; {
		var ev api.ImportEvent
		if err := d.Decode(&ev); err != nil {
			return nil, problem.New(problem.Unavailable, "the server ended the import of %s without a report: %w", in.File, err).WithHint("import it again: what was appended is recognised")
		}
		if ev.Progress != nil {
			if progress != nil {
				progress(*ev.Progress)
			}
			continue
		}
		if ev.Error != nil {
			p := new(problem.Error)
			if err := json.Unmarshal(ev.Error, p); err != nil {
				return ev.Reports, err
			}
			return ev.Reports, p
		}
		return ev.Reports, nil
	}
}

func query(s api.Scope, more map[string]string) url.Values {
	q := url.Values{}
	set := func(k, v string) {
		if v != "" {
			q.Set(k, v)
		}
	}
	set("tenant", s.Tenant)
	set("session", s.Session)
	set("token", s.Token)
	if s.Fresh {
		set("fresh", "true")
	}
	for k, v := range more {
		set(k, v)
	}
	return q
}

func (c *Client) post(ctx context.Context, tool string, q url.Values, contentType string, body io.Reader) (*http.Response, error) {
	u := c.base + "/v1/" + tool
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	request.Inject(ctx, req.Header.Set)
	resp, err := c.http.Do(req)
	if err != nil {
		var p *problem.Error
		if errors.As(err, &p) {
			return nil, p
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, problem.New(problem.Unavailable, "the server at %s does not answer: %w", c.base, noAnswer{err}).WithHint("is `lcm serve` running there?")
	}
	return resp, nil
}

// ErrNoAnswer: nobody answers at the address, or the connection broke before an
// answer began.
var ErrNoAnswer = errors.New("no answer")

// noAnswer is why.
type noAnswer struct{ error }

func (e noAnswer) Unwrap() error      { return e.error }
func (noAnswer) Is(target error) bool { return target == ErrNoAnswer }

// decode reads an answer, or the problem that stands in its place.
func decode(tool string, resp *http.Response, out any) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return problem.New(problem.Unavailable, "%s: the answer broke off: %w", tool, err)
	}
	if resp.StatusCode == http.StatusOK {
		if json.Unmarshal(body, out) != nil {
			return stranger(tool, resp)
		}
		return nil
	}
	p := new(problem.Error)
	if json.Unmarshal(body, p) != nil || p.Status() == 0 {
		return stranger(tool, resp)
	}
	if a, ok := out.(*api.AppendOut); ok && json.Unmarshal(body, a) == nil && len(a.Turns) > 0 {
		return nil // every turn was refused, and each says why
	}
	return p
}

// stranger: what answers there does not speak this protocol.
func stranger(tool string, resp *http.Response) error {
	return problem.New(problem.Unavailable, "what answers at %s is no lcm server of this version: %s: HTTP %s", resp.Request.URL.Host, tool, resp.Status).
		WithHint("see --server, or server.json in the data directory")
}

// direct is a transport that calls a handler in this process. Answers stream
// through a pipe, as they would through a socket.
type direct struct{ h http.Handler }

func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	pr, pw := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: pw, ready: make(chan int, 1)}
	in := req.Clone(req.Context())
	in.RequestURI, in.RemoteAddr = in.URL.RequestURI(), "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Host == "" {
		in.Host = in.URL.Host
	}
	go func() {
		defer in.Body.Close()
		d.h.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK) // if nothing was written
		pw.Close()
	}()
	select {
	case status := <-w.ready:
		return &http.Response{
			Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: w.header.Clone(), Body: pr, ContentLength: -1, Request: req,
		}, nil
	case <-req.Context().Done():
		pr.CloseWithError(req.Context().Err())
		return nil, req.Context().Err()
	}
}

type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter
	ready  chan int
	wrote  bool
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(status int) {
	if !w.wrote {
		w.wrote = true
		w.ready <- status
	}
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// FlushError lets a ResponseController flush: a pipe holds nothing back.
func (w *pipeWriter) FlushError() error { return nil }

// EnableFullDuplex lets a handler answer while it reads: pipes do not mind.
func (w *pipeWriter) EnableFullDuplex() error { return nil }
