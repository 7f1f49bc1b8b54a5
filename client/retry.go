package client

import (
	"context"
	"time"

	"lcm/internal/await"
	"lcm/internal/problem"
)

const (
	// defaultTries of a call: with the pauses below, about three seconds, in
	// which a server starts again.
	defaultTries = 5
	defaultPause = 200 * time.Millisecond
)

// again runs a call that may be repeated until it succeeds, fails for a reason
// that will not pass, or was tried often enough.
func (c *Client) again(ctx context.Context, call func() error) error {
	pause := c.pause
	for try := 1; ; try++ {
		err := call()
		if err == nil || try >= c.tries || !passing(err) {
			return err
		}
		if await.Sleep(ctx, pause) != nil {
			return err // says more than that time is up
		}
		pause *= 2
	}
}

// passing reports a failure that may be gone the next time.
func passing(err error) bool {
	return problem.IsCode(err, problem.Unavailable) || problem.IsCode(err, problem.Stale) || problem.IsCode(err, problem.Limited)
}

// read runs a reading tool.
func read[Out any](ctx context.Context, c *Client, tool string, in any) (*Out, error) {
	out := new(Out)
	err := c.again(ctx, func() error { return c.Call(ctx, tool, in, out) })
	if err != nil {
		return nil, err
	}
	return out, nil
}
