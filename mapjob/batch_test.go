package mapjob

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What an answer to several rows gives each of them.
func TestAnswersToABatch(t *testing.T) {
	s, err := CompileSchema([]byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, values, bad string }{
		{`{"1":{"n":1},"2":{"n":2}}`, `1:{"n":1} 2:{"n":2}`, ``},
		{"```json\n{\"2\": {\"n\": 2}, \"1\":{\"n\":1}}\n```", `1:{"n":1} 2:{"n":2}`, ``},
		{`{"1":{"n":1}}`, `1:{"n":1}`, `2:mismatch There is no value`},
		{`{"1":{"n":1},"2":{"n":"x"}}`, `1:{"n":1}`, `2:mismatch It does not satisfy the schema: - /n: got string`},
		{`{"1":{"n":1},"2":{"n":1},"2":{"n":2}}`, `1:{"n":1}`, `2:mismatch There is more than one`},
		{`{"0":{"n":1},"1":{"n":2}}`, ``, `1:mismatch It has 2 values for 2 records: nobody has the keys "0" 2:mismatch It has`},
		{`{"1":{"n":1},"2":{"n":2},"3":{"n":3}}`, ``, `1:mismatch It has 3 values for 2 records`},
		{`[{"n":1},{"n":2}]`, ``, `1:malformed It is not one JSON object`},
		{`{"1":{"n":1},"2":{"n":2}} and more`, ``, `1:malformed It is not one JSON object with a value for each key: there is text behind it`},
		{`{"1":{"n":1},`, ``, `1:malformed`},
		{``, ``, `1:malformed`},
	} {
		values, _, bad := Answers(s, c.text, []uint64{1, 2})
		var got, wrong []string
		for _, n := range []uint64{1, 2} {
			if v, ok := values[n]; ok {
				got = append(got, fmt.Sprintf("%d:%s", n, v))
			}
			if e := bad[n]; e != nil {
				wrong = append(wrong, fmt.Sprintf("%d:%s %s", n, e.Kind, strings.Join(strings.Fields(e.Text), " ")))
			}
		}
		if strings.Join(got, " ") != c.values {
			t.Errorf("%s: values %v", c.text, got)
		}
		all := strings.Join(wrong, " ")
		for part := range strings.SplitSeq(c.bad, " 2:") {
			if !strings.Contains(all, part) || c.bad == "" && all != "" {
				t.Errorf("%s: %s", c.text, all)
			}
		}
	}
}

// Whatever a model answers, each row has a value that the schema accepts, or an
// error; and every right answer is accepted.
func TestEveryRowOfABatchIsJudged(t *testing.T) {
	s, err := CompileSchema([]byte(`{"type":"integer"}`))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`\{("[12]":(1|"x"|\{\})(,|))*\}`),
		).Draw(rt, "text")
		values, _, bad := Answers(s, text, []uint64{1, 2})
		for n := range uint64(2) {
			if _, ok := values[n+1]; ok == (bad[n+1] != nil) {
				rt.Fatalf("%q: row %d has value %s and error %v", text, n+1, values[n+1], bad[n+1])
			}
		}
	})
}
