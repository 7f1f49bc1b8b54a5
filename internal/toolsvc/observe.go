package toolsvc

import (
	"context"
	"encoding/json"
	"io"
	"runtime/debug"
	"time"

	"lcm/internal/problem"
	"lcm/internal/request"
)

// observed makes every call of a tool, whoever makes it, a span of its request
// and a number for the observer.
func (s *Service) observed(t Tool) Tool {
	if call := t.call; call != nil {
		t.call = func(ctx context.Context, in json.RawMessage) (out any, err error) {
			ctx, end := s.begin(ctx, t.Name)
			defer end(&err)
			return call(ctx, in)
		}
	}
	if raw := t.raw; raw != nil {
		t.raw = func(ctx context.Context, in json.RawMessage, body io.Reader, w *answer) (err error) {
			ctx, end := s.begin(ctx, t.Name)
			defer end(&err)
			return raw(ctx, in, body, w)
		}
	}
	if request := t.request; request != nil {
		t.request = func(ctx context.Context, in json.RawMessage, body []byte, w *answer) (err error) {
			ctx, end := s.begin(ctx, t.Name)
			defer end(&err)
			return request(ctx, in, body, w)
		}
	}
	return t
}

// begin returns what is deferred to end a call. A panic becomes a failed call:
// one line in the log, and the process goes on.
func (s *Service) begin(ctx context.Context, name string) (context.Context, func(*error)) {
	start := time.Now()
	ctx, end := request.Start(ctx, "tool "+name, request.Server)
	return ctx, func(err *error) {
		if v := recover(); v != nil {
			s.d.Logger.ErrorContext(ctx, "tool panicked", "tool", name, "panic", v, "stack", string(debug.Stack()))
			*err = problem.New(problem.Internal, "%s failed inside", name)
		}
		end(*err)
		if s.d.Observer != nil {
			s.d.Observer.Called(name, *err, time.Since(start))
		}
	}
}
