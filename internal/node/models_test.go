package node

import (
	"context"
	"errors"
	"testing"

	"lcm/condense"
	"lcm/extract"
)

type broken struct{ err error }

func (f broken) Summarize(context.Context, condense.Request) (condense.Response, error) {
	return condense.Response{}, f.err
}

// What no model makes is made by rule; what is too long comes back to be split,
// and a caller who is gone gets nothing.
func TestSummariesByRuleWhereNoModelAnswers(t *testing.T) {
	r := condense.Request{Target: 100, Limit: 300, Lines: []condense.Line{{Ref: "e1", Role: "user", Text: "Always run the tests before you push to main."}}}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want error
	}{
		{t.Context(), condense.ErrUnavailable, nil},
		{t.Context(), condense.ErrRefused, nil},
		{t.Context(), condense.ErrTooLong, condense.ErrTooLong},
		{gone, context.Canceled, context.Canceled},
	} {
		out, err := fallback{broken{tt.err}}.Summarize(tt.ctx, r)
		if !errors.Is(err, tt.want) || (err == nil) != (out.Text != "" && out.Model == extract.Version) {
			t.Errorf("%v: %+v, %v", tt.err, out, err)
		}
	}
}
