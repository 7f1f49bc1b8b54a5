package projector

import (
	"context"
	"time"

	"lcm/internal/await"
)

// mendPause is how long a store that could not be made anew is left alone.
const mendPause = 5 * time.Second

// suspect tells mendLoop of damage that a read met. It never waits.
func (s *Service) suspect(cause error) {
	select {
	case s.suspects <- cause:
	default: // it knows
	}
}

// mendLoop makes the rows anew from the log once a read has met damage in them.
// The old ones answer meanwhile, as far as they can, and the fold goes on.
func (s *Service) mendLoop(ctx context.Context) error {
	mended := forever // position of the last time: what a new store has too is no damage of a file
	for {
		var cause error
		select {
		case cause = <-s.suspects:
		case <-ctx.Done():
			return ctx.Err()
		}
		at := s.applied.Seq()
		if at == mended || !s.rebuilding.TryLock() {
			continue
		}
		s.log.Error("store damaged, rebuilding from the log", "applied", at, "error", cause)
		_, _, err := s.rebuildStore(ctx)
		s.rebuilding.Unlock()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.log.Error("store not rebuilt, trying again at the next read", "error", err)
			if err := await.Sleep(ctx, mendPause); err != nil {
				return err
			}
		} else {
			mended = s.applied.Seq()
			s.log.Info("store rebuilt", "applied", mended)
		}
		select {
		case <-s.suspects: // of the old store
		default:
		}
	}
}
