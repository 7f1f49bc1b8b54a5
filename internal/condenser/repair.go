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

// hopelessFor: a node whose repair ended on level 3 again is left alone so long.
const hopelessFor = time.Hour

// learn remembers what a node tells about the provider and the session.
func (s *Service) learn(r *run, n *events.NodeCommitted) {
	if n.Primary.Level < 3 {
		r.modelled = true
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.level3) >= maxRemembered {
		clear(s.level3)
	}
	s.level3[r.ref] = true
}

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

// repairs redoes some of what an outage left at level 3, once a model has
// answered in this run. The walk over the DAG is worth it only where the view
// shows a truncated node or this process knows of one further down.
func (r *run) repairs(ctx context.Context) error {
	if !r.modelled || r.s.c.MaxRepairs == 0 || !r.worthAWalk() {
		return nil
	}
	left := r.s.c.MaxRepairs
	for left > 0 {
		a, err := condense.PlanRepairs(r.view, r.below(ctx), 0)
		if err != nil {
			return err
		}
		jobs := r.hopeful(append(r.leafJobs(a.Leaves), r.groupJobs(a.Groups)...))
		if !a.Due() {
			r.s.forget(r.ref)
		}
		if len(jobs) == 0 {
			return nil
		}
		jobs = jobs[:min(len(jobs), left)]
		left -= len(jobs)
		if err := r.make(ctx, jobs); err != nil {
			return err
		}
		if err := r.load(ctx, r.token()); err != nil {
			return err
		}
	}
	return nil
}

// Repair redoes every level-3 node under what a session shows, and the nodes
// made of them, until nothing is left to repair. It is for operators: it walks
// the whole DAG, and each level of it once.
func (s *Service) Repair(ctx context.Context, ref events.Ref, token events.Position) (nodes int, err error) {
	r := &run{s: s, ref: ref, committed: map[string]bool{}, out: &api.CondenseOut{Session: ref.Session}}
	if err := r.load(ctx, token); err != nil {
		return 0, s.explain(ref, err)
	}
	for {
		a, err := condense.PlanRepairs(r.view, r.below(ctx), 0)
		if err != nil {
			return r.out.Nodes, s.explain(ref, err)
		}
		jobs := r.hopeful(append(r.leafJobs(a.Leaves), r.groupJobs(a.Groups)...))
		if len(jobs) == 0 {
			return r.out.Nodes, nil
		}
		if err := r.make(ctx, jobs); err != nil {
			return r.out.Nodes, s.explain(ref, err)
		}
		if err := r.load(ctx, r.token()); err != nil {
			return r.out.Nodes, s.explain(ref, err)
		}
	}
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

func (r *run) worthAWalk() bool {
	for _, nodes := range [][]session.Node{r.view.Frontier, r.view.Pending} {
		for _, d := range nodes {
			if _, replaced := r.view.Replaced[d.N]; d.Primary.Level == 3 && !replaced {
				return true
			}
		}
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.level3[r.ref]
}

func (s *Service) forget(ref events.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.level3, ref)
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
