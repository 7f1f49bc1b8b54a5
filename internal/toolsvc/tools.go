package toolsvc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
)

// Tool is one entry of the table behind HTTP, NATS micro and OpenAPI.
type Tool struct {
	Name string // path below /v1 and micro endpoint
	Doc  string
	// Reads: the tool changes nothing and also answers GET.
	Reads bool
	// Long: it may run as long as its caller waits.
	Long bool
	// Scope is what a caller must have to use it. Whole: it concerns every
	// tenant, so it is the operator's alone. Grantable: it also answers who has
	// a grant, within that.
	Scope            string
	Whole, Grantable bool
	// as is the name that stands for the tool in a grant, "" = its own.
	as string
	// Body says what is posted beside the parameters: "" = the parameters
	// themselves as JSON, else a description of the raw body.
	Body string
	// Needs are parameters that must be there although the type leaves them
	// open, for the tool's description; the tool itself checks them.
	Needs []string
	// changes names the parameter, if any, that makes a reading tool write.
	changes func(in json.RawMessage) string
	in      reflect.Type
	out     reflect.Type
	call    func(ctx context.Context, in json.RawMessage) (any, error)
	// raw handles tools with a body of their own.
	raw func(ctx context.Context, in json.RawMessage, body io.Reader, w *answer) error
	// resumes names the parameter that the header Last-Event-ID sets.
	resumes string
	// request handles a provider's request that is posted in place of
	// parameters. It writes, so it takes the scope append as well.
	request func(ctx context.Context, in json.RawMessage, body []byte, w *answer) error
}

// Callable reports whether Call can run the tool.
func (t Tool) Callable() bool { return t.call != nil }

// Call runs the tool with JSON parameters, as NATS micro does.
func (t Tool) Call(ctx context.Context, in json.RawMessage) (any, error) {
	if t.call == nil {
		return nil, problem.New(problem.Invalid, "%s takes a body: use HTTP", t.Name)
	}
	return t.call(ctx, in)
}

// Schema of the tool's parameters and of its answer.
func (t Tool) Schema() (in, out *jsonschema.Schema, err error) {
	o := &jsonschema.ForOptions{TypeSchemas: schemaOverrides}
	if in, err = jsonschema.ForType(t.in, o); err != nil {
		return nil, nil, err
	}
	in.Required = append([]string{}, t.Needs...)
	out, err = jsonschema.ForType(t.out, o)
	return in, out, err
}

// schemaOverrides describe the types whose JSON is not their Go shape.
var schemaOverrides = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
	reflect.TypeFor[json.RawMessage](): {},
	// Blocks hold blocks: a tool result's content.
	reflect.TypeFor[events.Block](): {Type: "object", Description: "a typed part of a turn: text, thinking, tool_use, tool_result, image, document, unknown"},
}

func tool[In, Out any](name, doc string, reads, long bool, f func(context.Context, In) (Out, error)) Tool {
	return Tool{
		Name: name, Doc: doc, Reads: reads, Long: long,
		in: reflect.TypeFor[In](), out: reflect.TypeFor[Out](),
		call: func(ctx context.Context, raw json.RawMessage) (any, error) {
			var in In
			if err := decodeStrict(raw, &in); err != nil {
				return nil, problem.New(problem.Invalid, "%s: %w", name, err)
			}
			return f(ctx, in)
		},
	}
}

// decodeStrict reads parameters; a name nobody knows is an error, so that a
// misspelt filter cannot widen a search in silence.
func decodeStrict(raw json.RawMessage, v any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return inWords(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one JSON value")
	}
	return nil
}

// inWords says what is wrong with parameters without the names of Go types.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong) && wrong.Field == "":
		return fmt.Errorf("the parameters are a JSON %s, not an object", wrong.Value)
	case errors.As(err, &wrong):
		name := wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		return fmt.Errorf("parameter %s is a JSON %s: a %s is needed", name, wrong.Value, jsonName(wrong.Type))
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the parameters are not JSON: %w", err)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("there is no parameter %s", name)
	}
	return err
}

func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "JSON object"
	}
	return "number in range"
}

// by names the scope a caller must have.
func (t Tool) by(scope string) Tool { t.Scope = scope; return t }

// grantable lets it answer who has a grant.
func (t Tool) grantable() Tool { t.Grantable = true; return t }

// under lets it answer who has a grant for another tool.
func (t Tool) under(name string) Tool { t.Grantable, t.as = true, name; return t }

// whole leaves it to the operator.
func (t Tool) whole() Tool { t.Whole = true; return t }

// forwarding lets it take a provider's request.
func (t Tool) forwarding(f func(context.Context, json.RawMessage, []byte, *answer) error) Tool {
	t.request = f
	return t
}

// needing names the parameters a call cannot do without.
func (t Tool) needing(names ...string) Tool { t.Needs = names; return t }

// changing names, for a call's parameters, the one that makes it write. Such a
// call must be posted: a GET is sent by whatever shows a link.
func (t Tool) changing(by func(in json.RawMessage) string) Tool { t.changes = by; return t }

func doctorRepairs(in json.RawMessage) string {
	var p struct {
		Repair bool `json:"repair"`
	}
	if json.Unmarshal(in, &p) == nil && p.Repair {
		return "repair"
	}
	return ""
}

// Tools is the table. Every tool in it checks its caller.
func (s *Service) Tools() []Tool {
	tools := s.fenced(slices.Concat(s.dataTools(), s.mapTools(), s.archiveTools()))
	for i := range tools {
		tools[i] = s.observed(tools[i]) // refusals too
	}
	return tools
}

func (s *Service) dataTools() []Tool {
	return []Tool{
		{
			Name: "append", Scope: api.ScopeAppend, Doc: "Append turns to a session. Acknowledged turns are durable.",
			Body:  "turns: one JSON object, an array, {\"messages\": […]}, or one JSON object a line, in any accepted format",
			Needs: []string{"session"},
			in:    reflect.TypeFor[api.AppendIn](), out: reflect.TypeFor[api.AppendOut](), raw: s.rawAppend,
			call: tool("append", "", false, false, func(ctx context.Context, in api.AppendIn) (*api.AppendOut, error) {
				return s.Append(ctx, in, in.Turns)
			}).call,
		},
		{
			Name: "import", Scope: api.ScopeAppend, Doc: "Import a whole transcript; answers JSON lines: progress, then the reports.", Long: true,
			Body: "the transcript's bytes",
			in:   reflect.TypeFor[api.ImportIn](), out: reflect.TypeFor[api.ImportEvent](), raw: s.rawImport,
		},
		s.eventsTool(),
		tool("sessions", "List the sessions of a tenant.", true, false, s.Sessions).by(api.ScopeRead),
		tool("context", "The active context of a session: what to send to the model.", true, true, s.Context).needing("session").by(api.ScopeRead).grantable().forwarding(s.forward),
		tool("configure", "Change the settings of a session.", false, false, s.Configure).needing("session").by(api.ScopeAppend),
		tool("settings", "The settings of a session.", true, false, func(ctx context.Context, in api.StatusIn) (*api.ConfigureOut, error) {
			return s.Configure(ctx, api.ConfigureIn{Scope: in.Scope})
		}).needing("session").by(api.ScopeRead),
		tool("move", "Make another turn the leaf: those behind it leave the context, and are kept.", false, false, s.Move).needing("session", "to").by(api.ScopeAppend),
		tool("condense", "Condense a session now.", false, true, s.Condense).needing("session").by(api.ScopeAppend),
		tool("show", "Turns of a session, verbatim.", true, false, s.Show).needing("session").by(api.ScopeExpand).grantable(),
		tool("grep", "Full-text, phrase or regex search over turns, summaries and files.", true, false, s.Grep).needing("pattern").by(api.ScopeRead).grantable(),
		tool("describe", "What a node, file, entry or session holds, and what reading it costs.", true, false, s.Describe).by(api.ScopeRead).grantable(),
		tool("expand", "A node back to its verbatim turns.", true, false, s.Expand).needing("id").by(api.ScopeExpand).grantable(),
		tool(toolQuery, "Answer a question from turns, citing entries, within a budget of what is read; without a model, the passages that fit it best, word for word.", true, true, s.Query).needing("prompt").by(api.ScopeExpand).grantable(),
		tool(toolGrant, "Hand on a part of what the caller may read: a grant for a sub-agent, bounded in scope, tokens and time.", false, false, s.Grant).by(api.ScopeExpand).grantable(),
		tool(toolRevoke, "End a grant and all that descend from it.", false, false, s.RevokeGrant).needing("id").by(api.ScopeExpand).under(toolGrant), // who hands on may also take back
		tool("status", "Health, lag and sizes.", true, false, s.Status).by(api.ScopeRead),
		tool("doctor", "Integrity checks.", true, true, s.Doctor).changing(doctorRepairs).whole(),
		tool("rebuild", "Drop projections and replay the log into new ones.", false, true, s.Rebuild).whole(),
		tool("dead", "List dead letters, or show one.", true, false, s.Dead).by(api.ScopeAdmin),
		tool("dead-retry", "Drive dead letters through the append path again.", false, true, s.RetryDead).by(api.ScopeAdmin),
	}
}

// answer lets a raw tool write one JSON value, JSON lines, or a problem with
// more than its code and text.
type answer struct {
	value  func(v any) error
	line   func(v any) error
	refuse func(p *problem.Error, more map[string]any)
	// duplex asks for lines that go out while the body still comes in; false
	// = the whole body must be read first.
	duplex func() bool
	// bytes is where a tool writes that answers no JSON.
	bytes func() io.Writer
	// deadline of what is written from now on, where the transport knows one.
	deadline func(time.Time)
	// header of the answer, until it begins.
	header func() http.Header
}

func (s *Service) rawAppend(ctx context.Context, raw json.RawMessage, body io.Reader, w *answer) error {
	var in api.AppendIn
	if err := decodeStrict(raw, &in); err != nil {
		return problem.New(problem.Invalid, "append: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(body, s.c.MaxBodyBytes+1))
	if err != nil {
		return problem.New(problem.Invalid, "append: reading the body: %w", err)
	}
	if int64(len(b)) > s.c.MaxBodyBytes {
		return problem.New(problem.TooLarge, "append: the body exceeds %d bytes", s.c.MaxBodyBytes).WithHint("send fewer turns at once, or import the file")
	}
	out, err := s.Append(ctx, in, b)
	if err != nil {
		return err
	}
	if p := nothingWritten(out); p != nil {
		w.refuse(p, map[string]any{"turns": out.Turns})
		return nil
	}
	return w.value(out)
}

// nothingWritten is the problem of an append whose every turn was refused, so
// that a caller who looks at the status alone is not told that all is well.
func nothingWritten(out *api.AppendOut) *problem.Error {
	for _, t := range out.Turns {
		if t.Error == "" {
			return nil
		}
	}
	if len(out.Turns) == 0 {
		return nil
	}
	first := out.Turns[0]
	if len(out.Turns) > 1 {
		return problem.New(problem.Code(first.Code), "all %d turns were refused; the first: %s", len(out.Turns), first.Error).WithHint("")
	}
	return problem.New(problem.Code(first.Code), "the turn was refused: %s", first.Error).WithHint("")
}

func (s *Service) rawImport(ctx context.Context, raw json.RawMessage, body io.Reader, w *answer) error {
	var in api.ImportIn
	if err := decodeStrict(raw, &in); err != nil {
		return problem.New(problem.Invalid, "import: %w", err)
	}
	last, started := time.Now(), false
	duplex := w.duplex()
	reports, err := s.Import(ctx, in, body, func(p api.ImportProgress) {
		if now := time.Now(); duplex && now.Sub(last) >= 200*time.Millisecond {
			last, started = now, true
			_ = w.line(api.ImportEvent{Progress: &p})
		}
	})
	if err != nil && !started && len(reports) == 0 {
		return err // nothing was answered yet: the status can still say so
	}
	ev := api.ImportEvent{Reports: reports}
	if err != nil {
		ev.Error, _ = json.Marshal(problem.From(err))
	}
	_ = w.line(ev) // the answer has begun: whoever is gone is not told
	return nil
}
