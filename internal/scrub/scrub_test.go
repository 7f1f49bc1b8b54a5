package scrub

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lcm/internal/api"
	"lcm/internal/verify"
)

// TestWalks: none in the first minute, then one in every interval; one that
// failed is repeated soon, and what was found outlives the process.
func TestWalks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scrub.json")
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		var fails atomic.Bool
		verifier := func(_ context.Context, o verify.Options) (*api.VerifyReply, error) {
			if o.EventsPerSecond != 500 || o.Limit == 0 {
				t.Errorf("options %+v", o)
			}
			at = append(at, time.Since(start))
			o.Progress(api.VerifyProgress{Seq: 5, Last: 9})
			time.Sleep(2 * time.Minute)
			if fails.Load() {
				return nil, errors.New("the connection broke")
			}
			return &api.VerifyReply{Epoch: "E", Last: 9, Missing: 1, Faults: []api.VerifyFault{{Seq: 4, Kind: api.FaultMissing}}}, nil
		}
		c := Config{EventsPerSecond: 500, Every: time.Hour, File: file}
		ctx, cancel := context.WithCancel(t.Context())
		s := New(c, Deps{Verify: verifier})
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(90 * time.Second)
		if st := s.Status(); !st.Running || st.Position != 5 || st.Last != 9 {
			t.Errorf("while it runs: %+v", st)
		}
		time.Sleep(5 * time.Minute)
		if st := s.Status(); st.Running || st.Missing != 1 || len(st.Faults) != 1 || st.Ended.IsZero() {
			t.Errorf("behind the first walk: %+v", st)
		}
		fails.Store(true)
		time.Sleep(70 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{time.Minute, 61 * time.Minute, 73 * time.Minute}
		if len(at) != 3 || at[0] != want[0] || at[1] != want[1] || at[2] != want[2] {
			t.Errorf("walks at %v, want %v", at, want)
		}
		if st := New(c, Deps{}).Status(); st.Missing != 1 || st.Running {
			t.Errorf("of another process: %+v", st)
		}
	})
}

func TestOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 48*time.Hour)
		defer cancel()
		err := New(Config{}, Deps{Verify: func(context.Context, verify.Options) (*api.VerifyReply, error) {
			t.Error("it walks")
			return nil, nil
		}}).Run(ctx)
		if err != nil {
			t.Error(err)
		}
	})
}
