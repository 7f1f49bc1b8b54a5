package projector

import "context"

// seats bound how many searches work at once, one for each worker: more would
// only make all of them slower. Whoever waits is served in the order of
// coming, and who has long to work gives way after each step, so that a search
// of a millisecond waits for as many steps as there are others, not for the
// seconds of a scan.
type seats chan struct{}

func (s seats) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spare takes up to n seats that nobody waits for.
func (s seats) spare(n int) (got int) {
	for ; got < n; got++ {
		select {
		case s <- struct{}{}:
		default:
			return got
		}
	}
	return got
}

func (s seats) leave() { <-s }

// sit takes a seat; standUp leaves it.
func (g *grep) sit(ctx context.Context) error {
	err := g.s.seats.take(ctx)
	g.seated = err == nil
	return err
}

func (g *grep) standUp() {
	if g.seated {
		g.s.seats.leave()
	}
	g.seated = false
}

// giveWay lets those who wait work first.
func (g *grep) giveWay(ctx context.Context) error {
	g.standUp()
	return g.sit(ctx)
}
