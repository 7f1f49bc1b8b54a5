package condenser

import (
	"context"
	"time"

	"lcm/condense"
	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// run is the work on one session. Only makers run beside it; they do not
// touch it.
type run struct {
	s    *Service
	ref  events.Ref
	out  *api.CondenseOut
	view *session.View
	// epoch and lane: where the derived subject stands, as far as this run
	// knows. Ahead of view after its own appends.
	epoch string
	lane  session.LaneHead
	seen  uint64    // watermark of view
	last  time.Time // newest event time known: times do not go backwards

	committed map[string]bool // keys this run has appended
	cutFrom   int             // context tokens before this run's last cut
	stalled   bool            // this run has appended a stall
	outage    bool            // this run had to truncate
	most      int             // repairs at most, 0 = all there are to make
}

// load reads the view at or after a position.
func (r *run) load(ctx context.Context, token events.Position) error {
	reply, err := r.s.d.Reads.View(ctx, api.ViewRequest{Ref: r.ref, Token: token})
	if err != nil {
		return err
	}
	if reply.View == nil {
		return problem.New(problem.Internal, "the view of %s is empty", r.ref)
	}
	r.view, r.epoch, r.lane = reply.View, reply.Watermark.Epoch, reply.View.Derived
	r.seen = reply.Watermark.Seq
	if r.view.Time.After(r.last) {
		r.last = r.view.Time
	}
	return nil
}

// token of everything this run has seen or appended.
func (r *run) token() events.Position {
	return events.Position{Epoch: r.epoch, Seq: max(r.lane.LastSeq, r.seen)}
}

func (r *run) cut() uint64 {
	if r.view == nil || r.view.Cut == nil {
		return 0
	}
	return r.view.Cut.N
}

// passes plans and carries out until nothing is due.
func (r *run) passes(ctx context.Context) error {
	for n := 0; ; n++ {
		a := condense.Plan(r.view)
		if n == 0 {
			r.out.TokensBefore = a.Tokens
		}
		r.out.TokensAfter = a.Tokens
		if !a.Due() {
			r.out.Stop = a.Stop
			return r.repairs(ctx, r.most)
		}
		if r.out.Stop = r.futile(a); r.out.Stop != "" {
			return nil
		}
		if n >= r.s.c.MaxPasses {
			r.out.Stop = StopPassLimit
			return nil
		}
		if err := r.carryOut(ctx, a); err != nil {
			return err
		}
		if err := r.load(ctx, r.token()); err != nil {
			return err
		}
	}
}

// futile says why carrying out a plan would bring nothing, "" where it would:
// what this run has committed is asked for again, or its cut freed nothing.
func (r *run) futile(a condense.Actions) string {
	for _, j := range a.Leaves {
		if r.committed[j.Key] {
			return StopRejected
		}
	}
	for _, j := range a.Groups {
		if r.committed[j.Key] {
			return StopRejected
		}
	}
	if a.Cut != nil && r.cutFrom > 0 && a.Tokens >= r.cutFrom {
		return StopNoProgress
	}
	if a.Stall != nil && a.Cut == nil && r.stalled {
		return a.Stall.Reason
	}
	return ""
}

// carryOut does what a plan asks for.
func (r *run) carryOut(ctx context.Context, a condense.Actions) error {
	switch {
	case len(a.Leaves) > 0:
		return r.make(ctx, r.leafJobs(a.Leaves))
	case len(a.Groups) > 0:
		return r.make(ctx, r.groupJobs(a.Groups))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.Cut != nil {
		stored, err := r.append(ctx, a.Cut)
		if err != nil || !stored {
			return err // somebody was faster: plan again
		}
		r.cutFrom = a.Tokens
	}
	if a.Stall == nil {
		return nil
	}
	r.stalled = true
	if s := r.view.Stall; s != nil && a.Cut == nil && *s == *a.Stall {
		return nil // an identical stall is not repeated
	}
	_, err := r.append(ctx, a.Stall)
	return err
}
