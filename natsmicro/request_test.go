package natsmicro

import (
	"context"
	"testing"

	"lcm/internal/api"
	"lcm/internal/request"
)

// seen is Writes that keeps the id of the last request.
type seen struct {
	ingestor
	id string
}

func (s *seen) Append(ctx context.Context, q api.AppendRequest) (*api.AppendReply, error) {
	s.id = request.ID(ctx)
	return s.ingestor.Append(ctx, q)
}

func TestRequestIDTravels(t *testing.T) {
	w := &seen{}
	c := serveWrites(t, w)
	for _, tt := range []struct {
		id   string
		kept bool
	}{{"r-1", true}, {"", false}, {"two\nlines", false}} {
		ctx := t.Context()
		if tt.id != "" {
			ctx = request.WithID(ctx, tt.id)
		}
		if _, err := c.Append(ctx, turns(1, 10)); err != nil {
			t.Fatal(err)
		}
		if w.id == "" || (w.id == tt.id) != tt.kept {
			t.Errorf("%q arrived as %q", tt.id, w.id)
		}
	}
}
