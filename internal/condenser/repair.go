package condenser

import (
	"context"
	"errors"
	"time"

	"lcm/condense"
	"lcm/internal/api"
	"lcm/internal/problem"
	"lcm/session"
)

// hopelessFor: a node whose repair ended on level 3 again is left alone so long.
const hopelessFor = time.Hour

func (s *Service) giveUp(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.hopeless) >= maxRemembered {
		clear(s.hopeless)
	}
	s.hopeless[key] = s.d.Clock()
}

func (s *Service) isHopeless(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.hopeless[key]
	return ok && s.d.Clock().Sub(at) < hopelessFor
}

// repairs redoes what an outage left at level 3, at most so many nodes (0 = all
// of them), and what was condensed from it. A run that had to truncate knows that
// the provider is down; else it is tried, and where it is still down that is no
// trouble of a session at rest.
func (r *run) repairs(ctx context.Context, most int) error {
	for left := most; !r.outage && r.truncated() && (most == 0 || left > 0); {
		a, err := condense.PlanRepairs(r.view, r.below(ctx), 0)
		if err != nil {
			return err
		}
		jobs := r.hopeful(append(r.leafJobs(a.Leaves), r.groupJobs(a.Groups)...))
		if len(jobs) == 0 {
			return nil
		}
		if most > 0 {
			jobs = jobs[:min(len(jobs), left)]
			left -= len(jobs)
		}
		if err := r.make(ctx, jobs); errors.Is(err, condense.ErrUnavailable) {
			r.s.d.Logger.Info("repairs wait for the summariser", "session", r.ref.String(), "error", err)
			return nil
		} else if err != nil {
			return err
		}
		if err := r.load(ctx, r.token()); err != nil {
			return err
		}
	}
	return nil
}

// truncated: something the view shows, or that is hidden below it, is of level 3.
func (r *run) truncated() bool {
	for _, nodes := range [][]session.Node{r.view.Frontier, r.view.Pending} {
		for _, d := range nodes {
			if by, ok := r.view.Replaced[d.N]; ok {
				d = by
			}
			if d.Truncated > 0 {
				return true
			}
		}
	}
	return false
}

// hopeful drops repairs that were tried of late, or committed by this run.
func (r *run) hopeful(jobs []job) []job {
	kept := jobs[:0]
	for _, j := range jobs {
		if !r.committed[j.key] && !r.s.isHopeless(j.supersedes) {
			kept = append(kept, j)
		}
	}
	return kept
}

// below reads nodes one by one, each once.
func (r *run) below(ctx context.Context) condense.Below {
	seen := map[uint64]api.StoredNode{}
	token := r.token()
	return func(n uint64) (session.Node, uint64, error) {
		d, ok := seen[n]
		if !ok {
			reply, err := r.s.d.Reads.Node(ctx, api.NodeRequest{Ref: r.ref, Numbers: []uint64{n}, Token: token})
			if err != nil {
				return session.Node{}, 0, err
			}
			if len(reply.Nodes) != 1 {
				return session.Node{}, 0, problem.New(problem.Internal, "node #%d of %s: %d answers", n, r.ref, len(reply.Nodes))
			}
			d = reply.Nodes[0]
			seen[n] = d
		}
		return d.Node, d.SupersededBy, nil
	}
}
