package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// samples are calls that succeed; a path without one is called without
// parameters, and may answer with a problem.
var samples = map[string]string{
	"/v1/append":    `?session=notes|{"id":"1","role":"user","content":"x"}`,
	"/v1/import":    `?session=imported&file=f.jsonl|{"role":"user","content":"x"}`,
	"/v1/context":   `|{"session":"work"}`,
	"/v1/configure": `|{"session":"work","set":{"overhead":1}}`,
	"/v1/settings":  `|{"session":"work"}`,
	"/v1/condense":  `|{"session":"work"}`,
	"/v1/move":      `|{"session":"notes","to":"1"}`,
	"/v1/show":      `|{"session":"work","limit":3,"raw":true}`,
	"/v1/grep":      `|{"pattern":"retry","neighbours":1}`,
	"/v1/describe":  `|{"id":"work/n1"}`,
	"/v1/expand":    `|{"id":"work/n1"}`,
	"/v1/events":    `?session=work&after=start|`,
	"/v1/sessions":  `|{}`, "/v1/status": `|{}`, "/v1/doctor": `|{}`, "/v1/dead": `|{}`, "/v1/dead-retry": `|{}`, "/v1/verify": `|{}`,
	"/v1/rebuild": `|{"index":true}`, "/v1/export": `|`,
	"/mcp": `|{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`,
}

// spec is the part of the description that the test reads.
type spec struct {
	OpenAPI    string `json:"openapi"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
	Paths map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
}

func (s spec) validator(t *testing.T, schema json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	schema = bytes.ReplaceAll(schema, []byte(`"#/components/schemas/`), []byte(`"#/$defs/`))
	var v jsonschema.Schema
	if err := json.Unmarshal(schema, &v); err != nil {
		t.Fatalf("%v: %s", err, schema)
	}
	v.Defs = map[string]*jsonschema.Schema{}
	for name, raw := range s.Components.Schemas {
		var d jsonschema.Schema
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		v.Defs[name] = &d
	}
	r, err := v.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each documented path answers under each documented method, in the documented
// type, and each answer is what its schema says; so is each refusal.
func TestOpenAPIIsTrue(t *testing.T) {
	dir := memory(t)
	serve(t, dir)
	base := serverURL(t, dir)
	lcmIn(t, dir, `{"id":"1","role":"user","content":"x"}`, "append", "notes")
	doc := getJSON[spec](t, base+"/v1/openapi.json")
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 20 {
		t.Fatalf("OpenAPI %s with %d paths", doc.OpenAPI, len(doc.Paths))
	}
	problem := doc.validator(t, doc.Components.Schemas["Problem"])
	for path := range samples {
		if doc.Paths[path] == nil {
			t.Errorf("%s is not documented", path)
		}
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			query, body, sampled := strings.Cut(samples[path], "|")
			if method == "get" {
				query, body = asQuery(t, query, body), ""
			}
			resp, answer := ask(t, strings.ToUpper(method), base+path+query, body)
			kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
			name := strings.ToUpper(method) + " " + path
			if resp.StatusCode != http.StatusOK {
				if sampled || kind != "application/problem+json" {
					t.Errorf("%s: HTTP %d %s: %.300s", name, resp.StatusCode, kind, answer)
				}
				valid(t, name, problem, answer)
				continue
			}
			documented := op.Responses["200"].Content
			if documented[kind].Schema == nil {
				if len(documented) > 0 {
					t.Errorf("%s answers %s, documented are %v", name, kind, documented)
				}
				continue
			}
			if kind == "application/octet-stream" || kind == "text/plain" {
				continue
			}
			v := doc.validator(t, documented[kind].Schema)
			for _, value := range values(kind, answer) {
				valid(t, name, v, value)
			}
		}
		if !strings.HasPrefix(path, "/v1/") || path == "/v1/openapi.json" {
			continue
		}
		resp, answer := ask(t, http.MethodPost, base+path+"?zzz=1", "")
		if resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s with a parameter that nobody knows: HTTP %d", path, resp.StatusCode)
		}
		valid(t, path, problem, answer)
	}
}

// asQuery writes parameters of a JSON body as a query.
func asQuery(t *testing.T, query, body string) string {
	t.Helper()
	if body == "" {
		return query
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	sep := "?"
	for k, v := range in {
		query += sep + k + "=" + strings.Trim(string(v), `"`)
		sep = "&"
	}
	return query
}

// ask reads an answer; of a stream that does not end, what has come in a while.
func ask(t *testing.T, method, url, body string) (*http.Response, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.Contains(url, "/v1/events") {
		var b []byte
		in := bufio.NewReader(resp.Body)
		for range 40 {
			line, err := in.ReadBytes('\n')
			if b = append(b, line...); err != nil {
				break
			}
		}
		return resp, b
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp, b
}

// values of an answer: one, one a line, or one an event.
func values(kind string, answer []byte) (out [][]byte) {
	switch kind {
	case "application/x-ndjson":
		return bytes.Split(bytes.TrimSpace(answer), []byte{'\n'})
	case "text/event-stream":
		for line := range bytes.Lines(answer) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				out = append(out, data)
			}
		}
		return out
	}
	return [][]byte{answer}
}

func valid(t *testing.T, what string, v *jsonschema.Resolved, raw []byte) {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Errorf("%s: not JSON: %v: %.300s", what, err, raw)
	} else if err := v.Validate(value); err != nil {
		t.Errorf("%s: not what is documented: %v\n%.400s", what, err, raw)
	}
}
