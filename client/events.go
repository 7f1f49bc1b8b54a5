package client

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
)

// What follows of a session.
type (
	Event     = api.SessionEvent
	TurnEvent = api.TurnEvent
	NodeEvent = api.NodeEvent
	CutEvent  = api.CutEvent
)

// Events follows a session behind a token; "start" = from its first turn, "" =
// from now. A stream that breaks is taken up where it ended; the walk ends with
// ctx, or with what the server refuses.
func (c *Client) Events(ctx context.Context, session, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for failed := 0; ; {
			err := c.stream(ctx, session, after, func(ev Event) bool {
				after, failed = ev.Token, 0
				return yield(ev, nil)
			})
			if failed++; err == errEnough {
				return
			}
			if ctx.Err() != nil || err != nil && (!passing(err) || failed >= c.tries) {
				yield(Event{}, err)
				return
			}
			_ = await.Sleep(ctx, c.pause<<min(failed, 6)) // the loop looks at ctx
		}
	}
}

// errEnough: the caller has stopped.
var errEnough = problem.New(problem.Internal, "enough")

func (c *Client) stream(ctx context.Context, session, after string, each func(Event) bool) error {
	q := query(api.Scope{Session: session}, map[string]string{"after": after})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // tells the handler, also one in this process
	resp, err := c.post(ctx, "events", q, "", http.NoBody)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return decode("events", resp, nil)
	}
	r := bufio.NewReader(resp.Body)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return problem.New(problem.Unavailable, "the events of %s broke off: %w", session, err)
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var ev Event
		if err := json.Unmarshal([]byte(data), &ev); err != nil {
			return problem.New(problem.Internal, "an event of %s cannot be read: %w", session, err)
		}
		if !each(ev) {
			return errEnough
		}
	}
}
