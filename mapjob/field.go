package mapjob

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Field names a value of a result, as in "label" or "address.city"; with row.
// in front one of the input's row. [0:7] behind it takes a part of a text, in
// characters: row.date[0:7] is the month of 2024-03-17.
type Field struct {
	Name  string
	row   bool
	path  []string
	slice bool
	a, b  int
}

var sliced = regexp.MustCompile(`^(.*)\[(\d{1,6}):(\d{1,6})\]$`)

// ParseField reads a field's name.
func ParseField(s string) (Field, error) {
	f := Field{Name: s}
	if m := sliced.FindStringSubmatch(s); m != nil {
		s, f.slice = m[1], true
		f.a, _ = strconv.Atoi(m[2]) // digits, few enough
		f.b, _ = strconv.Atoi(m[3])
	}
	if rest, ok := strings.CutPrefix(s, "row."); ok {
		s, f.row = rest, true
	}
	f.path = strings.Split(s, ".")
	for _, p := range f.path {
		if p == "" {
			return f, fmt.Errorf("field %q: a name is empty", f.Name)
		}
	}
	if f.slice && f.a >= f.b {
		return f, fmt.Errorf("field %q: the part is empty", f.Name)
	}
	return f, nil
}

// Of finds the field in a result and its row; ok = false: it is not there.
// Numbers come as json.Number.
func (f Field) Of(result, row any) (v any, ok bool) {
	v = result
	if f.row {
		v = row
	}
	for _, name := range f.path {
		obj, isObj := v.(map[string]any)
		if !isObj {
			return nil, false
		}
		if v, ok = obj[name]; !ok {
			return nil, false
		}
	}
	if !f.slice {
		return v, true
	}
	s, isText := v.(string)
	if !isText {
		return nil, false
	}
	r := []rune(s)
	return string(r[min(f.a, len(r)):min(f.b, len(r))]), true
}

// text of a value, as a group's name and for comparing.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case nil:
		return "null"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// Condition of rows that count: field, operator, value.
type Condition struct {
	field Field
	op    string
	value string
}

// conditions, longest operator first.
var operators = []string{"!=", ">=", "<=", "^=", "~=", "=", ">", "<"}

// ParseCondition reads label=ham, score>=0.5, row.date^=2024-03 (begins with),
// name~=smith (contains).
func ParseCondition(s string) (Condition, error) {
	at, op := len(s), ""
	for _, o := range operators {
		if i := strings.Index(s, o); i > 0 && i < at {
			at, op = i, o
		}
	}
	if op == "" {
		return Condition{}, fmt.Errorf("condition %q: write FIELD=VALUE, or one of != >= <= > < ^= ~=", s)
	}
	f, err := ParseField(strings.TrimSpace(s[:at]))
	return Condition{f, op, strings.TrimSpace(s[at+len(op):])}, err
}

// Holds reports whether a row counts. A field that is not there holds !=
// alone.
func (c Condition) Holds(result, row any) bool {
	v, ok := c.field.Of(result, row)
	if !ok {
		return c.op == "!="
	}
	have := text(v)
	switch c.op {
	case "^=":
		return strings.HasPrefix(have, c.value)
	case "~=":
		return strings.Contains(have, c.value)
	}
	n := compare(v, c.value)
	switch c.op {
	case "=":
		return n == 0
	case "!=":
		return n != 0
	case ">":
		return n > 0
	case "<":
		return n < 0
	case ">=":
		return n >= 0
	}
	return n <= 0
}

// compare a value with a literal: as numbers where both are.
func compare(v any, literal string) int {
	if n, ok := number(v); ok {
		if m, ok := number(json.Number(literal)); ok {
			return n.Cmp(m)
		}
	}
	return strings.Compare(text(v), literal)
}
