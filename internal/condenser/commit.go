package condenser

import (
	"context"
	"errors"
	"time"

	"lcm/events"
	"lcm/internal/api"
	"lcm/internal/await"
	"lcm/internal/problem"
	"lcm/session"
)

// commitTries: an unknown outcome is resolved by appending again under the
// same expectation, which cannot store an event twice.
const commitTries = 4

// Polling for the projection after somebody else's append: the position to
// wait for is not known.
const (
	pollMin = 2 * time.Millisecond
	pollMax = 200 * time.Millisecond
)

// commit appends a node. On a conflict it looks at what was stored first, and
// lets its own node go only where that makes it worthless.
func (r *run) commit(ctx context.Context, j job, n *events.NodeCommitted) error {
	r.outage = r.outage || n.Primary.Level == 3
	for {
		stored, err := r.append(ctx, n)
		if err != nil {
			return err
		}
		if stored {
			r.committed[j.key] = true
			r.out.Nodes++
			return nil
		}
		if r.taken(ctx, j) {
			return nil
		}
	}
}

// taken reports whether an accepted node makes this one worthless: it has the
// key, covers its entries at its depth or above, or repairs the same node.
func (r *run) taken(ctx context.Context, j job) bool {
	if j.key == "" || r.committed[j.key] {
		return false
	}
	for _, nodes := range [][]session.Node{r.view.Frontier, r.view.Pending} {
		for _, d := range nodes {
			if takes(d, j) {
				return true
			}
		}
	}
	for _, d := range r.view.Replaced {
		if takes(d, j) {
			return true
		}
	}
	return j.supersedes != "" && r.known(ctx, j.key)
}

// known asks for a node that the view need not show: a repair below a node that
// is shown.
func (r *run) known(ctx context.Context, key string) bool {
	reply, err := r.s.d.Reads.Node(ctx, api.NodeRequest{Ref: r.ref, Keys: []string{key}, Token: r.token()})
	return err == nil && len(reply.Nodes) > 0
}

func takes(d session.Node, j job) bool {
	switch {
	case d.Key == j.key:
		return true
	case j.supersedes != "":
		return d.Supersedes == j.supersedes
	}
	return d.Depth >= j.depth && overlap(d.Covered, j.covered)
}

func overlap(a, b []events.Range) bool {
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i].Last < b[k].First:
			i++
		case b[k].Last < a[i].First:
			k++
		default:
			return true
		}
	}
	return false
}

// append stores one event behind the lane and advances it. stored = false:
// another event came first, and the view now shows it. It goes on for a while
// after ctx has ended.
func (r *run) append(ctx context.Context, p events.Payload) (stored bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.s.c.CommitTimeout)
	defer cancel()
	if now := r.s.d.Clock(); now.After(r.last) {
		r.last = now
	}
	subject := events.Subject(events.LaneDerived, r.ref, r.s.c.Partitions)
	m, next, err := events.Encode(subject, p, r.last, r.lane.Link)
	if err != nil {
		return false, err
	}
	pause := pollMin
	for try := 1; ; try++ {
		seqs, err := r.s.d.Log.Commit(ctx, []api.Append{{Message: m, Expect: r.lane.LastSeq}})
		var conflict *api.ConflictError
		switch {
		case err == nil:
			r.lane = session.LaneHead{Link: next, LastSeq: seqs[0]}
			r.s.d.Derived(p)
			return true, nil
		case errors.As(err, &conflict):
			return r.overtaken(ctx, p)
		case !errors.Is(err, api.ErrUnknownOutcome) || try == commitTries:
			return false, err
		}
		if err := await.Sleep(ctx, pause); err != nil {
			return false, err
		}
		pause *= 4
	}
}

// overtaken waits until the projection shows what was stored behind the lane.
// An append of our own whose outcome was unknown is among it: it was stored.
func (r *run) overtaken(ctx context.Context, p events.Payload) (stored bool, err error) {
	behind := r.lane.LastSeq
	token := r.token()
	for pause := pollMin; ; pause = min(2*pause, pollMax) {
		if err := r.load(ctx, token); err != nil {
			return false, err
		}
		if r.lane.LastSeq > behind {
			return false, nil
		}
		if await.Sleep(ctx, pause) != nil {
			return false, problem.New(problem.Stale, "%s of %s met another event that the projection does not show yet", p.EventType(), r.ref)
		}
	}
}
