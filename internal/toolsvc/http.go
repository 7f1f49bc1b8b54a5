package toolsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"lcm/internal/problem"
)

// Handler serves the tools under /v1, their OpenAPI description, and health.
func (s *Service) Handler(log *slog.Logger, version string) (http.Handler, error) {
	mux := http.NewServeMux()
	tools := s.Tools()
	spec, err := openAPI(tools, version)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		h := s.serve(t, log)
		mux.HandleFunc("POST /v1/"+t.Name, h)
		if t.Reads {
			mux.HandleFunc("GET /v1/"+t.Name, h)
		}
	}
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(spec)
	})
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, problem.New(problem.NotFound, "there is no %s %s", r.Method, r.URL.Path).WithHint("GET /v1/openapi.json describes what there is"))
	})
	return loopbackOnly(mux), nil
}

// loopbackOnly refuses what a browser page of another origin sends to this
// machine: a request must name a loopback host, and an Origin, where there is
// one, too. Until callers authenticate this is the whole fence.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, err := url.Parse(r.Header.Get("Origin"))
		if !loopbackHost(r.Host) || err != nil || origin.Host != "" && !loopbackHost(origin.Host) {
			writeProblem(w, problem.New(problem.Forbidden, "this server answers loopback requests only, not host %q", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopbackHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Service) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.c.ReadDeadline)
	defer cancel()
	st, err := s.d.Reads.Status(ctx)
	if err != nil {
		writeProblem(w, problem.From(err))
		return
	}
	writeJSON(w, http.StatusOK, st)
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
			log.Error("tool failed", "tool", t.Name, "error", err)
		}
		writeProblem(w, p)
	}
}

// run decodes the parameters, calls the tool and writes its answer.
func (s *Service) run(ctx context.Context, t Tool, w http.ResponseWriter, r *http.Request) error {
	in, err := queryJSON(t, r.URL.Query())
	if err != nil {
		return err
	}
	if t.raw != nil {
		return t.raw(ctx, in, r.Body, answerTo(w))
	}
	if r.Method == http.MethodPost && r.ContentLength != 0 {
		if len(r.URL.RawQuery) > 0 {
			return problem.New(problem.Invalid, "%s: parameters go into the query or the body, not both", t.Name)
		}
		body := http.MaxBytesReader(w, r.Body, s.c.MaxBodyBytes)
		in = nil
		if err := json.NewDecoder(body).Decode(&in); err != nil {
			return problem.New(problem.Invalid, "%s: the body is not JSON: %w", t.Name, err)
		}
	}
	out, err := t.Call(ctx, in)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func answerTo(w http.ResponseWriter) *answer {
	started := false
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &answer{
		value: func(v any) error { writeJSON(w, http.StatusOK, v); return nil },
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
	}
}

// queryJSON turns query parameters into the JSON of the tool's parameters, by
// the types of its fields.
func queryJSON(t Tool, q url.Values) (json.RawMessage, error) {
	fields := map[string]reflect.Type{}
	collectFields(t.in, fields)
	obj := map[string]any{}
	for name, vals := range q {
		typ, ok := fields[name]
		if !ok {
			return nil, problem.New(problem.Invalid, "%s has no parameter %q", t.Name, name)
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
		return strconv.Atoi(last)
	case reflect.Bool:
		if last == "" {
			return true, nil
		}
		return strconv.ParseBool(last)
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
func writeProblem(w http.ResponseWriter, p *problem.Error) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status())
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(p.Status()), "status": p.Status(),
		"code": p.Code, "detail": p.Text, "hint": p.Hint,
	})
}
