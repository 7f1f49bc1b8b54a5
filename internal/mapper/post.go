package mapper

import (
	"context"
	"time"

	"lcm/events"
	"lcm/internal/await"
	"lcm/mapjob"
)

const (
	// postRows and postBytes end an event of results.
	postRows  = 256
	postBytes = 1 << 20
	// postTries of storing an event; then its rows go back to the queue.
	postTries = 3
)

// poster stores results: those that came while it stored the last ones go
// together, without a timer.
type poster struct {
	publish func(context.Context, events.Message) (uint64, error)
	now     func() time.Time
	in      chan posting
}

type posting struct {
	ref    mapjob.Ref
	result mapjob.Result
	done   chan error
}

func newPoster(publish func(context.Context, events.Message) (uint64, error), now func() time.Time) *poster {
	return &poster{publish, now, make(chan posting, postRows)}
}

// send returns when the result is durable.
func (p *poster) send(ctx context.Context, ref mapjob.Ref, r mapjob.Result) error {
	one := posting{ref, r, make(chan error, 1)}
	select {
	case p.in <- one:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *poster) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-p.in:
			p.store(ctx, p.gather(one))
		}
	}
}

// gather takes what is there.
func (p *poster) gather(first posting) []posting {
	all, bytes := []posting{first}, len(first.result.Value)
	for len(all) < postRows && bytes < postBytes {
		select {
		case one := <-p.in:
			all, bytes = append(all, one), bytes+len(one.result.Value)
		default:
			return all
		}
	}
	return all
}

// store makes one event per job.
func (p *poster) store(ctx context.Context, all []posting) {
	jobs := map[mapjob.Ref][]posting{}
	for _, one := range all {
		jobs[one.ref] = append(jobs[one.ref], one)
	}
	for ref, list := range jobs {
		e := mapjob.RowsFinished{}
		for _, one := range list {
			e.Results = append(e.Results, one.result)
		}
		err := p.try(ctx, ref, e)
		for _, one := range list {
			one.done <- err
		}
	}
}

func (p *poster) try(ctx context.Context, ref mapjob.Ref, e mapjob.RowsFinished) error {
	m, err := mapjob.Event(ref, e, p.now())
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		if _, err = p.publish(ctx, m); err == nil || try == postTries {
			return err
		}
		if await.Sleep(ctx, time.Duration(try)*100*time.Millisecond) != nil {
			return err
		}
	}
}
