package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
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
	return c.sent(ctx, "events", q, nil, func(_ string, data []byte) error {
		var ev Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return problem.New(problem.Internal, "an event of %s cannot be read: %w", session, err)
		}
		if !each(ev) {
			return errEnough
		}
		return nil
	})
}

// sent reads the server-sent events of a tool until each has enough of them.
func (c *Client) sent(ctx context.Context, tool string, q url.Values, body []byte, each func(name string, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // tells the handler, also one in this process
	resp, err := c.post(ctx, tool, q, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return decode(tool, resp, nil)
	}
	name := ""
	for r := bufio.NewReader(resp.Body); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return problem.New(problem.Unavailable, "the events of %s broke off: %w", tool, err)
		}
		if of, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(of)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := each(name, []byte(data)); err != nil {
				return err
			}
		}
	}
}

// WatchMap follows a map job to its end and returns its last state; progress,
// which may be nil, is told every other one. A stream that breaks is begun
// again.
func (c *Client) WatchMap(ctx context.Context, in api.MapIn, progress func(api.MapOut)) (*api.MapOut, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	for failed := 0; ; {
		var end *api.MapOut
		err := c.sent(ctx, "map-watch", nil, body, func(name string, data []byte) error {
			failed = 0
			out := new(api.MapOut)
			if err := json.Unmarshal(data, out); err != nil {
				return problem.New(problem.Internal, "the state of map job %s cannot be read: %w", in.Job, err)
			}
			if name == "end" {
				end = out
				return errEnough
			}
			if progress != nil {
				progress(*out)
			}
			return nil
		})
		if failed++; err == errEnough {
			return end, nil
		}
		if ctx.Err() != nil || !passing(err) || failed >= c.tries {
			return nil, err
		}
		_ = await.Sleep(ctx, c.pause<<min(failed, 6)) // the loop looks at ctx
	}
}
