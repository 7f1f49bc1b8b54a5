package mapjob

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// placeholder is {{field}}, {{field.inner}} or {{row}}. Braces that hold
// anything else are the prompt's own text.
var placeholder = regexp.MustCompile(`\{\{\s*([\p{L}\p{N}_$-]+(?:\.[\p{L}\p{N}_$-]+)*)\s*\}\}`)

// wholeRow names the row itself, where it has no field of that name.
const wholeRow = "row"

// Template is a prompt with places for a row's fields.
type Template struct {
	parts []string   // text around the places
	paths [][]string // between them
	names []string
}

// ParseTemplate reads a prompt. A prompt without a place gets the whole row
// behind it.
func ParseTemplate(prompt string) *Template {
	t := &Template{}
	last := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(prompt, -1) {
		t.parts = append(t.parts, prompt[last:m[0]])
		name := prompt[m[2]:m[3]]
		t.names = append(t.names, name)
		t.paths = append(t.paths, strings.Split(name, "."))
		last = m[1]
	}
	rest := prompt[last:]
	if len(t.paths) == 0 {
		t.parts, t.names, t.paths = []string{rest + "\n\n"}, []string{wholeRow}, [][]string{{wholeRow}}
		rest = ""
	}
	t.parts = append(t.parts, rest)
	return t
}

// Fill puts a row's fields into the prompt: strings as they are, everything
// else as JSON. A field that the row does not have is an error that names it.
func (t *Template) Fill(row *Object) (string, *RowError) {
	var b strings.Builder
	for i, path := range t.paths {
		b.WriteString(t.parts[i])
		v, ok := row.field(path)
		if !ok {
			return "", Failed(MissingField, "the prompt names the field %q, which the row does not have", t.names[i])
		}
		b.WriteString(v)
	}
	b.WriteString(t.parts[len(t.parts)-1])
	return b.String(), nil
}

// Object is a row: a JSON object whose fields stand as they were written.
type Object struct {
	raw    []byte
	fields map[string]json.RawMessage
}

// MaxRowBytes of one line. A larger row fails; it is not cut.
const MaxRowBytes = 1 << 20

// ParseRow reads a line of the input.
func ParseRow(line []byte) (*Object, *RowError) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil, Failed(Empty, "the line is empty")
	}
	if !json.Valid(line) {
		var v any
		return nil, Failed(NotJSON, "the line is not JSON: %v", json.Unmarshal(line, &v))
	}
	if line[0] != '{' {
		return nil, Failed(NotObject, "the line is JSON, but not an object: %s", clip(string(line), 60))
	}
	o := &Object{raw: line}
	if err := json.Unmarshal(line, &o.fields); err != nil {
		return nil, Failed(NotJSON, "the line cannot be read: %v", err)
	}
	return o, nil
}

// Oversized is the failure of a line above MaxRowBytes.
func Oversized(size int64) *RowError {
	return Failed(TooLarge, "the line has %d bytes, at most %d are allowed", size, MaxRowBytes)
}

func (o *Object) field(path []string) (string, bool) {
	raw, ok := o.fields[path[0]]
	if !ok {
		if len(path) == 1 && path[0] == wholeRow {
			return string(o.raw), true
		}
		return "", false
	}
	for _, name := range path[1:] {
		var inner map[string]json.RawMessage
		if json.Unmarshal(raw, &inner) != nil {
			return "", false
		}
		if raw, ok = inner[name]; !ok {
			return "", false
		}
	}
	var s string
	if json.Unmarshal(raw, &s) == nil && raw[0] == '"' {
		return s, true
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return "", false
	}
	return b.String(), true
}
