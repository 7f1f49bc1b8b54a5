package toolsvc

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"reflect"

	"lcm/internal/api"
	"lcm/internal/problem"
)

// archiveTools are those that need the log alone: they also answer where the
// log is too damaged for anything else.
func (s *Service) archiveTools() []Tool {
	return []Tool{
		streamed("verify", "Read the whole log and check it; answers JSON lines: progress, then the reply.", s.d.Verify).whole(),
		{
			Name: "export", Doc: "Everything the log, the inbox and the dead letters hold, as a backup reads it.", Long: true, Whole: true,
			Body: "nothing",
			in:   reflect.TypeFor[api.ExportIn](), out: reflect.TypeFor[struct{}](),
			raw: func(ctx context.Context, raw json.RawMessage, _ io.Reader, w *answer) error {
				var in api.ExportIn
				if err := decodeStrict(raw, &in); err != nil {
					return problem.New(problem.Invalid, "export: %w", err)
				}
				return s.d.Export(ctx, in, w.bytes())
			},
		},
	}
}

// ArchiveHandler serves the tools that need nothing but the log.
func ArchiveHandler(d Deps, log *slog.Logger, version string) (http.Handler, error) {
	s := &Service{c: DefaultConfig(), d: d}
	return s.handler(s.fenced(s.archiveTools()), log, version)
}

// streamed makes a tool that answers progress while it works: JSON lines over
// HTTP, the reply alone as a call.
func streamed[In, P, R any](name, doc string, f func(context.Context, In, func(P)) (*R, error)) Tool {
	run := func(ctx context.Context, raw json.RawMessage, progress func(P)) (*R, error) {
		var in In
		if err := decodeStrict(raw, &in); err != nil {
			return nil, problem.New(problem.Invalid, "%s: %w", name, err)
		}
		if f == nil {
			return nil, problem.New(problem.Unavailable, "%s is not served here", name)
		}
		return f(ctx, in, progress)
	}
	return Tool{
		Name: name, Doc: doc, Long: true,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[api.Streamed[P, R]](),
		call: func(ctx context.Context, raw json.RawMessage) (any, error) {
			return run(ctx, raw, func(P) {})
		},
		raw: func(ctx context.Context, raw json.RawMessage, _ io.Reader, w *answer) error {
			started := false
			reply, err := run(ctx, raw, func(p P) {
				started = true
				_ = w.line(api.Streamed[P, R]{Progress: &p}) // who has gone away ends ctx
			})
			if err != nil && !started {
				return err // nothing was answered yet: the status can still say so
			}
			line := api.Streamed[P, R]{Reply: reply}
			if err != nil {
				line.Reply = nil
				line.Error, _ = json.Marshal(problem.From(err))
			}
			return w.line(line)
		},
	}
}
