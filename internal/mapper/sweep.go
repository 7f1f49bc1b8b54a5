package mapper

import (
	"context"
	"strings"
	"time"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/mapjob"
)

const (
	// sweepEvery: how often inputs that are over are looked for.
	sweepEvery = time.Hour
	// unusedFor: an upload that no job has named for so long is nobody's.
	unusedFor = 24 * time.Hour
)

// sweep deletes inputs in the background, once everything that was published
// before is known.
func (s *Service) sweep(ctx context.Context, end uint64) {
	if s.c.KeepInputs == 0 || s.applied.Wait(ctx, end) != nil {
		return
	}
	for {
		if n, err := s.Sweep(ctx); err != nil && !isEnd(ctx, err) {
			s.d.Logger.Warn("inputs of map jobs that are over cannot be deleted", "error", err)
		} else if n > 0 {
			s.d.Logger.Info("inputs of map jobs that are over were deleted", "inputs", n)
		}
		if await.Sleep(ctx, sweepEvery) != nil {
			return
		}
	}
}

// Sweep deletes the inputs whose last job ended long ago, and uploads that no
// job has named; it says how many. Objects that others put into the bucket are
// theirs.
func (s *Service) Sweep(ctx context.Context) (n int, err error) {
	now := s.d.Now()
	runs, ended := map[string]bool{}, map[string]time.Time{} // by object
	err = s.d.Store.View(func(tx api.JobTx) error {
		return tx.Jobs(func(j *mapjob.Job) (bool, error) {
			object := j.Definition.Input.Object
			runs[object] = runs[object] || j.State == mapjob.Running
			if j.Updated.After(ended[object]) {
				ended[object] = j.Updated
			}
			return true, nil
		})
	})
	if err != nil {
		return 0, err
	}
	var over []string
	err = s.d.Objects.ListObjects(ctx, func(name string, stored time.Time) error {
		_, base, _ := strings.Cut(name, "/")
		at, known := ended[name]
		switch {
		case !strings.HasPrefix(base, uploadPrefix) && !strings.HasPrefix(base, jobPrefix), runs[name]:
		case known && now.Sub(at) > s.c.KeepInputs, !known && now.Sub(stored) > unusedFor:
			over = append(over, name)
		}
		return nil
	})
	for _, name := range over {
		if err == nil {
			err = s.d.Objects.DeleteObject(ctx, name)
			n++
		}
	}
	return n, err
}
