package mapjob

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestHostileSchemas(t *testing.T) {
	doubling := `{"$defs":{`
	for i := range 40 {
		doubling += fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	doubling += `"a40":{}},"$ref":"#/$defs/a0"}`
	for _, c := range []struct{ name, schema, want string }{
		{"none", ``, "there is none"},
		{"not JSON", `{"type":`, "not JSON"},
		{"a list", `[]`, "neither an object nor a boolean"},
		{"unknown type", `{"type":"text"}`, "schema:"},
		{"remote", `{"$ref":"https://example.com/s.json"}`, "may refer to itself only"},
		{"file", `{"$ref":"file:///etc/passwd"}`, "may refer to itself only"},
		{"path", `{"$ref":"/etc/passwd"}`, "schema:"},
		{"deep remote", `{"properties":{"a":{"items":{"$ref":"http://127.0.0.1:1/x"}}}}`, "may refer to itself only"},
		{"remote dialect", `{"$schema":"http://example.com/meta"}`, "may refer to itself only"},
		{"dangling", `{"$ref":"#/$defs/nothing"}`, "schema:"},
		{"a ref to itself", `{"$ref":"#"}`, "schema:"},
		{"a ring", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "schema:"},
		{"doubling", doubling, "more than"},
		{"doubling per level", `{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}`, "more than"},
		{"doubling by patterns", `{"patternProperties":{"a":{"$ref":"#"},"^.":{"$ref":"#"}}}`, "more than"},
		{"dynamic", `{"$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x"}}}`, "not supported"},
		{"large", `{"description":"` + strings.Repeat("x", 1<<20) + `"}`, "at most 65536"},
		{"deep", strings.Repeat(`{"not":`, 5000) + `{}` + strings.Repeat(`}`, 5000), "nested deeper"},
		{"bad pattern", `{"pattern":"("}`, "schema:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, err := CompileSchema(json.RawMessage(c.schema))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
				t.Errorf("err = %v, want %q", err, c.want)
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnswers(t *testing.T) {
	label := compiled(t, `{"type":"object","properties":{"label":{"enum":["ham","spam"]},"score":{"type":"number","maximum":1}},"required":["label","score"],"additionalProperties":false}`)
	for _, c := range []struct {
		text, want string
		kind       Kind
		says       []string
	}{
		{text: `{"label":"ham","score":0.5}`, want: `{"label":"ham","score":0.5}`},
		{text: "\n```json\n{\"label\": \"spam\",\n\"score\": 1}\n```\n", want: `{"label":"spam","score":1}`},
		{text: `{"label":"ham","score":0.10000000000000000001}`, want: `{"label":"ham","score":0.10000000000000000001}`},
		{text: `I think it is ham.`, kind: Malformed},
		{text: ``, kind: Malformed},
		{text: `{"label":"ham","score":`, kind: Malformed},
		{text: `{"label":"ham","score":1} and more`, kind: Malformed, says: []string{"text behind it"}},
		{text: `{"label":"eggs","score":7,"why":1}`, kind: Mismatch, says: []string{"/label:", "/score:", "why"}},
		{text: `[]`, kind: Mismatch},
		{text: strings.Repeat("[", 100_000), kind: Malformed},
		{text: strings.Repeat("[", 200) + strings.Repeat("]", 200), kind: Mismatch, says: []string{"nested deeper"}},
		{text: `"` + strings.Repeat("x", MaxAnswerBytes) + `"`, kind: Malformed, says: []string{"at most"}},
	} {
		v, bad := Answer(label, c.text)
		if c.kind == "" {
			if bad != nil || string(v) != c.want {
				t.Errorf("%.60q: %s, %v", c.text, v, bad)
			}
			continue
		}
		if bad == nil || bad.Kind != c.kind {
			t.Errorf("%.60q: %v, want %s", c.text, bad, c.kind)
			continue
		}
		for _, s := range c.says {
			if !strings.Contains(Repair(bad), s) {
				t.Errorf("%.60q: the model is not told %q:\n%s", c.text, s, Repair(bad))
			}
		}
	}
}

// A tree is recursive and harmless.
func TestRecursionThatEnds(t *testing.T) {
	tree := compiled(t, `{"type":"object","properties":{"name":{"type":"string"},"left":{"$ref":"#"},"right":{"$ref":"#"},"more":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`)
	if bad := tree.Violations(map[string]any{"name": "a", "left": map[string]any{"name": "b", "right": map[string]any{}}}); len(bad) != 1 || !strings.HasPrefix(bad[0], "/left/right: ") {
		t.Errorf("%q", bad)
	}
}
