package natsmicro

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/internal/request"
)

// mad is Writes that panics.
type mad struct{ *ingestor }

func (mad) Append(context.Context, api.AppendRequest) (*api.AppendReply, error) {
	panic("out of its mind")
}

// A panic fails its own request, in one line that names it; the server answers
// the next ones.
func TestPanicIsOneFailedRequest(t *testing.T) {
	dial := connect(t)
	var log bytes.Buffer
	nc := dial()
	s, err := ServeWrites(nc, mad{&ingestor{}}, Options{Name: "lcm-ingestor", Version: "1.0.0", Logger: request.Logger(slog.New(slog.NewTextHandler(&log, nil)))})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := NewWrites(dial())
	for range 2 {
		_, err = c.Append(request.WithID(t.Context(), "r-77"), turns(1, 10))
		if !problem.IsCode(err, problem.Internal) || strings.Contains(err.Error(), "mind") || strings.Contains(err.Error(), "goroutine") {
			t.Errorf("%v", err)
		}
	}
	if _, err := c.Configure(t.Context(), api.ConfigureRequest{}); problem.IsCode(err, problem.Internal) {
		t.Errorf("the next request: %v", err)
	}
	stop(t, s) // nobody writes to the log any more
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "request=r-77") || !strings.Contains(log.String(), "out of its mind") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
