package toolsvc

import (
	"encoding/json"
	"reflect"
	"sort"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"lcm/internal/api"
)

// openAPI describes the table of tools as OpenAPI 3.1.
func openAPI(tools []Tool, mounts []Mount, version string) ([]byte, error) {
	paths := healthPaths()
	for _, m := range mounts {
		item := map[string]any{}
		for _, method := range m.Methods {
			item[strings.ToLower(method)] = map[string]any{
				"operationId": strings.Trim(m.Path, "/"), "summary": m.Doc,
				"requestBody": map[string]any{"content": map[string]any{"application/json": map[string]any{}}},
				"responses":   map[string]any{"200": map[string]any{"description": "as the protocol has it"}},
			}
		}
		paths[m.Path] = item
	}
	for _, t := range tools {
		in, out, err := t.Schema()
		if err != nil {
			return nil, err
		}
		item := map[string]any{"post": operation(t, in, out, true)}
		if t.Reads {
			item["get"] = operation(t, in, out, false)
		}
		paths["/v1/"+t.Name] = item
	}
	return json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "lcm", "version": version,
			"description": "Lossless context management: append turns, read contexts, search and open what was condensed.",
		},
		"paths":      paths,
		"components": map[string]any{"schemas": map[string]any{"Problem": problemSchema()}},
	}, "", "  ")
}

// healthPaths are those that are no tools.
func healthPaths() map[string]any {
	get := func(id, summary string, ok map[string]any) map[string]any {
		return map[string]any{"get": map[string]any{
			"operationId": id, "summary": summary, "responses": map[string]any{"200": ok},
		}}
	}
	status, err := jsonschema.ForType(reflect.TypeFor[api.StatusReply](), &jsonschema.ForOptions{TypeSchemas: schemaOverrides})
	if err != nil {
		status = &jsonschema.Schema{Type: "object"}
	}
	ready := get("readyz", "Whether reads are answered.", content("the state of the projection", "application/json", status))
	ready["get"].(map[string]any)["responses"].(map[string]any)["default"] = problemContent()
	return map[string]any{
		"/livez":           get("livez", "Whether the process answers; Lcm-Epoch names its log.", content("ok", "text/plain", map[string]any{"type": "string"})),
		"/readyz":          ready,
		"/v1/openapi.json": get("openapi", "This description.", content("OpenAPI 3.1", "application/json", map[string]any{"type": "object"})),
	}
}

func problemContent() map[string]any {
	return content("a problem (RFC 9457)", "application/problem+json", map[string]any{"$ref": "#/components/schemas/Problem"})
}

func operation(t Tool, in, out *jsonschema.Schema, post bool) map[string]any {
	op := map[string]any{
		"operationId": t.Name, "summary": t.Doc,
		"responses": map[string]any{
			"200":     content("the answer", answerType(t), out),
			"default": problemContent(),
		},
	}
	if !post {
		op["operationId"] = t.Name + "Get"
	}
	switch {
	case post && t.Body != "":
		op["parameters"] = queryParameters(in)
		op["requestBody"] = map[string]any{
			"description": t.Body, "required": true,
			"content": map[string]any{"application/octet-stream": map[string]any{}},
		}
	case post && t.request != nil:
		op["description"] = forwardDoc
		op["parameters"] = queryParameters(in)
		request := map[string]any{"type": "object", "required": []string{"messages"}, "properties": map[string]any{"messages": map[string]any{"type": "array"}}}
		op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"anyOf": []any{in, request}}}}}
		op["responses"].(map[string]any)["200"] = content("the answer, or the request to send on", answerType(t), map[string]any{"anyOf": []any{out, request}})
	case post:
		if in.Properties["session"] != nil {
			op["description"] = "session may stand in the query, beside a body with the other parameters."
		}
		op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": in}}}
	default:
		op["parameters"] = queryParameters(in)
	}
	return op
}

// forwardDoc says what a posted request of a provider becomes.
const forwardDoc = "Parameters as JSON, or, with the session in the query, the body of a request to OpenAI (chat completions) or Anthropic " +
	"(messages) with the whole history in it: what is new is appended, and the answer is the body to send on. The header Lcm-Context says " +
	"untouched (the caller's bytes), projected (summaries stand in for the aged part) or passed (the caller's bytes, because of what " +
	"Lcm-Passthrough says). Lcm-Tokens, Lcm-Budget, Lcm-Cut, Lcm-Prefix-Hash, Lcm-Degraded, Lcm-Ends-With and Lcm-Token describe it."

func answerType(t Tool) string {
	switch t.Name {
	case "import", "verify":
		return "application/x-ndjson"
	case "events", "map-watch":
		return "text/event-stream"
	case "export":
		return "application/octet-stream"
	}
	return "application/json"
}

func content(description, mediaType string, schema any) map[string]any {
	return map[string]any{
		"description": description,
		"content":     map[string]any{mediaType: map[string]any{"schema": schema}},
	}
}

func queryParameters(in *jsonschema.Schema) []any {
	names := make([]string, 0, len(in.Properties))
	for n := range in.Properties {
		names = append(names, n)
	}
	sort.Strings(names)
	required := map[string]bool{}
	for _, n := range in.Required {
		required[n] = true
	}
	out := []any{}
	for _, n := range names {
		p := in.Properties[n]
		if p.Type == "object" || p.Type == "" && p.Types == nil {
			continue // only in a JSON body
		}
		out = append(out, map[string]any{"name": n, "in": "query", "required": required[n], "schema": p})
	}
	return out
}

func problemSchema() map[string]any {
	str := map[string]any{"type": "string"}
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"type": str, "title": str, "status": map[string]any{"type": "integer"},
			"code": str, "detail": str, "hint": str,
		},
		"required": []string{"title", "status", "code", "detail"},
	}
}
