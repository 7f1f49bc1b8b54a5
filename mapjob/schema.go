package mapjob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// MaxSchemaBytes: the schema stands in every prompt.
	MaxSchemaBytes = 64 << 10
	// MaxAnswerBytes of one result.
	MaxAnswerBytes = 1 << 20
	// maxAnswerDepth of one result, and maxChecks of one value in it: what a
	// schema may ask of its validator, so that none can make it run for ever.
	maxAnswerDepth = 64
	maxChecks      = 10_000
	// maxViolations that are told to a model at once.
	maxViolations = 40
)

// Schema of a row's result, compiled. It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	text     string
}

// Text of the schema on one line, for a prompt.
func (s *Schema) Text() string { return s.text }

// denied loads nothing: a schema is whole, or it is refused.
type denied struct{}

func (denied) Load(url string) (any, error) {
	return nil, fmt.Errorf("$ref to %s: a schema may refer to itself only", url)
}

// CompileSchema reads a JSON Schema (2020-12 unless it names another draft). It
// refuses one that refers to anything outside itself, that loops, or whose
// validation could take exponential time.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	if len(raw) > MaxSchemaBytes {
		return nil, fmt.Errorf("schema: it has %d bytes, at most %d are allowed: it stands in every prompt", len(raw), MaxSchemaBytes)
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("schema: there is none: say what a result looks like, as in {\"type\":\"object\"}")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("schema: it is not JSON: %w", err)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, errors.New("schema: it is neither an object nor a boolean")
	}
	if depth(doc) > maxAnswerDepth*4 {
		return nil, fmt.Errorf("schema: it is nested deeper than %d", maxAnswerDepth*4)
	}
	const here = "lcm:///schema" // where the schema stands; nothing is loaded from there
	c := jsonschema.NewCompiler()
	c.UseLoader(denied{})
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(here, doc); err != nil {
		return nil, schemaError(err, here)
	}
	s, err := c.Compile(here)
	if err != nil {
		return nil, schemaError(err, here)
	}
	if err := bounded(s); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{s, text.String()}, nil
}

// schemaError says what is wrong without the name it is compiled under.
func schemaError(err error, here string) error {
	var load *jsonschema.LoadURLError
	if errors.As(err, &load) {
		err = load.Err
	}
	text := strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), here, "")
	return fmt.Errorf("schema: %s", clip(text, 600))
}

// Violations of a value, one line each with the place in the value; nil = it
// holds.
func (s *Schema) Violations(value any) []string {
	if depth(value) > maxAnswerDepth {
		return []string{fmt.Sprintf("/: nested deeper than %d", maxAnswerDepth)}
	}
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return []string{"/: " + err.Error()}
	}
	p := message.NewPrinter(language.English)
	var out []string
	leaves(v, func(e *jsonschema.ValidationError) {
		line := "/" + strings.Join(e.InstanceLocation, "/") + ": " + clip(e.ErrorKind.LocalizedString(p), 300)
		if len(out) <= maxViolations {
			out = append(out, line)
		}
	})
	if len(out) > maxViolations {
		out[maxViolations] = "and more"
	}
	return out
}

// leaves visits the errors that are no summary of others.
func leaves(e *jsonschema.ValidationError, visit func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
		return
	}
	for _, c := range e.Causes {
		leaves(c, visit)
	}
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, c := range v {
			deepest = max(deepest, depth(c))
		}
	case []any:
		for _, c := range v {
			deepest = max(deepest, depth(c))
		}
	default:
		return 0
	}
	return deepest + 1
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
