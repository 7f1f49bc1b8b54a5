package toolsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/request"
)

// Mount is another surface of the same tools, served beside them.
type Mount struct {
	Path    string
	Doc     string
	Methods []string
	Handler http.Handler
}

// Handler serves the tools under /v1, their OpenAPI description, health, and
// what is mounted.
func (s *Service) Handler(log *slog.Logger, version string, mounts ...Mount) (http.Handler, error) {
	return s.handler(s.Tools(), log, version, mounts...)
}

func (s *Service) handler(tools []Tool, log *slog.Logger, version string, mounts ...Mount) (http.Handler, error) {
	spec, err := openAPI(tools, mounts, version)
	if err != nil {
		return nil, err
	}
	m := routes{http.NewServeMux()}
	for _, t := range tools {
		h := s.serve(t, log)
		if t.Reads {
			m.handle("/v1/"+t.Name, h, http.MethodGet, http.MethodPost)
		} else {
			m.handle("/v1/"+t.Name, h, http.MethodPost)
		}
	}
	for _, o := range mounts {
		m.handle(o.Path, o.Handler.ServeHTTP, o.Methods...)
	}
	m.handle("/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(spec)
	}, http.MethodGet)
	m.handle("/livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Lcm-Epoch", s.d.Log.Epoch()) // who answers, for a command that looks for its owner
		_, _ = fmt.Fprintln(w, "ok")
	}, http.MethodGet)
	m.handle("/readyz", s.ready, http.MethodGet)
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, problem.New(problem.NotFound, "there is no %s %s", r.Method, r.URL.Path).WithHint("GET /v1/openapi.json describes what there is"))
	})
	return request.Identified(m), nil
}

// routes is a mux that says which methods a path has.
type routes struct{ *http.ServeMux }

// handle serves a path under some methods; any other is refused, with those
// named. What answers GET answers HEAD.
func (m routes) handle(path string, h http.HandlerFunc, methods ...string) {
	for _, method := range methods {
		m.HandleFunc(method+" "+path, h)
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	allow := strings.Join(methods, ", ")
	m.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		writeProblem(w, problem.New(problem.Method, "%s takes %s, not %s", path, allow, r.Method))
	})
}

// readyWithin bounds what /readyz asks: a probe gives up sooner than a reader.
const readyWithin = 5 * time.Second

func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyWithin)
	defer cancel()
	st, err := s.d.Reads.Status(ctx)
	if err == nil {
		err = Ready(st, s.c.ReadyLag)
	}
	if err != nil {
		writeProblem(w, problem.From(err))
		return
	}
	writeJSON(w, http.StatusOK, shared(ctx, st))
}

// Ready says why projections in that state should not be asked yet, nil where
// they may. A model provider that is down does not matter to them.
func Ready(st *api.StatusReply, most uint64) error {
	if st.Lag > most || st.IndexLag > most {
		return problem.New(problem.Unavailable, "the rows are %d events behind the log, the index is %d behind the rows; at most %d are taken as ready", st.Lag, st.IndexLag, most).
			WithHint("they catch up by themselves; `lcm status` shows how far they are")
	}
	return nil
}

func (s *Service) serve(t Tool, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if !t.Long {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, s.c.ReadDeadline)
			defer cancel()
		}
		err := s.run(ctx, t, w, r)
		if err == nil {
			return
		}
		p := problem.From(err)
		if p.Code == problem.Internal {
			log.ErrorContext(ctx, "tool failed", "tool", t.Name, "error", err)
		}
		writeProblem(w, p)
	}
}

// run decodes the parameters, calls the tool and writes its answer.
func (s *Service) run(ctx context.Context, t Tool, w http.ResponseWriter, r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.New(problem.Invalid, "%s: the query cannot be read: %w", t.Name, err).WithHint("percent-encode the values of parameters")
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" && t.resumes != "" {
		q.Set(t.resumes, id)
	}
	in, err := queryJSON(t, q)
	if err != nil {
		return err
	}
	if t.changes != nil && r.Method != http.MethodPost {
		if name := t.changes(in); name != "" {
			return problem.New(problem.Invalid, "%s: %s changes things", t.Name, name).WithHint("send it with POST")
		}
	}
	if t.raw != nil && t.Body != "" {
		return t.raw(ctx, in, r.Body, answerTo(w))
	}
	if r.Method == http.MethodPost && r.ContentLength != 0 {
		body, err := s.readBody(t, w, r)
		switch {
		case err != nil:
			return err
		case t.request != nil && isRequest(in, body):
			return t.request(ctx, in, body, answerTo(w))
		}
		if in, err = besideSession(t, q, body); err != nil {
			return err
		}
	}
	if t.raw != nil {
		return t.raw(ctx, in, http.NoBody, answerTo(w))
	}
	out, err := t.Call(ctx, in)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// besideSession are the parameters of a body, with the session of the query
// where it stands there, as that of an append does. Nothing else may: two places
// for one parameter contradict each other sooner or later.
func besideSession(t Tool, q url.Values, body json.RawMessage) (json.RawMessage, error) {
	if len(q) == 0 {
		return body, nil
	}
	var in map[string]json.RawMessage
	if err := decodeStrict(body, &in); err != nil {
		return nil, problem.New(problem.Invalid, "%s: %w", t.Name, err)
	}
	if len(q) > 1 || !q.Has("session") || in["session"] != nil {
		return nil, problem.New(problem.Invalid, "%s: parameters go into the query or the body, not both", t.Name).
			WithHint("session alone may stand in the query of a request with a body")
	}
	if in == nil {
		in = map[string]json.RawMessage{}
	}
	var err error
	if in["session"], err = json.Marshal(q.Get("session")); err != nil {
		return nil, err
	}
	return json.Marshal(in)
}

func (s *Service) readBody(t Tool, w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.c.MaxBodyBytes))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem.New(problem.TooLarge, "%s: the body exceeds %d bytes", t.Name, large.Limit)
	case err != nil:
		return nil, problem.New(problem.Invalid, "%s: reading the body: %w", t.Name, err)
	}
	return body, nil
}

func answerTo(w http.ResponseWriter) *answer {
	started := false
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &answer{
		value:  func(v any) error { writeJSON(w, http.StatusOK, v); return nil },
		refuse: func(p *problem.Error, more map[string]any) { problem.Respond(w, p, more) },
		// Without full duplex an HTTP/1 server reads the rest of the body away
		// as soon as the answer begins: lines of a transcript would vanish.
		duplex: func() bool { return http.NewResponseController(w).EnableFullDuplex() == nil },
		line: func(v any) error {
			if !started {
				w.Header().Set("Content-Type", "application/x-ndjson")
				started = true
			}
			if err := enc.Encode(v); err != nil {
				return err
			}
			return http.NewResponseController(w).Flush()
		},
		bytes: func() io.Writer {
			w.Header().Set("Content-Type", "application/octet-stream")
			return w
		},
		header:   w.Header,
		deadline: func(t time.Time) { _ = http.NewResponseController(w).SetWriteDeadline(t) },
	}
}

// queryJSON turns query parameters into the JSON of the tool's parameters, by
// the types of its fields.
func queryJSON(t Tool, q url.Values) (json.RawMessage, error) {
	fields := map[string]reflect.Type{}
	collectFields(t.in, fields)
	obj := map[string]any{}
	for name, vals := range q {
		if name == "grant" { // addresses are logged on the way
			return nil, problem.New(problem.Invalid, "%s: a grant does not go into the query", t.Name).WithHint("send it as bearer token, or in the body")
		}
		typ, ok := fields[name]
		if !ok {
			return nil, problem.New(problem.Invalid, "%s has no parameter %q", t.Name, name)
		}
		if len(vals) > 1 && typ.Kind() != reflect.Slice {
			return nil, problem.New(problem.Invalid, "%s: parameter %s is given %d times", t.Name, name, len(vals))
		}
		for _, v := range vals {
			if !utf8.ValidString(v) {
				return nil, problem.New(problem.Invalid, "%s: parameter %s is not valid UTF-8: %q", t.Name, name, v)
			}
		}
		v, err := queryValue(typ, vals)
		if err != nil {
			return nil, problem.New(problem.Invalid, "%s: parameter %s: %w", t.Name, name, err)
		}
		obj[name] = v
	}
	return json.Marshal(obj)
}

func collectFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			collectFields(f.Type, into)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		into[name] = f.Type
	}
}

func queryValue(t reflect.Type, vals []string) (any, error) {
	last := vals[len(vals)-1]
	switch t.Kind() {
	case reflect.String:
		return last, nil
	case reflect.Int:
		n, err := strconv.Atoi(last)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number", last)
		}
		return n, nil
	case reflect.Bool:
		if last == "" {
			return true, nil
		}
		b, err := strconv.ParseBool(last)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", last)
		}
		return b, nil
	case reflect.Slice:
		var out []any
		for _, v := range vals {
			e, err := queryValue(t.Elem(), []string{v})
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		return out, nil
	}
	return nil, errors.New("must be sent in a JSON body")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client is gone: nobody to tell
}

// writeProblem answers with RFC 9457 problem details.
func writeProblem(w http.ResponseWriter, p *problem.Error) { problem.Respond(w, p, nil) }
